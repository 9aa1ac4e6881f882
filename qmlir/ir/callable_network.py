"""A network that can be called: what the reference, machine code and simulated devices have in common.

    y = network(x)            # one input, one output
    ys = network({"a": a})    # several: dicts by tensor name

If the network has states (states.py), the object keeps them between calls:

    network.state             # the states by name, as copies
    network.state = {...}     # continue from there
    network.reset()           # begin anew

If the network has several entries (entries.py), the object is the first of them, and gives the others:

    network["decode"](x)      # goes on with the states that any entry left

Without states, calls are independent and may run in several threads at once. With states, calls follow one another.
"""

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, Self, TypeAlias, cast

import numpy as np

from qmlir.display import Shown
from qmlir.errors import InputError, QmlirError
from qmlir.ir.signature import Signature, State, checked
from qmlir.numerics import Array

Sample: TypeAlias = Array | Mapping[str, Array]
"""The inputs of a call: the array of the only input, or arrays by tensor name."""

Calibration: TypeAlias = Iterable[Sample | Sequence[Sample]]
"""Samples in order; a list among them is a sequence of its own, before which the states of a network are reset."""


def in_order(samples: Calibration) -> tuple[list[Sample], list[int]]:
    """Returns the samples of all sequences, and the number of the first sample of each sequence."""
    flat, starts, inside = list[Sample](), list[int](), False
    for each in samples:
        whole = isinstance(each, list | tuple)
        if whole or not inside:
            starts.append(len(flat))
        flat.extend(each if whole else [cast(Sample, each)])
        inside = not whole
    return flat, starts


class KeptStates:
    """The states of the calls so far; the entries of a network share them (entries.py).

    turn    calls that read and write the states follow one another
    values  the states by the names of their arguments; calls may fill the arrays again that other calls have read
    """

    def __init__(self, states: Iterable[State]):
        self._states = {state.argument.name: state for state in states}
        self._sets: tuple[dict[str, Array], dict[str, Array]] | None = None
        self.turn = Lock()
        self.values: dict[str, Array] = {}
        self.reset()

    def sets(self) -> tuple[dict[str, Array], dict[str, Array]]:
        """Returns two arrays for each state: a call in machine code reads those of one set and fills the other's.

        A state that calls renew where it is has one array in both sets.
        """
        if self._sets is None:
            one = {n: np.empty(s.argument.shape, s.argument.dtype) for n, s in self._states.items()}
            self._sets = one, {n: a if self._states[n].in_place else np.empty_like(a) for n, a in one.items()}
        return self._sets

    def before(self) -> int:
        """Returns the number of the set that the next call reads, which has the states from here on."""
        sets = self.sets()
        if self.values is not sets[0] and self.values is not sets[1]:
            for name, array in self.values.items():
                sets[0][name][...] = array
            self.values = sets[0]
        return int(self.values is sets[1])

    def behind(self, turn: int) -> None:
        """Takes the states that a call has left which read set `turn`."""
        self.values = self.sets()[1 - turn]

    def reset(self) -> None:
        """Gives all states the values that they have before the first call."""
        with self.turn:
            self.values = {name: state.reset for name, state in self._states.items()}

    def copies(self) -> dict[str, Array]:
        """Returns copies of the states by name."""
        with self.turn:
            return {name: np.array(array) for name, array in self.values.items()}

    def replace(self, values: Mapping[str, Array]) -> None:
        """Gives some states other values.

        Raises:
            InputError: A name is no state's, or an array has another shape or dtype than the state.
        """
        for name in values:
            if name not in self._states:
                raise InputError(str(name), f"must be a state: {', '.join(self._states) or 'the network has none'}")
        with self.turn:
            given = {name: checked(self._states[name].argument, a).copy() for name, a in values.items()}
            self.values = {**self.values, **given}


def shared_states(signatures: Mapping[str, Signature]) -> list[State]:
    """Returns the states of all entries, in the order in which entries name them first.

    Raises:
        QmlirError: Two entries have a state of the same name and another type or another value before the first call.
    """
    found: dict[str, State] = {}
    for entry, signature in signatures.items():
        for state in signature.states:
            same = found.setdefault(state.argument.name, state)
            alike = same.argument == state.argument and same.argument.quantization == state.argument.quantization
            if not alike or not np.array_equal(same.reset, state.reset):
                raise QmlirError(
                    f"must be {_described(same)} in all entries, with the same value before the first call",
                    where=f'state "{state.argument.name}" of entry "{entry}"',
                    got=_described(state),
                    remedy="quantize the entries in one call of quantize",
                )
    return list(found.values())


def _described(state: State) -> str:
    parameters = state.argument.quantization
    return f"{state.argument}" + (
        f" with scale {parameters[0]:.6g} and zero point {parameters[1]}" if parameters else ""
    )


class CallableNetwork(Shown, abc.ABC):
    """A network as a callable on arrays, with the states of the calls so far.

    signature  what callers give and get, and the states
    kept       the states
    entries    the network's entries by name, which share the states; itself among them, or none if there is one only
    """

    def __init__(self, signature: Signature):
        self.signature = signature
        self.kept = KeptStates(signature.states)
        self.entries: Mapping[str, Self] = {}

    def __getitem__(self, entry: str) -> Self:
        """Returns an entry of a network with several, which shares its states with the others.

        Raises:
            QmlirError: There is no such entry.
        """
        if entry not in self.entries:
            known = ", ".join(self.entries) or "none, as the network has one function, which is called by itself"
            raise QmlirError(f"must be among the entries of the network: {known}", where="entry", got=str(entry))
        return self.entries[entry]

    @classmethod
    def joined(cls, networks: Mapping[str, Self]) -> Self:
        """Returns the first of the entries of a network, which share their states from here on."""
        first = next(iter(networks.values()))
        if len(networks) > 1:
            kept = KeptStates(shared_states({name: network.signature for name, network in networks.items()}))
            for network in networks.values():
                network.kept, network.entries = kept, networks
        return first

    @abc.abstractmethod
    def run_in_order(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the function by itself: its arguments in order, states among them, to its results in order.

        The arrays must have the shapes and dtypes of `signature.flat()`; they are not checked. The states that the
        object keeps are neither read nor changed.
        """

    def __call__(self, inputs: Sample) -> Any:
        """Runs the network, and keeps its states for the next call.

        Args:
            inputs: The array of the only input, or arrays by tensor name.

        Returns:
            The array of the only output, or arrays by tensor name.

        Raises:
            InputError: An input is missing or unknown, or has another shape or dtype than the network's input.
        """
        return self.signature.result(self.run(inputs))

    def run(self, inputs: Sample) -> list[Array]:
        """Runs the network like a call does, but always returns a list of the outputs in order."""
        return self.advance(self.signature.arrays(inputs))

    def run_all(self, samples: Sequence[Sample]) -> list[list[Array]]:
        """Runs several samples in order; returns the outputs in order for each."""
        return [self.run(inputs) for inputs in samples]

    def advance(self, arrays: Sequence[Array]) -> list[Array]:
        """Runs the network on inputs in order, without states and unchecked; returns the outputs in order."""
        if not self.signature.states:
            return self.run_in_order(arrays)
        with self.kept.turn:
            results = self.run_in_order(self.signature.joined(arrays, self._held()))
            outputs, after = self.signature.parted(results)
            filled = {s.argument.name: a for s, a in zip(self.signature.states, after, strict=True)}
            self.kept.values = {**self.kept.values, **filled}
        return outputs

    def _held(self) -> list[Array]:
        """The states in the order of the signature."""
        return [self.kept.values[state.argument.name] for state in self.signature.states]

    def taken(self, samples: Calibration) -> Iterator[list[Array]]:
        """Yields the inputs of samples in order, for `advance`.

        The samples of a network with states follow one another from their reset values on. A list among the samples is
        a sequence of its own: its first sample, and the sample behind its last, begin anew.
        """
        self.reset()
        for sample in samples:
            if self.signature.states and isinstance(sample, list | tuple):
                self.reset()
                yield from map(self.signature.arrays, sample)
                self.reset()
            else:
                yield self.signature.arrays(cast(Sample, sample))

    def replayed(self, samples: Calibration) -> Iterator[dict[str, Array]]:
        """Yields samples, taken as by `taken`, with the states before each call as further inputs: those of `flat`."""
        for given in self.taken(samples):
            yield self.call(given)
            self.advance(given)

    def call(self, given: Sequence[Array]) -> dict[str, Array]:
        """Returns inputs in order with the states before the next call as further inputs: those of `flat`, by name."""
        names = [spec.name for spec in self.signature.flat().inputs]
        held = [np.array(array) for array in self._held()]
        return dict(zip(names, self.signature.joined(given, held), strict=True))

    def reset(self) -> None:
        """Gives all states the values that they have before the first call."""
        self.kept.reset()

    @property
    def state(self) -> dict[str, Array]:
        """The states by the names of their arguments; assigning some of them lets the next call begin with these."""
        return self.kept.copies()

    @state.setter
    def state(self, values: Mapping[str, Array]) -> None:
        self.kept.replace(values)

"""A network that can be called: what the reference, machine code and simulated devices have in common.

    y = network(x)            # one input, one output
    ys = network({"a": a})    # several: dicts by tensor name

If the network has states (states.py), the object keeps them between calls:

    network.state             # the states by name, as copies
    network.state = {...}     # continue from there
    network.reset()           # begin anew

Without states, calls are independent and may run in several threads at once. With states, calls follow one another.
"""

import abc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from threading import Lock
from typing import Any, TypeAlias, cast

import numpy as np

from qmlir.display import Shown
from qmlir.errors import InputError
from qmlir.ir.signature import Signature, checked
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


class CallableNetwork(Shown, abc.ABC):
    """A network as a callable on arrays, with the states of the calls so far.

    signature  what callers give and get, and the states
    """

    def __init__(self, signature: Signature):
        self.signature = signature
        self._turn = Lock()
        self._held: list[Array] = []
        self.reset()

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
        with self._turn:
            results = self.run_in_order(self.signature.joined(arrays, self._held))
            outputs, self._held = self.signature.parted(results)
        return outputs

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
        return dict(zip(names, self.signature.joined(given, self._held), strict=True))

    def reset(self) -> None:
        """Gives all states the values that they have before the first call."""
        with self._turn:
            self._held = [state.reset for state in self.signature.states]

    @property
    def state(self) -> dict[str, Array]:
        """The states by the names of their arguments; assigning some of them lets the next call begin with these."""
        with self._turn:
            return {s.argument.name: np.array(a) for s, a in zip(self.signature.states, self._held, strict=True)}

    @state.setter
    def state(self, values: Mapping[str, Array]) -> None:
        names = [state.argument.name for state in self.signature.states]
        for name in values:
            if name not in names:
                raise InputError(str(name), f"must be a state: {', '.join(names) or 'the network has none'}")
        with self._turn:
            for i, state in enumerate(self.signature.states):
                if names[i] in values:
                    self._held[i] = checked(state.argument, values[names[i]]).copy()

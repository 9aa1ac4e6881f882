"""Learns the ranges of a large network's tensors piece by piece.

Each piece (transforms/quantize/ranges/pieces.py) is compiled, runs all samples, and is gone before the next is
compiled. So what a piece takes is in memory for a while, and not what the whole network would take: its weights in the
order in which kernels read them, and the tensors that it computes in a call. Between pieces, each sample keeps what
later pieces read. The profile is, to the bit, that of the whole network.

Samples that are too many to keep run in parts. The pieces then stay compiled from part to part.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, TypeVar, cast

import numpy as np
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue

from qmlir.backends.cpu import Executable
from qmlir.backends.cpu.tally import IN_MACHINE_CODE
from qmlir.ir.callable_network import Calibration
from qmlir.ir.garbage import collect_weights
from qmlir.ir.interfaces import Array
from qmlir.ir.replayed import Replayed
from qmlir.ir.signature import main_function, signature_of
from qmlir.profiles.collect import collect
from qmlir.profiles.profile import Profile
from qmlir.running.profiler import Profiler
from qmlir.transforms.quantize.ranges.pieces import Piece, bytes_of

AT_ONCE = 1 << 28
"""Bytes that samples and what is kept between pieces may take in a part of the samples; one sample may take more."""


def profile_in_pieces(
    profiler: Profiler, observed: ModuleOp, pieces: Sequence[Piece], compiled: Callable[[ModuleOp], Executable],
    samples: Calibration, calls: Replayed | None = None,
) -> Profile:  # fmt: skip
    """Returns the profile over samples, as `Profiler.profile` does; it has no samples if there are none.

    Args:
        profiler: Counts values.
        observed: The float network with observers.
        pieces: Its pieces.
        compiled: Compiles a piece.
        samples: Arrays for the only input, or dicts of them by name, and sequences of them for a network with states.
        calls: Receives the samples of a network with states as single calls; see `CallableNetwork.replayed`.

    Raises:
        InputError: A sample is none of the network's.
        ProfileError: A tensor is not finite on a sample. The error is that of the first piece with such a tensor.
    """
    network, found = _Network(observed, calls), profiler.empty()
    each = sum(bytes_of(v) for v in {v for piece in pieces for v in piece.inputs} - network.held.keys())
    kept: dict[int, Executable] = {}
    for part, is_last in _parts(network.taken(samples), max(1, AT_ONCE // max(1, each))):
        for number, piece in enumerate(pieces):
            executable = kept.pop(number, None) or compiled(piece.module())
            later = {v for other in pieces[number + 1 :] for v in other.inputs}
            names = [name for name, _ in piece.observed]
            seen = _Run(network, piece, executable, part, later).profile(profiler, names, found.samples)
            for name in names:
                found.tensors[name].merge(seen.tensors[name], found.bins)
            if not is_last:
                kept[number] = executable
            del executable
            collect_weights(observed)
        found.samples += len(part)
    return found


@dataclass
class _Call:
    """A call of the network.

    values  what pieces read: the inputs, and results of pieces
    begins  whether the call begins a sequence: states have their reset values
    """

    values: dict[SSAValue, Array]
    begins: bool


class _Network:
    """The network that pieces are of.

    held   argument → state
    calls  receives inputs, and states before calls; None if nobody asks
    """

    def __init__(self, observed: ModuleOp, calls: Replayed | None):
        self.calls = calls
        function = main_function(observed)
        self.signature = signature_of(function)
        arguments: Sequence[SSAValue] = function.body.block.args
        states = {state.places[0]: state for state in self.signature.states}
        self.held: dict[SSAValue, _Held] = {
            arguments[i]: _Held(state.argument.name, state.reset, state.reset) for i, state in states.items()
        }
        self.inputs = [v for v in arguments if v not in self.held]

    def taken(self, samples: Calibration) -> Iterator[_Call]:
        """Yields the calls of samples in order; a list of samples of a network with states is a sequence of its own."""
        inside = False
        for each in samples:
            whole = bool(self.held) and isinstance(each, list | tuple)
            sequence = cast("Sequence[Any]", each if whole else [each])
            for place, sample in enumerate(sequence):
                given = [np.array(a) for a in self.signature.arrays(sample)]  # whoever made them may fill them again
                if self.calls is not None:
                    for spec, array in zip(self.signature.inputs, given, strict=True):
                        self.calls.record(spec.name, array)
                yield _Call(dict(zip(self.inputs, given, strict=True)), place == 0 if whole else not inside)
            inside = not whole


@dataclass
class _Held:
    """A state between two calls."""

    name: str
    reset: Array
    value: Array


@dataclass
class _Run:
    """A piece that runs calls, in order if it has states.

    later  the values that later pieces read
    """

    network: _Network
    piece: Piece
    executable: Executable
    calls: Sequence[_Call]
    later: Collection[SSAValue]

    def profile(self, profiler: Profiler, names: Collection[str], first: int) -> Profile:
        """Returns the profile of the piece's tensors, of these names; `first` is the number of the first call."""
        most = 1 if self.piece.states else None
        numbers = ([np.array(number)] for number in range(len(self.calls)))
        each = sum(bytes_of(value) for _, value in self.piece.observed)
        return collect(numbers, self._evaluate, lambda: profiler.empty(names), IN_MACHINE_CODE, each, most, first)

    def _evaluate(self, number: Sequence[Array]) -> Mapping[str, Array]:
        """Runs the call of a number; returns the observed tensors by name."""
        call = self.calls[int(number[0])]
        for argument in self.piece.states:
            state = self.network.held[argument]
            call.values[argument] = state.reset if call.begins else state.value
            if self.network.calls is not None:
                self.network.calls.record(state.name, call.values[argument])
        results = self.executable.run_in_order([call.values[v] for v in self.piece.inputs])
        values = call.values | dict(zip(self.piece.results, results, strict=True))
        for argument, behind in self.piece.states.items():
            self.network.held[argument].value = values[behind]
        call.values = {v: a for v, a in values.items() if v in self.later}
        return {name: values[value] for name, value in self.piece.observed}


T = TypeVar("T")


def _parts(items: Iterable[T], most: int) -> Iterator[tuple[list[T], bool]]:
    """Yields items in parts of at most so many, and whether a part is the last; none if there are no items."""
    rest = iter(items)
    part = list(islice(rest, most))
    while part:
        following = list(islice(rest, most))
        yield part, not following
        part = following

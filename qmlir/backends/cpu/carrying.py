"""Calls that carry states: they read one set of arrays and fill another, in turn, or renew a state where it is.

A decoder of 30 layers has 120 states. To have numpy tell the address of each, before and after, takes long beside a
token.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from qmlir.backends.cpu.frame import Frame
from qmlir.ir.signature import Signature
from qmlir.numerics import Array


class Carrying:
    """The memory of calls that carry states.

    sets    the states by name, twice
    frames  for each of them the memory of a call that reads it and fills the other
    """

    __slots__ = ("_placed", "_results", "_still", "frames", "sets")

    def __init__(self, signature: Signature, frame: Frame, sets: tuple[Mapping[str, Array], Mapping[str, Array]]):
        """Binds two frames to the states.

        Args:
            signature: The inputs, outputs and states.
            frame: The memory of one call at a time.
            sets: The states by name, twice, in one array where calls renew them in place; those that are none of the
                signature's are copied from one to the other.
        """
        flat, states = signature.flat(), signature.states
        befores, afters = {s.places[0] for s in states}, {s.places[1] for s in states}
        self._placed = [i for i in range(len(flat.inputs)) if i not in befores]
        self._results = [(i, spec) for i, spec in enumerate(flat.outputs) if i not in afters]
        apart = {name for name, array in sets[0].items() if array is not sets[1][name]}
        self._still = sorted(apart - {s.argument.name for s in states})
        self.sets = sets
        self.frames = frame, Frame(frame.arena.size, flat, arena=frame.arena)
        for turn, own in enumerate(self.frames):
            read, filled = sets[turn], sets[1 - turn]
            own.keep(
                {s.places[0]: read[s.argument.name] for s in states},
                {s.places[1]: filled[s.argument.name] for s in states},
            )

    def begin(self, turn: int, arrays: Sequence[Array]) -> tuple[Frame, list[tuple[Array, Array | None]]]:
        """Readies a call that reads set `turn`.

        Returns:
            The call's memory, and for each output the array that the call fills, twice if it is the frame's.
        """
        frame = self.frames[turn]
        for place, array in zip(self._placed, arrays, strict=True):
            frame.take(place, array)
        for name in self._still:
            np.copyto(self.sets[1 - turn][name], self.sets[turn][name])
        return frame, [(frame.result(i, spec), frame.made[i]) for i, spec in self._results]

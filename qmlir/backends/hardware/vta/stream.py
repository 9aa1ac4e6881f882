"""A stream of instructions that computes a result part by part: micro-ops, halves of buffers, tokens.

A part of a result is made of pieces. Each piece is what the load unit brings at once and what the compute unit makes of
it. Pieces use the two halves of the buffers for data and weights in turn, parts those for sums and results, so that the
load unit brings a piece while the one before it is computed, and the store unit writes a part while the next is made.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from qmlir.backends.hardware.vta.instructions import (
    MEMORIES,
    Alu,
    AnyInstruction,
    Buffer,
    Finish,
    Gemm,
    Load,
    MicroOp,
    Store,
)

HALF = {buffer: MEMORIES[buffer].elements // 2 for buffer in (Buffer.DATA, Buffer.WEIGHTS, Buffer.SUMS)}
"""Elements of half a buffer."""


@dataclass
class Piece:
    """What the load unit brings at once, at least one load, and what is then computed, at least one instruction."""

    loads: list[Load] = field(default_factory=list[Load])
    computed: list[Load | Gemm | Alu] = field(default_factory=list[Load | Gemm | Alu])


@dataclass
class Part:
    """A part of a result: its pieces, and at least one store."""

    pieces: list[Piece] = field(default_factory=list[Piece])
    stores: list[Store] = field(default_factory=list[Store])


class MicroOps:
    """The micro-ops of a stream: in external memory each sequence once, on the chip those that were used last.

    address  the address of the first one in external memory, in micro-ops
    """

    def __init__(self, address: int):
        self.address = address
        self._sequences: dict[tuple[MicroOp, ...], int] = {}
        self._number = 0
        self._resident: dict[tuple[MicroOp, ...], int] = {}
        self._end = 0

    @property
    def contents(self) -> bytes:
        """All sequences, as they lie in external memory."""
        return np.array([each.word for some in self._sequences for each in some], "<u4").tobytes()

    def use(self, some: Sequence[MicroOp]) -> tuple[list[Load], int, int]:
        """Returns the load that brings micro-ops, if they are not on the chip, and where they begin and end there."""
        wanted = tuple(some)
        if wanted in self._resident:
            first = self._resident[wanted]
            return [], first, first + len(wanted)
        if wanted not in self._sequences:
            self._sequences[wanted] = self._number
            self._number += len(wanted)
        if self._end + len(wanted) > MEMORIES[Buffer.MICRO_OPS].elements:
            self._resident, self._end = {}, 0
        first, self._end = self._end, self._end + len(wanted)
        self._resident[wanted] = first
        address = self.address + self._sequences[wanted]
        load = Load(
            memory=Buffer.MICRO_OPS, buffer_address=first, address=address, columns=len(wanted), stride=len(wanted)
        )
        return [load], first, self._end


def linked(parts: Sequence[Part]) -> list[AnyInstruction]:
    """Returns the instructions of parts in order, with their tokens, and a `finish`; no token is left over."""
    stream, piece_number = list[AnyInstruction](), 0
    pieces = sum(len(part.pieces) for part in parts)
    for number, part in enumerate(parts):
        for turn, piece in enumerate(part.pieces):
            loads, computed = [*piece.loads], [*piece.computed]
            if piece_number >= 2:
                loads[0] = replace(loads[0], pop_next=1)
            loads[-1] = replace(loads[-1], push_next=1)
            computed[0] = replace(computed[0], pop_previous=1)
            if turn == 0 and number >= 2:
                computed[0] = replace(computed[0], pop_next=1)
            if piece_number + 2 < pieces:
                computed[-1] = replace(computed[-1], push_previous=1)
            if turn == len(part.pieces) - 1:
                computed[-1] = replace(computed[-1], push_next=1)
            stream += [*loads, *computed]
            piece_number += 1
        stores = [*part.stores]
        stores[0] = replace(stores[0], pop_previous=1)
        if number + 2 < len(parts) or number == len(parts) - 1:
            stores[-1] = replace(stores[-1], push_previous=1)
        stream += stores
    return [*stream, Finish(pop_next=1 if parts else 0)]

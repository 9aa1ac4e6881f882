"""Operations that only move data, as copies of strided boxes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn.indexing import SliceOp
from qmlir.dialects.nn.shape import BroadcastOp, ConcatOp, PadOp, ReshapeOp, TransposeOp

MOST_TRANSFERS = 1 << 10
"""An operation that takes more transfers of boxes [rows, columns, dense elements] is none for a device."""


Loop = tuple[int, int, int]
"""How often, and the distances from one to the next where it is taken from and where it goes."""


@dataclass(frozen=True)
class Copy:
    """A box of any rank, from one tensor to another; offsets and strides in elements.

    source    the value it is taken from
    sizes     of the box
    """

    source: SSAValue
    sizes: tuple[int, ...]
    there: int
    there_strides: tuple[int, ...]
    here: int
    here_strides: tuple[int, ...]

    def loops(self) -> list[Loop]:
        """As few loops as can be, from the outside in; the last one dense in both."""
        return merged([*zip(self.sizes, self.there_strides, self.here_strides, strict=True), (1, 1, 1)])

    def run(self, reads: bool) -> int:
        """How many elements follow each other without a gap where they are taken from, or else where they go."""
        strides = self.there_strides if reads else self.here_strides
        return merged([*zip(self.sizes, strides, _strides(self.sizes), strict=True), (1, 1, 1)])[-1][0]


def merged(loops: Sequence[Loop]) -> list[Loop]:
    """The same loops from the outside in, those that run on without a gap as one; the innermost stays, if only of 1."""
    found = [loops[-1]]
    for count, there, here in reversed(loops[:-1]):
        inner, inner_there, inner_here = found[0]
        if (there, here) == (inner * inner_there, inner * inner_here):
            found[0] = (count * inner, inner_there, inner_here)
        elif count > 1:
            found.insert(0, (count, there, here))
    return found


def copies(op: Operation) -> list[Copy]:
    """The boxes that an operation moves; none of one that moves elements in no such way."""
    (y,) = op.results
    strides = _strides(shape_of(y))
    match op:
        case ConcatOp():
            axis, found, at = op.axis.value.data, list[Copy](), 0
            for x in op.inputs:
                shape = shape_of(x)
                found.append(Copy(x, shape, 0, _strides(shape), at * strides[axis], strides))
                at += shape[axis]
            return found
        case PadOp():
            first = sum(low * stride for (low, _), stride in zip(op.pads(), strides, strict=True))
            return [Copy(op.x, shape_of(op.x), 0, _strides(shape_of(op.x)), first, strides)]
        case TransposeOp():
            there = _strides(shape_of(op.x))
            order = op.permutation.get_values()
            return [Copy(op.x, shape_of(y), 0, tuple(there[p] for p in order), 0, strides)]
        case BroadcastOp():
            shape = shape_of(op.x)
            padded = (1,) * (len(strides) - len(shape)) + shape
            there = tuple(
                0 if n == 1 else s for n, s in zip(padded, _strides(padded), strict=True)
            )  # fmt: skip
            return [Copy(op.x, shape_of(y), 0, there, 0, strides)]
        case SliceOp():
            dense, steps = _strides(shape_of(op.x)), op.steps()
            first = sum(offset * apart for (offset, _, _), apart in zip(steps, dense, strict=True))
            there = tuple(step * apart for (_, _, step), apart in zip(steps, dense, strict=True))
            return [Copy(op.x, shape_of(y), first, there, 0, strides)]
        case _:
            return []


def _strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Of a tensor without gaps, in elements."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def transfers(op: Operation) -> int | None:
    """How many transfers of boxes with three loops an operation takes; None of one that moves single elements."""
    if isinstance(op, ReshapeOp):
        return 0
    found = copies(op)
    return sum(prod(count for count, _, _ in copy.loops()[:-3]) for copy in found) if found else None

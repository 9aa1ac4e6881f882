"""Operations that only move data, described as copies of strided boxes."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from qmlir.dialects.nn.movement import BroadcastOp, ConcatOp, PadOp, ReshapeOp, SliceOp, TransposeOp
from qmlir.ir.interfaces import shape_of

MOST_TRANSFERS = 1 << 10
"""A device refuses an operation that takes more transfers of boxes [rows, columns, dense elements]."""


Loop = tuple[int, int, int]
"""Trip count, source stride and target stride of a loop."""


@dataclass(frozen=True)
class Copy:
    """A copy of a box of any rank from one tensor to another; offsets and strides in elements.

    source          the tensor that the copy reads
    sizes           extents of the box
    there           offset of the box in the source
    there_strides   strides of the box in the source
    here            offset of the box in the target
    here_strides    strides of the box in the target
    """

    source: SSAValue
    sizes: tuple[int, ...]
    there: int
    there_strides: tuple[int, ...]
    here: int
    here_strides: tuple[int, ...]

    def loops(self) -> list[Loop]:
        """The copy as a nest of as few loops as possible, outermost first; the innermost is dense on both sides."""
        return merged([*zip(self.sizes, self.there_strides, self.here_strides, strict=True), (1, 1, 1)])

    def run(self, reads: bool) -> int:
        """How many elements lie adjacent without a gap, in the source if `reads`, otherwise in the target."""
        strides = self.there_strides if reads else self.here_strides
        return merged([*zip(self.sizes, strides, _strides(self.sizes), strict=True), (1, 1, 1)])[-1][0]


def merged(loops: Sequence[Loop]) -> list[Loop]:
    """Joins loops that continue each other without a gap, outermost first; an innermost loop of 1 stays."""
    found = [loops[-1]]
    for count, there, here in reversed(loops[:-1]):
        inner, inner_there, inner_here = found[0]
        if (there, here) == (inner * inner_there, inner * inner_here):
            found[0] = (count * inner, inner_there, inner_here)
        elif count > 1:
            found.insert(0, (count, there, here))
    return found


def copies(op: Operation) -> list[Copy]:
    """The copies that carry out an operation; empty if the operation does not only move data by strided boxes."""
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
    """Strides of a dense tensor, in elements."""
    return tuple(prod(shape[i + 1 :]) for i in range(len(shape)))


def transfers(op: Operation) -> int | None:
    """How many transfers of three-loop boxes an operation takes; None if strided boxes cannot express it."""
    if isinstance(op, ReshapeOp):
        return 0
    found = copies(op)
    return sum(prod(count for count, _, _ in copy.loops()[:-3]) for copy in found) if found else None

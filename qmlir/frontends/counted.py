"""Tensors with fewer elements along an axis than their shape says: how many, only the data tell.

Shapes are static in qmlir. What an operator such as NonZero finds is therefore as long as it can be, and the number of
elements that count is a value of the network beside it. This file follows such axes through the operations that a
converter adds: an operation that treats the elements of the axis separately keeps it, any other is refused.

    %places = nn.non_zero %x                       tensor<2x12xi64>
    %count  = …                                    tensor<i64>
    %rows   = nn.transpose %places                 tensor<12x2xi64>, of which %count rows count

The function returns the count behind the results that need it, and the module says which belong together
(`qmlir.counts`, ir/signature.py), so that callers get what counts.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.base import AxisOp
from qmlir.dialects.nn.casts import BitcastOp, CastOp
from qmlir.dialects.nn.elementwise import PointwiseOp
from qmlir.dialects.nn.reduction import ReductionOp
from qmlir.dialects.quant.ops import CastOp as QuantCastOp
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import shape_of
from qmlir.ir.registry import Registry
from qmlir.ir.rewriting import tensor_name

Axes = Mapping[SSAValue, "Counted"]
"""The values that have a counted axis."""


@dataclass(frozen=True)
class Counted:
    """The axis of a value of whose elements only the first ones count, and the number of these, an i64 scalar."""

    axis: int
    count: SSAValue


def follow(op: Operation, known: Axes) -> Counted | None:
    """Returns the counted axis of an operation's result; None if its operands have none.

    Raises:
        UnsupportedError: The operation does not treat the elements of a counted axis separately.
    """
    if not any(operand in known for operand in op.operands):
        return None
    rule = _RULES.get(type(op))
    axis = None if rule is None else rule(op, known)
    if axis is None:
        (first, *_) = (operand for operand in op.operands if operand in known)
        raise unknown_size(first, known)
    counts = {known[operand].count for operand in op.operands if operand in known}
    if len(counts) > 1:
        raise UnsupportedError("its inputs have as many elements as the data say, each a number of its own")
    return Counted(axis, counts.pop())


def unknown_size(value: SSAValue, known: Axes) -> UnsupportedError:
    """Returns the error about an operation that needs to know how many elements a value has."""
    axis, name = known[value].axis, tensor_name(value) or value.name_hint or ""
    most = shape_of(value)[axis]
    return UnsupportedError(
        f'only the data say how many elements along axis {axis} of "{name}" there are, up to {most}'
    )


def refuse_constants(inputs: Sequence[object], results: Sequence[object], known: Axes) -> None:
    """Refuses a result that is known at import, such as a size, although an input has a counted axis.

    Raises:
        UnsupportedError: There is such a result.
    """
    first = next((value for value in known if any(value is x for x in inputs)), None)
    if first is not None and not all(isinstance(y, SSAValue) for y in results):
        raise unknown_size(first, known)


def _pointwise(op: PointwiseOp, known: Axes) -> int | None:
    rank = len(shape_of(op.results[0]))
    axes = {rank - len(shape_of(o)) + known[o].axis for o in op.operands if o in known}
    repeats = any(
        shape_of(o)[known[o].axis] != shape_of(op.results[0])[a] for a in axes for o in op.operands if o in known
    )
    return axes.pop() if len(axes) == 1 and not repeats else None


def _same(op: Operation, known: Axes) -> int | None:
    return known[op.operands[0]].axis


def _transpose(op: nn.TransposeOp, known: Axes) -> int | None:
    return list(op.permutation.get_values()).index(known[op.x].axis)


def _reshape(op: nn.ReshapeOp, known: Axes) -> int | None:
    before, after, axis = shape_of(op.x), shape_of(op.y), known[op.x].axis
    kept = (i for i, size in enumerate(after) if size == before[axis] and prod(after[:i]) == prod(before[:axis]))
    return next(kept, None)


def _slice(op: nn.SliceOp, known: Axes) -> int | None:
    axis = known[op.x].axis
    return axis if op.steps()[axis] == (0, shape_of(op.x)[axis], 1) else None


def _concat(op: nn.ConcatOp, known: Axes) -> int | None:
    axes = {known[o].axis for o in op.operands if o in known}
    return axes.pop() if len(axes) == 1 and op.axis.value.data not in axes else None


def _broadcast(op: nn.BroadcastOp, known: Axes) -> int | None:
    before, after, axis = shape_of(op.x), shape_of(op.y), known[op.x].axis
    return axis + len(after) - len(before) if before[axis] == after[axis + len(after) - len(before)] else None


def _gather(op: nn.GatherOp, known: Axes) -> int | None:
    axis = op.axis.value.data
    if op.x not in known:
        return axis + known[op.indices].axis
    own = known[op.x].axis
    if op.indices in known or own == axis:
        return None
    return own if own < axis else own + len(shape_of(op.indices)) - 1


def _gather_nd(op: nn.GatherNDOp, known: Axes) -> int | None:
    axis = known[op.indices].axis if op.indices in known else -1
    return axis if op.x not in known and 0 <= axis < len(shape_of(op.indices)) - 1 else None


def _reduction(op: ReductionOp, known: Axes) -> int | None:
    axis = known[op.x].axis
    return None if axis in op.axes.get_values() else axis


def _along(op: AxisOp, known: Axes) -> int | None:
    """Operations along one axis treat the elements of all others separately."""
    axis = known[op.x].axis
    return None if axis == op.axis.value.data or isinstance(op, nn.LayerNormOp | nn.RMSNormOp) else axis


_RULES: Registry[Callable[[Any, Axes], int | None]] = Registry(
    {
        PointwiseOp: _pointwise, CastOp: _same, BitcastOp: _same, QuantCastOp: _same, nn.TransposeOp: _transpose,
        nn.ReshapeOp: _reshape, nn.SliceOp: _slice, nn.ConcatOp: _concat, nn.BroadcastOp: _broadcast,
        nn.GatherOp: _gather, nn.GatherNDOp: _gather_nd, ReductionOp: _reduction, AxisOp: _along,
    }
)  # fmt: skip
"""Operation → the counted axis of its result, or None if the operation needs to know how many elements count."""

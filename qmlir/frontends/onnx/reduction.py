"""Reductions over axes, ArgMax and ArgMin, cumulative sums and products, and Hardmax.

Some reductions are composed of several operations: L1 and L2 norms, sums of squares, logarithms of sums. A mean becomes
a global average pool, which has an integer form; the reduced axes become the image's spatial dimensions.
"""

from collections.abc import Callable, Sequence
from math import prod

import numpy as np
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, f64, i64
from xdsl.ir import Attribute, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.base import bound
from qmlir.dialects.nn.reduction import ArgumentOp, CumulativeOp, ReductionOp
from qmlir.dialects.windows import ints
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.layout import channels_first, channels_last
from qmlir.frontends.values import Constant, Ints, Value
from qmlir.ir.dtypes import dtype_of
from qmlir.ir.interfaces import element_of

Reducer = Callable[[Node, Value, list[int]], Value]
"""A reduction: (node, x, ascending axes) → the result, with the axes kept as dimensions of size 1."""


def _over(op: type[ReductionOp]) -> Reducer:
    return lambda node, x, axes: node.compute(op, [x], {"axes": ints(axes)})


def _step(node: Node, op: type[nn.AbsOp | nn.ReduceSumOp], x: Value, part: str, axes: list[int] | None = None) -> Value:
    """Adds an operation that computes an intermediate tensor of the result, called `part`."""
    properties: dict[str, Attribute] = {} if axes is None else {"axes": ints(axes)}
    return node.compute(op, [x], properties, part=part)


def _l1(node: Node, x: Value, axes: list[int]) -> Value:
    return _over(nn.ReduceSumOp)(node, _step(node, nn.AbsOp, x, "magnitude"), axes)


def _sum_of_squares(node: Node, x: Value, axes: list[int], part: str | None = None) -> SSAValue:
    square = node.compute(nn.MulOp, [x, x], part="square")
    total = node.compute(nn.ReduceSumOp, [square], {"axes": ints(axes)}, part=part)
    node.mark_powers(2)
    return total


def _l2(node: Node, x: Value, axes: list[int]) -> Value:
    y = _of_reals(node, nn.SqrtOp, _sum_of_squares(node, x, axes, "squares"))
    node.mark_powers(2)
    return y


def _log_sum(node: Node, x: Value, axes: list[int]) -> Value:
    return _of_reals(node, nn.LogOp, _step(node, nn.ReduceSumOp, x, "sum", axes))


def _of_reals(node: Node, op: type[nn.SqrtOp | nn.LogOp], x: Value) -> Value:
    """Applies a function to floats; integers are computed in f64 and the result is cast back, rounded toward zero."""
    value = node.builder.ssa(x)
    if node.element(value).startswith(("f", "bf")):
        return node.compute(op, [value])
    y = node.insert(op, [node.converted(value, f64)])
    return node.compute(nn.CastOp, [y], element=element_of(value))


def _log_sum_exp(node: Node, x: Value, axes: list[int]) -> Value:
    """Computes m + log Σ exp(x − m), where m is the greatest element, clamped to finite numbers."""
    most = float(np.finfo(np.float32).max)
    greatest = node.compute(nn.ReduceMaxOp, [x], {"axes": ints(axes)}, part="greatest")
    m = node.compute(nn.ClampOp, [greatest], {"min": bound(-most), "max": bound(most)}, part="shift")
    shifted = node.compute(nn.SubOp, [x, m], part="shifted")
    powers = node.compute(nn.ExpOp, [shifted], part="powers")
    total = _step(node, nn.ReduceSumOp, powers, "sum", axes)
    return node.compute(nn.AddOp, [node.compute(nn.LogOp, [total], part="log"), m])


def _mean(node: Node, x: Value, axes: list[int]) -> Value:
    """Computes the mean as a global average pool for f32, f16 and bf16, else as the sum divided by the count."""
    shape = node.shape(x)
    kept = [1 if i in axes else size for i, size in enumerate(shape)]
    count = prod(shape[a] for a in axes)
    if node.element(x) not in ("f32", "f16", "bf16") or count == 0:
        total = _step(node, nn.ReduceSumOp, x, "sum", axes)
        divisor = Constant(np.array(count).astype(dtype_of(element_of(node.builder.ssa(total)))))
        return node.compute(nn.DivOp, [total, divisor])
    if len(shape) == 4 and axes == [2, 3]:  # the usual image of a convolution, whose transposes cancel
        return channels_first(node, node.compute(nn.GlobalAveragePoolOp, [channels_last(node, x)]))
    if axes and axes != list(range(axes[0], axes[-1] + 1)):
        x = node.permuted(x, [*(i for i in range(len(shape)) if i not in axes), *axes])
        outer, inner = prod(kept), 1
    else:
        first, end = (axes[0], axes[-1] + 1) if axes else (len(shape), len(shape))
        outer, inner = prod(shape[:first]), prod(shape[end:])
    y = node.compute(nn.GlobalAveragePoolOp, [node.reshaped(x, (outer, count, 1, inner))])
    return node.reshaped(y, kept)


REDUCERS: dict[str, tuple[int, Reducer]] = {
    "ReduceSum": (13, _over(nn.ReduceSumOp)),
    "ReduceProd": (18, _over(nn.ReduceProdOp)),
    "ReduceMax": (18, _over(nn.ReduceMaxOp)),
    "ReduceMin": (18, _over(nn.ReduceMinOp)),
    "ReduceMean": (18, _mean),
    "ReduceL1": (18, _l1),
    "ReduceL2": (18, _l2),
    "ReduceSumSquare": (18, _sum_of_squares),
    "ReduceLogSum": (18, _log_sum),
    "ReduceLogSumExp": (18, _log_sum_exp),
}
"""Operator → (the operator set version from which the axes are an input, its reduction)."""


def _reduced(node: Node, reduce: Reducer, x: Value, axes: Sequence[int], keepdims: int) -> Value:
    y = reduce(node, x, node.axes(axes, node.rank(x)))
    if keepdims:
        return y
    gone = [a % max(node.rank(x), 1) for a in axes]
    return node.reshaped(y, [size for i, size in enumerate(node.shape(y)) if i not in gone])


def _by_attribute(reduce: Reducer) -> Callable[..., Value]:
    def convert(node: Node, x: Value, *, axes: Ints = (), keepdims: int = 1) -> Value:
        return _reduced(node, reduce, x, axes or range(node.rank(x)), keepdims)

    return convert


def _by_input(reduce: Reducer) -> Callable[..., Value]:
    def convert(
        node: Node, x: Value, axes: Value | None = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
    ) -> Value:
        given = () if axes is None else node.ints(axes, "axes")
        if not given and not noop_with_empty_axes:
            given = tuple(range(node.rank(x)))
        return _reduced(node, reduce, x, given, keepdims)

    return convert


for _operator, (_since, _reduce) in REDUCERS.items():
    converts(_operator)(_by_attribute(_reduce))
    converts(_operator, since=_since)(_by_input(_reduce))


@converts("ArgMax")
def arg_max(node: Node, x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    """Returns the index of the greatest element along an axis."""
    return _argument(node, nn.ArgMaxOp, x, axis, keepdims, select_last_index)


@converts("ArgMin")
def arg_min(node: Node, x: Value, *, axis: int = 0, keepdims: int = 1, select_last_index: int = 0) -> Value:
    """Returns the index of the least element along an axis."""
    return _argument(node, nn.ArgMinOp, x, axis, keepdims, select_last_index)


def _argument(node: Node, op: type[ArgumentOp], x: Value, axis: int, keepdims: int, last: int) -> Value:
    axis = node.axis(axis, node.rank(x))
    y = node.compute(op, [x], {"axis": IntegerAttr(axis, i64), "last": BoolAttr.from_bool(bool(last))})
    shape = node.shape(y)
    return y if keepdims else node.reshaped(y, [*shape[:axis], *shape[axis + 1 :]])


@converts("CumSum", since=11)
def cumulative_sum(node: Node, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    """Returns the cumulative sums along an axis."""
    return _cumulative(node, nn.CumulativeSumOp, x, axis, exclusive, reverse)


@converts("CumProd", since=26)
def cumulative_product(node: Node, x: Value, axis: Value, *, exclusive: int = 0, reverse: int = 0) -> Value:
    """Returns the cumulative products along an axis."""
    return _cumulative(node, nn.CumulativeProductOp, x, axis, exclusive, reverse)


def _cumulative(node: Node, op: type[CumulativeOp], x: Value, axis: Value, exclusive: int, reverse: int) -> Value:
    given = node.ints(axis, "axis")
    if len(given) != 1:
        raise node.error("its axis must be one number", str(list(given)))
    flags = {"exclusive": BoolAttr.from_bool(bool(exclusive)), "reverse": BoolAttr.from_bool(bool(reverse))}
    return node.compute(op, [x], {"axis": IntegerAttr(node.axis(given[0], node.rank(x)), i64), **flags})


@converts("Hardmax")
def hardmax_flattened(node: Node, x: Value, *, axis: int = 1) -> Value:
    """Hardmax before version 13: over all dimensions from `axis` on, as if they were one dimension."""
    shape = node.shape(x)
    first = axis if axis == len(shape) else node.axis(axis, len(shape))
    flat = node.reshaped(x, (prod(shape[:first]), prod(shape[first:])))
    return node.reshaped(hardmax(node, flat, axis=1), shape)


@converts("Hardmax", since=13)
def hardmax(node: Node, x: Value, *, axis: int = -1) -> Value:
    """Returns 1 at the first greatest element along an axis, else 0."""
    shape = node.shape(x)
    axis = node.axis(axis, len(shape))
    place = node.compute(nn.ArgMaxOp, [x], {"axis": IntegerAttr(axis, i64)}, part="place")
    indices = np.arange(*node.room((shape[axis],))).reshape([-1 if i == axis else 1 for i in range(len(shape))])
    chosen = node.compute(nn.EqualOp, [Constant(indices.astype(np.int64)), place], part="chosen")
    return node.compute(nn.CastOp, [chosen], element=element_of(node.builder.ssa(x)))

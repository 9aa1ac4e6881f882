"""Constants computed at import, and operators whose result's shape depends on data."""

from collections.abc import Sequence
from math import inf

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.nn.base import is_quantized
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Ints, Value, computed, sized
from qmlir.frontends.onnx.movement import reshaped
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.ir.budget import Budget
from qmlir.ir.interfaces import Array, shape_of

converts = Table()
folds = Table(np.asarray)

# ---------------------------------------------------------------------------------------------------------------
# Constant subexpressions, computed with numpy at import.
#
# Exporters write shape arithmetic as nodes: Shape → Gather → Unsqueeze → Concat → Reshape. With static shapes all of it
# is constant. A fold computes one operator on constant arrays; the folds here cover the operators of such chains and
# the operators that move weights around. Any other node on constants goes to its converter, and the operations that the
# converter adds are evaluated if they are small. Large operations stay in the graph for the pass `fold-constants`.


SMALL = 1 << 20
"""The most elements, in all operands and results together, of the operations that `evaluated` computes for a node."""


@folds("Identity")
def identity(budget: Budget, x: Array) -> Array:
    """Returns x."""
    return x


@folds("Gather")
def gather(budget: Budget, data: Array, indices: Array, *, axis: int = 0) -> Array:
    """Picks the elements of `data` at the indices along an axis."""
    if indices.dtype.kind not in "iu":
        raise ValueError(f"indices of {indices.dtype}")
    axis = axis % data.ndim
    _charge(budget, (*data.shape[:axis], *indices.shape, *data.shape[axis + 1 :]), data)
    return np.take(data, indices, axis=axis)


@folds("Concat", since=4)
def concat(budget: Budget, *inputs: Array, axis: int) -> Array:
    """Joins the inputs along an axis."""
    _charge(budget, (sum(x.size for x in inputs),), inputs[0])
    return np.concatenate(inputs, axis=axis)


@folds("Reshape", since=5)
def reshape(budget: Budget, x: Array, shape: Array, *, allowzero: int = 0) -> Array:
    """Returns x under another shape."""
    return x.reshape(reshaped(x.shape, tuple(int(d) for d in shape.reshape(-1)), bool(allowzero)))


@folds("Flatten")
def flatten(budget: Budget, x: Array, *, axis: int = 1) -> Array:
    """Returns x as a matrix: the dimensions before `axis` become its rows, the others its columns."""
    first = axis if axis >= 0 else axis + x.ndim
    return x.reshape(int(np.prod(x.shape[:first])), int(np.prod(x.shape[first:])))


@folds("Transpose")
def transpose(budget: Budget, x: Array, *, perm: Ints | None = None) -> Array:
    """Permutes the dimensions of x; reverses them by default."""
    return x.transpose(perm)


def _ints(values: Array | None) -> Ints | None:
    return None if values is None else tuple(int(v) for v in values.reshape(-1))


@folds("Squeeze", since=13, attributes=["axes"])
def squeeze(budget: Budget, x: Array, axes: Array | None = None) -> Array:
    """Drops dimensions of size 1; all of them by default."""
    return np.squeeze(x, axis=_ints(axes))


@folds("Unsqueeze", since=13, attributes=["axes"])
def unsqueeze(budget: Budget, x: Array, axes: Array) -> Array:
    """Inserts dimensions of size 1."""
    return np.expand_dims(x, _ints(axes) or ())


@folds("Slice", since=10, attributes=["starts", "ends", "axes"])
def slices(
    budget: Budget, x: Array, starts: Array, ends: Array, axes: Array | None = None, steps: Array | None = None
) -> Array:
    """Slices x between bounds along axes, by default the first ones, in steps of 1 by default."""
    taken, first, last = [slice(None)] * x.ndim, _ints(starts) or (), _ints(ends) or ()
    over, strides = _ints(axes), _ints(steps)
    over = range(len(first)) if over is None else over
    for axis, start, end, step in zip(over, first, last, strides or (1,) * len(first), strict=True):
        # Going backwards, an end before the first element means through the first one, which Python writes as None.
        taken[axis] = slice(start, None if step < 0 and end < -x.shape[axis] else end, step)
    return x[tuple(taken)]


@folds("ConstantOfShape", since=9)
def constant_of_shape(budget: Budget, shape: Array, *, value: Array | None = None) -> Array:
    """Returns an array of the given shape with one value everywhere."""
    size = tuple(int(d) for d in shape.reshape(-1))
    fill = np.zeros(1, np.float32) if value is None else value
    return np.broadcast_to(fill.reshape(-1)[0], sized(size))  # the broadcast takes no memory until it is used


@folds("Expand", since=8)
def expand(budget: Budget, x: Array, shape: Array) -> Array:
    """Broadcasts x and a shape against each other."""
    wanted = tuple(int(d) for d in shape.reshape(-1))
    return np.broadcast_to(x, sized(np.broadcast_shapes(x.shape, wanted)))


@folds("Range", since=11)
def arange(budget: Budget, start: Array, limit: Array, delta: Array) -> Array:
    """Returns start, start + delta, … up to but not including limit."""
    first, last, step = (v.reshape(())[()] for v in (start, limit, delta))
    if step == 0:
        raise ZeroDivisionError("division by zero")
    count = max(int(np.ceil((float(last) - float(first)) / float(step))), 0)
    _charge(budget, (count, 3), start)  # counts numpy's intermediate arrays, too
    return (np.arange(count, dtype=start.dtype) * step + first).astype(start.dtype)


def _charge(budget: Budget, shape: Sequence[int], like: Array) -> None:
    """Charges a result to the budget, or refuses to compute it."""
    if not budget.take(shape, like.itemsize):
        raise UnsupportedError(budget.refusal(shape))


def evaluated(
    ops: Sequence[Operation], results: Sequence[Value], names: Sequence[str], budget: Budget, *,
    of_any_size: bool = False,
) -> list[Value] | None:  # fmt: skip
    """Computes the results of operations on constants, by each operation's `evaluate`.

    Args:
        ops: Operations in program order; their operands are constants and results of earlier operations.
        results: Results of these operations, or values that are constants already.
        names: Names of the results.
        budget: The budget of computed constants.
        of_any_size: Whether the operations may be large, as those on weights that are rounded.

    Returns:
        The results as constants; None if an operation cannot be evaluated, is quantized, or is too large. Such
        operations stay for the pass `fold-constants`.
    """
    elements = sum(_elements(v) for op in ops for v in (*op.operands, *op.results))
    if not ops or elements == inf or (elements > SMALL and not of_any_size):
        return None
    if not budget.take((int(elements),), 8):
        return None
    if (known := computed(ops)) is None:
        return None
    return [
        Constant(known[r], n) if isinstance(r, SSAValue) else r
        for r, n in zip(results, [*names, *[""] * len(results)], strict=False)
    ]


def _elements(value: SSAValue) -> float:
    """The number of elements of a tensor; infinity if its shape is unknown or it is quantized."""
    if not isinstance(value.type, TensorType) or is_quantized(value):
        return inf
    return float(np.prod([float(d) for d in shape_of(value)]))


# ---------------------------------------------------------------------------------------------------------------
# Operators whose result shape depends on the values of their inputs: computed at import, on constant inputs only.
#
# All shapes in the IR are static. On constant inputs such an operator gives a constant. On other inputs it is refused,
# and the reason says which input must be constant.


@converts("Range", since=11)
def known_range(node: ONNXNode, start: Value, limit: Value, delta: Value) -> Value:
    """Returns start, start + delta, … up to but not including limit."""
    numbers = (node.array(v, w) for v, w in ((start, "start"), (limit, "limit"), (delta, "delta")))
    return Constant(arange(node.builder.budget, *numbers))


@converts("ConstantOfShape", since=9)
def known_constant(node: ONNXNode, shape: Value, *, value: Array | None = None) -> Value:
    """Returns a tensor of the given shape with one value everywhere."""
    return Constant(constant_of_shape(node.builder.budget, node.array(shape, "shape"), value=value))

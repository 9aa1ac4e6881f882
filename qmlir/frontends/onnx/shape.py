"""Data movement: reshapes, transposes, concatenation, padding, and constants."""

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64

from qmlir.dialects.interfaces import Array, Shape
from qmlir.dialects.nn.shape import ConcatOp, PadOp, ReshapeOp, TransposeOp
from qmlir.dialects.windows import ints
from qmlir.frontends.onnx.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.values import Constant, Floats, Ints, Refusal, Value


def _reshape(node: Node, x: Value, shape: Shape) -> Value:
    return node.compute(ReshapeOp, [x], {"shape": ints(shape)})


@converts("Constant")
def constant(
    node: Node,
    *,
    value: Array | None = None,
    value_float: float | None = None,
    value_floats: Floats | None = None,
    value_int: int | None = None,
    value_ints: Ints | None = None,
) -> Value:
    """The one of its attributes that is there."""
    attributes = (
        (value, None),
        (value_float, np.float32),
        (value_floats, np.float32),
        (value_int, np.int64),
        (value_ints, np.int64),
    )
    given = [np.asarray(v, dtype) for v, dtype in attributes if v is not None]
    if len(given) != 1:
        raise node.error("it must have exactly one value", str(len(given)))
    return Constant(given[0], node.outputs[0])


@converts("Reshape", since=5)
def reshape(node: Node, x: Value, shape: Value, *, allowzero: int = 0) -> Value:
    """0 keeps a dimension unless `allowzero`, −1 takes what is left."""
    return _reshape(node, x, reshaped(node.shape(x), node.ints(shape, "shape"), bool(allowzero)))


def reshaped(old: Shape, wanted: Ints, allowzero: bool) -> Shape:
    """The shape that Reshape asks for.

    Raises:
        ValueError: There is no such shape.
    """
    kept = [old[i] if d == 0 and not allowzero and i < len(old) else d for i, d in enumerate(wanted)]
    if kept.count(-1) > 1 or min(kept, default=0) < -1:
        raise ValueError(f"{list(wanted)} is not a shape")
    rest, size = int(np.prod([d for d in kept if d != -1])), int(np.prod(old))
    if -1 in kept:
        if rest == 0 or size % rest:
            raise ValueError(f"{list(old)} cannot become {list(wanted)}")
        kept[kept.index(-1)] = size // rest
    if int(np.prod(kept)) != size:
        raise ValueError(f"{list(old)} cannot become {list(wanted)}")
    return tuple(kept)


@converts("Flatten")
def flatten(node: Node, x: Value, *, axis: int = 1) -> Value:
    """[d0 · … · d(axis−1), d(axis) · …]."""
    shape = node.shape(x)
    first = axis if axis == len(shape) else node.axis(axis, len(shape))
    return _reshape(node, x, (int(np.prod(shape[:first])), int(np.prod(shape[first:]))))


@converts("Squeeze")
def squeeze(node: Node, x: Value, *, axes: Ints | None = None) -> Value:
    """Drops dimensions of size 1: those named, or all."""
    shape = node.shape(x)
    drop = [i for i, d in enumerate(shape) if d == 1] if axes is None else node.axes(axes, len(shape))
    if any(shape[i] != 1 for i in drop):
        raise node.error("the dimensions it drops must have size 1", str(list(shape)))
    return _reshape(node, x, tuple(d for i, d in enumerate(shape) if i not in drop))


@converts("Squeeze", since=13)
def squeeze_axes_input(node: Node, x: Value, axes: Value | None = None) -> Value:
    """Drops dimensions of size 1, which are an input."""
    return squeeze(node, x, axes=None if axes is None else node.ints(axes, "axes"))


@converts("Unsqueeze")
def unsqueeze(node: Node, x: Value, *, axes: Ints) -> Value:
    """Inserts dimensions of size 1; `axes` count in the result."""
    shape = list(node.shape(x))
    for axis in node.axes(axes, len(shape) + len(axes)):
        shape.insert(axis, 1)
    return _reshape(node, x, tuple(shape))


@converts("Unsqueeze", since=13)
def unsqueeze_axes_input(node: Node, x: Value, axes: Value) -> Value:
    """Inserts dimensions of size 1, which are an input."""
    return unsqueeze(node, x, axes=node.ints(axes, "axes"))


@converts("Transpose")
def transpose(node: Node, x: Value, *, perm: Ints | None = None) -> Value:
    """Permutes the dimensions; reverses them by default."""
    permutation = tuple(reversed(range(node.rank(x)))) if perm is None else perm
    return node.compute(TransposeOp, [x], {"permutation": ints(permutation)})


@converts("Concat", since=4)
def concat(node: Node, *inputs: Value, axis: int) -> Value:
    """The inputs one after another."""
    if not inputs:
        raise node.error("it needs an input", "none")
    return node.compute(ConcatOp, [inputs], {"axis": IntegerAttr(node.axis(axis, node.rank(inputs[0])), i64)})


@converts("Pad", since=2)
def pad_attributes(node: Node, x: Value, *, mode: str = "constant", pads: Ints, value: float = 0.0) -> Value:
    """Padding given by attributes."""
    return _pad(node, x, mode, pads, value, range(node.rank(x)))


@converts("Pad", since=11)
def pad(
    node: Node,
    x: Value,
    pads: Value,
    constant_value: Value | None = None,
    axes: Value | None = None,
    *,
    mode: str = "constant",
) -> Value:
    """Padding given by inputs, for some of the axes only since version 18."""
    rank = node.rank(x)
    value = 0.0
    if constant_value is not None:
        value = float(node.array(constant_value, "constant_value").reshape(-1)[0])
    over = range(rank) if axes is None else [node.axis(a, rank) for a in node.ints(axes, "axes")]
    return _pad(node, x, mode, node.ints(pads, "pads"), value, over)


def _pad(node: Node, x: Value, mode: str, pads: Ints, value: float, axes: range | list[int]) -> Value:
    if mode != "constant":
        raise Refusal(f"it pads in mode {mode}, and qmlir with a constant")
    if len(pads) != 2 * len(axes):
        raise node.error(f"its pads need {2 * len(axes)} values", str(len(pads)))
    if min(pads, default=0) < 0:
        raise Refusal("it has negative padding, which crops")
    if node.element(x) != "f32":
        raise Refusal(f"it pads {node.element(x)}, and qmlir f32")
    low, high = [0] * node.rank(x), [0] * node.rank(x)
    for i, axis in enumerate(axes):
        low[axis], high[axis] = pads[i], pads[i + len(axes)]
    return node.compute(PadOp, [x], {"low": ints(low), "high": ints(high), "value": FloatAttr(value, f32)})


@converts("Shape")
def shape_of_tensor(node: Node, x: Value, *, start: int = 0, end: int | None = None) -> Value:
    """The dimensions, which are known."""
    return Constant(np.array(node.shape(x)[start:end], np.int64))


@converts("Size")
def size_of_tensor(node: Node, x: Value) -> Value:
    """The number of elements, which is known."""
    return Constant(np.array(np.prod(node.shape(x)), np.int64))

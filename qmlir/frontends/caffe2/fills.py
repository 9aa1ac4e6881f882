"""Operators that make tensors: the weights of a net are operators of its init net."""

from dataclasses import dataclass
from math import prod
from typing import Any, cast

import numpy as np
from xdsl.dialects.builtin import i32

from qmlir.errors import UnsupportedError
from qmlir.frontends.caffe2.node import Caffe2Node
from qmlir.frontends.caffe2.schema import DTYPES, element_name
from qmlir.frontends.converters import AttributeGroup, Table, shown
from qmlir.frontends.function import Constant, Dequantized, Ints, Value, filled, sized
from qmlir.ir.interfaces import Array, Shape

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Shapes: an argument, or an input, whose shape or whose values count, before the dimensions of `extra_shape`.


@dataclass(frozen=True)
class Sized(AttributeGroup):
    """The arguments that say the shape of the tensor that an operator makes."""

    shape: Ints | None = None
    extra_shape: Ints = ()
    input_as_shape: bool = False

    def whole(self, node: Caffe2Node, *inputs: Value) -> Shape:
        """Returns the shape of the tensor."""
        if self.shape is None and not inputs:
            raise node.error("it needs its argument shape, or an input", "none")
        if len(inputs) > 1:
            raise UnsupportedError(f"it has {len(inputs)} inputs and qmlir knows 1")
        if not inputs:
            found = self.shape or ()
        elif self.shape is not None:
            raise node.error("it needs either its argument shape or an input", "both")
        else:
            found = node.ints(inputs[0], "shape") if self.input_as_shape else node.shape(inputs[0])
        whole = (*found, *self.extra_shape)
        if min(whole, default=0) < 0:
            raise node.error("its shape must not have negative dimensions", whole)
        return sized(whole)


# ---------------------------------------------------------------------------------------------------------------
# Given values


def _given(node: Caffe2Node, values: Any, shape: Shape, dtype: Any) -> Array:
    """Returns the values of a tensor as an array of its shape."""
    if not isinstance(values, np.ndarray) and values != ():
        raise node.error("its values must be a list of numbers", shown(values))
    numbers = cast(Array, values) if isinstance(values, np.ndarray) else np.zeros(0, dtype)
    if numbers.dtype.kind == "f" and np.dtype(dtype).kind != "f":
        raise node.error(f"its values must be integers for {np.dtype(dtype)}", "floats")
    if numbers.size != prod(shape):
        raise node.error(f"it must have a value for each of {prod(shape)} elements", numbers.size)
    if np.dtype(dtype).kind in "iu":
        limits = np.iinfo(dtype)
        if numbers.size and (numbers.min() < limits.min or numbers.max() > limits.max):
            raise node.error(f"its values must be numbers of {np.dtype(dtype)}", shown(numbers[:8]))
    with np.errstate(over="ignore"):  # a number beyond float16 becomes an infinity
        return numbers.reshape(shape).astype(dtype)


def _fill(operator: str, dtype: Any) -> None:
    @converts(operator)
    def convert(node: Caffe2Node, *inputs: Value, of: Sized, values: Any = (), dtype: int | None = None) -> Value:
        own = dtypes[operator] if dtype is None else _dtype(node, dtype)
        whole = of.whole(node, *inputs)
        return Constant(_given(node, values, whole, own), node.outputs[0])

    dtypes[operator] = dtype


def _dtype(node: Caffe2Node, number: int) -> Any:
    if number not in DTYPES:
        raise UnsupportedError(f"its elements are of {element_name(number)}")
    return np.dtype(DTYPES[number])


dtypes: dict[str, Any] = {}
"""Operator → the element type of what it makes, unless its argument says another type."""

for _operator, _type in {
    "GivenTensorFill": np.float32, "GivenTensorDoubleFill": np.float64, "GivenTensorFp16Fill": np.float16,
    "GivenTensorIntFill": np.int32, "GivenTensorInt64Fill": np.int64, "GivenTensorInt16Fill": np.int16,
    "GivenTensorBoolFill": np.bool_,
}.items():  # fmt: skip
    _fill(_operator, _type)


@converts("GivenTensorByteStringToUInt8Fill")
def byte_string_fill(node: Caffe2Node, *inputs: Value, of: Sized, values: Any = ()) -> Value:
    """The bytes of a string as uint8."""
    whole = of.whole(node, *inputs)
    return Constant(_bytes(node, values, whole), node.outputs[0])


def _bytes(node: Caffe2Node, values: Any, shape: Shape) -> Array:
    """Returns the bytes of an argument that is one string as an array of a shape."""
    strings = cast(tuple[Any, ...], values) if isinstance(values, tuple) else (values,)
    if len(strings) != 1 or not isinstance(strings[0], bytes):
        raise node.error("its values must be one string of bytes", shown(values))
    if len(strings[0]) != prod(shape):
        raise node.error(f"it must have a byte for each of {prod(shape)} elements", f"{len(strings[0])} bytes")
    return np.frombuffer(strings[0], np.uint8).reshape(shape)


@converts("Int8GivenTensorFill")
def int8_fill(node: Caffe2Node, *, shape: Ints, values: Any) -> Value:
    """A tensor stored as uint8, one byte of the string for each element."""
    whole = Sized(shape).whole(node)
    type = node.stated_type()
    return Dequantized(_bytes(node, values, whole), type, node.outputs[0])


@converts("Int8GivenIntTensorFill")
def int32_fill(node: Caffe2Node, *, shape: Ints, values: Any) -> Value:
    """A tensor stored as int32: a bias."""
    whole = Sized(shape).whole(node)
    type = node.state(i32)
    if type is None:
        raise node.error("it needs its arguments Y_scale and Y_zero_point", "none")
    return Dequantized(_given(node, values, whole, np.int32), type, node.outputs[0])


# ---------------------------------------------------------------------------------------------------------------
# One value everywhere


@converts("ConstantFill")
def constant_fill(node: Caffe2Node, *inputs: Value, of: Sized, value: Any = 0, dtype: int = 1) -> Value:
    """A tensor with one value everywhere, of float32 by default."""
    type = np.dtype(_dtype(node, dtype))
    whole = of.whole(node, *inputs)
    if not isinstance(value, int | float) or (isinstance(value, float) and type.kind != "f"):
        raise node.error(f"its value must be a number of {type}", shown(value))
    if type.kind in "iu" and not np.iinfo(type).min <= value <= np.iinfo(type).max:
        raise node.error(f"its value must be a number of {type}", str(value))
    with np.errstate(over="ignore"):
        return filled(whole, np.array(value).astype(type), node.outputs[0])


@converts("Shape")
def shape_of(node: Caffe2Node, x: Value, *, axes: Ints = ()) -> Value:
    """The dimensions of a tensor, or some of them, as int64."""
    shape = node.shape(x)
    chosen = [shape[node.axis(a, len(shape))] for a in axes] if axes else list(shape)
    return Constant(np.array(chosen, np.int64), node.outputs[0])


@converts("Size")
def size_of(node: Caffe2Node, x: Value) -> Value:
    """The number of elements, as int64."""
    return Constant(np.array(prod(node.shape(x)), np.int64), node.outputs[0])


@converts("IsEmpty")
def is_empty(node: Caffe2Node, x: Value) -> Value:
    """Whether a tensor has no elements, which its shape says."""
    return Constant(np.array(prod(node.shape(x)) == 0), node.outputs[0])


@converts("Range")
def range_of(node: Caffe2Node, *bounds: Value) -> Value:
    """Numbers from a start (0), below a stop, in steps (of 1)."""
    if not 1 <= len(bounds) <= 3:
        raise node.error("it needs 1 to 3 inputs", len(bounds))
    arrays = [node.array(b, "bound") for b in bounds]
    if any(a.size != 1 for a in arrays):
        raise node.error("its bounds must be single numbers", [a.size for a in arrays])
    numbers = [a.reshape(()) for a in arrays]
    start, stop = (np.zeros_like(numbers[0]), numbers[0]) if len(numbers) == 1 else (numbers[0], numbers[1])
    step = numbers[2] if len(numbers) == 3 else np.ones_like(numbers[0])
    if not step or not all(np.isfinite(n) for n in (start, stop, step)):
        raise node.error("its step must not be 0, and its bounds must be finite", f"{start}, {stop}, {step}")
    count = max(int(np.ceil((float(stop) - float(start)) / float(step))), 0)
    node.room((count,))
    return Constant((start + np.arange(count) * step).astype(arrays[0].dtype), node.outputs[0])


# ---------------------------------------------------------------------------------------------------------------
# Random numbers, which are drawn at import, as in Glow


@converts("GaussianFill", "MSRAFill", "UniformFill", "XavierFill")
def random_fill(
    node: Caffe2Node, *inputs: Value, of: Sized, mean: float = 0.0, std: float = 1.0, min: float = 0.0,
    max: float = 1.0,
) -> Value:  # fmt: skip
    """A tensor of random float32 numbers: uniform, normal, or as weights are initialized for training.

    Xavier's lie uniformly within ±√(3 / n), where n is the number of elements by the first dimension; MSRA's are normal
    with the deviation √(2 / n), where n is the number of elements by the second.
    """
    whole = of.whole(node, *inputs)
    node.room(whole)
    axis = {"XavierFill": 0, "MSRAFill": 1}.get(node.kind)
    if axis is not None and len(whole) <= axis:
        raise node.error(f"its shape must have {axis + 1} dimensions or more", whole)
    each = 0.0 if axis is None or not whole[axis] else prod(whole) / whole[axis]
    source = node.drawn(None)
    if node.kind in ("GaussianFill", "MSRAFill"):
        numbers = source.normal(mean, std if axis is None else np.sqrt(2 / each) if each else 0.0, whole)
    else:
        reach = np.sqrt(3 / each) if each else 0.0
        numbers = source.uniform(min if axis is None else -reach, max if axis is None else reach, whole)
    return Constant(np.asarray(numbers).astype(np.float32), node.outputs[0])

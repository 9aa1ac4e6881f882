"""Operators on single elements: arithmetic, comparisons, casts, activations, elementary functions."""

from collections.abc import Sequence
from functools import reduce
from typing import Literal, TypeGuard

import numpy as np
from xdsl.dialects.builtin import NoneType, f64, i8
from xdsl.ir import Attribute

from qmlir.dialects.nn.bitwise import ShiftLeftOp, ShiftRightOp
from qmlir.dialects.nn.casts import BitcastOp, CastOp, converted, power_of_two
from qmlir.dialects.nn.elementwise import (
    AddOp,
    DivOp,
    IsInfOp,
    MaximumOp,
    MinimumOp,
    MulOp,
    PowOp,
    PReluOp,
    SubOp,
)
from qmlir.dialects.nn.functions import (
    ClampOp,
    GeluOp,
    LeakyReluOp,
    ReciprocalOp,
    SqrtOp,
)
from qmlir.errors import UnsupportedError
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Constant, Dequantized, Value, filled, once
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import element_name, element_type
from qmlir.ir.interfaces import Array, TensorOp, element_of
from qmlir.ir.types import dtype_of, element_type_of

converts = Table()

# ---------------------------------------------------------------------------------------------------------------
# Elementwise arithmetic on several operands, broadcast as in numpy.
#
# Sub and Div with an f32 constant as second operand become a sum or a product if this gives the same bits: Sub with the
# negated constant, Div with the reciprocals of powers of two. Sums and products fuse with other operations and have
# better integer forms. A constant that the model stores as integers is left as it is.


@converts("Sub", since=7)
def sub(node: ONNXNode, a: Value, b: Value) -> Value:
    """y = a − b; computed as a + (−b) if b is an f32 constant."""
    if _is_float(b):
        return node.compute(AddOp, [a, Constant(-b.array, b.name)])
    return node.compute(SubOp, [a, b])


@converts("Div", since=7)
def div(node: ONNXNode, a: Value, b: Value) -> Value:
    """y = a / b; computed as a · (1/b) if b is an f32 constant and every 1/b is exact."""
    if _is_float(b) and _is_power_of_two(b.array):
        return node.compute(MulOp, [a, Constant(np.float32(1) / b.array, b.name)])
    return node.compute(DivOp, [a, b])


def _is_float(value: Value) -> TypeGuard[Constant]:
    """Whether a value is an f32 constant that the model does not store as integers."""
    return isinstance(value, Constant) and not isinstance(value, Dequantized) and value.array.dtype == np.float32


def _is_power_of_two(array: Array) -> bool:
    """Whether each element is ±2^k and its reciprocal is a normal f32 number."""
    mantissa, exponent = np.frexp(array)
    return bool(np.all((np.abs(mantissa) == 0.5) & (np.abs(exponent) < 125)))


@converts("Pow", since=7)
def power(node: ONNXNode, a: Value, b: Value) -> Value:
    """y = a^b in a's type, by way of f64 if the types differ; constant exponents 1, 2, 0.5 and −1 are simplified.

    An exponent that the model stores as an integer stays: quantized data are looked up in the table of this operator,
    whose ties are rounded otherwise than those of a product.
    """
    if node.element(a) == "f32" and _is_float(b) and b.array.size == 1 and b.array.ndim <= node.rank(a):
        match float(b.array.reshape(())):
            case 1.0:
                return a
            case 2.0:
                return node.compute(MulOp, [a, a])
            case 0.5:
                return node.compute(SqrtOp, [a])
            case -1.0:
                return node.compute(ReciprocalOp, [a])
            case _:
                pass
    if node.element(a) == node.element(b):
        return node.compute(PowOp, [a, b])
    base = node.builder.ssa(a)
    result = node.compute(PowOp, [node.converted(base, f64), node.converted(b, f64)], part="f64")
    return node.compute(CastOp, [result], element=element_of(base))


@converts("Max", since=6)
def maximum(node: ONNXNode, *inputs: Value) -> Value:
    """The elementwise maximum of the inputs."""
    return _chained(node, MaximumOp, inputs)


@converts("Min", since=6)
def minimum(node: ONNXNode, *inputs: Value) -> Value:
    """The elementwise minimum of the inputs."""
    return _chained(node, MinimumOp, inputs)


@converts("Sum", since=6)
def total(node: ONNXNode, *inputs: Value) -> Value:
    """The elementwise sum of the inputs, added in order."""
    return _chained(node, AddOp, inputs)


@converts("Mean", since=6)
def mean(node: ONNXNode, *inputs: Value) -> Value:
    """The elementwise mean: the inputs added in order, divided by the number of inputs."""
    if len(inputs) == 1:
        return inputs[0]
    summed = _chained(node, AddOp, inputs, part="sum")
    count = np.array(len(inputs)).astype(dtype_of(element_of(node.builder.ssa(summed))))
    return div(node, summed, Constant(count))


def _chained(node: ONNXNode, op: type[TensorOp], inputs: Sequence[Value], part: str | None = None) -> Value:
    """Combines the inputs from left to right by a binary operation."""
    if not inputs:
        raise node.error("it needs an input", "none")
    if len(inputs) == 1:
        return inputs[0]
    steps = [f"{part or 'of'}{i}" for i in range(2, len(inputs))]
    *first, last = inputs
    left = reduce(lambda a, b: node.compute(op, [a, b[0]], part=b[1]), zip(first[1:], steps, strict=True), first[0])
    return node.compute(op, [left, last], part=part)


@converts("PRelu", since=7)
def prelu(node: ONNXNode, x: Value, slope: Value) -> Value:
    """y = slope · x where x < 0, else x; a single constant slope makes a LeakyRelu."""
    if isinstance(slope, Constant) and slope.array.size == 1 and slope.array.dtype == np.float32:
        return node.compute(LeakyReluOp, [x], {"alpha": float(slope.array.reshape(()))})
    return node.compute(PReluOp, [x, slope])


# ---------------------------------------------------------------------------------------------------------------
# Shifts of bits, and the test for infinities.


@converts("BitShift", since=11)
def shift(node: ONNXNode, x: Value, count: Value, *, direction: Literal["LEFT", "RIGHT"]) -> Value:
    """Shifts x by `count` bits to the left or right."""
    return node.compute(ShiftLeftOp if direction == "LEFT" else ShiftRightOp, [x, count])


@converts("IsInf", since=10)
def is_inf(node: ONNXNode, x: Value, *, detect_negative: int = 1, detect_positive: int = 1) -> Value:
    """Tests whether x is an infinity of a sign that the attributes select."""
    if not detect_negative and not detect_positive:
        return filled(node.shape(x), np.False_)
    signs = {"negative": detect_negative, "positive": detect_positive}
    return node.compute(IsInfOp, [x], {k: bool(v) for k, v in signs.items()})


# ---------------------------------------------------------------------------------------------------------------
# Cast, CastLike and BitCast; a constant operand is cast at import if the budget of constants allows.


@converts("Cast", since=6)
def cast(node: ONNXNode, x: Value, *, to: int, saturate: int = 1, round_mode: str = "up") -> Value:
    """Converts x to the ONNX element type `to`."""
    element = element_type(to)
    if isinstance(element, NoneType) or node.element(x) == "none":
        raise UnsupportedError(f"it casts {node.element(x)} to {element_name(to)}")
    return _converted(node, x, element, bool(saturate), round_mode)


@converts("CastLike", since=15)
def cast_like(node: ONNXNode, x: Value, like: Value, *, saturate: int = 1, round_mode: str = "up") -> Value:
    """Converts x to the element type of `like`."""
    return _converted(node, x, _element(like), bool(saturate), round_mode)


def _element(x: Value) -> Attribute:
    """Returns the MLIR element type of an input."""
    try:
        return element_type_of(x.array.dtype) if isinstance(x, Constant) else element_of(x)
    except KeyError:
        raise UnsupportedError("MLIR has no type like its other input's") from None


def _converted(node: ONNXNode, x: Value, element: Attribute, saturate: bool, round_mode: str) -> Value:
    if _element(x) == element:
        return x
    dtype = dtype_of(element)
    if dtype.name == "float8_e8m0fnu" and round_mode != "nearest":
        if round_mode not in ("up", "down"):
            raise node.error("its attribute round_mode must be up, down or nearest", round_mode)
        if not isinstance(x, Constant):
            raise UnsupportedError(f"it rounds {round_mode} to powers of two, and qmlir constants only")
        return Constant(power_of_two(x.array, up=round_mode == "up", saturate=saturate), x.name)
    if isinstance(x, Constant) and node.builder.budget.take(once(x.array).shape, dtype.itemsize):
        return Constant(np.broadcast_to(converted(once(x.array), dtype, saturate=saturate), x.shape), x.name)
    return node.compute(CastOp, [x], {"saturate": saturate}, element=element)


@converts("BitCast", since=26)
def bit_cast(node: ONNXNode, x: Value, *, to: int) -> Value:
    """Reinterprets the bits of x as another element type."""
    element = element_type(to)
    if isinstance(element, NoneType):
        raise UnsupportedError(f"it takes {node.element(x)} for {element_name(to)}")
    if element == _element(x):
        return x
    if node.element(x) == "i1":  # an i1 element becomes a byte that is 0 or 1
        x = _converted(node, x, i8, saturate=True, round_mode="up")
    if node.dtype(x).itemsize != dtype_of(element).itemsize:
        raise node.error("its types must have as many bits", f"{node.element(x)} and {element}")
    if isinstance(x, Constant):
        return Constant(x.array.view(dtype_of(element)), x.name)
    return node.compute(BitcastOp, [x], element=element)


# ---------------------------------------------------------------------------------------------------------------
# Activations with attributes or bounds, and operators that are the identity at inference.


@converts("Gelu", since=20)
def gelu(node: ONNXNode, x: Value, *, approximate: Literal["none", "tanh"] = "none") -> Value:
    """y = x · Φ(x), or its approximation by tanh."""
    return node.compute(GeluOp, [x], {"tanh": approximate == "tanh"})


_LARGEST = float(np.finfo(np.float32).max)


@converts("Clip", since=6)
def clip_attributes(node: ONNXNode, x: Value, *, min: float = -_LARGEST, max: float = _LARGEST) -> Value:
    """y = min(max(x, min), max), with bounds as attributes."""
    return _clamp(node, x, min, max)


@converts("Clip", since=11)
def clip(node: ONNXNode, x: Value, min: Value | None = None, max: Value | None = None) -> Value:
    """y = min(max(x, min), max), with bounds as inputs; an absent bound has no effect."""
    for value, what in ((min, "lower bound"), (max, "upper bound")):
        if value is not None and int(np.prod(node.shape(value))) != 1:
            raise node.error(f"its {what} must be a scalar", f"{list(node.shape(value))}")
    given = [(op, v) for op, v in ((MaximumOp, min), (MinimumOp, max)) if v is not None]
    if node.element(x) in ("f32", "f16", "bf16") and all(_is_number(v) for _, v in given):
        low, high = (None if v is None else float(node.array(v, "bound").reshape(())) for v in (min, max))
        return _clamp(node, x, low, high)
    for op, value in given:
        part = "clipped" if (op, value) != given[-1] else None
        x = node.compute(op, [x, node.reshaped(value, ())], part=part)
    return x


def _is_number(bound: Value) -> bool:
    """Whether a bound is known at import and is not NaN."""
    return isinstance(bound, Constant) and not np.isnan(bound.array.astype(np.float32)).any()


def _clamp(node: ONNXNode, x: Value, low: float | None, high: float | None) -> Value:
    low = None if low is None or low <= -_LARGEST else low
    high = None if high is None or high >= _LARGEST else high
    if low is not None and high is not None and low > high:
        low = high  # every element becomes the upper bound
    if low is None and high is None:
        return x
    return node.compute(ClampOp, [x], {"min": low, "max": high})


@converts("Identity")
def identity(node: ONNXNode, x: Value) -> Value:
    """Returns x."""
    return x


@converts("Dropout", since=7)
def dropout(node: ONNXNode, x: Value, *, ratio: float = 0.5) -> Value:
    """Returns x without the mask, which has the type of x before version 10."""
    return x


@converts("Dropout", since=10)
def dropout_bool_mask(node: ONNXNode, x: Value, *, ratio: float = 0.5) -> tuple[Value, ...]:
    """Returns x and a mask that keeps every element."""
    return x, filled(node.shape(x), np.True_)

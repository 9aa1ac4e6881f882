"""Elementwise arithmetic on several operands, broadcast as in numpy.

Sub and Div with an f32 constant as second operand become a sum or a product if this gives the same bits: Sub with the
negated constant, Div with the reciprocals of powers of two. Sums and products fuse with other operations and have
better integer forms. A constant that the model stores as integers is left as it is.
"""

from collections.abc import Sequence
from functools import reduce
from typing import TypeGuard

import numpy as np
from xdsl.dialects.builtin import BoolAttr, f64

from qmlir.dialects.nn.activation import LeakyReluOp
from qmlir.dialects.nn.base import bound
from qmlir.dialects.nn.casts import CastOp
from qmlir.dialects.nn.elementary import ReciprocalOp, SqrtOp
from qmlir.dialects.nn.elementwise import (
    AddOp,
    DivOp,
    MaximumOp,
    MinimumOp,
    ModOp,
    MulOp,
    PowOp,
    PReluOp,
    SubOp,
)
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.values import Constant, Dequantized, Value
from qmlir.ir.dtypes import dtype_of
from qmlir.ir.interfaces import Array, TensorOp, element_of


@converts("Add", since=7)
def add(node: Node, a: Value, b: Value) -> Value:
    """y = a + b."""
    return node.compute(AddOp, [a, b])


@converts("Mul", since=7)
def mul(node: Node, a: Value, b: Value) -> Value:
    """y = a · b."""
    return node.compute(MulOp, [a, b])


@converts("Sub", since=7)
def sub(node: Node, a: Value, b: Value) -> Value:
    """y = a − b; computed as a + (−b) if b is an f32 constant."""
    if _is_float(b):
        return node.compute(AddOp, [a, Constant(-b.array, b.name)])
    return node.compute(SubOp, [a, b])


@converts("Div", since=7)
def div(node: Node, a: Value, b: Value) -> Value:
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


@converts("Mod", since=10)
def mod(node: Node, a: Value, b: Value, *, fmod: int = 0) -> Value:
    """The remainder of a / b, with the divisor's sign; with `fmod` it has the dividend's sign, as in C."""
    return node.compute(ModOp, [a, b], {"truncated": BoolAttr.from_bool(bool(fmod))})


@converts("Pow", since=7)
def power(node: Node, a: Value, b: Value) -> Value:
    """y = a^b in a's type, by way of f64 if the types differ; constant exponents 1, 2, 0.5 and −1 are simplified."""
    if node.element(a) == "f32" and isinstance(b, Constant) and b.array.size == 1 and b.array.ndim <= node.rank(a):
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
def maximum(node: Node, *inputs: Value) -> Value:
    """The elementwise maximum of the inputs."""
    return _chained(node, MaximumOp, inputs)


@converts("Min", since=6)
def minimum(node: Node, *inputs: Value) -> Value:
    """The elementwise minimum of the inputs."""
    return _chained(node, MinimumOp, inputs)


@converts("Sum", since=6)
def total(node: Node, *inputs: Value) -> Value:
    """The elementwise sum of the inputs, added in order."""
    return _chained(node, AddOp, inputs)


@converts("Mean", since=6)
def mean(node: Node, *inputs: Value) -> Value:
    """The elementwise mean: the inputs added in order, divided by the number of inputs."""
    if len(inputs) == 1:
        return inputs[0]
    summed = _chained(node, AddOp, inputs, part="sum")
    count = np.array(len(inputs)).astype(dtype_of(element_of(node.builder.ssa(summed))))
    return div(node, summed, Constant(count))


def _chained(node: Node, op: type[TensorOp], inputs: Sequence[Value], part: str | None = None) -> Value:
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
def prelu(node: Node, x: Value, slope: Value) -> Value:
    """y = slope · x where x < 0, else x; a single constant slope makes a LeakyRelu."""
    if isinstance(slope, Constant) and slope.array.size == 1 and slope.array.dtype == np.float32:
        return node.compute(LeakyReluOp, [x], {"alpha": bound(float(slope.array.reshape(())))})
    return node.compute(PReluOp, [x, slope])

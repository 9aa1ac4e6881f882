"""Arithmetic on several operands, broadcast as in numpy.

Sub and Div of f32 by constants become a sum or a product where that gives the same bits, a negated constant, the
reciprocal of a power of two: these fuse and have better integer forms. A constant that the model stores as integers is
left as it is.
"""

from collections.abc import Sequence
from functools import reduce
from typing import TypeGuard

import numpy as np
from xdsl.dialects.builtin import BoolAttr, f64

from qmlir.dialects.dtypes import dtype_of
from qmlir.dialects.interfaces import Array, TensorOp, element_of
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


@converts("Add", since=7)
def add(node: Node, a: Value, b: Value) -> Value:
    """a + b."""
    return node.compute(AddOp, [a, b])


@converts("Mul", since=7)
def mul(node: Node, a: Value, b: Value) -> Value:
    """a · b."""
    return node.compute(MulOp, [a, b])


@converts("Sub", since=7)
def sub(node: Node, a: Value, b: Value) -> Value:
    """a − b, as a + (−b) where b is constant."""
    if _is_float(b):
        return node.compute(AddOp, [a, Constant(-b.array, b.name)])
    return node.compute(SubOp, [a, b])


@converts("Div", since=7)
def div(node: Node, a: Value, b: Value) -> Value:
    """a / b, as a · (1/b) where b is constant and every 1/b exact."""
    if _is_float(b) and _is_power_of_two(b.array):
        return node.compute(MulOp, [a, Constant(np.float32(1) / b.array, b.name)])
    return node.compute(DivOp, [a, b])


def _is_float(value: Value) -> TypeGuard[Constant]:
    """Whether a value is a constant of f32, and not of integers that stand for them."""
    return isinstance(value, Constant) and not isinstance(value, Dequantized) and value.array.dtype == np.float32


def _is_power_of_two(array: Array) -> bool:
    """Whether each element is ±2^k with a reciprocal that is a normal number too."""
    mantissa, exponent = np.frexp(array)
    return bool(np.all((np.abs(mantissa) == 0.5) & (np.abs(exponent) < 125)))


@converts("Mod", since=10)
def mod(node: Node, a: Value, b: Value, *, fmod: int = 0) -> Value:
    """The remainder with the divisor's sign, or, as C's, with the dividend's."""
    return node.compute(ModOp, [a, b], {"truncated": BoolAttr.from_bool(bool(fmod))})


@converts("Pow", since=7)
def power(node: Node, a: Value, b: Value) -> Value:
    """a^b in a's type; of two types in f64. Squares, roots and reciprocals where a constant says so."""
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
    """The greatest."""
    return _chained(node, MaximumOp, inputs)


@converts("Min", since=6)
def minimum(node: Node, *inputs: Value) -> Value:
    """The least."""
    return _chained(node, MinimumOp, inputs)


@converts("Sum", since=6)
def total(node: Node, *inputs: Value) -> Value:
    """The sum, in order."""
    return _chained(node, AddOp, inputs)


@converts("Mean", since=6)
def mean(node: Node, *inputs: Value) -> Value:
    """The sum, in order, divided by the number of inputs."""
    if len(inputs) == 1:
        return inputs[0]
    summed = _chained(node, AddOp, inputs, part="sum")
    count = np.array(len(inputs)).astype(dtype_of(element_of(node.builder.ssa(summed))))
    return div(node, summed, Constant(count))


def _chained(node: Node, op: type[TensorOp], inputs: Sequence[Value], part: str | None = None) -> Value:
    """The inputs combined one after another."""
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
    """x, or slope · x below 0; one constant slope for all is that of LeakyRelu."""
    if isinstance(slope, Constant) and slope.array.size == 1 and slope.array.dtype == np.float32:
        return node.compute(LeakyReluOp, [x], {"alpha": bound(float(slope.array.reshape(())))})
    return node.compute(PReluOp, [x, slope])

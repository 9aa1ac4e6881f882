"""Add, Sub, Mul and Div, broadcast as in numpy.

nn has a sum and a product. Sub and Div become one of them only where that gives the same bits: a negated constant, the
reciprocal of a power of two.
"""

import numpy as np

from qmlir.dialects.interfaces import Array
from qmlir.dialects.nn.elementwise import AddOp, MulOp
from qmlir.frontends.onnx.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.onnx.values import Constant, Refusal, Value


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
    """a − b as a + (−b), −b at import where b is constant."""
    if isinstance(b, Constant) and b.array.dtype == np.float32:
        return node.compute(AddOp, [a, Constant(-b.array, b.name)])
    negated = node.compute(MulOp, [b, Constant(np.array(-1, np.float32))], part="negated")
    return node.compute(AddOp, [a, negated])


@converts("Div", since=7)
def div(node: Node, a: Value, b: Value) -> Value:
    """a / b as a · (1/b) where b is constant and every 1/b exact."""
    if not isinstance(b, Constant):
        raise Refusal("its divisor is computed at run time, and qmlir divides by constants")
    if b.array.dtype != np.float32 or not _is_power_of_two(b.array):
        raise Refusal("it divides by a constant other than powers of two, whose reciprocal is not exact")
    return node.compute(MulOp, [a, Constant(np.float32(1) / b.array, b.name)])


def _is_power_of_two(array: Array) -> bool:
    """Whether each element is ±2^k with a reciprocal that is a normal number too."""
    mantissa, exponent = np.frexp(array)
    return bool(np.all((np.abs(mantissa) == 0.5) & (np.abs(exponent) < 125)))

"""QuantizeLinear and DequantizeLinear whose stored type is a float of 8 or 4 bits: computed in float32 between casts.

These types are storage: a value is divided by its scale and rounded to the nearest float of 8 or 4 bits.
"""

import numpy as np
from xdsl.dialects.builtin import AnyFloat, f32
from xdsl.ir import Attribute

from qmlir.errors import UnsupportedError
from qmlir.frontends.function import Constant, Value
from qmlir.frontends.onnx.node import ONNXNode
from qmlir.frontends.onnx.types import element_code, element_type
from qmlir.ir.interfaces import element_of
from qmlir.ir.types import element_type_of


def is_small_float(element: Attribute) -> bool:
    """Whether an element type is a float of 8 bits or fewer."""
    return isinstance(element, AnyFloat) and element.bitwidth <= 8


def holds_small_floats(x: Value) -> bool:
    """Whether a tensor's elements are floats of 8 bits or fewer."""
    return is_small_float(element_type_of(x.array.dtype) if isinstance(x, Constant) else element_of(x))


def stored_float(zero_point: Value | None, output_dtype: int) -> Attribute | None:
    """The float type to which a QuantizeLinear rounds: that of its zero point or attribute; None for integers.

    Raises:
        UnsupportedError: The zero point is not 0.
    """
    if zero_point is None:
        element = element_type(output_dtype) if output_dtype else None
        return element if element is not None and is_small_float(element) else None
    if not holds_small_floats(zero_point):
        return None
    if not isinstance(zero_point, Constant) or zero_point.array.astype(np.float32).any():
        raise UnsupportedError("it rounds to floats, and its zero point is not 0")
    return element_type_of(zero_point.array.dtype)


def quantized_float(node: ONNXNode, x: Value, scale: Value, element: Attribute, saturate: int) -> Value:
    """Returns x / scale, divided in f32 and rounded to a small float; the scale broadcasts against x."""
    steps = node.newest("Div", node.widened(x), node.widened(scale))
    return node.newest("Cast", steps, to=element_code(element), saturate=saturate)


def dequantized_float(node: ONNXNode, x: Value, scale: Value, zero_point: Value | None) -> Value:
    """Returns (x − zero_point) · scale, computed in f32, in the type of the scale, which broadcasts against x."""
    half, number = node.half_of(scale), _f32(node, x)
    if zero_point is not None:
        number = node.newest("Sub", number, _f32(node, zero_point))
    y = node.newest("Mul", number, node.widened(scale))
    return y if half is None else node.newest("Cast", y, to=element_code(half))


def _f32(node: ONNXNode, x: Value) -> Value:
    return Constant(x.array.astype(np.float32), x.name) if isinstance(x, Constant) else node.converted(x, f32)

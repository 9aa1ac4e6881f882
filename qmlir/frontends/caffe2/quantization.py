"""Operators between floats and integers."""

from xdsl.dialects.builtin import f32

from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.errors import UnsupportedError
from qmlir.frontends.caffe2.node import Caffe2Node
from qmlir.frontends.converters import Table
from qmlir.frontends.function import Value

converts = Table()


@converts("Int8Quantize")
def int8_quantize(node: Caffe2Node, x: Value) -> Value:
    """Quantizes floats to the scale and the zero point of the arguments; halves round to even, ends saturate."""
    node.stated_type()
    if node.is_quantized(x):
        raise node.error("its input must be floats", str(node.type_of(x)))
    if node.element(x) != "f32":
        raise UnsupportedError(f"it quantizes {node.element(x)}, and qmlir f32")
    return node.finished(x)


@converts("Int8Dequantize")
def int8_dequantize(node: Caffe2Node, x: Value) -> Value:
    """The real numbers that integers stand for."""
    node.require_quantized(x)
    return node.cast(DequantizeCastOp, node.quantized(x), f32)

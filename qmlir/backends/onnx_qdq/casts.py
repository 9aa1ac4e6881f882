"""Between element types, and between real values and the integers that store them."""

from qmlir.backends.forms import NoForm
from qmlir.backends.onnx_qdq.exporters import exports
from qmlir.backends.onnx_qdq.graph import tensor_type
from qmlir.backends.onnx_qdq.values import Values, stored_dtype
from qmlir.dialects import nn
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.rewriting import tensor_name


@exports(nn.CastOp)
def cast(op: nn.CastOp, values: Values) -> None:
    """Cast, which leaves open what becomes of a float beyond the range of an integer."""
    order, dtype = values.order(op.x), stored_dtype(op.y)
    saturate = 0 if not bool(op.saturate) and dtype.name.startswith("float8") else None
    y = values.graph.node("Cast", values.stored(op.x, order), to=tensor_type(dtype), dtype=dtype, saturate=saturate)
    values.define(op.y, y, order)


@exports(nn.BitcastOp)
def bitcast(op: nn.BitcastOp, values: Values) -> None:
    """BitCast."""
    order, dtype = values.order(op.x), stored_dtype(op.y)
    y = values.graph.node("BitCast", values.stored(op.x, order), to=tensor_type(dtype), dtype=dtype)
    values.define(op.y, y, order)


@exports(QuantizeCastOp)
def quantize_cast(op: QuantizeCastOp, values: Values) -> None:
    """QuantizeLinear, and what the storage takes besides."""
    _require_uniform(op)
    order = values.order(op.input)
    x = values.bounded(op.result, values.real(op.input, order))
    values.quantize(op.result, x, order, tensor_name(op.input))


@exports(DequantizeCastOp)
def dequantize_cast(op: DequantizeCastOp, values: Values) -> None:
    """The value's DequantizeLinear, which other readers share."""
    _require_uniform(op)
    order = values.order(op.input)
    values.hold(op.result, values.real(op.input, order), order)


@exports(StorageCastOp)
def storage_cast(op: StorageCastOp, values: Values) -> None:
    """The same bits; ONNX says of integers that do not fit their new type that they keep their low bits."""
    _require_uniform(op)
    order, dtype = values.order(op.input), stored_dtype(op.result)
    stored = values.stored(op.input, order)
    if stored.dtype != dtype:
        stored = values.graph.node("Cast", stored, to=tensor_type(dtype), dtype=dtype)
    values.hold(op.result, stored, order)


def _require_uniform(op: QuantizeCastOp | DequantizeCastOp | StorageCastOp) -> None:
    found = quantized_element(op.input.type) or quantized_element(op.result.type)
    if not isinstance(found, UniformType):
        got = str(op.quantized_type)
        raise NoForm("needs integers with one scale, or one for each index of one axis", got, "quantize per axis")

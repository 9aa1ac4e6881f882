"""Between element types, and between real values and the integers that store them."""

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from qmlir.backends.forms import NoForm
from qmlir.backends.onnx_qdq.exporters import exports
from qmlir.backends.onnx_qdq.graph import Tensor, tensor_type
from qmlir.backends.onnx_qdq.values import Values, stored_dtype
from qmlir.dialects import nn
from qmlir.dialects.interfaces import element_of
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.rewriting import tensor_name


@exports(nn.CastOp)
def cast(op: nn.CastOp, values: Values) -> None:
    """Cast, which leaves open what becomes of a float beyond the range of an integer."""
    order, dtype = values.order(op.x), stored_dtype(op.y)
    saturate = 0 if not bool(op.saturate) and dtype.name.startswith("float8") else None
    x = _within(dtype, op.x, values.stored(op.x, order), values)
    y = values.graph.node("Cast", x, to=tensor_type(dtype), dtype=dtype, saturate=saturate)
    values.define(op.y, y, order)


def _within(dtype: np.dtype[Any], value: SSAValue, x: Tensor, values: Values) -> Tensor:
    """Clips the real values of a quantized tensor to the range of an integer type if its storage reaches beyond.

    Quantization alone takes 255 to 256 where the scale is 4, which Cast may make 0. Only the limits of types of 8 and
    16 bits are numbers that float32 has.
    """
    element = element_of(value.owner.input) if isinstance(value.owner, DequantizeCastOp) else None
    if not isinstance(element, UniformType) or dtype.kind not in "iu" or dtype.itemsize > x.dtype.itemsize // 2:
        return x
    limits = np.iinfo(dtype)
    ends = [
        np.multiply(scale, np.subtract(q, zero_point))
        for scale, zero_point in zip(element.scales, element.zero_points, strict=True)
        for q in (element.storage_min, element.storage_max)
    ]
    if min(ends) > limits.min - 1 and max(ends) < limits.max + 1:
        return x
    bounds = [values.graph.constant(np.array(limit, x.dtype)) for limit in (limits.min, limits.max)]
    return values.graph.node("Clip", x, *bounds)


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

"""Forms of casts: between element types, and between real values and stored integers."""

from typing import Any

import numpy as np
from xdsl.ir import SSAValue, Use

from qmlir.backends.forms import Forms, constant, require_uniform
from qmlir.backends.onnx.graph import Tensor, tensor_type
from qmlir.backends.onnx.values import Values, stored_dtype
from qmlir.dialects import nn
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.elementwise import WhereOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of
from qmlir.ir.rewriting import tensor_name

exports: Forms[Values] = Forms()


@exports(nn.CastOp)
def cast(op: nn.CastOp, values: Values) -> None:
    """Writes Cast; its result is undefined for a float beyond the range of an integer type."""
    order, dtype = values.order(op.x), stored_dtype(op.y)
    saturate = 0 if not bool(op.saturate) and dtype.name.startswith("float8") else None
    x = _within(dtype, op.x, values.stored(op.x, order), values)
    y = values.graph.node("Cast", x, to=tensor_type(dtype), dtype=dtype, saturate=saturate)
    values.define(op.y, y, order)


def _within(dtype: np.dtype[Any], value: SSAValue, x: Tensor, values: Values) -> Tensor:
    """Clips the real values of a quantized tensor to an integer type's range if the stored range reaches beyond it.

    Quantization alone can leave the range: with a scale of 4, 255 becomes 256, which Cast may turn into 0. The function
    clips for integer types of half the float's width or less, because only their limits are exact in the float type.
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
    return values.clipped(x, limits.min, limits.max)


@exports(nn.BitcastOp)
def bitcast(op: nn.BitcastOp, values: Values) -> None:
    """Writes BitCast."""
    order, dtype = values.order(op.x), stored_dtype(op.y)
    y = values.graph.node("BitCast", values.stored(op.x, order), to=tensor_type(dtype), dtype=dtype)
    values.define(op.y, y, order)


@exports(QuantizeCastOp)
def quantize_cast(op: QuantizeCastOp, values: Values) -> None:
    """Writes QuantizeLinear, behind a Clip if the storage range is narrower than its type."""
    require_uniform(op)
    order = values.order(op.input)
    x = values.bounded(op.result, values.real(op.input, order))
    values.quantize(op.result, x, order, tensor_name(op.input))


@exports(DequantizeCastOp)
def dequantize_cast(op: DequantizeCastOp, values: Values) -> None:
    """Writes the value's DequantizeLinear, which all readers of its real values share.

    Weights whose scales are not those of output channels are written as floats: onnxruntime's optimizations take their
    scales for those of output channels. So is what a choice takes: QLinearWhere, which they make of it, has one scale.
    """
    require_uniform(op)
    held = op.input.owner
    stored = constant(held.input if isinstance(held, StorageCastOp) and op.quantized.is_signed else op.input)
    if stored is not None and any(map(_misreads_scales, op.result.uses)):
        values.hold(op.result, values.graph.constant(op.evaluate(stored)[0]))
        return
    order = values.order(op.input)
    values.hold(op.result, values.real(op.input, order), order)


def _misreads_scales(use: Use) -> bool:
    """Whether a value is read in a place where onnxruntime takes scales along another axis, or a single one."""
    op, cast = use.operation, use.operation.operands[use.index].owner
    if not isinstance(cast, DequantizeCastOp) or not cast.quantized.is_per_axis:
        return False
    if isinstance(op, WhereOp):
        return True
    return isinstance(op, WeightedOp) and cast.result is op.w and cast.quantized.axis != op.CHANNEL_AXIS


@exports(StorageCastOp)
def storage_cast(op: StorageCastOp, values: Values) -> None:
    """Writes the same bits under another type, by Cast: ONNX's Cast between integers keeps the low bits."""
    require_uniform(op)
    order, dtype = values.order(op.input), stored_dtype(op.result)
    values.hold(op.result, values.graph.cast(values.integers(op.input, order), dtype), order)

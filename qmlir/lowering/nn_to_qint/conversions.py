"""Integer forms of conversions between plain integers, truth values and quantized numbers."""

import numpy as np
from xdsl.dialects.builtin import IntegerType, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.casts import converted
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.qint.requantize import width_of
from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, element_of
from qmlir.ir.types import dtype_of
from qmlir.ir.weights import WeightsAttr
from qmlir.lowering.nn_to_qint.functions import dequantized
from qmlir.numerics import fixed_point
from qmlir.policies.conversions import table_width


def lower_quantized_integers(op: QuantizeCastOp, x: SSAValue, quantization: str) -> list[Operation]:
    """Lowers the quantization of truth values to a choice, and that of integers to a table.

    Args:
        op: The quantize cast.
        x: What `quantized_integers` finds for it; integers beyond the table saturate, as its ends do.
        quantization: How the cast rounds, a name in `fixed_point.QUANTIZATIONS`.
    """
    result = uniform(op.result)
    if element_of(x) == i1:
        false, true = (nn.ConstantOp(q) for q in _stored(np.array([0, 1], np.float32), result, quantization))
        return [false, true, nn.WhereOp.make([x, true.y, false.y])]
    width = table_width(result)
    assert width is not None
    half = 1 << width - 1
    table = _stored(np.arange(-half, half).astype(np.float32), result, quantization)
    new: list[Operation] = []
    element = element_of(x)
    if width_of(x) > width:
        low, high = (nn.ConstantOp(np.array(end, dtype_of(element))) for end in (-half, half - 1))
        least = nn.MaximumOp.make([x, low.y])
        bounded = nn.MinimumOp.make([least.y, high.y])
        new += [low, high, least, bounded]
        x = bounded.y
    if element != IntegerType(width):
        new.append(nn.CastOp.make([x], element=IntegerType(width)))
        x = new[-1].results[0]
    return [*new, qint.LookupOp.make([x], {"table": WeightsAttr(table)})]


def lower_converted_integers(op: nn.CastOp, type: UniformType, x: SSAValue) -> list[Operation]:
    """Lowers the conversion of stored integers of a quantized type, with signed storage."""
    element: Attribute = element_of(op.y)
    if element == i1:
        zero = nn.ConstantOp(np.array(type.zero_point, type.numpy_dtype))
        equal = nn.EqualOp.make([x, zero.y])
        return [zero, equal, nn.NotOp.make([equal.y])]
    narrow = i32 if element == i64 else element
    table = converted(dequantized(type), dtype_of(narrow))
    new: list[Operation] = [qint.LookupOp.make([x], {"table": WeightsAttr(table)})]
    if element == i64:
        new.append(nn.CastOp.make([new[0].results[0]], element=i64))
    return new


def _stored(real: Array, type: UniformType, quantization: str) -> Array:
    return fixed_point.quantize(
        real, type.scale, type.zero_point, type.storage_min, type.storage_max, type.numpy_dtype, quantization
    )

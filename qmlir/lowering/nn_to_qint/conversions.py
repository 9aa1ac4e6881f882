"""Integer forms of conversions between plain integers, truth values and quantized numbers."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, i1, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.casts import converted
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.qint.requantize import width_of
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, element_of
from qmlir.ir.types import dtype_of
from qmlir.lowering.nn_to_qint.functions import dequantized, look_up
from qmlir.numerics import fixed_point
from qmlir.policies.conversions import table_width


def lower_quantized_integers(op: QuantizeCastOp, x: SSAValue, ways: Sequence[str]) -> list[Operation]:
    """Lowers the quantization of truth values to a choice, and that of integers to a table.

    Args:
        op: The quantize cast.
        x: What `quantized_integers` finds for it; integers beyond the table saturate, as its ends do.
        ways: How the cast rounds its elements, then, if otherwise, the last elements, fewer than eight: names in
            `fixed_point.QUANTIZATIONS`. Those hold for integers; truth values round as the first says.
    """
    result = uniform(op.result)
    if element_of(x) == i1:
        false, true = (nn.ConstantOp(q) for q in _stored(np.array([0, 1], np.float32), result, ways[0]))
        return [false, true, nn.WhereOp.make([x, true.y, false.y])]
    width = table_width(result)
    assert width is not None
    half = 1 << width - 1
    tables = [_stored(np.arange(-half, half).astype(np.float32), result, way) for way in ways]
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
    return [*new, *look_up(x, tables)]


def lower_converted_integers(op: nn.CastOp, type: UniformType, x: SSAValue) -> list[Operation]:
    """Lowers the conversion of stored integers of a quantized type, with signed storage."""
    element: Attribute = element_of(op.y)
    if element == i1:
        zero = nn.ConstantOp(np.array(type.zero_point, type.numpy_dtype))
        equal = nn.EqualOp.make([x, zero.y])
        return [zero, equal, nn.NotOp.make([equal.y])]
    narrow = i32 if element == i64 else element
    back = op.x.owner
    assert isinstance(back, DequantizeCastOp)
    ways = [back.quantization] if back.rest is None else [back.quantization, back.rest]
    new = look_up(x, [converted(dequantized(type, way, back.sign_shift), dtype_of(narrow)) for way in ways])
    if element == i64:
        new.append(nn.CastOp.make([new[-1].results[0]], element=i64))
    return new


def _stored(real: Array, type: UniformType, quantization: str) -> Array:
    return fixed_point.quantize(
        real, type.scale, type.zero_point, type.storage_min, type.storage_max, type.numpy_dtype, quantization
    )

"""Stores constants that have a scale for each index of an axis in one scale, where that changes no number.

Integer sums share one scale for each output channel, and activations have one scale. A model file may give a constant
scales along another axis, such as one for each input channel of its weights. If all these scales are one scale times
whole numbers, and the integers times these numbers fit the storage type, the constant has the same numbers in one
scale.
"""

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.fact import restated
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.numerics import fixed_point


def in_one_scale(value: SSAValue) -> SSAValue:
    """Returns a quantized constant in one scale if it has the same numbers in it; else the value itself.

    The new constant stands before the old one, which keeps its other readers.
    """
    constant, type = value.owner, element_of(value)
    if not isinstance(constant, ConstantOp) or not isinstance(type, UniformType) or not type.is_per_axis:
        return value
    if (found := _in_one_scale(constant.value.array, type)) is None:
        return value
    stored, single = found
    new = ConstantOp(stored, TensorType(single, shape_of(value)), restated(constant))
    new.y.name_hint = value.name_hint
    Rewriter.insert_op(new, InsertPoint.before(constant))
    return new.y


def _in_one_scale(stored: Array, type: UniformType) -> tuple[Array, UniformType] | None:
    """The integers of the same numbers in one scale, and that type; None if some number would change."""
    if (same := type.in_one_scale()) is not None:
        return stored, same
    scales, zero_points = type.parameters_along(stored.ndim)
    least = min(type.scales, default=1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # infinite factors and their products fit no storage type
        wide = (stored.astype(np.float64) - zero_points) * np.rint(scales / least)
    if not wide.size or not type.storage_min <= wide.min() <= wide.max() <= type.storage_max:
        return None
    before = fixed_point.dequantize(stored, scales, zero_points)
    integers = wide.astype(type.numpy_dtype)
    single = UniformType.per_tensor(type.storage, least, 0, type.storage_min, type.storage_max, type.expressed)
    after = fixed_point.dequantize(integers, np.array(least), np.array(0))
    return (integers, single) if np.array_equal(before, after) else None

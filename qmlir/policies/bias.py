"""Defines what the bias of a contraction adds to its sums, for every storage type of the bias.

All passes and targets take the bias from here. The sums count in steps of s_x · s_w, which differ by output channel. A
bias q with the scale s_b and the zero point z_b adds, rounded half to even,

    rint((q − z_b) · s_b / (s_x · s_w))

A float bias has s_b = 1 and z_b = 0. A plain integer bias counts in the steps of the sums. A quantized 32-bit bias does
so too, so that its quotient is a whole number before rounding; an 8-bit or 16-bit bias has a scale of its own. All
values are known when the network is lowered: at run time, integers are added.
"""

import numpy as np
import numpy.typing as npt

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.ir.interfaces import element_of

Float64s = npt.NDArray[np.float64]

SAME_SCALE = 2.0**-20
"""Two scales whose relative difference is below this are meant to be equal: float32 has 24 bits."""


def bias_constant(op: WeightedOp) -> ConstantOp | None:
    """Returns the constant that holds the bias, also behind a dequantization; None if it is computed or absent."""
    owner = op.b.owner if op.b is not None else None
    if isinstance(owner, DequantizeCastOp) and quantized_element(owner.input.type) is not None:
        owner = owner.input.owner
    return owner if isinstance(owner, ConstantOp) else None


def bias_numbers(op: WeightedOp) -> Float64s | None:
    """Returns the real numbers of a constant bias; None if the bias is computed or absent."""
    constant = bias_constant(op)
    if constant is None or op.b is None:
        return None
    stored = constant.value.array
    back = op.b.owner
    return np.asarray(back.evaluate(stored)[0] if isinstance(back, DequantizeCastOp) else stored, np.float64)


def bias_in_steps(op: WeightedOp) -> Float64s | None:
    """Returns the bias in steps of the sums, before it is rounded; None if the bias is computed or absent.

    Scales that are meant to be equal (`SAME_SCALE`) count as equal, because exporters round s_x · s_w to float32.
    """
    constant = bias_constant(op)
    if constant is None or op.b is None:
        return None
    numbers, own = constant.value.array.astype(np.float64), element_of(constant.y)
    if isinstance(own, UniformType):
        numbers = numbers - np.array(own.zero_points)
    elif not is_float(op.b):
        return numbers
    data, weights = element_of(op.x), element_of(op.w)
    assert isinstance(data, UniformType)
    assert isinstance(weights, UniformType)
    scales = np.array(own.scales) if isinstance(own, UniformType) else np.ones(1)
    with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
        ratios = scales / (data.scale * np.array(weights.scales))
        return numbers * np.where(np.abs(ratios - 1) < SAME_SCALE, 1.0, ratios)


def real_bias(constant: ConstantOp) -> Float64s:
    """Returns the real numbers of a constant bias that is stored as floats or in a quantized type."""
    numbers, own = constant.value.array.astype(np.float64), element_of(constant.y)
    if not isinstance(own, UniformType):
        return numbers
    return (numbers - np.array(own.zero_points)) * np.array(own.scales)

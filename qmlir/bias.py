"""What the bias of a contraction adds to its sums, whatever stores it: the one place that says so. No pass, no target.

The sums count in steps of s_x · s_w, in each output channel its own. A bias q with the scale s_b and the zero point z_b
adds, half to even,

    rint((q − z_b) · s_b / (s_x · s_w))

A bias of floats has s_b = 1 and z_b = 0; plain integers count in the steps of the sums. Of 32 bits a quantized bias
does so too, and what is rounded is a whole number already; of 8 or 16 bits it has a scale of its own. All of this is
known when the network is lowered: what runs adds integers.
"""

import numpy as np
import numpy.typing as npt

from qmlir.dialects.interfaces import element_of
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element

Float64s = npt.NDArray[np.float64]

SAME_SCALE = 2.0**-20
"""Two scales that differ by less than this, relatively, are meant to be the same: float32 has 24 bits."""


def bias_constant(op: WeightedOp) -> ConstantOp | None:
    """The constant that a bias is, or is a dequantization of; None where it is computed, or there is none."""
    owner = op.b.owner if op.b is not None else None
    if isinstance(owner, DequantizeCastOp) and quantized_element(owner.input.type) is not None:
        owner = owner.input.owner
    return owner if isinstance(owner, ConstantOp) else None


def bias_numbers(op: WeightedOp) -> Float64s | None:
    """The real numbers that a constant bias stands for; None of a computed one, or of none."""
    constant = bias_constant(op)
    if constant is None or op.b is None:
        return None
    stored = constant.value.array
    back = op.b.owner
    return np.asarray(back.evaluate(stored)[0] if isinstance(back, DequantizeCastOp) else stored, np.float64)


def bias_in_steps(op: WeightedOp) -> Float64s | None:
    """What the bias adds, in steps of the sums and before it is rounded to these; None of a computed one, or of none.

    Scales that are meant to be the same (`SAME_SCALE`) are: exporters round the product of two to float32.
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
    """The real numbers that a constant bias of floats, or of a quantized type, stands for."""
    numbers, own = constant.value.array.astype(np.float64), element_of(constant.y)
    if not isinstance(own, UniformType):
        return numbers
    return (numbers - np.array(own.zero_points)) * np.array(own.scales)

"""Operands and results of operations on quantized types, biases included: how they are stored and what they mean."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.base import NNOp, is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.quant.types import UniformType, quantized_element
from qmlir.ir.interfaces import element_of
from qmlir.numerics import Float64s

# ---------------------------------------------------------------------------------------------------------------
# Describes the operands and results of operations on quantized types, and how they are stored.
#
# The functions here state facts and do not depend on a target; legality.py and runtime_kernels.py decide by these
# facts.


def storage_name(storage: IntegerType) -> str:
    """Returns a storage type as targets and quantized types write it: i8, u8."""
    unsigned = storage.signedness.data == Signedness.UNSIGNED
    return f"{'u' if unsigned else 'i'}{storage.width.data}"


def data_operands(op: Operation) -> Sequence[SSAValue]:
    """The operands whose types a quantized operation needs: all but bias and indices; empty off the nn level."""
    return op.data_operands() if isinstance(op, NNOp | MovementOp) else ()


def data_values(op: Operation) -> Sequence[SSAValue]:
    """The data operands, including weights, and the results; empty if there are no data operands."""
    operands = data_operands(op)
    return (*operands, *op.results) if operands else ()


def computed_storage(storage: IntegerType) -> str:
    """Returns the type in which integers of a storage type are computed: the narrowest of i8, i16, i32 that fits."""
    return f"i{next(bits for bits in (8, 16, 32) if storage.width.data <= bits)}"


def is_weight(value: SSAValue, op: Operation) -> bool:
    """Whether `op` reads `value` as its weights."""
    return isinstance(op, WeightedOp) and value is op.w


def uniform(value: SSAValue) -> UniformType:
    """The quantized element type of a value known to have one."""
    element = element_of(value)
    assert isinstance(element, UniformType)
    return element


def widest(element: UniformType) -> int:
    """Returns the largest magnitude of a stored integer minus its zero point."""
    return max(abs(element.storage_min - element.zero_point), abs(element.storage_max - element.zero_point))


def chooses_integers(op: nn.MaximumOp | nn.MinimumOp) -> bool:
    """Whether stored integers can be compared directly, because operands and result have the same type."""
    return uniform(op.lhs) == uniform(op.rhs) == uniform(op.y)


def domain_bounds(op: FunctionOp, element: UniformType) -> tuple[float | None, float | None]:
    """Returns the ends of a function's domain; an end is None unless the type can represent numbers beyond it."""
    low, high = op.DOMAIN
    scales, points = np.array(element.scales), np.array(element.zero_points)
    least, most = ((q - points) * scales for q in (element.storage_min, element.storage_max))
    return low if least.min() < low else None, high if most.max() > high else None


# ---------------------------------------------------------------------------------------------------------------
# Defines what the bias of a contraction adds to its sums, for every storage type of the bias.
#
# All passes and targets take the bias from here. The sums count in steps of s_x · s_w, which differ by output channel.
# A bias q with the scale s_b and the zero point z_b adds, rounded half to even,
#
#     rint((q − z_b) · s_b / (s_x · s_w))
#
# A float bias has s_b = 1 and z_b = 0. A plain integer bias counts in the steps of the sums. A quantized 32-bit bias
# does so too, so that its quotient is a whole number before rounding; an 8-bit or 16-bit bias has a scale of its own.
# All values are known when the network is lowered: at run time, integers are added.


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

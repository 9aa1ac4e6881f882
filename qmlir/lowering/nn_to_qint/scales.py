"""Conversion of scales to integers: multipliers and shifts, and the limits of a clamp.

Callers have checked that the operation has an integer form (legality.py), so every factor here has a multiplier.
"""

from dataclasses import replace

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerType, StringAttr, i32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects.nn.base import Clamped
from qmlir.dialects.nn.contraction import MatMulOp
from qmlir.dialects.nn.elementwise import OperandPairOp
from qmlir.dialects.nn.functions import ReluOp
from qmlir.dialects.nn.quantizable import QuantizableOp, uniform
from qmlir.dialects.nn.reduction import GlobalAveragePoolOp, ReduceMeanOp
from qmlir.dialects.qint import RequantizeOp
from qmlir.dialects.qint.requantize import float32_parts, int32, int32s
from qmlir.dialects.qmlir import promises_powers_of_two
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.target import Target
from qmlir.errors import UnsupportedError
from qmlir.numerics import Array, fixed_point
from qmlir.numerics.contracts import CONTRACTS
from qmlir.policies.runtime_kernels import bounds_rounding, followed_runtime, no_wide_form, sign_shift, wide_rounding
from qmlir.policies.runtimes import Rounding

Limits = tuple[int, int]


def limits(op: Operation) -> Limits:
    """The stored integers between which a result is clamped: its storage range, narrowed by a fused clamp or a relu."""
    result = uniform(op.results[0])
    low, high = result.storage_min, result.storage_max
    if isinstance(op, ReluOp):
        low = stored(0.0, result)
    if isinstance(op, Clamped):
        by, moved = bounds_rounding(op, followed_runtime(op)), sign_shift(op)
        lower, upper = op.bounds()
        low = low if lower is None else stored(lower, result, by, moved)
        high = high if upper is None else stored(upper, result, by, moved)
    return low, high


def narrowing(op: Operation) -> dict[str, Attribute]:
    """The properties that bring sums to the stored integers of an operation's result: its zero point and limits."""
    low, high = limits(op)
    return {"zero_point": int32(uniform(op.results[0]).zero_point), "min": int32(low), "max": int32(high)}


def operand_zero_points(op: OperandPairOp | MatMulOp) -> dict[str, Attribute]:
    """The properties that subtract the zero points of two operands."""
    return {"lhs_zero_point": int32(uniform(op.lhs).zero_point), "rhs_zero_point": int32(uniform(op.rhs).zero_point)}


def stored(real: float, element: UniformType, by: str = "exact", moved: int = 0) -> int:
    """The stored integer nearest to a real number, within the storage range.

    Args:
        real: The number.
        element: How it is stored.
        by: How it is rounded: a name in `fixed_point.QUANTIZATIONS`, or `float32_shifted` to add the zero point before
            the rounding.
        moved: By how much stored integers are larger in the operation's source model (see `sign_shift`).
    """
    low, high = element.storage_min, element.storage_max
    if by == "float32_shifted":
        point = np.float32(element.zero_point + moved)
        with np.errstate(over="ignore"):
            steps = np.float32(real) / np.float32(element.scale) + point
        return int(np.clip(np.rint(np.float64(steps)) - moved, low, high))
    return int(fixed_point.quantize(np.array(real), element.scale, element.zero_point, low, high, np.int64, by))


def contract_of(function: func.FuncOp, target: Target) -> str:
    """The default rounding contract of a function's requantizations; the followed runtime may override it.

    If all scales are promised to be powers of two, `single` becomes `shift`. Results are the same, and the verifier
    checks that every multiplier is a power of two.
    """
    exact = target.contract == "single" and promises_powers_of_two(function)
    return "shift" if exact else target.contract


def sums_of(op: QuantizableOp, rounding: Rounding) -> tuple[IntegerType, Rounding]:
    """The type of an operation's accumulators, i64 where i32 might not hold its sums, and their rounding.

    Raises:
        UnsupportedError: The contract has no 64-bit form, or the factor between the scales is too large for it.
    """
    return (i32, rounding) if op.fits_32_bits() else (i64, wide(op, rounding))


def wide(op: QuantizableOp, rounding: Rounding) -> Rounding:
    """The rounding of an operation's sums of 64 bits.

    Raises:
        UnsupportedError: The contract has no 64-bit form, or the factor between the scales is too large for it.
    """
    if (found := wide_rounding(op, rounding)) is None:
        raise UnsupportedError(no_wide_form(rounding), code="accumulator")
    return fitted(op, found)


def fitted(op: QuantizableOp, rounding: Rounding) -> Rounding:
    """The rounding, if it takes the factors between an operation's scales.

    Raises:
        UnsupportedError: A factor is too large.
    """
    most = float(op.factors().max())
    if most >= 2.0 ** CONTRACTS[rounding.contract].max_shift:
        need = f"its scales are a factor of {most:g} apart, too far for {rounding.contract}"
        raise UnsupportedError(need, code="factor")
    return rounding


def multiplier_of(real: float, rounding: Rounding) -> tuple[int, int]:
    """The multiplier and the shift of one factor, as a rounding has them."""
    multipliers, shifts = _multipliers(np.array([real]), rounding)
    return int(multipliers[0]), int(shifts[0])


def _multipliers(real: Array, rounding: Rounding) -> tuple[Array, Array]:
    """The multipliers and the shifts of factors."""
    step = CONTRACTS[rounding.contract].step
    # Under a contract of powers of two, another factor keeps its exact multiplier, which the verifier then refuses.
    step = step if step < 1 << 30 else 1
    if rounding.factors is None:
        return fixed_point.quantize_multipliers(real, step)
    multipliers, shifts = np.array(rounding.factors.multipliers(real.reshape(-1).tolist(), step), np.int64).T
    return multipliers, shifts


def requantize(
    source: SSAValue, op: QuantizableOp, rounding: Rounding, *, input_zero_point: int = 0,
    multiplier: tuple[int, int] | None = None, zero_point: int | None = None, constant: float | None = None,
    bounds: Limits | None = None,
) -> RequantizeOp:  # fmt: skip
    """The requantization that brings integers to the scale of an operation's result.

    Args:
        source: Accumulators, or stored integers of another scale.
        op: The operation on quantized types; its factors become multipliers.
        rounding: How the product is rounded.
        input_zero_point: Subtracted from `source` first.
        multiplier: Multiplier and shift; by default those of the operation's factors.
        zero_point: Added last; by default the result's zero point.
        constant: Added before the rounding, under contracts that round a sum only; by default the zero point that the
            result has in the source model.
        bounds: Between which the result is clamped; by default, those of the operation.
    """
    result = uniform(op.results[0])
    low, high = limits(op) if bounds is None else bounds
    contract = CONTRACTS[rounding.contract]
    real = op.factors(rounding.dtype, product32=rounding.product32)
    multipliers, shifts = np.array([multiplier]).T if multiplier is not None else _multipliers(real, rounding)
    if contract.sums:
        zero_point = -sign_shift(op)
        constant = result.zero_point + sign_shift(op) if constant is None else constant
    return RequantizeOp.make(
        [source],
        {
            "input_zero_point": int32(input_zero_point),
            "multiplier": int32s(multipliers.tolist()),
            "shift": int32s(shifts.tolist()),
            "contract": StringAttr(rounding.contract),
            "constant": int32s(float32_parts(constant)) if contract.sums and constant is not None else None,
            "zero_point": int32(result.zero_point if zero_point is None else zero_point),
            "min": int32(low),
            "max": int32(high),
        },
        element=result.storage_type,
    )


def summed_from(op: Operation, rounding: Rounding) -> int:
    """The number that a mean subtracts from each stored integer before it sums them.

    It is the zero point. If the followed runtime sums the integers as the source model stores them (`rounding.stored`),
    it is the negated sign shift, which turns signed integers back into the integers of the source model.
    """
    return -sign_shift(op) if rounding.stored else uniform(op.operands[0]).zero_point


def mean(total: SSAValue, op: ReduceMeanOp | GlobalAveragePoolOp, rounding: Rounding) -> RequantizeOp:
    """The requantization that turns sums into means; its factor includes 1/count."""
    count = op.count()
    if rounding.stored:
        return _mean_of_stored(total, op, rounding, count)
    if rounding.contract == "shift" and count.bit_count() != 1:
        rounding = replace(rounding, contract="single")  # 1/count is not a power of two, whatever the scales are
    if not rounding.truncates:
        return requantize(total, op, rounding)
    ratio = uniform(op.operands[0]).scale / uniform(op.results[0]).scale
    divided = fixed_point.divided_multiplier(*fixed_point.quantize_multiplier(ratio), count)
    return requantize(total, op, rounding, multiplier=divided)


def _mean_of_stored(total: SSAValue, op: QuantizableOp, rounding: Rounding, count: int) -> RequantizeOp:
    """The mean acc · s_x / (s_y · n) + c in float32, where acc = Σ x of the integers that the source model stores.

    The constant c = z_y − z_x · s_x / s_y accounts for the zero points, as the source model stores them. A contract
    that rounds sums adds c before it rounds. Under any other contract, z_x · s_x / s_y is rounded separately, halves
    away from zero.
    """
    data, result, moved = uniform(op.operands[0]), uniform(op.results[0]), sign_shift(op)
    ratio = np.float32(data.scale) / np.float32(result.scale)
    source = np.float32(data.zero_point + moved)
    if CONTRACTS[rounding.contract].sums:
        factor = ratio * (np.float32(1) / np.float32(count))
        constant = np.float32(result.zero_point + moved) - source * np.float32(count) * factor
        multiplier = fixed_point.float_multiplier(float(factor))
        return requantize(total, op, rounding, multiplier=multiplier, constant=float(constant))
    steps = source * np.float32(data.scale) / np.float32(result.scale)
    zero_point = result.zero_point - int(np.trunc(steps + np.copysign(np.float32(0.5), steps)))
    return requantize(total, op, rounding, zero_point=zero_point)

"""From scales to integers: multipliers and shifts, and the limits of a clamp.

That there is an integer form at all, so that every factor here has a multiplier, has been proven (legality.py).
"""

from dataclasses import replace

import numpy as np
from xdsl.dialects import func
from xdsl.dialects.builtin import IntegerAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from qmlir.dialects.nn.base import Clamped
from qmlir.dialects.qint import RequantizeOp
from qmlir.dialects.qint.base import int32, int32s
from qmlir.dialects.qint.requantize import float32_parts
from qmlir.dialects.qmlir import UNSIGNED
from qmlir.dialects.quant import numerics
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.scales import promises_powers_of_two
from qmlir.legality import factors
from qmlir.quantized_values import uniform
from qmlir.runtime_kernels import bounds_rounding, followed_runtime
from qmlir.runtimes import Rounding
from qmlir.target import Target

Limits = tuple[int, int]


def limits(op: Operation) -> Limits:
    """The stored integers between which a result is clamped: its storage range, narrowed by a fused clamp."""
    result = uniform(op.results[0])
    low, high = result.storage_min, result.storage_max
    if isinstance(op, Clamped):
        by, moved = bounds_rounding(op, followed_runtime(op)), displaced(op)
        lower, upper = op.bounds()
        low = low if lower is None else stored(lower, result, by, moved)
        high = high if upper is None else stored(upper, result, by, moved)
    return low, high


def stored(real: float, element: UniformType, by: str = "exact", moved: int = 0) -> int:
    """The stored integer nearest to a real number, within the storage range.

    Args:
        real: The number.
        element: How it is stored.
        by: How it is rounded: a name in `numerics.QUANTIZATIONS`, or `float32_shifted`: the zero point is added first.
        moved: How much larger stored integers were in the operation's source.
    """
    low, high = element.storage_min, element.storage_max
    if by == "float32_shifted":
        point = np.float32(element.zero_point + moved)
        with np.errstate(over="ignore"):
            steps = np.float32(real) / np.float32(element.scale) + point
        return int(np.clip(np.rint(np.float64(steps)) - moved, low, high))
    return int(numerics.quantize(np.array(real), element.scale, element.zero_point, low, high, np.int64, by))


def contract_of(function: func.FuncOp, target: Target) -> str:
    """The rounding contract of a function's requantizations, where the runtime it follows has no say.

    Where scales are promised to be powers of two, `single` is `shift`: the same bits, and a verifier that holds every
    multiplier to a power of two.
    """
    exact = target.contract == "single" and promises_powers_of_two(function)
    return "shift" if exact else target.contract


def displaced(op: Operation) -> int:
    """How much larger an operation's stored integers were in its source; floats may round them differently there."""
    moved = op.attributes.get(UNSIGNED)
    return moved.value.data if isinstance(moved, IntegerAttr) else 0


def requantize(
    source: SSAValue, op: Operation, rounding: Rounding, *, bounds: Limits | None = None, input_zero_point: int = 0,
    multiplier: tuple[int, int] | None = None, zero_point: int | None = None, constant: float | None = None,
) -> RequantizeOp:  # fmt: skip
    """What brings an operation's integers to its result's scale.

    Args:
        source: i32 accumulators, or stored integers of another scale.
        op: The operation on quantized types; its factors become multipliers.
        rounding: How the product is rounded.
        bounds: Stored integers to clamp to; by default the `limits` of the operation.
        input_zero_point: Subtracted first.
        multiplier: Multiplier and shift, where they are not those of the operation's factors.
        zero_point: Added last, where it is not the result's.
        constant: Added first, under a contract that rounds a sum, where it is not the zero point of the source.
    """
    result = uniform(op.results[0])
    low, high = limits(op) if bounds is None else bounds
    contract = numerics.CONTRACTS[rounding.contract]
    real = factors(op, np.float32 if rounding.float32 else np.float64, product32=rounding.product32)
    # Where only powers of two are allowed, a scale that is none stays one, for the verifier to refuse.
    step = contract.step if contract.step < 1 << 30 else 1
    multipliers, shifts = numerics.quantize_multipliers(real, step) if multiplier is None else np.array([multiplier]).T
    if contract.sums:
        zero_point = -displaced(op)
        constant = result.zero_point + displaced(op) if constant is None else constant
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
    """What is taken off each element that a mean sums: the zero point, or what makes of it what its source stores."""
    return -displaced(op) if rounding.stored else uniform(op.operands[0]).zero_point


def mean(total: SSAValue, op: Operation, rounding: Rounding, count: int) -> RequantizeOp:
    """The requantization that makes sums of `count` elements, whose factor is 1/count of a sum's, means."""
    if rounding.stored:
        return _mean_of_stored(total, op, rounding, count)
    if rounding.contract == "shift" and count.bit_count() != 1:
        rounding = replace(rounding, contract="single")  # 1/count is no shift, whatever the scales are
    if not rounding.truncates:
        return requantize(total, op, rounding)
    ratio = uniform(op.operands[0]).scale / uniform(op.results[0]).scale
    divided = numerics.divided_multiplier(*numerics.quantize_multiplier(ratio), count)
    return requantize(total, op, rounding, multiplier=divided)


def _mean_of_stored(total: SSAValue, op: Operation, rounding: Rounding, count: int) -> RequantizeOp:
    """acc · s_x / (s_y · n) + c of acc = Σ x as the source stores it, c what its zero points make of that.

    All in float32. A contract that rounds sums adds c first; else z_x · s_x / s_y is rounded by itself, halves away
    from zero.
    """
    data, result, moved = uniform(op.operands[0]), uniform(op.results[0]), displaced(op)
    ratio = np.float32(data.scale) / np.float32(result.scale)
    source = np.float32(data.zero_point + moved)
    if numerics.CONTRACTS[rounding.contract].sums:
        factor = ratio * (np.float32(1) / np.float32(count))
        constant = np.float32(result.zero_point + moved) - source * np.float32(count) * factor
        multiplier = numerics.float_multiplier(float(factor))
        return requantize(total, op, rounding, multiplier=multiplier, constant=float(constant))
    steps = source * np.float32(data.scale) / np.float32(result.scale)
    zero_point = result.zero_point - int(np.trunc(steps + np.copysign(np.float32(0.5), steps)))
    return requantize(total, op, rounding, zero_point=zero_point)

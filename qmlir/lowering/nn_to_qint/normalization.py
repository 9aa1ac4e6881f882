"""Lowering of normalizations: exponentials from tables; sums, quotients, roots and logarithms in integers."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i64
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.qint.normalization import FRACTION, SUM_BITS, newton_term
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.lowering.nn_to_qint.functions import half_away
from qmlir.lowering.nn_to_qint.scales import narrowing, requantize
from qmlir.numerics import Int64s, fixed_point, tables
from qmlir.numerics.elementary.gemmlowp import LOGARITHM_BITS, exponential, product
from qmlir.numerics.elementary.lanes import Lanes
from qmlir.policies.runtime_kernels import sign_shift
from qmlir.policies.runtimes import Rounding

TABLE_BITS = 30
"""Fractional bits of the exponentials that are divided exactly."""

INPUT_BITS = 5
"""Integer bits of the fixed-point argument of gemmlowp's exponential."""

MOST_TERMS = 1 << 12
"""Limit, exclusive, on the elements along the axis: the sum that Newton's method divides by holds no more."""


def lower_softmax(op: nn.SoftmaxOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers y = z_y + exp((x − m)·s_x) / Σ exp((x − m)·s_x) / s_y; a table lists exp for each difference m − x."""
    data, result = uniform(op.x), uniform(op.y)
    newton, interpolated = _is_gemmlowps(op, rounding), _is_interpolated(op, rounding)
    table = _gemmlowp_table(data) if newton else _interpolated_table(data) if interpolated else _exact_table(data)
    properties = {
        "axis": op.axis,
        "table": WeightsAttr(table.astype(np.int32)),
        "inverse": WeightsAttr(_breakpoints(lambda x: 1 / (1 + x), 0.0, 1.0)) if interpolated else None,
        "unit": IntegerAttr(round((1 << FRACTION) / result.scale), i64),
        "division": StringAttr("newton" if newton else "interpolated" if interpolated else "exact"),
        **narrowing(op),
    }
    return [qint.SoftmaxOp.make(operands, properties, element=result.storage_type)]


def _is_gemmlowps(op: nn.SoftmaxOp, rounding: Rounding) -> bool:
    """Whether the followed runtime computes this softmax in gemmlowp's fixed point.

    It does for int8 data with fewer than `MOST_TERMS` elements along the axis and a result scale of 2^−n.
    """
    return rounding.function == "fixed_point" and _sums_as_gemmlowp(op) and _is_power_of_two(1 / uniform(op.y).scale)


def _sums_as_gemmlowp(op: nn.SoftmaxOp | nn.LogSoftmaxOp) -> bool:
    """Whether gemmlowp's fixed-point numbers hold the data's differences and the sum of the exponentials.

    They do for data of 8 bits, fewer than `MOST_TERMS` elements along the axis, and a scale of at least 2^−26.
    """
    data = uniform(op.x)
    small = shape_of(op.x)[op.axis.value.data] < MOST_TERMS
    return small and data.storage_width == 8 and data.scale >= 2.0 ** (INPUT_BITS - 31)


def _is_power_of_two(number: float) -> bool:
    return number.is_integer() and int(number).bit_count() == 1


def _is_interpolated(op: nn.SoftmaxOp, rounding: Rounding) -> bool:
    """Whether the followed runtime computes this softmax with interpolated tables.

    It does for data and results of 16 bits, fewer than 2^16 elements along the axis, and a result scale of 2^−15 with
    zero point 0.
    """
    data, result = uniform(op.x), uniform(op.y)
    wide = data.storage_width == result.storage_width == 16
    fits = shape_of(op.x)[op.axis.value.data] < 1 << 16 and (result.scale, result.zero_point) == (2.0**-15, 0)
    return rounding.function == "fixed_point" and wide and fits


def _differences(data: UniformType) -> Int64s:
    return np.arange(1 << data.storage_width)


def _exact_table(data: UniformType) -> Array:
    """exp(−d · s) for each difference d of stored integers, in steps of 2^−30."""
    return np.rint(np.exp(-_differences(data) * data.scale) * (1 << TABLE_BITS))


def _gemmlowp_table(data: UniformType) -> Array:
    """exp(−d · s) for each difference d as gemmlowp computes it, in steps of 2^−31.

    The argument −d · s is in steps of 2^−26. If it would need more than 31 bits, the entry is 0.
    """
    differences = _gemmlowp_differences(data)
    table = exponential(Lanes(np.maximum(differences, -((1 << 31) - 1))), INPUT_BITS).array
    return np.where(differences > LEAST, table, 0)


LEAST = -(1 << 31)
"""Marks a difference whose exponential gemmlowp leaves out."""


def _gemmlowp_differences(data: UniformType) -> Int64s:
    """−d · s for each difference d, in steps of 2^−26, by a multiplier of 31 bits; `LEAST` if it would overflow."""
    steps = 1 << 31 - INPUT_BITS
    multiplier, shift = fixed_point.quantize_multiplier(min(data.scale * steps, float((1 << 31) - 1)))
    least = ((1 << INPUT_BITS) - 1) * steps >> shift
    within = np.minimum(_differences(data), least)
    scaled = product(Lanes(-within << shift), multiplier).array
    return np.where(_differences(data) <= least, scaled, LEAST)


def lower_log_softmax(op: nn.LogSoftmaxOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers acc = (x − m)·s_x − log Σ exp((x − m)·s_x), in steps of 2^−fraction, then y = z_y + acc / s_y."""
    data, fraction = uniform(op.x), op.fraction_bits()
    fixed = rounding.function == "fixed_point"
    gemmlowps = fraction == LOGARITHM_BITS and _sums_as_gemmlowp(op) and _is_power_of_two(1 / uniform(op.y).scale)
    if fixed and gemmlowps:
        differences, bits = _gemmlowp_differences(data), SUM_BITS
        table = newton_term(Lanes(_gemmlowp_table(data).astype(np.int64))).array
    else:
        differences, bits = np.rint(-_differences(data) * data.scale * (1 << fraction)), 31 - TABLE_BITS
        table = _exact_table(data)
        rounding = replace(rounding, contract="single") if fixed else rounding
    properties = {
        "axis": op.axis,
        "table": WeightsAttr(table.astype(np.int32)),
        "differences": WeightsAttr(np.maximum(differences, LEAST).astype(np.int32)),
        "integer_bits": int32(bits),
        "fraction": int32(fraction),
    }
    logarithm = qint.LogSoftmaxOp.make(operands, properties)
    return [logarithm, requantize(logarithm.y, op, rounding)]


def lower_lp_normalization(
    op: nn.LpNormalizationOp, operands: Sequence[SSAValue], rounding: Rounding
) -> list[Operation]:
    """Lowers y = z_y + (x − z_x) / √Σ (x − z_x)² / s_y.

    For signed data, TFLite rounds twice. For data that the source model stores unsigned, TFLite shifts left first, so
    that the first rounding loses nothing. Data of 16 bits, and rows whose sum of squares does not fit 31 bits, take the
    form of a root-mean-square normalization.
    """
    data, result = uniform(op.x), uniform(op.y)
    if data.storage_width != 8 or op.quotient().most >= 1 << 31:
        return _over_root(op, qint.RMSNormOp, operands, op.axis.value.data + 1)
    multiplier, shift = fixed_point.quantize_multiplier(1 / result.scale)
    twice = rounding.contract == "double" and _is_power_of_two(1 / result.scale)
    properties = {
        "axis": op.axis,
        "input_zero_point": int32(data.zero_point),
        "multiplier": int32(multiplier),
        "shift": int32(shift),
        "contract": StringAttr("double" if twice else "single"),
        "left": int32(shift - 1 if twice and sign_shift(op) else 0),
        **narrowing(op),
    }
    return [qint.L2NormalizationOp.make(operands, properties, element=result.storage_type)]


def lower_layer_norm(op: nn.LayerNormOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers y = z_y + (x − Σx / n) · n / √(n · Σx² − (Σx)² + n²·ε / s_x²) / s_y."""
    return _over_root(op, qint.LayerNormOp, operands, len(shape_of(op.x)))


def lower_rms_norm(op: nn.RMSNormOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers y = z_y + (x − z_x) · √n / √(Σ (x − z_x)² + n·ε / s_x²) / s_y."""
    return _over_root(op, qint.RMSNormOp, operands, len(shape_of(op.x)))


def _over_root(
    op: nn.LayerNormOp | nn.RMSNormOp | nn.LpNormalizationOp,
    kind: type[qint.LayerNormOp | qint.RMSNormOp],
    operands: Sequence[SSAValue],
    end: int,
) -> list[Operation]:
    """Returns a normalization over the dimensions from the operation's axis to `end`."""
    quotient = op.quotient()
    multiplier, shift = quotient.multiplier()
    properties = {
        "axis": op.axis,
        "end": IntegerAttr(end, i64),
        "multiplier": int32(multiplier),
        "shift": int32(shift),
        "fraction": int32(quotient.fraction),
        "epsilon": IntegerAttr(quotient.rounded_epsilon, i64),
        **({"input_zero_point": int32(uniform(op.x).zero_point)} if kind is qint.RMSNormOp else {}),
        **narrowing(op),
    }
    return [kind.make(operands, properties, element=uniform(op.y).storage_type)]


def lower_local_response(
    op: nn.LocalResponseNormalizationOp, operands: Sequence[SSAValue], rounding: Rounding
) -> list[Operation]:
    """Lowers y = z_y + (x − z_x) · s_x / s_y · (bias + alpha / size · s_x² · Σ (x − z_x)²)^−beta."""
    quotient, (before, after) = op.quotient(), op.neighbours()
    multipliers, shifts = quotient.multipliers()
    properties = {
        "breakpoints": WeightsAttr(quotient.breakpoints()),
        "multipliers": WeightsAttr(multipliers),
        "shifts": WeightsAttr(shifts),
        "before": IntegerAttr(before, i64),
        "after": IntegerAttr(after, i64),
        "bits": int32(quotient.bits),
        "fraction": int32(quotient.fraction),
        "bias": IntegerAttr(quotient.rounded_bias, i64),
        "input_zero_point": int32(uniform(op.x).zero_point),
        **narrowing(op),
    }
    return [qint.LocalResponseNormalizationOp.make(operands, properties, element=uniform(op.y).storage_type)]


DEPTH = 10.0
"""Exponentials are interpolated for arguments in [−DEPTH, 0]; below −DEPTH they are exp(−DEPTH)."""


def _interpolated_table(data: UniformType) -> Array:
    """exp(−d · s) for each difference d, in steps of 2^−15, interpolated between breakpoints of e^x.

    Differences are first rescaled so that 65535 means an argument of −DEPTH.
    """
    factor = float(np.float32(data.scale)) / (DEPTH / 65535)
    scaled = fixed_point.requantize(-_differences(data), *fixed_point.quantize_multiplier(factor), "double")
    places = np.clip(scaled + 32767, -32768, 32767)
    return tables.interpolated(_breakpoints(np.exp, -DEPTH, 0.0), places)


def _breakpoints(function: Callable[[Array], Array], low: float, high: float) -> npt.NDArray[np.int16]:
    """Breakpoints of a function on [low, high], in steps of 2^−15.

    Each breakpoint is lowered by half of the interpolation error behind it. The error is how far the line to the next
    breakpoint lies above the function in the middle between the two.
    """
    step = (high - low) / (tables.BREAKPOINTS - 1)
    at = low + step * np.arange(tables.BREAKPOINTS)
    exact, middle = (function(x) * (1 << 15) for x in (at, at[:-1] + step / 2))
    stored = half_away(exact)
    error = half_away((exact[1:] + stored[:-1]) / 2) - half_away(middle)
    stored[:-1] -= half_away(error / 2)
    return np.clip(stored, -(1 << 15), (1 << 15) - 1).astype(np.int16)

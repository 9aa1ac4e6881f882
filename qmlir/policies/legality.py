"""Decides whether an operation on quantized types has an integer form, and if not, why.

The quantizer asks before it quantizes an operation, nn-to-qint before it lowers the operation. Both ask here, so the
ledger never says "quantized" of an operation that ends up float. The target's file says which operations the target
computes on which storage types (ir/context.py). The other checks follow from arithmetic and hold on every target: the
zero point of weights is 0 unless they are constant, sums fit an accumulator, changes of scale fit a multiplier and a
shift. If sums of products may exceed 32 bits with the actual weights, they get an i64 accumulator, provided that the
target has contracts for it.
"""

import math

import numpy as np
import numpy.typing as npt
from xdsl.context import Context
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.qint.normalization import LOGARITHM_BITS
from qmlir.dialects.target import Target, load_target
from qmlir.errors import UnsupportedError
from qmlir.ir.context import QmlirContext
from qmlir.ir.interfaces import Array, shape_of
from qmlir.numerics import Float64s, Int64s, fixed_point
from qmlir.numerics.contracts import CONTRACTS, WIDE_LIMIT
from qmlir.policies.quantized_values import (
    SAME_SCALE,
    bias_in_steps,
    chooses_integers,
    computed_storage,
    data_values,
    is_weight,
    uniform,
    widest,
)
from qmlir.policies.runtime_kernels import followed_runtime, has_rounding

ACCUMULATOR_MAX = 2**31 - 1
"""The largest magnitude of a sum in an i32 accumulator."""

FACTOR_LIMIT = 2.0**fixed_point.MAX_SHIFT
"""Factors between scales are below this, as a multiplier and a shift require (numerics/fixed_point.py)."""

LEAST_FACTOR = 2.0 ** (fixed_point.MIN_SHIFT - 1)
"""The smallest factor that has a multiplier; smaller factors become 0."""

WIDE_FACTOR_LIMIT = 2.0 ** CONTRACTS["single64"].max_shift
"""The limit of factors for an i64 accumulator, like `FACTOR_LIMIT`."""

SUM_EXPONENTS = (-32, 29)
"""Bounds of e: the larger of the two factors of a sum is m · 2^e with m in [1/2, 1) (qint.add)."""


def target_of(ctx: Context) -> Target:
    """Returns the target the compiler chose, or the CPU if it chose none."""
    if isinstance(ctx, QmlirContext) and isinstance(ctx.target, Target):
        return ctx.target
    return load_target("cpu")


def require_integer_form(op: Operation, target: Target) -> None:
    """Checks that an operation on quantized types has an integer form; a constant bias may still be f32.

    Raises:
        UnsupportedError: The operation has no integer form on this target, or with these scales and sizes.
    """
    for value in data_values(op):
        refusal = target.refusal(op.name, computed_storage(uniform(value).storage))
        if refusal is not None and not is_accumulator(value, op):
            raise UnsupportedError(refusal[1], code=refusal[0])
        if uniform(value).is_per_axis and not is_weight(value, op):
            raise UnsupportedError("activations with a scale for each channel have no integer form")
    if isinstance(op, nn.RequantizeOp) and uniform(op.x).storage_width == 32 and any(uniform(op.x).zero_points):
        raise UnsupportedError("32-bit data with a zero point have no integer form")
    if isinstance(op, WeightedOp):
        _require_weights(op)
    if isinstance(op, nn.SoftmaxOp | nn.LpNormalizationOp):
        _require_shares(op)
    if isinstance(op, nn.MaximumOp | nn.MinimumOp) and not chooses_integers(op):
        _require_pairs(op)
    _require_accumulator(op, target)
    _require_factors(op)


SMALLEST_SHARES: dict[type[Operation], int] = {nn.SoftmaxOp: -19, nn.LpNormalizationOp: -16}
"""The exponent of the smallest scale that the result of a softmax or a normalization may have."""

MOST_SHARES = 1 << 18
"""The most elements along a softmax's axis: their exponentials are summed in 62 bits."""


def _require_shares(op: nn.SoftmaxOp | nn.LpNormalizationOp) -> None:
    scale, count, least = uniform(op.y).scale, shape_of(op.x)[op.axis.value.data], SMALLEST_SHARES[type(op)]
    if isinstance(op, nn.LpNormalizationOp) and op.p.value.data != 2:
        raise UnsupportedError("its division by a sum of magnitudes has no integer form on this target")
    if not 2.0**least <= scale <= 1:
        raise UnsupportedError(f"its result's scale {scale:g} is not between 2^{least} and 1", code="factor")
    if isinstance(op, nn.SoftmaxOp) and count > MOST_SHARES:
        raise UnsupportedError(f"its sum of {count} exponentials does not fit 62 bits", code="accumulator")


def logarithm_bits(op: nn.LogSoftmaxOp) -> int:
    """Returns the fraction bits of a log-softmax's i32 sums: as many as the least value of its result leaves room."""
    result = uniform(op.y)
    least = result.scale * (result.zero_point - result.storage_min)
    whole = math.ceil(math.log2(least)) if least > 1 else 0
    return max(0, min(LOGARITHM_BITS, 31 - whole))


def has_words(op: nn.DivOp | nn.PReluOp) -> bool:
    """Whether a value has more than 8 bits, so that a table of pairs of bytes cannot compute the operation."""
    return any(uniform(value).storage_width > 8 for value in (op.lhs, op.rhs, op.y))


def _require_pairs(op: nn.MaximumOp | nn.MinimumOp) -> None:
    if any(uniform(value).storage_width > 8 for value in (op.lhs, op.rhs)):
        raise UnsupportedError("a choice between two scales has an integer form of 8 bits only", code="precision")


def is_accumulator(value: SSAValue, op: Operation) -> bool:
    """Whether a value is a contraction's raw sums: i32 in steps of s_x · s_w, with zero point 0."""
    if not isinstance(op, WeightedOp | nn.MatMulOp) or value is not op.results[0]:
        return False
    result = uniform(value)
    plain = result.storage_width == 32 and result.is_signed and result.zero_points == (0,)
    return plain and not result.is_per_axis and bool((factors(op) == 1).all()) and fits_32_bits(op)


def fits_32_bits(op: Operation) -> bool:
    """Whether an operation's sums fit an i32 accumulator for all possible data."""
    return _accumulator(op)[0] <= ACCUMULATOR_MAX


def _require_weights(op: WeightedOp) -> None:
    if any(uniform(op.w).zero_points) and not isinstance(op.w.owner, nn.ConstantOp):
        raise UnsupportedError("computed weights with a zero point have no integer form")


def _require_accumulator(op: Operation, target: Target) -> None:
    bound, what = _accumulator(op)
    bits = target.sum_bits if isinstance(op, WeightedOp | nn.MatMulOp) else 32
    # An i32 accumulator also holds −2^31, which the bound leaves out; 64-bit contracts have symmetric ranges.
    if bound > min((1 << bits - 1) - 1, fixed_point.WIDE_LIMIT - 1):
        raise UnsupportedError(
            f"{what} can reach {bound}, more than a {bits}-bit accumulator holds", code="accumulator"
        )


def _accumulator(op: Operation) -> tuple[int, str]:
    """Returns the largest magnitude that an operation's sums can reach, and their name in errors."""
    match op:
        case WeightedOp():
            bounds = _sum_bounds(op)
            channel = int(bounds.argmax()) if bounds.size else 0
            return int(bounds.max(initial=0)), f"the sum of products in channel {channel}"
        case nn.MatMulOp():
            depth = shape_of(op.lhs)[-1]
            return depth * widest(uniform(op.lhs)) * widest(uniform(op.rhs)), "a sum of products"
        case nn.MulOp() | nn.PReluOp() if isinstance(op, nn.MulOp) or has_words(op):
            return widest(uniform(op.lhs)) * widest(uniform(op.rhs)), "a product"
        case nn.GlobalAveragePoolOp():
            _, rows, columns, _ = shape_of(op.x)
            return rows * columns * widest(uniform(op.x)), "the sum over the image"
        case nn.ReduceSumOp() | nn.ReduceMeanOp():
            count = math.prod(shape_of(op.x)[axis] for axis in op.axes.get_values())
            return count * widest(uniform(op.x)), "the sum along its axes"
        case nn.LpNormalizationOp():
            return shape_of(op.x)[op.axis.value.data] * widest(uniform(op.x)) ** 2, "the sum of squares along its axis"
        case _:
            return 0, ""


def _sum_bounds(op: WeightedOp) -> Int64s:
    """Returns the largest magnitude that the sums of each output channel can reach, with the bias."""
    bounds = _weight_sums(op) * widest(uniform(op.x))
    if (bias := stored_bias(op)) is not None:
        bounds = np.maximum(bounds + bias, bounds - bias - 1)  # i32 holds one more number below zero than above
    return bounds


def _weight_sums(op: WeightedOp) -> Int64s:
    """Returns Σ |w| for each output channel: exact for constant weights, else the most that their type allows."""
    shape, channels = shape_of(op.w), op.output_channels()
    if isinstance(op.w.owner, nn.ConstantOp):
        stored = np.moveaxis(centred_weights(op, op.w.owner.value.array), op.CHANNEL_AXIS, 0)
        return np.abs(stored.reshape(channels, math.prod(stored.shape[1:]))).sum(axis=1, dtype=np.int64)
    weights = uniform(op.w)
    most = max(abs(weights.storage_min), abs(weights.storage_max))
    return np.full(channels, most * (math.prod(shape) // max(channels, 1)), np.int64)


def centred_weights(op: WeightedOp, stored: Array) -> Array:
    """Returns stored weights minus their zero points, int32."""
    _, zero_points = uniform(op.w).parameters_along(stored.ndim)
    return stored.astype(np.int32) - zero_points.astype(np.int32)


def stored_bias(op: WeightedOp) -> Int64s | None:
    """Returns the integers that an operation's bias adds to its sums (quantized_values.py); None without a bias.

    Raises:
        UnsupportedError: The bias is computed at run time, or does not fit 48 bits.
    """
    if op.b is None:
        return None
    if (steps := bias_in_steps(op)) is None:
        raise UnsupportedError("its bias is computed at run time; only a constant bias can be quantized", code="bias")
    return _fitting(op, np.rint(steps))


def _fitting(op: WeightedOp, stored: Array) -> Int64s:
    """Converts a bias, in steps of its accumulator, to integers; raises `UnsupportedError` if they do not fit."""
    fits = np.abs(stored) <= fixed_point.WIDE_LIMIT  # false for NaN too
    if not fits.all():
        channel, scales = int((~fits).argmax()), uniform(op.w).scales
        step = uniform(op.x).scale * scales[channel % len(scales)]
        raise UnsupportedError(
            f"its bias {stored[channel] * step:g} in channel {channel} does not fit "
            f"{fixed_point.WIDE_LIMIT.bit_length() + 1} bits in steps of {step:g}",
            code="bias",
        )
    return stored.astype(np.int64)


INTERPOLATION_BITS = 15
"""The most fraction bits of an interpolation weight."""


def float32_weights(op: nn.ResizeOp) -> list[Float64s]:
    """Returns the weights of each axis rounded to f32, as float networks and model files hold them."""
    return [weights.astype(np.float32).astype(np.float64) for _, _, weights in op.tables()]


def interpolation_weights(op: nn.ResizeOp) -> tuple[int, list[npt.NDArray[np.int32]]]:
    """Returns (b, weights of each axis as multiples of 2^−b), with as many bits as fit 32-bit sums along all axes.

    Raises:
        UnsupportedError: No b fits 32-bit sums, or the result could be off by more than half a step.
    """
    real = float32_weights(op)
    element = uniform(op.x)
    for bits in range(INTERPOLATION_BITS, 0, -1):
        stored = [fixed_point.fixed_point_rows(w, bits) for w in real]
        sums = math.prod(int(np.abs(w.astype(np.int64)).sum(axis=1).max(initial=0)) for w in stored)
        if sums * widest(element) <= ACCUMULATOR_MAX:
            break
    else:
        raise UnsupportedError("its weighted sums do not fit a 32-bit accumulator", code="accumulator")
    norms = [float(np.abs(w).sum(axis=1).max(initial=0)) for w in real]
    half = (element.storage_max - element.storage_min) / 2
    away = 0.0
    for axis, (weights, rounded) in enumerate(zip(real, stored, strict=True)):
        errors = rounded / (1 << bits) - weights
        each = np.abs(errors).sum(axis=1) * half + np.abs(errors.sum(axis=1)) * widest(element)
        away += float(each.max(initial=0)) * math.prod(n for other, n in enumerate(norms) if other != axis)
    away *= element.scale / uniform(op.y).scale
    if away > 0.5:
        raise UnsupportedError(f"its weights in {bits} bits would be up to {away:.2g} steps of its result off")
    return bits, stored


def rounds_itself(op: nn.ResizeOp) -> bool:
    """Whether a 16-bit interpolation keeps scale and zero point, and its weights are ≥ 0 and sum to 1.

    Such an interpolation rounds its own 64-bit sums. All others need 32-bit sums and a requantization.
    """
    data, result = uniform(op.x), uniform(op.y)
    same = (data.scale, data.zero_point) == (result.scale, result.zero_point)
    parts = all(bool((w >= 0).all()) and np.allclose(w.sum(axis=1), 1, atol=SAME_SCALE) for w in float32_weights(op))
    return data.storage_width > 8 and same and parts


def _require_factors(op: Operation) -> None:
    found = factors(op)
    if isinstance(op, nn.AddOp | nn.SubOp):
        exponent = math.frexp(float(found.max()))[1]
        fits = SUM_EXPONENTS[0] <= exponent <= SUM_EXPONENTS[1]
    else:
        fits = bool((found < (FACTOR_LIMIT if fits_32_bits(op) else WIDE_FACTOR_LIMIT)).all())
    if not fits:
        raise UnsupportedError(
            f"its scales are a factor of {float(found.max()):g} apart, which no 32-bit multiplier bridges",
            code="factor",
        )
    if (lost := lost_sums(op)) and not has_rounding(op, followed_runtime(op)):
        raise UnsupportedError(lost, code="factor")


def lost_sums(op: Operation) -> str:
    """Describes sums that become 0 because their factor has no multiplier, although they reach half a step.

    Returns the empty string if there are no such sums. Sums of 32 bits never reach half a step.
    """
    found = factors(op)
    if not (found < LEAST_FACTOR).any():
        return ""
    bounds = _sum_bounds(op) if isinstance(op, WeightedOp) else np.array([_accumulator(op)[0]])
    sums, each = np.broadcast_arrays(bounds, found)
    for channel in np.flatnonzero((each < LEAST_FACTOR) & (sums * each >= 0.5))[:1]:
        where = f" in channel {channel}" if isinstance(op, WeightedOp) else ""
        return f"its sums{where} reach {sums[channel]}, and their factor {each[channel]:g} has no multiplier"
    return ""


def factors(op: Operation, dtype: type[np.float64 | np.float32] = np.float64, *, product32: bool = False) -> Float64s:
    """Returns the real factors between an operation's integers and its result's integers.

    The array has one factor, or one for each output channel; for a sum, one for each operand. It is empty if integers
    are only moved or looked up. Every product and quotient is rounded to `dtype`. With `product32`, the product of
    scales of data and per-tensor weights, or of both sides of a matrix product, is rounded to float32.
    """

    def scales(value: SSAValue) -> Array:
        return np.array(uniform(value).scales).astype(dtype)

    with np.errstate(over="ignore", under="ignore"):
        match op:
            case WeightedOp():
                product = scales(op.x) * scales(op.w)
                narrow = product32 and not uniform(op.w).is_per_axis
                found = (product.astype(np.float32).astype(dtype) if narrow else product) / scales(op.y)
            case nn.MatMulOp() if product32:
                found = (scales(op.lhs) * scales(op.rhs)).astype(np.float32).astype(dtype) / scales(op.y)
            case nn.MatMulOp() | nn.MulOp():
                found = scales(op.lhs) * scales(op.rhs) / scales(op.y)
            case nn.AddOp() | nn.SubOp():
                found = np.concatenate([scales(op.lhs), scales(op.rhs)]) / scales(op.y)
            case nn.ReluOp() | nn.ClampOp() | nn.RequantizeOp() | nn.ReduceSumOp():
                found = scales(op.x) / scales(op.y)
            case nn.ResizeOp() if not rounds_itself(op):
                bits, weights = interpolation_weights(op)
                found = scales(op.x) / (scales(op.y) * dtype(1 << bits * len(weights)))
            case nn.ReduceMeanOp():
                found = scales(op.x) / (scales(op.y) * dtype(op.count()))
            case nn.GlobalAveragePoolOp():
                _, rows, columns, _ = shape_of(op.x)
                found = scales(op.x) / (scales(op.y) * dtype(rows * columns))
            case nn.DivOp() | nn.PReluOp() if has_words(op):
                x, y, result = scales(op.lhs), scales(op.rhs), scales(op.y)
                found = x / (y * result) if isinstance(op, nn.DivOp) else np.concatenate([x / result, x * y / result])
            case nn.LogSoftmaxOp():
                found = dtype(2.0 ** -logarithm_bits(op)) / scales(op.y)
            case _:
                found = np.zeros(0)
        return found.astype(np.float64)

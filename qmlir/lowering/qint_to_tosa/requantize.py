"""Export of requantizations and of the casts between floats and integers."""

from collections.abc import Callable, Mapping
from math import prod

import numpy as np
from xdsl.dialects.builtin import BoolAttr, FloatAttr, IntegerAttr, IntegerType, f32, i8, i16, i32
from xdsl.dialects.tosa import RoundingMode, RoundingModeAttr
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.upstream import Array
from qmlir.dialects.qint.requantize import NarrowingOp, RequantizeOp, largest_difference, width_of
from qmlir.dialects.quant.ops import REST_BELOW, DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.upstream.tosa import elementwise
from qmlir.ir.upstream.tosa import elementwise as tosa
from qmlir.ir.upstream.tosa.elementwise import ClampOp
from qmlir.lowering.qint_to_tosa.tensors import ADD, EQUAL, GREATER_EQUAL, TosaCode
from qmlir.numerics import fixed_point

# ---------------------------------------------------------------------------------------------------------------
# Export of requantization as `tosa.rescale`, for the contracts that equal one of its two rounding modes.
#
# With a shift of n = 31 − s bits and p = a · multiplier, `tosa.rescale` computes
#
#     SINGLE_ROUND   (p + 2^(n−1)) >> n
#     DOUBLE_ROUND   (p + 2^(n−1) ± 2^30) >> n     if n > 31, with + for a ≥ 0 and − for a < 0
#                    (p + 2^(n−1)) >> n            otherwise
#
# SINGLE_ROUND equals the contracts `single` and `shift`. DOUBLE_ROUND equals `double`, which rounds half up at bit 31
# and then half away from zero at the remaining bits: the two nested floors are one floor of the sum, and below zero
# rounding half away means adding one less than for half up.
#
# Below zero, `upup` equals neither mode, unless no bits are left for its second step. `tosa.rescale` requires n in
# [2, 62] and |a| below 2^(n−1). Accumulators beyond that are bounded first, if the final clamp hides the difference.


ROUNDINGS: Mapping[str, RoundingMode] = {
    "single": RoundingMode.SINGLE_ROUND,
    "shift": RoundingMode.SINGLE_ROUND,
    "double": RoundingMode.DOUBLE_ROUND,
}
"""Contract → the rounding mode of `tosa.rescale` that equals it."""

ONE_STEP = {"upup": RoundingMode.SINGLE_ROUND}
"""The same for contracts that equal a rounding mode only if no shift is negative, so that they round once."""

HIDDEN = 1 << 27
"""A bounded accumulator is rescaled to a magnitude of at least this: (2^(n−1) − 1) · 2^29 >> n."""


def narrowed(code: TosaCode, op: NarrowingOp, value: SSAValue) -> SSAValue:
    """Narrows an i32 to the result's type: clamp(value + zero_point, min, max)."""
    bounds = op.lower.value.data, op.upper.value.data
    return code.cast(code.bounded(code.plus(value, op.zero_point.value.data), *bounds), element_of(op.y))


def _requantize(code: TosaCode, op: RequantizeOp, x: SSAValue) -> SSAValue:
    multiplier = np.array(op.multiplier.get_values(), np.int32)
    shift = np.array(op.shift.get_values(), np.int64)
    shift[multiplier == 0] = 0
    rounding = _rounding(code, op, shift)
    bits = 31 - shift
    if bits.min() < 2:
        code.refuse("needs shifts of at most 29 in tosa", got=str(shift.max()), remedy="store the result more coarsely")
    zero_point = op.input_zero_point.value.data
    if element_of(x) == i16 and zero_point:
        x, zero_point = code.minus(code.cast(x, i32), zero_point), 0
    elif element_of(x) == i32 and zero_point:
        code.refuse("takes no zero point off an i32 in tosa", got=str(zero_point), remedy="subtract it before")
    x = _within_reach(code, op, x, bits)
    # Whether `rescale` itself can add the zero point and saturate to the result's type.
    direct = (element_of(op.y) == i8 and -128 <= op.zero_point.value.data <= 127) or (
        element_of(op.y) == i16 and not op.zero_point.value.data
    )
    element = element_of(op.y) if direct else i32
    operands = [
        x,
        code.constant(multiplier),
        code.constant(bits.astype(np.int8)),
        code.zero_point(zero_point, element_of(x)),
        code.zero_point(op.zero_point.value.data if direct else 0, element),
    ]
    properties: dict[str, Attribute] = {
        "rounding_mode": RoundingModeAttr(rounding),
        "scale32": BoolAttr.from_bool(True),
        "per_channel": BoolAttr.from_bool(len(multiplier) > 1),
        "input_unsigned": BoolAttr.from_bool(False),
        "output_unsigned": BoolAttr.from_bool(False),
    }
    scaled = code.op(tosa.RescaleOp, operands, element, shape_of(x), properties)
    return _within_bounds(code, op, scaled) if direct else narrowed(code, op, scaled)


def _rounding(code: TosaCode, op: RequantizeOp, shift: np.ndarray) -> RoundingMode:
    contract = op.contract.data
    rounding = ROUNDINGS.get(contract)
    if rounding is None and shift.min() >= 0:
        rounding = ONE_STEP.get(contract)
    if rounding is None:
        code.refuse(
            f"needs a contract of {', '.join(ROUNDINGS)}: tosa.rescale rounds in no other way",
            got=contract,
            remedy="lower it with one of these",
        )
    return rounding


def _within_reach(code: TosaCode, op: RequantizeOp, x: SSAValue, bits: np.ndarray) -> SSAValue:
    """The accumulators, bounded to the range for which `rescale` is defined if they may exceed it.

    Raises:
        UnsupportedError: The accumulators may exceed the range, and the result would show the bound.
    """
    width = width_of(op.x)
    largest = 1 << 31 if width == 32 else largest_difference(op.x, op.input_zero_point.value.data)
    limits = np.int64(1) << bits - 1
    if largest <= limits.min():
        return x
    low, high = (bound.value.data - op.zero_point.value.data for bound in (op.lower, op.upper))
    if element_of(x) != i32 or max(abs(low), abs(high)) >= HIDDEN:
        code.refuse(
            f"needs accumulators below 2^{int(bits.min()) - 1} in tosa, which {element_of(x)} goes beyond",
            got=f"a result in [{low}, {high}] that shows it",
            remedy="store the result in at most 16 bits" if element_of(x) == i32 else "store the result more coarsely",
        )
    most = np.minimum(limits - 1, (1 << 31) - 1).astype(np.int32)
    least = np.maximum(-limits, -(1 << 31)).astype(np.int32)
    if len(limits) == 1:
        return code.bounded(x, int(least[0]), int(most[0]))
    return code.bounded(x, code.constant(least), code.constant(most))


def _within_bounds(code: TosaCode, op: RequantizeOp, y: SSAValue) -> SSAValue:
    """Clamps the saturated result to the operation's bounds."""
    element = IntegerType(width_of(op.y))
    half = 1 << element.width.data - 1
    low, high = op.lower.value.data, op.upper.value.data
    if (low, high) == (-half, half - 1):
        return y
    properties: dict[str, Attribute] = {"min_val": IntegerAttr(low, element), "max_val": IntegerAttr(high, element)}
    return code.op(elementwise.ClampOp, [y], element, shape_of(y), properties)


# ---------------------------------------------------------------------------------------------------------------
# Export of quant.qcast, quant.dcast and quant.scast with 8-bit storage, per tensor and per axis.
#
# The casts are defined in f64 (numerics/fixed_point.py), which TOSA does not have. For 8 bits, tables of thresholds and
# values give the same results.
#
# Dequantizing looks up one of 256 floats. Quantizing is a step function: with t[q] the least float that is quantized to
# q or more, x becomes the q with t[q] ≤ x < t[q + 1]. A first guess g in f32, the rounded x · (1 / scale) plus the zero
# point, is never off by more than one step. Two comparisons correct it:
#
#     q = g − 1 + (x ≥ t[g]) + (x ≥ t[g + 1])


LARGEST = float(np.finfo(np.float32).max)
SCALES = 2.0**-100, 2.0**100
"""Bounds of the scales: their reciprocals, and the quotients x / scale within the range, are normal f32 numbers."""

STEPS = 256
"""The number of 8-bit values."""


def _quantize(code: TosaCode, op: QuantizeCastOp, x: SSAValue) -> SSAValue:
    type = op.quantized
    _check(code, type)
    x = code.chosen(code.compared(EQUAL, x, x), x, code.number(0.0, x))  # NaN becomes the zero point, as 0 does
    x = _clamped(code, x, -LARGEST, LARGEST)
    guess = _guess(code, type, x)
    return _with_rest(code, op, lambda by: _corrected(code, type, x, guess, by))


def _with_rest(code: TosaCode, op: QuantizeCastOp | DequantizeCastOp, way: Callable[[str], SSAValue]) -> SSAValue:
    """Writes a cast; a constant tells which elements are the last, if these have a way of their own."""
    shape, count = shape_of(op.result), prod(shape_of(op.result))
    main = way(op.quantization)
    if op.rest is None or not count % REST_BELOW:
        return main
    last = code.constant((np.arange(count) >= count - count % REST_BELOW).astype(np.int32).reshape(shape))
    return code.chosen(code.compared(GREATER_EQUAL, last, code.number(1, last)), way(op.rest), main)


def _corrected(code: TosaCode, type: UniformType, x: SSAValue, guess: SSAValue, quantization: str) -> SSAValue:
    """The stored integers that a way to quantize gives, from guesses that are at most one step off."""
    thresholds = np.concatenate([_thresholds(type, c, quantization) for c in range(len(type.scales))])
    place = _place(code, type, guess, type.storage_min, len(thresholds) // len(type.scales))
    table = code.table(thresholds)
    steps = [
        code.cast(code.compared(GREATER_EQUAL, x, code.looked_up(table, code.plus(place, after))), i32)
        for after in (0, 1)
    ]
    q = code.plus(code.combine(ADD, guess, code.combine(ADD, *steps)), -1)
    if not type.is_signed:  # convert 128 … 255 to the signed i8 of the same bits
        q = code.chosen(code.compared(GREATER_EQUAL, q, code.number(STEPS // 2, q)), code.plus(q, -STEPS), q)
    return code.cast(q, i8)


def _guess(code: TosaCode, type: UniformType, x: SSAValue) -> SSAValue:
    """The stored integer that a computation in f32 yields, as an i32 within the storage range."""
    reciprocals = (1 / np.array(type.scales)).astype(np.float32)
    zero_points = np.array(type.zero_points, np.int32)
    quotient = code.product(x, code.constant(_along(type, reciprocals, x)))
    # Clamp to a wide range first, so that i32 holds the numbers to cast; then clamp to the range of the type.
    bounded = code.cast(_clamped(code, quotient, -4.0 * STEPS, 4.0 * STEPS), i32)
    shifted = code.combine(ADD, bounded, code.constant(_along(type, zero_points, x)))
    return code.bounded(shifted, type.storage_min, type.storage_max)


def _clamped(code: TosaCode, x: SSAValue, low: float, high: float) -> SSAValue:
    properties: dict[str, Attribute] = {"min_val": FloatAttr(low, f32), "max_val": FloatAttr(high, f32)}
    return code.op(ClampOp, [x], f32, shape_of(x), properties)


def _thresholds(type: UniformType, channel: int, quantization: str) -> Array:
    """For each q of the storage range, the least float32 that is quantized to q or more; the last entry is infinity."""
    scale, zero_point = type.scales[channel], type.zero_points[channel]
    low, high = type.storage_min, type.storage_max
    steps = np.arange(low + 1, high + 1)
    around = [((steps - zero_point - 0.5) * scale).astype(np.float32)]
    for toward in (-np.inf, np.inf):
        near = around[0]
        for _ in range(3):
            near = np.nextafter(near, np.float32(toward))
            around.append(near)
    candidates = np.sort(np.stack(around), axis=0)
    stored = fixed_point.quantize(candidates, scale, zero_point, low, high, np.int16, quantization)
    first = (stored >= steps).argmax(axis=0)
    found = np.take_along_axis(candidates, first[None], axis=0)[0]
    return np.concatenate([[-LARGEST], found, [np.inf]]).astype(np.float32)


def _dequantize(code: TosaCode, op: DequantizeCastOp, q: SSAValue) -> SSAValue:
    type = op.quantized
    _check(code, type)
    stored = np.arange(-STEPS // 2, STEPS // 2).astype(type.numpy_dtype)
    place = _place(code, type, code.cast(q, i32), -STEPS // 2, STEPS)

    def way(by: str) -> SSAValue:
        reals = [
            fixed_point.dequantize(stored, scale, zero_point, by=by, moved=op.sign_shift)
            for scale, zero_point in zip(type.scales, type.zero_points, strict=True)
        ]
        return code.looked_up(code.table(np.concatenate(reals).astype(np.float32)), place)

    return _with_rest(code, op, way)


def _place(code: TosaCode, type: UniformType, q: SSAValue, lowest: int, entries: int) -> SSAValue:
    """The table position of each stored integer; each channel has `entries` entries, the first for `lowest`."""
    starts = np.arange(len(type.scales), dtype=np.int32) * entries - lowest
    return code.combine(ADD, q, code.constant(_along(type, starts, q)))


def _along(type: UniformType, values: Array, x: SSAValue) -> Array:
    """Reshapes per-channel values so that they broadcast to a tensor along the quantized axis."""
    sizes = [1] * len(shape_of(x))
    if type.axis is not None:
        sizes[type.axis] = -1
    return values.reshape(sizes)


def _storage(code: TosaCode, op: StorageCastOp, x: SSAValue) -> SSAValue:
    return x


def _check(code: TosaCode, type: UniformType) -> None:
    if type.storage_type != i8:
        code.refuse("needs storage of 8 bits in tosa", got=str(type), remedy="quantize it with precision=int8")
    if type.expressed != f32:
        code.refuse("needs an expressed type of f32", got=str(type), remedy="express it as f32")
    if not all(SCALES[0] <= scale <= SCALES[1] for scale in type.scales):
        code.refuse("needs scales in [2^-100, 2^100] in tosa", got=str(type), remedy="scale the data")


RULES = {
    RequantizeOp: _requantize,
    QuantizeCastOp: _quantize,
    DequantizeCastOp: _dequantize,
    StorageCastOp: _storage,
}

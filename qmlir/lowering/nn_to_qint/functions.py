"""Integer forms of functions of one element: tables, linear functions, functions in fixed point."""

import math
from collections.abc import Callable, Mapping, Sequence
from functools import partial

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i16, i64
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.elementwise import FunctionOp, OperandPairOp, UnaryOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.ops import REST_BELOW
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.windows import ints
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.lowering.nn_to_qint.fixed_point import FIXED_POINT, FIXED_POINT_PAIRS, GEMMLOWP, SHORT, TURNED
from qmlir.lowering.nn_to_qint.scales import Limits, limits, requantize
from qmlir.numerics import fixed_point, tables
from qmlir.numerics.elementary.exponential import erfc, tanh
from qmlir.numerics.elementary.lanes import Lanes
from qmlir.policies.runtime_kernels import sign_shift
from qmlir.policies.runtimes import Rounding

# ---------------------------------------------------------------------------------------------------------------
# Lookup tables of unary functions, computed exactly or in the arithmetic of the followed runtime.
#
# An entry is the stored result for one stored element, in the order of the elements. `Rounding.function` names how the
# entries are computed and rounded:
#
#     exact              in f64 between the stored argument and the stored result, rounded once
#     float32            arguments, values and quotients by the scale in float32, half to even: onnxruntime
#     float32_away       values in float32, times the reciprocal of the scale, half away from zero: LiteRT
#     float32_shifted    as float32_away, but the zero point is added before the rounding, half to even: XNNPACK
#     float32_truncated  values and quotients by the scale in float32, rounded toward zero: LiteRT's square root
#     interpolated       16 bits: breakpoints in float32, linear between them: LiteRT; other widths as exact
#     fixed_point        in integers, by the contract: functions that LiteRT computes without floats (fixed_point.py)
#     gemmlowp           in integers of 16 bits: sigmoid and tanh of LiteRT's LSTM, on scales that are powers of two
#     fixed_point_turned as fixed_point, but a negative factor turns the sign before the rounding: LiteRT, 16 bits
#     fixed_point_short  as fixed_point, but with factors of 8 fractional bits: XNNPACK
#     joined             requantization in a concatenation: a product and a sum in float32, half away from zero; 16-bit
#                        data stay as they are: LiteRT


def table(op: FunctionOp, rounding: Rounding) -> Array:
    """The stored results of a function for each stored element, [2^width]: [256] for 8 bits, [65536] for 16 bits."""
    return _WAYS[rounding.function](op, rounding)


def between_casts(op: UnaryOp, dequantization: str, quantization: str) -> Array:
    """The stored results of an operation that computes on floats between a dequantization and a quantization.

    Args:
        op: The operation.
        dequantization: How its data are dequantized, a name in `fixed_point.DEQUANTIZATIONS`.
        quantization: How its result is quantized, a name in `fixed_point.QUANTIZATIONS`.
    """
    result, real = uniform(op.y), dequantized(uniform(op.x), dequantization, sign_shift(op))
    with np.errstate(all="ignore"):
        value = real if isinstance(op, nn.RequantizeOp) else op.formula(Lanes(real)).array
    return fixed_point.quantize(
        value, result.scale, result.zero_point, *_bounds(result), result.numpy_dtype, quantization
    )


def breakpoints(op: FunctionOp) -> Array:
    """The breakpoints between which LiteRT interpolates a 16-bit function, computed in float32; int16, [BREAKPOINTS].

    Breakpoints lie 1/512 of the elements' range apart, which is a little less than 128 elements.
    """
    data, result = uniform(op.x), uniform(op.y)
    scale = np.float32(data.scale)
    low, high = (scale * np.float32(q - data.zero_point) for q in (_elements(data)[0], _elements(data)[-1]))
    ends = [np.float32(result.scale) * np.float32(q - result.zero_point) for q in _bounds(result)]
    per_step = np.float32(1 << 16) / (ends[1] - ends[0])
    apart = (high - low) / np.float32(tables.BREAKPOINTS - 1)
    at = low + np.arange(tables.BREAKPOINTS).astype(np.float32) * apart
    with np.errstate(all="ignore"):
        value = _IN_FLOAT32.get(type(op), _nearest)
        real, following = value(op, at) * per_step, value(op, at[1:]) * per_step
        stored = half_away(real)
        middle = half_away(value(op, at[:-1] + apart / np.float32(2)) * per_step)
        error = half_away((following + stored[:-1]) / np.float32(2)) - middle
        stored[:-1] -= half_away(error / np.float32(2))
        stored[-1] = half_away(value(op, np.array([high])) * per_step)[0]
    return np.clip(np.nan_to_num(stored), *_bounds(result)).astype(np.int16)


def half_away(x: Array) -> Array:
    """Rounds to the nearest integers, halves away from zero.

    floor(x + 1/2) would be wrong for the float just below 1/2: it gives 1.
    """
    whole = np.trunc(x)
    return whole + np.copysign((np.abs(x - whole) >= 0.5).astype(x.dtype), x)


def linear_table(op: UnaryOp) -> Array:
    """The table of relu, clamp or requantize, computed in float32."""
    data, result = uniform(op.x), uniform(op.y)
    return fixed_point.quantize_in_float32(
        dequantized(data), result.scale, result.zero_point, *limits(op), result.numpy_dtype
    )


def joined_table(op: UnaryOp) -> Array:
    """The table of a requantization in LiteRT's concatenation: a product and a sum in float32, half away from zero."""
    data, result, moved = uniform(op.x), uniform(op.y), sign_shift(op)
    factor = np.float32(data.scale) * (np.float32(1) / np.float32(result.scale))
    offset = np.float32(-data.zero_point - moved) * factor
    steps = (_elements(data) + moved).astype(np.float32) * factor + offset
    return _saturated(half_away(steps.astype(np.float64)) + result.zero_point, result)


def _elements(data: UniformType) -> Array:
    """Every integer of a signed storage type, in ascending order; int64."""
    half = 1 << data.storage_width - 1
    return np.arange(-half, half)


def dequantized(data: UniformType, by: str = "exact", moved: int = 0) -> Array:
    """The number that each integer of a signed storage type stands for, in ascending order of the integers; float32.

    Args:
        data: The type.
        by: How integers are dequantized, a name in `fixed_point.DEQUANTIZATIONS`.
        moved: How much larger the integers are in the source model.
    """
    return fixed_point.dequantize(_elements(data), data.scale, data.zero_point, by=by, moved=moved)


def _bounds(result: UniformType) -> Limits:
    return result.storage_min, result.storage_max


def _saturated(values: Array, result: UniformType) -> Array:
    """Stored integers that are clamped to the storage range of their type."""
    return np.clip(values, *_bounds(result)).astype(result.numpy_dtype)


def _exact(op: FunctionOp, rounding: Rounding) -> Array:
    data, result = uniform(op.x), uniform(op.y)
    elements = _elements(data)
    return tables.lookup_table(
        op.scalar,
        data.scale,
        data.zero_point,
        result.scale,
        result.zero_point,
        in_range=(int(elements[0]), int(elements[-1])),
        out_range=_bounds(result),
        dtype=result.numpy_dtype,
    )


def pair_table(op: OperandPairOp, rounding: Rounding) -> Array:
    """The stored results of a binary operation for each pair of stored elements, [256, 256]; in integers or exact."""
    lhs, rhs, result = (uniform(v) for v in (op.lhs, op.rhs, op.y))
    if rounding.function == "fixed_point" and type(op) in FIXED_POINT_PAIRS:
        rows, columns = (_elements(type) - type.zero_point for type in (lhs, rhs))
        values = FIXED_POINT_PAIRS[type(op)](op, rows[:, None], columns, rounding.contract)
        return _saturated(values + result.zero_point, result)
    rows, columns = (reals_of_pair(op, type) for type in (lhs, rhs))
    return stored_results(op, rows[:, None], columns)


def stored_results(op: OperandPairOp, lhs: Array, rhs: Array) -> Array:
    """The stored results of a binary operation for real operands, which broadcast."""
    result = uniform(op.y)
    with np.errstate(all="ignore"):
        real = op.formula(Lanes(lhs), Lanes(rhs)).array
    return fixed_point.quantize(real, result.scale, result.zero_point, *_bounds(result), result.numpy_dtype)


def reals_of_pair(op: OperandPairOp, data: UniformType) -> Array:
    """The real number of each integer of an operand's signed storage, in ascending order; float64.

    Operands of a function that jumps are float32 numbers, as dequantization gives them: with the scale 3/255 in
    float32, 255 stands for 3 there, but in float64 for a fraction beside 3, to which no negative number can be raised.
    """
    if op.JUMPS:
        return dequantized(data).astype(np.float64)
    return (_elements(data) - data.zero_point) * data.scale


def _float32(op: FunctionOp, rounding: Rounding) -> Array:
    result = uniform(op.y)
    value = op.scalar(dequantized(uniform(op.x)).astype(np.float64)).astype(np.float32)
    limits = _bounds(result)
    return fixed_point.quantize_in_float32(value, result.scale, result.zero_point, *limits, result.numpy_dtype)


def _steps(op: FunctionOp) -> Array:
    """A function's float32 values in steps of the result's scale: times the float32 reciprocal of the scale."""
    data, result = uniform(op.x), uniform(op.y)
    x = np.float32(data.scale) * (_elements(data) - data.zero_point).astype(np.float32)
    with np.errstate(all="ignore"):
        values = _IN_FLOAT32.get(type(op), _nearest)(op, x)
        return values * (np.float32(1) / np.float32(result.scale))


def _float32_away(op: FunctionOp, rounding: Rounding) -> Array:
    result = uniform(op.y)
    steps = np.nan_to_num(_steps(op).astype(np.float64))
    rounded = np.trunc(steps + np.copysign(0.5, steps)) + result.zero_point
    return _saturated(rounded, result)


def _float32_shifted(op: FunctionOp, rounding: Rounding) -> Array:
    result, moved = uniform(op.y), sign_shift(op)
    shifted = np.nan_to_num(_steps(op) + np.float32(result.zero_point + moved))
    return _saturated(np.rint(shifted.astype(np.float64)) - moved, result)


def _float32_truncated(op: FunctionOp, rounding: Rounding) -> Array:
    result = uniform(op.y)
    values = _nearest(op, dequantized(uniform(op.x))) / np.float32(result.scale)
    truncated = np.trunc(np.nan_to_num(values.astype(np.float64))) + result.zero_point
    return _saturated(truncated, result)


def _clamped(ways: Mapping[type[FunctionOp], Callable[..., Array | None]], op: FunctionOp, rounding: Rounding) -> Array:
    """The results of an integer algorithm, clamped; the exact table if the algorithm does not accept the scales."""
    data, result = uniform(op.x), uniform(op.y)
    values = ways[type(op)](op, _elements(data) - data.zero_point, rounding.contract)
    if values is None:
        return _exact(op, rounding)
    return _saturated(values + result.zero_point, result)


# Functions that LiteRT computes in several steps, each rounded to float32.


def _nearest(op: FunctionOp, x: Array) -> Array:
    return op.scalar(x.astype(np.float64)).astype(np.float32)


def _sigmoid(op: FunctionOp, x: Array) -> Array:
    one = np.float32(1)
    return one / (one + np.exp(-x.astype(np.float64)).astype(np.float32))


def _gelu(op: nn.GeluOp, x: Array) -> Array:
    half = np.float32(0.5) * x
    if bool(op.tanh):
        cube = np.float32(0.044715) * x * x * x
        return half * (np.float32(1) + tanh_float32(np.float32(math.sqrt(2 / math.pi)) * (x + cube)))
    return half * erfc_float32(np.float32(-math.sqrt(0.5)) * x)


def erfc_float32(x: Array) -> Array:
    """erfc, correctly rounded to float32; LiteRT calls the C library, and glibc does the same from version 2.41 on."""
    return erfc(Lanes(x.astype(np.float64))).array.astype(np.float32)


def tanh_float32(x: Array) -> Array:
    """tanh, correctly rounded to float32; LiteRT calls the C library, and glibc does the same from version 2.41 on."""
    return tanh(Lanes(x.astype(np.float64))).array.astype(np.float32)


def _logarithm(op: FunctionOp, x: Array) -> Array:
    result = uniform(op.y)
    least = np.float32(_bounds(result)[0] - result.zero_point) * np.float32(result.scale)
    return np.where(x <= 0, least, _nearest(op, x))


def _inverse_root(op: FunctionOp, x: Array) -> Array:
    """1 / √x for 16-bit data; x ≤ 0 yields the greatest result."""
    result = uniform(op.y)
    most = np.float32(_bounds(result)[1]) * np.float32(result.scale)
    return np.where(x <= 0, most, np.float32(1) / np.sqrt(x))


_IN_FLOAT32: Mapping[type[FunctionOp], Callable[..., Array]] = {
    nn.SigmoidOp: _sigmoid,
    nn.GeluOp: _gelu,
    nn.LogOp: _logarithm,
    nn.RsqrtOp: _inverse_root,
}

_WAYS: Mapping[str, Callable[[FunctionOp, Rounding], Array]] = {
    "exact": _exact,
    "interpolated": _exact,
    "float32": _float32,
    "float32_away": _float32_away,
    "float32_shifted": _float32_shifted,
    "float32_truncated": _float32_truncated,
    "fixed_point": partial(_clamped, FIXED_POINT),
    "fixed_point_turned": partial(_clamped, TURNED),
    "fixed_point_short": partial(_clamped, SHORT),
    "gemmlowp": partial(_clamped, GEMMLOWP),
}


# ---------------------------------------------------------------------------------------------------------------
# Lowering of unary functions: piecewise linear functions become a clamped requantization, all others a table.


INTERPOLATION_STEPS = 1
"""Largest error of an interpolated table, in steps of the result; beyond it, the table lists all 65,536 results."""

_EVERY_16 = np.arange(-(1 << 15), 1 << 15)
"""Every signed 16-bit integer, [65536]."""


def lower_linear(op: UnaryOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers relu, clamp and requantize: y = clamp(z_y + (x − z_x) · s_x / s_y)."""
    data = uniform(op.x)
    if data.storage != data.storage_type or uniform(op.y).storage != uniform(op.y).storage_type:
        return _change_storage(op, operands)
    if uniform(op.y).storage_width == 32 and rounding.contract.startswith("float"):
        raise UnsupportedError(f"32 bits by contract {rounding.contract} have no integer form")
    if rounding.function == "float32" and data.storage_width == 8:
        return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr(linear_table(op))})]
    if rounding.function == "joined":
        return _join(op, operands)
    multiplier = None
    if rounding.function == "fixed_point_short":
        multiplier = _short_multiplier(data, uniform(op.y))
        rounding = rounding if multiplier is not None or rounding.otherwise is None else rounding.otherwise
    return [requantize(operands[0], op, rounding, input_zero_point=data.zero_point, multiplier=multiplier)]


def _join(op: UnaryOp, operands: Sequence[SSAValue]) -> list[Operation]:
    """Lowers an input of LiteRT's concatenation: int8 is rescaled in float32, int16 keeps its stored integers."""
    if uniform(op.y).storage_width == 8:
        return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr(joined_table(op))})]
    same = fixed_point.quantize_multiplier(1.0)
    return [requantize(operands[0], op, Rounding("single"), multiplier=same, zero_point=0)]


def _short_multiplier(data: UniformType, result: UniformType) -> tuple[int, int] | None:
    """The multiplier and shift of s_x / s_y rounded to 8 fractional bits, computed in float32.

    Returns:
        (multiplier, shift); None unless the result has 8 bits and the ratio lies in [2^−8, 2^7].
    """
    factor = np.float32(data.scale) / np.float32(result.scale)
    if result.storage_width != 8 or not 2.0**-8 <= factor <= 2.0**7:
        return None
    return fixed_point.quantize_multiplier(round(256 * float(factor)) / 256)


def lower_by_table(op: FunctionOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers any other unary function to a table of all results, or to a 16-bit table that is interpolated."""
    if rounding.function == "interpolated" and uniform(op.x).storage == uniform(op.y).storage == i16:
        return _between_breakpoints(operands[0], breakpoints(op))
    entries = table(op, rounding)
    if rounding.function == "exact":
        return [by_entries(operands[0], entries)]
    return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr(entries)})]


def by_entries(x: SSAValue, entries: Array) -> Operation:
    """A lookup of exact results, between breakpoints if every result then lies within `INTERPOLATION_STEPS` of them."""
    if entries.shape == (1 << 16,) and entries.dtype == np.int16:
        lines = tables.interpolation_table(entries)
        off = tables.interpolated(lines, _EVERY_16) - entries.astype(np.int64)
        if np.abs(off).max() <= INTERPOLATION_STEPS:
            return qint.InterpolatedLookupOp.make([x], {"table": WeightsAttr(lines)})
    return qint.LookupOp.make([x], {"table": WeightsAttr(entries)})


def _between_breakpoints(x: SSAValue, lines: Array) -> list[Operation]:
    """LiteRT's interpolation between breakpoints, as an interpolated table where that gives the same results.

    LiteRT takes the difference of two breakpoints modulo 2^16. If that changes a result, the table lists all results.
    """
    entries = tables.interpolated(lines, _EVERY_16, wraps=True)
    if np.array_equal(entries, tables.interpolated(lines, _EVERY_16)):
        return [qint.InterpolatedLookupOp.make([x], {"table": WeightsAttr(lines)})]
    return [qint.LookupOp.make([x], {"table": WeightsAttr(entries)})]


def lower_on_floats(op: UnaryOp, operands: Sequence[SSAValue], ways: Sequence[tuple[str, str]]) -> list[Operation]:
    """Lowers a unary function that the source model computes on floats between casts: a table of these results.

    Args:
        op: The function.
        operands: Its stored integers.
        ways: How the casts compute the elements, and the last of them (`on_floats_rounding`).
    """
    return look_up(operands[0], [between_casts(op, *way) for way in ways])


def look_up(x: SSAValue, entries: Sequence[Array]) -> list[Operation]:
    """Looks elements up in the first table; the last elements, fewer than eight, in the last table, if it differs."""
    shape, count = shape_of(x), math.prod(shape_of(x))
    whole = count - count % REST_BELOW
    if not whole or np.array_equal(entries[0], entries[-1]):
        return [qint.LookupOp.make([x], {"table": WeightsAttr(entries[-1])})]
    flat = nn.ReshapeOp.make([x], {"shape": ints([count])})
    new: list[Operation] = [flat]
    parts: list[SSAValue] = []
    for table, start, end in ((entries[0], 0, whole), (entries[-1], whole, count)):
        cut = nn.SliceOp.make([flat.y], {"offsets": ints([start]), "sizes": ints([end - start]), "strides": ints([1])})
        found = qint.LookupOp.make([cut.y], {"table": WeightsAttr(table)})
        new += [cut, found]
        parts.append(found.results[0])
    joined = nn.ConcatOp.make([parts], {"axis": IntegerAttr(0, i64)})
    return [*new, joined, nn.ReshapeOp.make([joined.y], {"shape": ints(list(shape))})]


def _change_storage(op: UnaryOp, operands: Sequence[SSAValue]) -> list[Operation]:
    """Converts u8 storage to i8 or back: stored integers change by 128, the scale stays (convert.py)."""
    data, result = uniform(op.x), uniform(op.y)
    if not isinstance(op, nn.RequantizeOp) or (data.storage_width, result.storage_width) != (8, 8):
        raise UnsupportedError(f"{data.storage} has no integer form at the edge of a network, only 8 bits have")
    bits = np.arange(-128, 128)
    q = bits if data.is_signed else bits & 255
    moved = np.clip(q - data.zero_point + result.zero_point, result.storage_min, result.storage_max)
    return [qint.LookupOp.make([operands[0]], {"table": WeightsAttr((moved & 255).astype(np.uint8).view(np.int8))})]

"""Export of requantizations and of the casts between floats and integers."""

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, TensorType, f32, f64, i1, i64
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.kernels.arithmetic import divisor, rounded_steps
from qmlir.codegen.value import Value
from qmlir.dialects.qint.requantize import NarrowingOp, RequantizeOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of, shape_of, tensor_type
from qmlir.ir.types import element_type_of
from qmlir.ir.upstream.arith import ExtUIOp
from qmlir.lowering.qint_to_linalg.structured import Array, Formula, TensorCode, tensor_of
from qmlir.numerics.fixed_point import MULTIPLIER_BITS

# ---------------------------------------------------------------------------------------------------------------
# Export of requantization under the rounding contracts of numerics/fixed_point.py, in i64 or in floats.


Rounding: TypeAlias = Callable[[Value, Value, Value], Value]
"""(a, multiplier, shift), all i64 → a · multiplier · 2^(shift − 31), rounded."""

FloatRounding: TypeAlias = Callable[[Value, Value, float], Value]
"""(a, i64; the factor, f32; a constant that is added before rounding) → a · factor, rounded, i64."""


def _half_up(value: Value, bits: Value | int) -> Value:
    """value · 2^-bits, rounded half up; bits may be 0."""
    half = (value.same(1) << bits) >> 1
    return (value + half) >> bits


def _half_away(value: Value, bits: Value) -> Value:
    """value · 2^-bits, rounded half away from zero; bits may be 0."""
    mask = (value.same(1) << bits) - 1
    threshold = (mask >> 1) - (value >> 63)  # below zero, a remainder of exactly half is rounded down
    return (value >> bits) + (threshold < (value & mask)).choose(1, value.same(0))


def _left(a: Value, shift: Value) -> Value:
    """a · 2^max(shift, 0), saturated to i32."""
    return (a << shift.maximum(0)).maximum(-(1 << 31)).minimum((1 << 31) - 1)


def single(a: Value, multiplier: Value, shift: Value) -> Value:
    """(a·q + 2^(30−s)) >> (31−s) for multiplier q and shift s: one rounding, half up."""
    return _half_up(a * multiplier, 31 - shift)


def double(a: Value, multiplier: Value, shift: Value) -> Value:
    """Rounds twice: half up to the high half of the product, then half away from zero."""
    return _half_away(_half_up(_left(a, shift) * multiplier, 31), (0 - shift).maximum(0))


def updown(a: Value, multiplier: Value, shift: Value) -> Value:
    """Rounds twice: half up to the high half of the product, then down."""
    return _half_up(_left(a, shift) * multiplier, 31) >> (0 - shift).maximum(0)


def upup(a: Value, multiplier: Value, shift: Value) -> Value:
    """Rounds half up twice: to the high half of the product, then by the right shift."""
    return _half_up(_half_up(_left(a, shift) * multiplier, 31), (0 - shift).maximum(0))


def away(a: Value, multiplier: Value, shift: Value) -> Value:
    """One rounding, half away from zero."""
    return _half_away(a * multiplier, 31 - shift)


def single64(a: Value, multiplier: Value, shift: Value) -> Value:
    """`single` for a product that i64 cannot hold, with a = high · 2^16 + low."""
    bits = 31 - shift
    half = (a.same(1) << bits) >> 1
    return (a >> 16) * multiplier + ((a & 0xFFFF) * multiplier + half >> 16) >> bits - 16


def away64(a: Value, multiplier: Value, shift: Value) -> Value:
    """`single64` of |a|, with the sign of a: one rounding, half away from zero."""
    magnitude = single64(a.maximum(0 - a), multiplier, shift)
    return (a < 0).choose(0 - magnitude, magnitude)


def reduced16(a: Value, multiplier: Value, shift: Value) -> Value:
    """(a·r + 2^(14−s)) >> (15−s), where r is the multiplier rounded half up to its upper 16 bits, at most 2^15 − 1."""
    return _half_up(a * (multiplier + (1 << 15) >> 16).minimum((1 << 15) - 1), 15 - shift)


ROUNDINGS: Mapping[str, Rounding] = {
    "single": single,
    "shift": single,
    "double": double,
    "upup": upup,
    "updown": updown,
    "single64": single64,
    "reduced16": reduced16,
    "away": away,
    "away16": away,
    "away64": away64,
}
"""Contract → its integer arithmetic."""


def float_even(a: Value, factor: Value, constant: float) -> Value:
    """rint(f32(a) · f32(M)), half to even."""
    return (a.to(f32) * factor).round_even().to(i64)


def float_sum(a: Value, factor: Value, constant: float) -> Value:
    """rint(f32(f32(f32(a) · f32(M)) + C)): the sum is computed in f64 and rounded to f32, as by fixed_point.py."""
    product = (a.to(f32) * factor).to(f64)
    return (product + constant).to(f32).round_even().to(i64)


FLOAT_ROUNDINGS: Mapping[str, FloatRounding] = {"float_even": float_even, "float_sum": float_sum}
"""Contract → its float arithmetic, in which each operation rounds its result."""


def narrowed(op: NarrowingOp, value: Value) -> Value:
    """clamp(value + zero_point, min, max), truncated from i64 to the result's type."""
    bounded = value + op.zero_point.value.data
    return bounded.maximum(op.lower.value.data).minimum(op.upper.value.data).to(element_of(op.y))


def _requantize(code: TensorCode, op: RequantizeOp, x: SSAValue) -> SSAValue:
    contract = op.contract.data
    multiplier, shift = (np.array(v.get_values(), np.int32) for v in (op.multiplier, op.shift))
    in_floats = FLOAT_ROUNDINGS.get(contract)
    if in_floats is None:
        parameters, element = [multiplier, shift], i64
    else:
        parameters, element = [np.ldexp(multiplier.astype(np.float32), shift - MULTIPLIER_BITS)], f32

    def formula(x: Value, *parameters: Value) -> Value:
        a = x.to(i64) - op.input_zero_point.value.data
        numbers = [p.to(element) for p in parameters]
        if in_floats is None:
            return narrowed(op, ROUNDINGS[contract](a, numbers[0], numbers[1]))
        return narrowed(op, in_floats(a, numbers[0], op.summand()))

    if len(multiplier) > 1:
        return code.elementwise([x, *map(code.constant, parameters)], tensor_type(op.y), formula)

    def with_numbers(x: Value) -> Value:
        return formula(x, *(x.code.constant(p[0].item(), element) for p in parameters))

    return code.elementwise([x], tensor_type(op.y), with_numbers)


# ---------------------------------------------------------------------------------------------------------------
# Export of quant.qcast, quant.dcast and quant.scast, per tensor and per axis, in f64.
#
# Unlike upstream's `lower-quant-ops`, the quantizing cast rounds to nearest, as everywhere in qmlir
# (numerics/fixed_point.py).


STORED_WIDTHS = (8, 16, 32)
"""Widths in bits of the storage integers that have the same bytes in numpy arrays and in tensors."""

_UNORDERED = IntegerAttr(arith.CMPF_COMPARISON_OPERATIONS.index("uno"), i64)


def _quantize(code: TensorCode, op: QuantizeCastOp, x: SSAValue) -> SSAValue:
    """Writes clamp(round(x / scale) + zero_point, low, high); the cast's attribute names the rounding.

    NaN becomes the zero point.
    """
    type, by = op.quantized, op.quantization
    _check(code, type)
    zero_points = np.array(type.zero_points, np.float64)

    def formula(x: Value, scale: Value, zero_point: Value) -> Value:
        q = rounded_steps(x, scale, by) + zero_point
        number = _is_nan(q).choose(zero_point, q).maximum(float(type.storage_min)).minimum(float(type.storage_max))
        return number.to(i64).to(type.storage_type)

    result = tensor_of(type.storage_type, shape_of(x))
    return _with_parameters(code, type, x, (divisor(np.array(type.scales), by), zero_points), result, formula)


def _is_nan(x: Value) -> Value:
    fastmath = arith.FastMathFlagsAttr("none")
    return x.code.emit(arith.CmpfOp, [x.ssa, x.ssa], i1, {"predicate": _UNORDERED, "fastmath": fastmath})


def _dequantize(code: TensorCode, op: DequantizeCastOp, q: SSAValue) -> SSAValue:
    """Writes f32(f64(q − zero_point) · scale)."""
    type = op.quantized
    _check(code, type)

    def formula(q: Value, scale: Value, zero_point: Value) -> Value:
        wide = q.to(i64) if type.is_signed else q.code.emit(ExtUIOp, [q.ssa], i64)
        return ((wide - zero_point).to(f64) * scale).to(f32)

    parameters = np.array(type.scales), np.array(type.zero_points, np.int64)
    return _with_parameters(code, type, q, parameters, tensor_of(f32, shape_of(q)), formula)


def _with_parameters(
    code: TensorCode,
    type: UniformType,
    x: SSAValue,
    parameters: tuple[Array, Array],
    result: TensorType[Attribute],
    formula: Formula,
) -> SSAValue:
    """Writes formula(x, scale, zero point) per element.

    Per-tensor parameters become constants inside the formula. Per-axis parameters become tensors along the axis.
    """
    if type.axis is None:

        def with_numbers(x: Value) -> Value:
            return formula(x, *(x.code.constant(p[0].item(), element_type_of(p.dtype)) for p in parameters))

        return code.elementwise([x], result, with_numbers)
    along = [-1 if d == type.axis else 1 for d in range(type.axis, len(shape_of(x)))]
    return code.elementwise([x, *(code.constant(p.reshape(along)) for p in parameters)], result, formula)


def _storage(code: TensorCode, op: StorageCastOp, x: SSAValue) -> SSAValue:
    return x


def _check(code: TensorCode, type: UniformType) -> None:
    if type.storage_width not in STORED_WIDTHS:
        code.refuse(f"needs storage of {STORED_WIDTHS} bits", got=str(type), remedy="store it in 8 bits")
    if type.expressed != f32:
        code.refuse("needs an expressed type of f32", got=str(type), remedy="express it as f32")


RULES = {
    RequantizeOp: _requantize,
    QuantizeCastOp: _quantize,
    DequantizeCastOp: _dequantize,
    StorageCastOp: _storage,
}

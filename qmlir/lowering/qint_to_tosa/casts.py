"""Export of quant.qcast, quant.dcast and quant.scast with 8-bit storage, per tensor and per axis.

The casts are defined in f64 (numerics/fixed_point.py), which TOSA does not have. For 8 bits, tables of thresholds and
values give the same results.

Dequantizing looks up one of 256 floats. Quantizing is a step function: with t[q] the least float that is quantized to q
or more, x becomes the q with t[q] ≤ x < t[q + 1]. A first guess g in f32, the rounded x · (1 / scale) plus the zero
point, is never off by more than one step. Two comparisons correct it:

    q = g − 1 + (x ≥ t[g]) + (x ≥ t[g + 1])
"""

import numpy as np
from xdsl.dialects.builtin import FloatAttr, f32, i8, i32
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.way_out import Array
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import shape_of
from qmlir.ir.upstream.tosa.elementwise import ClampOp
from qmlir.lowering.qint_to_tosa.tensors import ADD, EQUAL, GREATER_EQUAL, TosaCode
from qmlir.numerics import fixed_point

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
    thresholds = np.concatenate([_thresholds(type, c, op.quantization) for c in range(len(type.scales))])
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
    reals = [
        fixed_point.dequantize(stored, scale, zero_point)
        for scale, zero_point in zip(type.scales, type.zero_points, strict=True)
    ]
    place = _place(code, type, code.cast(q, i32), -STEPS // 2, STEPS)
    return code.looked_up(code.table(np.concatenate(reals).astype(np.float32)), place)


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


RULES = {QuantizeCastOp: _quantize, DequantizeCastOp: _dequantize, StorageCastOp: _storage}

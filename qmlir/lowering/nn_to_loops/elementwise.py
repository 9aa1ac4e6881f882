"""Kernels of operations on single elements, casts and conversions included."""

import math
from dataclasses import dataclass, field, replace

import numpy as np
from xdsl.dialects.builtin import (
    BFloat16Type,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    Float16Type,
    Float32Type,
    Float64Type,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
    i64,
)
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.codegen.code import WIDTHS
from qmlir.codegen.kernels.elementwise import lower_elementwise
from qmlir.codegen.lowering import MainLowering, Rules, memref_shape
from qmlir.codegen.value import Value
from qmlir.dialects import nn
from qmlir.dialects.nn import BitcastOp, CastOp
from qmlir.dialects.nn.base import is_unsigned
from qmlir.dialects.nn.elementwise import PointwiseOp
from qmlir.dialects.quant.ops import REST_BELOW, DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.types import dtype_of, is_integer
from qmlir.lowering.nn_to_loops.stored_weights import floats_of_constant
from qmlir.numerics.elementary.exponential import EXPONENT_BIAS, FRACTION_BITS
from qmlir.numerics.elementary.lanes import I32, I64
from qmlir.numerics.fixed_point import QUANTIZATIONS, Dequantize, Quantize

# ---------------------------------------------------------------------------------------------------------------
# Lowering of pointwise operations: the operation's own formula becomes an elementwise kernel.


F64_WIDTHS = (8,)
"""Lanes of vectors for formulas that compute in f64: 16 lanes would leave no registers for intermediate values."""

VECTORS: dict[type[PointwiseOp], tuple[int, ...]] = {
    nn.AddOp: WIDTHS,
    nn.SubOp: WIDTHS,
    nn.MulOp: WIDTHS,
    nn.ReluOp: WIDTHS,
    nn.ClampOp: WIDTHS,
    nn.SigmoidOp: F64_WIDTHS,
    nn.TanhOp: F64_WIDTHS,
    nn.ErfOp: F64_WIDTHS,
}
"""Operation → lanes of its vectors. Only formulas without comparisons are written as vectors, because xDSL compares
scalars only; LLVM vectorizes the kernels of all other formulas."""


@dataclass(frozen=True)
class OpFormula:
    """An operation's formula; two formulas are equal if the operations' class, properties and element types are."""

    kind: type[PointwiseOp]
    properties: tuple[tuple[str, Attribute], ...]
    elements: tuple[Attribute, ...]
    op: PointwiseOp = field(compare=False)

    @staticmethod
    def of(op: PointwiseOp) -> "OpFormula":
        elements = tuple(element_of(v) for v in (*op.operands, *op.results))
        return OpFormula(type(op), tuple(sorted(op.properties.items())), elements, op)

    def __call__(self, *operands: Value) -> Value:
        return self.op.formula(*operands)


def lower_pointwise(state: MainLowering, op: PointwiseOp) -> None:
    """Lowers an operation on single elements by its formula."""
    formula = OpFormula.of(op)
    widths = VECTORS.get(type(op), ())
    if i1 in formula.elements or (isinstance(op, nn.ErfOp) and f64 in formula.elements):
        widths = ()
    buffers = [state.buffer(x) for x in op.operands]
    lower_elementwise(state, op.name.replace(".", "_"), formula, buffers, op.results[0], widths)


def _same(state: MainLowering, op: nn.RequantizeOp) -> None:
    state.replace(op.y, state.buffer(op.x))


# ---------------------------------------------------------------------------------------------------------------
# Conversion of floats of 16 bits and fewer, with integer operations and exact f64 arithmetic.
#
# Buffers hold the bits of these floats as integers (kernel.py): i16 for f16 and bf16, i8 for all narrower floats. The
# results are the same on every processor.


@dataclass(frozen=True)
class NarrowFloat:
    """A binary float format with a sign, an exponent and a fraction.

    width       the width in bits
    fraction    the bits of the fraction
    bias        the bias of the exponent
    largest     the largest finite number
    infinity    the bits of ∞; None if the format has no infinity
    nan         the bits of NaN, None if the format has no NaN; if only the sign bit is set, the format has no −0
    """

    width: int
    fraction: int
    bias: int
    largest: float
    infinity: int | None
    nan: int | None

    @property
    def sign(self) -> int:
        """The integer in which only the sign bit is set."""
        return 1 << self.width - 1

    @property
    def _rebiased(self) -> int:
        """The difference between the exponent biases of f64 and this format, shifted to f64's exponent field."""
        return (EXPONENT_BIAS - self.bias) << FRACTION_BITS

    def decoded(self, x: Value) -> Value:
        """Decodes a buffer's integer to the f64 number of the same value."""
        bits = x.to(i64) & (self.sign * 2 - 1)
        magnitude = bits & (self.sign - 1)
        normal = ((magnitude << FRACTION_BITS - self.fraction) + self._rebiased).bits(f64)
        subnormal = magnitude.to(f64) * 2.0 ** (1 - self.bias - self.fraction)
        number = magnitude.less(1 << self.fraction).choose(subnormal, normal)
        if self.infinity is not None:
            beyond = magnitude.equals(self.infinity).choose(math.inf, number.same(math.nan))
            number = magnitude.less(self.infinity).choose(number, beyond)
        elif self.nan is not None and self.nan < self.sign:
            number = magnitude.equals(self.nan).choose(math.nan, number)
        number = number.with_sign_of((bits << 64 - self.width).bits(f64))
        return bits.equals(self.sign).choose(math.nan, number) if self.nan == self.sign else number

    def encoded(self, x: Value, *, saturate: bool) -> Value:
        """Encodes an f64 as the nearest number of the format, ties to even; returns the bits as an i64.

        Numbers beyond the range become the largest number if `saturate`, else infinity, or NaN if there is no infinity.
        """
        a = x.magnitude()
        bounded = a.minimum_number(self.largest if saturate else 4 * self.largest)
        # The result's last bit lies `fraction` bits below the leading bit, but not below the last bit of subnormals.
        leading = ((bounded.bits(i64) >> FRACTION_BITS) - EXPONENT_BIAS).maximum(1 - self.bias)
        scale = ((leading + (EXPONENT_BIAS - self.fraction)) << FRACTION_BITS).bits(f64)
        rounded = (bounded / scale).round_even() * scale
        normal = (rounded.bits(i64) - self._rebiased) >> FRACTION_BITS - self.fraction
        subnormal = (rounded * 2.0 ** (self.bias + self.fraction - 1)).to(i64)
        bits = rounded.less(2.0 ** (1 - self.bias)).choose(subnormal, normal)
        beyond = self.infinity if self.infinity is not None else self.nan
        if beyond is not None:
            bits = rounded.less_equal(self.largest).choose(bits, bits.same(beyond))
        sign = (x.bits(i64) >> 64 - self.width) & self.sign
        if self.nan == self.sign:
            bits = bits.equals(0).choose(0, bits | sign)
        else:
            bits = bits | sign
        if self.nan is not None:
            bits = x.is_nan().choose(self.nan, bits)
        else:
            bits = x.is_nan().choose(self.sign, bits)  # a format without NaN gets −0
        return bits


FORMATS: dict[type[Attribute], NarrowFloat] = {
    Float16Type: NarrowFloat(16, 10, 15, 65504.0, 0x7C00, 0x7E00),
    Float8E4M3FNType: NarrowFloat(8, 3, 7, 448.0, None, 0x7F),
    Float8E4M3FNUZType: NarrowFloat(8, 3, 8, 240.0, None, 0x80),
    Float8E5M2Type: NarrowFloat(8, 2, 15, 57344.0, 0x7C, 0x7E),
    Float8E5M2FNUZType: NarrowFloat(8, 2, 16, 57344.0, None, 0x80),
    Float4E2M1FNType: NarrowFloat(4, 1, 1, 6.0, None, None),
}


def from_narrow(x: Value, element: Attribute) -> Value:
    """Decodes a buffer's integer to a number: bf16 to f32, all other formats to f64."""
    if isinstance(element, BFloat16Type):
        return (x.to(i32) << 16).bits(f32)
    return FORMATS[type(element)].decoded(x)


def to_narrow(x: Value, element: Attribute, stored: Attribute, *, saturate: bool) -> Value:
    """Encodes a float as a buffer's integer: f16 is rounded from f64 directly, all other formats from f32."""
    if isinstance(element, BFloat16Type):
        return _to_bfloat(x.to(f32))
    if isinstance(element, Float16Type):
        return FORMATS[Float16Type].encoded(x.to(f64), saturate=False).to(stored)
    format = FORMATS[type(element)]
    return format.encoded(x.to(f32).to(f64), saturate=saturate or format.nan is None).to(stored)


def _to_bfloat(x: Value) -> Value:
    """Encodes an f32 as the nearest bf16, ties to even; returns the bits as an i16."""
    bits = x.bits(i32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    quiet = (bits & -0x80000000) | 0x7FC00000
    return (x.is_nan().choose(quiet, rounded) >> 16).to(i16)


# ---------------------------------------------------------------------------------------------------------------
# Lowering of nn.cast and nn.bitcast, which convert between element types.


CONVERTED = (BFloat16Type, Float32Type, Float64Type, *FORMATS)


@dataclass(frozen=True)
class Cast:
    """The conversion of one element; see `CastOp`. Integers are read as signed or unsigned according to their type.

    stored     the element type of the target's buffer
    saturate   whether a float beyond the target's range becomes the largest number
    """

    source: Attribute
    target: Attribute
    stored: Attribute
    saturate: bool

    def __call__(self, x: Value) -> Value:
        number = self._number(x)
        if self.target == i1:
            return number.equals(0) ^ 1
        if is_integer(self.target):
            return self._integer(number)
        if is_integer(self.source):
            number = number.to(f64 if self.target == f64 else f32, unsigned=is_unsigned(self.source))
        return self._stored(number)

    def _number(self, x: Value) -> Value:
        """Converts a buffer's element to a number: an integer, f32 or f64."""
        if not is_integer(self.source):
            return x if self.source in (f32, f64) else from_narrow(x, self.source)
        width = self.source.width.data
        return _low_bits(x, width, is_unsigned(self.source)) if width in (2, 4) else x

    def _integer(self, x: Value) -> Value:
        """Converts a number to the target's integer type: integers keep their low bits, floats saturate."""
        assert is_integer(self.target)
        unsigned, width = is_unsigned(self.target), self.target.width.data
        if not is_integer(self.source):
            x = _saturated(x.to(f64), *((width, unsigned) if width >= 8 else (32, False)))
        stored = x.to(i8 if width < 8 else _signless(self.target), unsigned=is_unsigned(self.source))
        return stored if width >= 8 else _low_bits(stored, width, unsigned)

    def _stored(self, x: Value) -> Value:
        """Converts a float to the form that the target's buffer holds."""
        if self.target in (f32, f64):
            return x.to(self.target)
        return to_narrow(x, self.target, self.stored, saturate=self.saturate)


def _low_bits(x: Value, width: int, unsigned: bool) -> Value:
    """Extends the low `width` bits of an i8 to a whole i8, with zeros if `unsigned`, else with the sign."""
    spare = 8 - width
    return (x << spare).logical_shift(spare) if unsigned else (x << spare) >> spare


def _signless(element: Attribute) -> Attribute:
    assert is_integer(element)
    return type(element)(element.width.data)


def _saturated(x: Value, width: int, unsigned: bool) -> Value:
    """Converts an f64 to i64, rounded toward zero and saturated to an integer type's range; NaN becomes 0."""
    low, high = (0, (1 << width) - 1) if unsigned else (-(1 << width - 1), (1 << width - 1) - 1)
    number = x.is_nan().choose(0.0, x)
    above = number.same(float(high + 1)).less_equal(number)  # high + 1 is a power of two, so exact as a float
    below = number.less_equal(float(low))
    inside = (above | below).choose(0.0, number)
    whole = inside.to(i64, unsigned=unsigned)
    signed_high = high - (1 << 64) if high >= 1 << 63 else high
    return above.choose(signed_high, below.choose(low, whole))


def _cast(state: MainLowering, op: CastOp) -> None:
    source, target = element_of(op.x), element_of(op.y)
    for element in (source, target):
        if not is_integer(element) and not isinstance(element, CONVERTED):
            state.refuse(
                op, "converts floats that have a sign and a fraction", got=str(element), remedy="cast constants only"
            )
    if source == target:
        state.replace(op.y, state.buffer(op.x))
        return
    formula = Cast(source, target, state.buffer_type(op.y).element_type, bool(op.saturate))
    lower_elementwise(state, "nn_cast", formula, [state.buffer(op.x)], op.y, ())


@dataclass(frozen=True)
class Bitcast:
    """Reinterprets the bits of an element as the element type of the target's buffer."""

    target: Attribute

    def __call__(self, x: Value) -> Value:
        return x if x.element == self.target else x.bits(self.target)


def _bitcast(state: MainLowering, op: BitcastOp) -> None:
    target = state.buffer_type(op.y).element_type
    lower_elementwise(state, "nn_bitcast", Bitcast(target), [state.buffer(op.x)], op.y, ())


# ---------------------------------------------------------------------------------------------------------------
# Lowering of quant.qcast, quant.dcast and quant.scast, per tensor and per axis.


STORED_WIDTHS = (8, 16, 32)
"""Widths in bits of the storage integers that memory holds unpacked."""


def _check(state: MainLowering, op: Operation, type: UniformType) -> None:
    if type.storage_width not in STORED_WIDTHS:
        state.refuse(op, f"needs storage of {STORED_WIDTHS} bits", got=str(type), remedy="store it in 8 bits")
    if type.expressed != f32:
        state.refuse(op, "needs an expressed type of f32", got=str(type))


def _rest_count(value: SSAValue) -> int:
    """The number of a tensor's last elements, fewer than eight."""
    return math.prod(shape_of(value)) % REST_BELOW


@dataclass(frozen=True)
class OfNumbers:
    """A cast's formula with its scale and zero point as numbers in it, whatever parameters the kernel has."""

    formula: Quantize | Dequantize
    types: tuple[Attribute, Attribute]
    numbers: tuple[float, float]

    def __call__(self, x: Value, *parameters: Value) -> Value:
        return self.formula(x, *map(x.code.constant, self.numbers, self.types))


FAR = 1 << 20
"""Beyond all stored integers of 16 bits, also with a zero point of up to half of it added or subtracted."""


@dataclass(frozen=True)
class QuantizeShort:
    """`Quantize` for a quotient in float32 and at most 16 bits, Z being an i32: the same bits without float64.

    A quotient in float32 is rounded to a whole number in float32 as well as in float64. Clamped to ±`FAR` it fits i32,
    where the sum with Z is as exact as in float64, and what the clamp takes off is beyond both bounds.
    """

    formula: Quantize

    def __call__(self, x: Value, divisor: Value, zero_point: Value) -> Value:
        single = x.to(f32)
        quotient = single * divisor if self.formula.by == "float32_reciprocal" else single / divisor
        steps = quotient.round_even()
        number = steps.maximum_number(0.0) + steps.minimum_number(0.0)  # makes NaN 0, as `Quantize` does
        whole = number.maximum(-float(FAR)).minimum(float(FAR)).to(i32)
        return (whole + zero_point).maximum(self.formula.low).minimum(self.formula.high).to(self.formula.storage)


def _quantize(state: MainLowering, op: QuantizeCastOp) -> None:
    type = op.quantized
    _check(state, op, type)
    x = state.buffer(op.input)
    scale, zero_point = type.parameters_along(len(memref_shape(x)))
    divisor = state.constant(QUANTIZATIONS[op.quantization].divisor(scale))
    formula = Quantize(type.storage_min, type.storage_max, dtype_of(type.storage_type), op.quantization)
    rest, count = None, _rest_count(op.result)
    if op.rest is not None and count:
        numbers = QUANTIZATIONS[op.rest].divisor(scale).item(), float(zero_point.item())
        rest = OfNumbers(replace(formula, by=op.rest), (f64, f64), numbers)
    in_float32 = op.quantization in ("float32", "float32_reciprocal")
    if in_float32 and type.storage_width <= 16 and np.abs(zero_point).max() < FAR // 2:
        operands = [x, divisor, state.constant(zero_point.astype(np.int32))]
        short = QuantizeShort(formula)
        lower_elementwise(state, "quant_qcast", short, operands, op.result, WIDTHS, rest=rest, count=count)
        return
    operands = [x, divisor, state.constant(zero_point.astype(np.float64))]
    lower_elementwise(state, "quant_qcast", formula, operands, op.result, F64_WIDTHS, rest=rest, count=count)


def _dequantize(state: MainLowering, op: DequantizeCastOp) -> None:
    type = op.quantized
    _check(state, op, type)
    if floats_of_constant(state, op):
        return
    q = state.buffer(op.input)
    scale, zero_point = type.parameters_along(len(memref_shape(q)))
    wide = type.storage_width > 16 or bool(np.abs(zero_point).max() >= 1 << 30)
    formula = Dequantize(type.is_signed, I64 if wide else I32, by=op.quantization, moved=op.sign_shift)
    rest, count = None, _rest_count(op.result)
    if op.rest is not None and count:
        numbers = scale.item(), zero_point.item()
        rest = OfNumbers(replace(formula, by=op.rest), (f64, i64 if wide else i32), numbers)
    operands = [q, state.constant(scale), state.constant(zero_point.astype(formula.wide))]
    lower_elementwise(state, "quant_dcast", formula, operands, op.result, F64_WIDTHS, rest=rest, count=count)


@dataclass(frozen=True)
class SignExtend:
    """Sign-extends an integer in the low bits of a byte; `spare` is the number of upper bits."""

    spare: int

    def __call__(self, x: Value) -> Value:
        return (x << self.spare) >> self.spare


def _storage(state: MainLowering, op: StorageCastOp) -> None:
    """Lowers a storage cast to the same buffer.

    Signed integers of 2 and 4 bits are sign-extended, because arrays leave the upper bits of each byte empty.
    """
    x, element = state.buffer(op.input), element_of(op.input)
    if is_integer(element) and element.width.data in (2, 4) and not is_unsigned(element):
        lower_elementwise(state, "quant_scast", SignExtend(8 - element.width.data), [x], op.result)
    else:
        state.replace(op.result, x)


RULES: Rules = {
    PointwiseOp: lower_pointwise,
    nn.RequantizeOp: _same,
}

CASTS: Rules = {
    CastOp: _cast,
    BitcastOp: _bitcast,
    QuantizeCastOp: _quantize,
    DequantizeCastOp: _dequantize,
    StorageCastOp: _storage,
}

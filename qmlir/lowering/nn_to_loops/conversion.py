"""nn.cast and nn.bitcast: between element types, one element at a time.

Buffers hold the bits of types that only store (kernel.py), so halves are taken apart and put together here with
integers and exact f64 arithmetic: every processor does that alike.
"""

from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, f32, f64, i1, i8, i16, i32, i64
from xdsl.ir import Attribute

from qmlir.dialects.interfaces import element_of
from qmlir.dialects.loops import is_integer
from qmlir.dialects.nn import BitcastOp, CastOp
from qmlir.dialects.nn.base import is_unsigned
from qmlir.lowering.kernel import MainLowering, Rules
from qmlir.lowering.kernels.elementwise import lower_elementwise
from qmlir.lowering.value import Value

CONVERTED = (Float16Type, BFloat16Type, Float32Type, Float64Type)

HALF_FRACTION, HALF_BIAS = 10, 15
F64_FRACTION, F64_BIAS = 52, 1023
REBIASED = (F64_BIAS - HALF_BIAS) << F64_FRACTION
"""What the bits of an f64 have more than those of an f16, moved to the same place."""


@dataclass(frozen=True)
class Cast:
    """The conversion; see `CastOp`. Integers, and numbers of i1, count as their type says."""

    source: Attribute
    target: Attribute

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
        """What a buffer holds as a number: an integer of its own width, f32 or f64."""
        match self.source:
            case Float16Type():
                return _from_half(x)
            case BFloat16Type():
                return (x.to(i32) << 16).bits(f32)
            case _ if is_integer(self.source) and self.source.width.data in (2, 4):
                spare = 8 - self.source.width.data
                return (x << spare).logical_shift(spare) if is_unsigned(self.source) else (x << spare) >> spare
            case _:
                return x

    def _integer(self, x: Value) -> Value:
        """The number as an integer: its low bits, or saturated where it was a float."""
        assert is_integer(self.target)
        unsigned, width = is_unsigned(self.target), self.target.width.data
        if not is_integer(self.source):
            x = _saturated(x.to(f64), *((width, unsigned) if width >= 8 else (32, False)))
        stored = x.to(i8 if width < 8 else _signless(self.target), unsigned=is_unsigned(self.source))
        if width >= 8:
            return stored
        spare = 8 - width
        return (stored << spare).logical_shift(spare) if unsigned else (stored << spare) >> spare

    def _stored(self, x: Value) -> Value:
        """A float as the target's buffer holds it."""
        match self.target:
            case Float16Type():
                return _to_half(x.to(f64))
            case BFloat16Type():
                return _to_bfloat(x.to(f32))
            case _:
                return x.to(self.target)


def _signless(element: Attribute) -> Attribute:
    assert is_integer(element)
    return type(element)(element.width.data)


def _saturated(x: Value, width: int, unsigned: bool) -> Value:
    """An f64 rounded toward zero as an i64, within the limits of an integer type; NaN is 0."""
    low, high = (0, (1 << width) - 1) if unsigned else (-(1 << width - 1), (1 << width - 1) - 1)
    number = x.is_nan().choose(0.0, x)
    above = number.same(float(high + 1)).less_equal(number)  # a power of two, exact where `high` is not
    below = number.less_equal(float(low))
    inside = (above | below).choose(0.0, number)
    whole = inside.to(i64, unsigned=unsigned)
    signed_high = high - (1 << 64) if high >= 1 << 63 else high
    return above.choose(signed_high, below.choose(low, whole))


def _from_half(x: Value) -> Value:
    """The bits of an f16, an i16, as f64."""
    bits = x.to(i64) & 0xFFFF
    magnitude = bits & 0x7FFF
    moved = magnitude << (F64_FRACTION - HALF_FRACTION)
    normal = (moved + REBIASED).bits(f64)
    subnormal = magnitude.to(f64) * 2.0 ** (1 - HALF_BIAS - HALF_FRACTION)
    special = (moved | (0x7FF << F64_FRACTION)).bits(f64)
    number = magnitude.less(1 << HALF_FRACTION).choose(subnormal, normal)
    number = magnitude.less(31 << HALF_FRACTION).choose(number, special)
    return number.with_sign_of((bits << 48).bits(f64))


def _to_half(x: Value) -> Value:
    """The nearest f16, ties to even, as its bits, an i16."""
    a = x.magnitude()
    # The last place of the result: 10 binary places below the leading one, and never below that of subnormals.
    leading = ((a.bits(i64) >> F64_FRACTION) - F64_BIAS).maximum(1 - HALF_BIAS).minimum(HALF_BIAS + 1)
    scale = ((leading + (F64_BIAS - HALF_FRACTION)) << F64_FRACTION).bits(f64)
    rounded = (a.minimum_number(2.0 ** (HALF_BIAS + 1)) / scale).round_even() * scale  # exact, or not below 2^16
    normal = (rounded.bits(i64) - REBIASED) >> (F64_FRACTION - HALF_FRACTION)
    subnormal = (rounded * 2.0 ** (HALF_BIAS + HALF_FRACTION - 1)).to(i64)
    bits = rounded.less(2.0 ** (1 - HALF_BIAS)).choose(subnormal, normal)
    bits = rounded.less(2.0 ** (HALF_BIAS + 1)).choose(bits, bits.same(31 << HALF_FRACTION))
    bits = x.is_nan().choose(0x7E00, bits)
    return (bits | ((x.bits(i64) >> 48) & 0x8000)).to(i16)


def _to_bfloat(x: Value) -> Value:
    """The nearest bf16, ties to even, as its bits, an i16."""
    bits = x.bits(i32)
    rounded = bits + 0x7FFF + ((bits >> 16) & 1)
    quiet = (bits & -0x80000000) | 0x7FC00000
    return (x.is_nan().choose(quiet, rounded) >> 16).to(i16)


def _cast(state: MainLowering, op: CastOp) -> None:
    source, target = element_of(op.x), element_of(op.y)
    for element in (source, target):
        if not is_integer(element) and not isinstance(element, CONVERTED):
            state.refuse(op, "converts floats of 16 bits and more", got=str(element), remedy="cast constants only")
    if source == target:
        state.replace(op.y, state.buffer(op.x))
        return
    lower_elementwise(state, "nn_cast", Cast(source, target), [state.buffer(op.x)], op.y, ())


@dataclass(frozen=True)
class Bitcast:
    """The same bits under another element type of a buffer."""

    target: Attribute

    def __call__(self, x: Value) -> Value:
        return x if x.element == self.target else x.bits(self.target)


def _bitcast(state: MainLowering, op: BitcastOp) -> None:
    target = state.buffer_type(op.y).element_type
    lower_elementwise(state, "nn_bitcast", Bitcast(target), [state.buffer(op.x)], op.y, ())


RULES: Rules = {CastOp: _cast, BitcastOp: _bitcast}

"""Lowering of nn.cast and nn.bitcast, which convert between element types."""

from dataclasses import dataclass

from xdsl.dialects.builtin import BFloat16Type, Float32Type, Float64Type, f32, f64, i1, i8, i64
from xdsl.ir import Attribute

from qmlir.codegen.kernel import MainLowering, Rules
from qmlir.codegen.kernels.elementwise import lower_elementwise
from qmlir.codegen.value import Value
from qmlir.dialects.nn import BitcastOp, CastOp
from qmlir.dialects.nn.base import is_unsigned
from qmlir.ir.interfaces import element_of
from qmlir.ir.predicates import is_integer
from qmlir.lowering.nn_to_loops.narrow_floats import FORMATS, from_narrow, to_narrow

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


RULES: Rules = {CastOp: _cast, BitcastOp: _bitcast}

"""Lowering of requantization: vector code for every rounding contract of numerics/fixed_point.py.

`Requantize` is the epilogue of a fused kernel, or the formula of a kernel of its own. Its arithmetic has no branches
and no comparisons: the mask `x >> 63`, all ones below zero, replaces a test of the sign.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from xdsl.dialects.builtin import IntegerType, f32, i32, i64
from xdsl.ir import SSAValue

from qmlir.codegen.kernel import Array, MainLowering, Rules
from qmlir.codegen.kernels.arithmetic import Epilogue
from qmlir.codegen.kernels.elementwise import lower_elementwise
from qmlir.codegen.value import Value
from qmlir.dialects.qint.requantize import NarrowingOp, RequantizeOp
from qmlir.ir.interfaces import element_of
from qmlir.ir.types import is_integer

Rounding: TypeAlias = Callable[[Value, Value, Value], Value]
"""(a, multiplier, shift), i64 of one shape → a · multiplier · 2^(shift − 31), rounded; i64."""


def _half_up(value: Value, bits: Value | int) -> Value:
    half = (value.same(1) << bits).logical_shift(1)
    return (value + half) >> bits


def _half_away(value: Value, bits: Value) -> Value:
    mask = (value.same(1) << bits) - 1
    threshold = mask.logical_shift(1) - _sign(value)
    above = (threshold - (value & mask)).logical_shift(63)  # 1 where the remainder exceeds the threshold
    return (value >> bits) + above


def _sign(value: Value) -> Value:
    """−1 where the value is negative, else 0."""
    return value >> 63


def _left(a: Value, shift: Value) -> Value:
    """a · 2^max(shift, 0), saturated to i32."""
    return (a << shift.maximum(0)).maximum(-(1 << 31)).minimum((1 << 31) - 1)


def single(a: Value, multiplier: Value, shift: Value) -> Value:
    """One rounding, half up."""
    return _half_up(a * multiplier, 31 - shift)


def double(a: Value, multiplier: Value, shift: Value) -> Value:
    """Two roundings: half up to the high half of the product, then half away from zero."""
    product = _left(a, shift) * multiplier
    nudged = product + (1 << 30) + (_sign(product) & (1 - (1 << 31)))
    sign = _sign(nudged)
    high = (((nudged ^ sign) - sign >> 31) ^ sign) - sign  # divided by 2^31, rounded toward zero
    return _half_away(high, (0 - shift).maximum(0))


def away(a: Value, multiplier: Value, shift: Value) -> Value:
    """One rounding, half away from zero."""
    return _half_away(a * multiplier, 31 - shift)


def updown(a: Value, multiplier: Value, shift: Value) -> Value:
    """Two roundings: half up to the high half of the product, then down."""
    return _half_up(_left(a, shift) * multiplier, 31) >> (0 - shift).maximum(0)


def upup(a: Value, multiplier: Value, shift: Value) -> Value:
    """Two roundings, both half up: to the high half of the product, then by the right shift."""
    return _half_up(_half_up(_left(a, shift) * multiplier, 31), (0 - shift).maximum(0))


def single64(a: Value, multiplier: Value, shift: Value) -> Value:
    """One rounding, half up, of a product of 48 by 31 bits.

    It sums the product of a's high part and the carry from the product of a's low 16 bits.
    """
    bits = 31 - shift
    half = (a.same(1) << bits).logical_shift(1)
    # Truncating and extending shows LLVM that both factors have 32 bits, so that the product is one instruction.
    high, low = (a >> 16).to(i32).to(i64), a & 0xFFFF
    return high * multiplier + (low * multiplier + half >> 16) >> bits - 16


def away64(a: Value, multiplier: Value, shift: Value) -> Value:
    """`single64` of |a|, with the sign of a: one rounding, half away from zero."""
    sign = _sign(a)
    return (single64((a ^ sign) - sign, multiplier, shift) ^ sign) - sign


def reduced16(a: Value, multiplier: Value, shift: Value) -> Value:
    """One rounding, half up, by the multiplier rounded to 16 bits."""
    reduced = (multiplier + (1 << 15) >> 16).minimum((1 << 15) - 1)
    return _half_up(a * reduced, 15 - shift)


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
"""Contract → its arithmetic on i64; `Requantize` has the contracts that are defined in floats."""

FLOAT_CONTRACTS = ("float_even", "float_sum")

_FLOAT_LIMIT = 1 << 30
"""Clamp bounds below this limit may be applied to a float before it is converted to i32."""


@dataclass(frozen=True)
class Narrow:
    """clamp(value + zero_point, low, high), truncated to the type `storage`."""

    zero_point: int
    low: int
    high: int
    storage: IntegerType

    @property
    def fits_i32(self) -> bool:
        """Whether the value may be clamped in 32 bits before the zero point is added."""
        return all(abs(bound - self.zero_point) < _FLOAT_LIMIT for bound in (self.low, self.high))

    def __call__(self, value: Value) -> Value:
        """Narrows an i64, or an i32 if `fits_i32`."""
        bounded = value.maximum(self.low - self.zero_point).minimum(self.high - self.zero_point)
        return (bounded.to(i32) + self.zero_point if self.fits_i32 else bounded + self.zero_point).to(self.storage)


@dataclass(frozen=True)
class Requantize(Epilogue):
    """y = narrow(round((x − input_zero_point) · multiplier · 2^(shift − 31))); parameters: multiplier, shift, i32.

    Under a float contract, the first parameter is the whole factor as f32.

    shrinks   whether every shift is ≤ 0, so that the rescaled value of an i32 fits i32
    constant  the number that the contract `float_sum` adds before it rounds
    """

    contract: str
    input_zero_point: int
    shrinks: bool
    narrow: Narrow
    constant: float = 0.0
    parameters: int = 2

    def finish(self, accumulator: Value, parameters: Sequence[Value]) -> Value:
        return self(accumulator, *parameters)

    def __call__(self, x: Value, multiplier: Value, shift: Value) -> Value:
        assert is_integer(x.element)
        width = x.element.width.data
        needs_i64 = width == 64 or (width == 32 and self.input_zero_point != 0)
        a = x.to(i64 if needs_i64 else i32)
        if self.input_zero_point:
            a = a - self.input_zero_point
        if self.contract in FLOAT_CONTRACTS:
            return self._in_floats(a, multiplier)
        one_instruction = self.contract in ("single", "shift") and self.shrinks and not needs_i64
        if one_instruction and a.lanes is not None and self.narrow.fits_i32:
            return self.narrow(a.code.multiply_shift_round(a, multiplier.spread(a.lanes), shift.spread(a.lanes)))
        wide = ROUNDINGS[self.contract](a.to(i64), multiplier.to(i64).spread(a.lanes), shift.to(i64).spread(a.lanes))
        return self.narrow(wide)

    def _in_floats(self, a: Value, multiplier: Value) -> Value:
        """rint(f32(a) · f32(M)): `multiplier` is M as f32.

        The result equals the contract's to the last bit: f32(a) and the product round to 24 bits half to even, no step
        leaves the normal range (|a| ≤ 2^32, M in [2^-32, 2^30)), and bounds below 2^30 commute with rint. `float_sum`
        adds its constant in f32 before rint.
        """
        product = a.to(f32) * multiplier
        if self.constant:
            product = product + self.constant
        limit = float(_FLOAT_LIMIT)
        return self.narrow(product.round_even().maximum(-limit).minimum(limit).to(i32))


def requantization(state: MainLowering, op: RequantizeOp) -> tuple[Requantize, list[Array]]:
    """A requantization's arithmetic and its parameters, [channels] or [1] each.

    Raises:
        LoweringError: The contract has no lowering, or none for the operation's clamp bounds.
    """
    multiplier, shift = (np.array(v.get_values(), np.int32) for v in (op.multiplier, op.shift))
    contract, narrow = op.contract.data, narrowing(op)
    parameters: list[Array] = [multiplier, shift]
    if contract in FLOAT_CONTRACTS:
        if not narrow.fits_i32:
            state.refuse(
                op, f"needs bounds below 2^30 under the contract {contract}", got=f"[{narrow.low}, {narrow.high}]"
            )
        real = np.ldexp(multiplier.astype(np.float64), shift.astype(np.int64) - 31).astype(np.float32)
        parameters = [real, shift]
    elif contract not in ROUNDINGS:
        state.refuse(op, f"needs a contract of {', '.join([*ROUNDINGS, *FLOAT_CONTRACTS])}", got=contract)
    made = Requantize(contract, op.input_zero_point.value.data, bool((shift <= 0).all()), narrow, op.summand())
    return made, parameters


def narrowing(op: NarrowingOp) -> Narrow:
    """The final clamp and conversion of a narrowing operation."""
    element = element_of(op.y)
    assert is_integer(element)
    return Narrow(op.zero_point.value.data, op.lower.value.data, op.upper.value.data, element)


def fused_requantize(result: SSAValue) -> RequantizeOp | None:
    """The requantization that is the only user of a value, or None."""
    uses = list(result.uses)
    if len(uses) == 1 and isinstance(uses[0].operation, RequantizeOp):
        return uses[0].operation
    return None


def per_channel(parameters: Sequence[Array], channels: int) -> list[Array]:
    """Broadcasts parameters to one entry for each channel."""
    return [np.broadcast_to(p, (channels,)) for p in parameters]


def _requantize(state: MainLowering, op: RequantizeOp) -> None:
    if not op.y.uses:
        return  # an earlier kernel contains this requantization
    formula, parameters = requantization(state, op)
    operands = [state.buffer(op.x), *(state.constant(p) for p in parameters)]
    lower_elementwise(state, "qint_requantize", formula, operands, op.y)


RULES: Rules = {RequantizeOp: _requantize}

"""`tosa.rescale` as `qint.requantize` where that holds its multipliers, else as arithmetic in 64 bits.

With a shift of n bits, SINGLE_ROUND computes (v · m + 2^(n−1)) >> n, whose value does not change if m and n grow
together, m · 2^j and n + j: it equals the contract `single`. DOUBLE_ROUND equals `double` for a multiplier of 31 bits.
INEXACT_ROUND leaves the rounding open and is read as SINGLE_ROUND.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, IntegerType, Signedness, StringAttr, i32, i64
from xdsl.dialects.tosa import RoundingMode
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.qint.requantize import int32, int32s
from qmlir.ir.interfaces import element_of
from qmlir.ir.types import dtype_of, is_integer
from qmlir.ir.upstream.tosa.elementwise import RescaleOp
from qmlir.lowering.tosa_to_nn.code import NNCode, Rule, declared
from qmlir.lowering.tosa_to_nn.elementwise import unsigned
from qmlir.numerics import Int64s
from qmlir.numerics.contracts import CONTRACTS
from qmlir.numerics.fixed_point import MIN_SHIFT

SHIFTS = 2, 62
"""The shifts that TOSA allows, in bits."""


SIGNED: tuple[Attribute, ...] = (IntegerType(8), IntegerType(16), i32)
UNSIGNED: tuple[Attribute, ...] = tuple(IntegerType(bits, Signedness.UNSIGNED) for bits in (8, 16))


@dataclass(frozen=True)
class Factors:
    """The factors of a rescale: v · multiplier · 2^(shift − 31), one or one for each channel, and their rounding.

    multiplier, shift  0 and 0, or a multiplier in [2^30, 2^31) and its shift
    contract           `single` or `double`
    """

    multiplier: Int64s
    shift: Int64s
    contract: str


def factors_of(code: NNCode, op: RescaleOp) -> Factors | None:
    """The factors of a rescale by 32-bit multipliers; None if no contract has them.

    Raises:
        UnsupportedError: The multipliers or shifts are computed, or not allowed by TOSA.
    """
    multiplier, bits = _numbers(code, op)
    if not bool(op.scale32):
        return None
    short = np.array([31 - int(m).bit_length() if m else 0 for m in multiplier])
    double = op.rounding_mode.data == RoundingMode.DOUBLE_ROUND and bool((bits > 31).any())
    shift = np.where(multiplier == 0, 0, 31 - bits - short)
    # Whether a number is rounded twice depends on the shift as TOSA states it.
    kept = np.where(bits > 31, short == 0, bits + short <= 31) | (multiplier == 0)
    if (double and not kept.all()) or shift.min() < MIN_SHIFT or shift.max() > CONTRACTS["single"].max_shift:
        return None
    return Factors(multiplier << short, shift, "double" if double else "single")


def _numbers(code: NNCode, op: RescaleOp) -> tuple[Int64s, Int64s]:
    """The multipliers and shifts of a rescale, as TOSA states them."""
    multiplier = code.known(op.multiplier, "multiplier").astype(np.int64)
    bits = code.known(op.shift, "shift").astype(np.int64)
    low, high = SHIFTS
    if multiplier.min() < 0 or bits.min() < low or bits.max() > high:
        got = f"{multiplier.tolist()[:4]} and {bits.tolist()[:4]}"
        code.refuse(
            f"needs multipliers of at least 0 and shifts in [{low}, {high}]", got=got, remedy="convert the model again"
        )
    return multiplier, bits


def _zero_point(code: NNCode, value: SSAValue, name: str, data: Attribute) -> int:
    """A zero point, in the signedness of the data."""
    number = code.number(value, name)
    assert is_integer(data)
    return number % (1 << data.width.data) if data.signedness.data is Signedness.UNSIGNED else number


def input_zero_point(code: NNCode, op: RescaleOp) -> int:
    """The zero point of the operand of a rescale."""
    return _zero_point(code, op.input_zp, "input_zp", read_as(declared(op.input), unsigned=bool(op.input_unsigned)))


def output_zero_point(code: NNCode, op: RescaleOp) -> int:
    """The zero point of the result of a rescale."""
    return _zero_point(code, op.output_zp, "output_zp", read_as(declared(op.output), unsigned=bool(op.output_unsigned)))


def read_as(kind: Attribute, *, unsigned: bool) -> Attribute:
    """An integer type, as unsigned if a flag of the operation says so."""
    assert is_integer(kind)
    return IntegerType(kind.width.data, Signedness.UNSIGNED) if unsigned else kind


def _rescale(code: NNCode, op: RescaleOp) -> SSAValue:
    x, result = code.plain(op.input), declared(op.output)
    if bool(op.input_unsigned):
        x = unsigned(code, x)
    before, after = input_zero_point(code, op), output_zero_point(code, op)
    read = read_as(result, unsigned=bool(op.output_unsigned))
    if element_of(x) in UNSIGNED:
        x = code.cast(x, i32)
    factors = factors_of(code, op) if element_of(x) in SIGNED else None
    if factors is not None:
        y = requantized(code, x, factors, before, after, read)
    else:
        y = _in_64_bits(code, op, x, before, after, read)
    return code.insert(nn.BitcastOp, [y], element=result) if element_of(y) != result else y


def requantized(code: NNCode, x: SSAValue, factors: Factors, before: int, after: int, result: Attribute) -> SSAValue:
    """The rescale of i8, i16 or i32 as `qint.requantize`; unsigned results are computed as i32 first."""
    limits = np.iinfo(dtype_of(result))
    signed = result not in UNSIGNED
    properties = {
        "input_zero_point": int32(before),
        "multiplier": int32s(factors.multiplier.tolist()),
        "shift": int32s(factors.shift.tolist()),
        "contract": StringAttr(factors.contract),
        "zero_point": int32(after),
        "min": IntegerAttr(int(limits.min), i32),
        "max": IntegerAttr(int(limits.max), i32),
    }
    return code.cast(code.insert(qint.RequantizeOp, [x], properties, element=result if signed else i32), result)


def _in_64_bits(code: NNCode, op: RescaleOp, x: SSAValue, before: int, after: int, result: Attribute) -> SSAValue:
    """The rescale as TOSA's specification writes it."""
    multiplier, bits = _numbers(code, op)
    value = code.insert(nn.MulOp, [code.plus(code.cast(x, i64), -before), code.constant(multiplier)])
    half = code.constant(np.int64(1) << bits - 1)
    if op.rounding_mode.data == RoundingMode.DOUBLE_ROUND and (bits > 31).any():
        step = np.where(bits > 31, np.int64(1) << 30, 0)
        negative = code.insert(nn.LessOp, [value, code.scalar(0, value)])
        rounding = code.insert(nn.WhereOp, [negative, code.constant(-step), code.constant(step)])
        value = code.insert(nn.AddOp, [value, rounding])
    shifted = code.insert(nn.ShiftRightOp, [code.insert(nn.AddOp, [value, half]), code.constant(bits)])
    return code.saturated(code.plus(shifted, after), result)


RULES: Mapping[type[Operation], Rule] = {RescaleOp: _rescale}

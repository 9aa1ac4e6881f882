"""What all integer operations share, and requantization: from sums to narrow integers.

An operation on single elements states its arithmetic once, as a `formula` over the operations of
numerics/elementary/lanes.py: `evaluate` computes it on arrays, qint_to_loops and qint_to_linalg write it as code.
"""

import abc
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, cast

import numpy as np
from xdsl.dialects.builtin import BytesAttr, DenseArrayBase, IntegerAttr, IntegerType, StringAttr, TensorType, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, opt_prop_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.interfaces import Array, Shape, TensorOp, element_of, shape_of
from qmlir.ir.samples import Axes, MixesSamples, aligned_axis
from qmlir.ir.types import dtype_of
from qmlir.numerics import fixed_point
from qmlir.numerics.contracts import CONTRACTS, WIDE_LIMIT, Contract
from qmlir.numerics.elementary.lanes import I32, I64, DType, Lanes, N

# ---------------------------------------------------------------------------------------------------------------
# The base classes of all qint operations, which compute on integers only, and exactly.
#
# The reference, the CPU code and the simulator agree bit for bit on this level. An accumulator is i32 or i64. Code that
# builds an operation with an accumulator must have proven that the accumulator cannot overflow (see legality.py), so
# sums may run in any order.


ZERO = IntegerAttr(0, i32)


def int32(value: int) -> IntegerAttr[IntegerType]:
    """An i32 property value."""
    return IntegerAttr(value, i32)


def int32s(values: Sequence[int]) -> DenseArrayBase[IntegerType]:
    """Python integers as an `array<i32: …>` property value."""
    return DenseArrayBase(
        i32, BytesAttr(np.array(values, "<i4").tobytes())
    )  # from_list checks each element, which takes ten times as long


def width_of(value: SSAValue) -> int:
    """The width in bits of an integer tensor's elements."""
    return cast(IntegerType, element_of(value)).width.data


def largest_difference(value: SSAValue, zero_point: int) -> int:
    """The largest |x − zero_point| over all values x of an integer tensor's element type."""
    half = 1 << width_of(value) - 1
    return max(half + zero_point, half - 1 - zero_point)


class QIntOp(TensorOp, abc.ABC):
    """An operation on integers.

    (Q1) every operand and result is a tensor of signless integers, which the operation reads as signed
    """

    def verify_(self) -> None:
        # This check comes first: the checks after it rely on integer elements.
        for value in (*self.operands, *self.results):
            element = element_of(value)
            if not isinstance(element, IntegerType) or element != IntegerType(width_of(value)):  # Q1
                raise VerifyException(f"'{self.name}' computes on signless integers only, got {value.type}")
        super().verify_()


class AccumulatingOp(QIntOp, abc.ABC):
    """An operation whose result is an accumulator: exact sums of products of narrow integers.

    (Q2) the operands that are multiplied or summed have at most 16 bits; those of a contraction or a product have at
         most 32 where the accumulators have 64
    """

    WORDS: ClassVar[bool] = False
    """Whether operands may have 32 bits where the accumulators have 64."""

    ACCUMULATORS: ClassVar[Sequence[Attribute]] = (i32, i64)
    """The element types that the result may have; the first is the default."""

    def infer_elements(self) -> Sequence[Attribute | None]:
        most = 32 if self.WORDS and self.accumulator() == i64 else 16
        for operand in self.narrow_operands():
            if not isinstance(element_of(operand), IntegerType) or width_of(operand) > most:  # Q2
                raise VerifyException(
                    f"'{self.name}' multiplies integers of at most {most} bits, got {element_of(operand)}"
                )
        return [self.accumulator()]

    def accumulator(self) -> Attribute:
        """The element type of the accumulators: the result's own if it is allowed, else the default."""
        own = element_of(self.results[0])
        return own if own in self.ACCUMULATORS else self.ACCUMULATORS[0]

    def narrow_operands(self) -> Sequence[SSAValue]:
        """The operands that are multiplied or summed: all operands except a bias."""
        return self.operands


# ---------------------------------------------------------------------------------------------------------------
# Operations on single elements.


def less_zero_point(x: N, zero_point: int, dtype: DType = I32) -> N:
    """An integer minus its zero point, computed in the type `dtype`."""
    wide = x.to(dtype)
    return wide - zero_point if zero_point else wide


class ElementwiseOp(QIntOp, abc.ABC):
    """An operation that computes each element from the operands' elements at the same position; shapes broadcast."""

    @abc.abstractmethod
    def formula(self) -> Callable[..., Any]:
        """The arithmetic: (elements of the operands, `parameters`, a reader of each of `tables`) → the result.

        A reader maps the integer indices of an entry to the entry. Formulas are frozen dataclasses: operations with
        equal formulas share a kernel.
        """

    def parameters(self) -> Sequence[Array]:
        """The numbers that the formula computes with: one entry, or one entry for each element of the last axis."""
        return ()

    def tables(self) -> Sequence[Array]:
        """The tables that the formula reads."""
        return ()

    def infer_shapes(self) -> Sequence[Shape]:
        return [shape_of(self.operands[0])]

    def sample_axis(self, axes: Axes) -> int:
        axis = aligned_axis(axes, [shape_of(x) for x in self.operands])
        if axis == len(shape_of(self.results[0])) - 1 and any(p.size > 1 for p in self.parameters()):
            raise MixesSamples("has numbers of its own for elements along the axis on which the samples lie")
        return axis

    def compute(self, *inputs: Array) -> Array:
        """The results for elements of any shapes that broadcast."""

        def reader(table: Array) -> Callable[..., Lanes]:
            return lambda *place: Lanes(table[tuple(index.array for index in place)])

        return self.formula()(*map(Lanes, (*inputs, *self.parameters())), *map(reader, self.tables())).array

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (self.compute(*inputs).reshape(shape_of(self.results[0])),)  # parameters add a dimension to 0-d data


# ---------------------------------------------------------------------------------------------------------------
# Requantization of accumulators or narrow integers by multiplier, shift and a named rounding contract.


FLOAT_LIMIT = 1 << 30
"""A limit beyond all clamp bounds that may be applied to a float before it is converted to i32."""


@dataclass(frozen=True)
class Narrow:
    """clamp(value + zero_point, low, high) in the integer type `storage`."""

    zero_point: int
    low: int
    high: int
    storage: DType

    @property
    def fits_i32(self) -> bool:
        """Whether the value may be clamped in 32 bits before the zero point is added."""
        return all(abs(bound - self.zero_point) < FLOAT_LIMIT for bound in (self.low, self.high))

    def __call__(self, value: N) -> N:
        """Narrows an i64, a float that is a whole number, or an i32 if `fits_i32`."""
        if value.is_float and self.fits_i32:
            value = value.maximum(-float(FLOAT_LIMIT)).minimum(float(FLOAT_LIMIT)).to(I32)
        elif value.is_float:
            value = value.to(I64)
        bounded = value.maximum(self.low - self.zero_point).minimum(self.high - self.zero_point)
        return ((bounded.to(I32) if self.fits_i32 else bounded) + self.zero_point).to(self.storage)


class NarrowingOp(QIntOp, abc.ABC):
    """An operation whose last step adds the output zero point and clamps to [min, max].

    (R1) min ≤ max, and both fit the result's element type
    """

    zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    lower = prop_def(IntegerAttr.constr(i32), prop_name="min")
    upper = prop_def(IntegerAttr.constr(i32), prop_name="max")
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [None]

    def narrowing(self) -> Narrow:
        """The final clamp and conversion."""
        bounds = (self.zero_point.value.data, self.lower.value.data, self.upper.value.data)
        return Narrow(*bounds, dtype_of(element_of(self.y)))

    def verify_(self) -> None:
        super().verify_()
        low, high, element = self.lower.value.data, self.upper.value.data, cast(IntegerType, element_of(self.y))
        bits = element.width.data
        if bits not in (8, 16, 32) or not -(1 << bits - 1) <= low <= high < 1 << bits - 1:  # R1
            raise VerifyException(f"'{self.name}' clamps to [{low}, {high}], which is no range of {element}")


@dataclass(frozen=True)
class Requantization:
    """The formula of `RequantizeOp`; the parameters are those of the contract."""

    contract: str
    input_zero_point: int
    narrow: Narrow

    def difference(self, x: N) -> N:
        """x − input_zero_point: in i64 if i32 might not hold it, else in i32."""
        width = 8 * x.dtype.itemsize
        needs_i64 = width == 64 or (width == 32 and self.input_zero_point != 0)
        return less_zero_point(x, self.input_zero_point, I64 if needs_i64 else I32)

    def __call__(self, x: N, *parameters: N) -> N:
        a, rule = self.difference(x), CONTRACTS[self.contract]
        if rule.in_floats:
            return self.narrow(rule(a, *parameters))
        return self.narrow(rule(a.to(I64), *(a.same(p.to(I64)) for p in parameters)))


@irdl_op_definition
class RequantizeOp(ElementwiseOp, NarrowingOp):
    """y = clamp(zero_point + round((x − input_zero_point) · multiplier · 2^(shift − 31)), min, max).

    `multiplier` and `shift` hold one entry, or one entry for each element of x's last axis. `contract` names the
    rounding contract (numerics/contracts.py). A contract that rounds a sum adds `constant` before it rounds: a
    float32 stored as two integers, its significand and its exponent. If x, which must be i32 or i64 for that, exceeds
    the contract's limit, `evaluate` raises an error.

    (R1) min ≤ max, and both fit the result's element type
    (R2) `multiplier` and `shift` have one entry, or one entry for each channel
    (R3) the contract is in `contracts.CONTRACTS`; multipliers are 0 or in [2^29, 2^31), and multiples of the
         contract's `step`; shifts are in [−31, `max_shift` of the contract], by default [−31, 30]
    (R4) `constant` is present if and only if the contract rounds a sum; its significand has 24 bits and its exponent is
         in [−256, 104]
    (R5) i64 data have a contract whose limit covers sums of more than 32 bits
    """

    name = "qint.requantize"
    x = operand_def(TensorType)
    input_zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    multiplier = prop_def(DenseArrayBase.constr(i32))
    shift = prop_def(DenseArrayBase.constr(i32))
    contract = prop_def(StringAttr)
    constant = opt_prop_def(DenseArrayBase.constr(i32))

    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def formula(self) -> Requantization:
        return Requantization(self.contract.data, self.input_zero_point.value.data, self.narrowing())

    def parameters(self) -> Sequence[Array]:
        multiplier, shift = (np.frombuffer(v.data.data, "<i4") for v in (self.multiplier, self.shift))
        return CONTRACTS[self.contract.data].parameters(multiplier, shift, self.summand())

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        fixed_point.check_accumulators(
            inputs[0].astype(np.int64) - self.input_zero_point.value.data, self.contract.data
        )
        return super().evaluate(*inputs)

    def summand(self) -> float:
        """The real value that the contract adds before it rounds; 0.0 without `constant`."""
        return 0.0 if self.constant is None else math.ldexp(*self.constant.get_values())

    def verify_(self) -> None:
        super().verify_()
        channels = (shape_of(self.x) or (1,))[-1]
        if len(self.multiplier) != len(self.shift) or len(self.shift) not in (1, channels):  # R2
            raise VerifyException(
                f"'{self.name}' needs 1 or {channels} multipliers and as many shifts, "
                f"got {len(self.multiplier)} and {len(self.shift)}"
            )
        contract = require_contract(self, self.contract.data)  # R3
        parts = () if self.constant is None else self.constant.get_values()
        if len(parts) != (2 if contract.sums else 0) or (parts and not is_float32(*parts)):  # R4
            raise VerifyException(
                f"'{self.name}' needs a constant where its contract rounds a sum, and only there: a significand of 24 "
                f"bits and an exponent, got {list(parts)}"
            )
        if width_of(self.x) == 64 and contract.limit < WIDE_LIMIT:  # R5
            wide = ", ".join(name for name, rule in CONTRACTS.items() if rule.limit >= WIDE_LIMIT)
            raise VerifyException(f"'{self.name}' needs a contract of {wide} for i64 data, got {self.contract.data}")
        require_multipliers(self, self.contract.data, self.multiplier.get_values(), self.shift.get_values())  # R3


def float32_parts(value: float | np.floating[Any]) -> tuple[int, int]:
    """(significand, exponent) of a float32: value = significand · 2^exponent, with a significand of at most 24 bits."""
    fraction, exponent = math.frexp(float(value))
    return int(math.ldexp(fraction, 24)), exponent - 24


def is_float32(significand: int, exponent: int) -> bool:
    """Whether a significand has at most 24 bits and an exponent lies in [−256, 104]."""
    return abs(significand) <= 1 << 24 and -256 <= exponent <= 104


def require_contract(op: QIntOp, name: str) -> Contract:
    """The rounding contract of a name; raises VerifyException if no contract has that name."""
    if name not in CONTRACTS:
        raise VerifyException(f"'{op.name}' contract must be one of {', '.join(CONTRACTS)}, got {name}")
    return CONTRACTS[name]


def require_multipliers(op: QIntOp, contract: str, multipliers: Sequence[int], shifts: Sequence[int]) -> None:
    """Raises VerifyException if the contract does not accept one of the multipliers or shifts."""
    rule = CONTRACTS[contract]
    for multiplier, shift in zip(multipliers, shifts, strict=True):
        low, high = fixed_point.LEAST_MULTIPLIER, fixed_point.MOST_MULTIPLIER
        if (multiplier and not low <= multiplier <= high) or not -31 <= shift <= rule.max_shift:
            raise VerifyException(
                f"'{op.name}' needs multipliers in [2^29, 2^31) and shifts in [-31, {rule.max_shift}], "
                f"got {multiplier} and {shift}"
            )
        if multiplier % rule.step:
            raise VerifyException(
                f"'{op.name}' by contract {contract} needs multipliers that are multiples of {rule.step}, "
                f"got {multiplier}"
            )

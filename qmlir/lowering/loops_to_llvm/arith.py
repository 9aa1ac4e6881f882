"""Lowering of arith and math."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import copysign, isnan
from typing import Any, cast

from xdsl.dialects import arith, llvm, math, vector
from xdsl.dialects.builtin import DenseIntOrFPElementsAttr, FloatAttr, IntegerAttr, VectorType, f32, f64, i1, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.ir.types import is_vector
from qmlir.ir.upstream import arith as completed
from qmlir.ir.upstream.dense import Dense, retyped
from qmlir.ir.upstream.llvm import AddOp, FCmpOp, FPToSIOp, FPToUIOp, MulOp, SelectOp, ShlOp, SubOp, UIToFPOp
from qmlir.lowering.loops_to_llvm.lowering import (
    COMPARISONS,
    NO_FASTMATH,
    WRAP,
    X86_AMX,
    FunctionLowering,
    Rule,
    element_bits,
    mangled,
)

# ---------------------------------------------------------------------------------------------------------------
# arith → llvm: integers, floats, comparisons, conversions and constants, scalars and vectors alike.
#
# Float operations keep their order and their roundings: fast-math flags are refused, and nothing here lets LLVM
# contract a product and a sum. `maxnumf` and `minnumf` order −0 before +0, so that constant folding cannot change bits.
# With a constant operand, as in kernels, they become a comparison and a selection. With two variables they become
# `maximumnum` and `minimumnum`, which LLVM has since version 20 (`maxnum` and `minnum` leave the order of zeros open).


_Predicate = llvm.FCmpPredicateFlag


def refuse_fastmath(f: FunctionLowering, op: Operation) -> None:
    """Refuses an operation with fast-math flags, because results must be bit-exact across machines.

    Raises:
        UnsupportedError: The operation has fast-math flags.
    """
    flags = op.properties.get("fastmath")
    if isinstance(flags, arith.FastMathFlagsAttr) and flags.data:
        f.refuse(op, "must not carry fast-math flags", got=str(flags), remedy="remove them")


def _binary(kind: type[Operation], properties: Mapping[str, Attribute] = {}) -> Rule:
    def rule(f: FunctionLowering, op: Operation) -> None:
        lhs, rhs = f.values(op.operands)
        f.define(op.results[0], f.binary(kind, lhs, rhs, properties))

    return rule


def _overflowing(kind: type[Operation]) -> Rule:
    def rule(f: FunctionLowering, op: Operation) -> None:
        lhs, rhs = f.values(op.operands)
        flags = op.properties.get("overflowFlags")
        properties = WRAP
        if isinstance(flags, arith.IntegerOverflowAttr) and flags.data:
            properties = {"overflowFlags": llvm.OverflowAttr([llvm.OverflowFlag(flag) for flag in flags.data])}
        f.define(op.results[0], f.binary(kind, lhs, rhs, properties))

    return rule


def _shift_left(f: FunctionLowering, op: Operation) -> None:
    lhs, rhs = f.values(op.operands)
    if f.shifts_by_floats(lhs.type) and not isinstance(op.operands[1].owner, arith.ConstantOp | vector.BroadcastOp):
        f.define(op.results[0], f.shift_left(lhs, rhs))
    else:
        _overflowing(ShlOp)(f, op)


def _float(kind: type[Operation]) -> Rule:
    def rule(f: FunctionLowering, op: Operation) -> None:
        refuse_fastmath(f, op)
        operands = f.values(op.operands)
        result = kind.create(operands=operands, result_types=[operands[0].type], properties=NO_FASTMATH)
        f.define(op.results[0], f.emit(result))

    return rule


def elementwise_intrinsic(name: str) -> Rule:
    """A rule for an operation whose operands and result have one type; it becomes the LLVM intrinsic `name.<type>`."""

    def rule(f: FunctionLowering, op: Operation) -> None:
        refuse_fastmath(f, op)
        operands = f.values(op.operands)
        type = operands[0].type
        f.define(op.results[0], f.intrinsic(f"{name}.{mangled(type)}", operands, type))

    return rule


@dataclass(frozen=True)
class _Bound:
    """The rule for `maxnumf` or `minnumf` of x and a constant c: x if a comparison holds, else c; c if x is NaN.

    +0 counts as larger than −0.

    strict      the comparison if c is the zero that wins, so that c is chosen among zeros
    loose       the comparison otherwise, so that x is chosen among zeros
    zero        the sign of the zero that wins: 1.0 in a maximum, -1.0 in a minimum
    intrinsic   the LLVM intrinsic for two variables
    """

    strict: _Predicate
    loose: _Predicate
    zero: float
    intrinsic: str

    def __call__(self, f: FunctionLowering, op: arith.MaxnumfOp | arith.MinnumfOp) -> None:
        bound = _constant_float(op.rhs)
        if bound is None or isnan(bound):
            elementwise_intrinsic(self.intrinsic)(f, op)
            return
        refuse_fastmath(f, op)
        lhs, rhs = f.values(op.operands)
        wins = copysign(1.0, bound) == self.zero
        holds = f.emit(FCmpOp(self.strict if wins else self.loose, lhs, rhs))
        f.define(op.result, f.emit(SelectOp(holds, lhs, rhs)))


def _constant_float(value: SSAValue) -> float | None:
    """The number of a float constant, or of a vector constant with equal lanes; None for any other value."""
    if not isinstance(value.owner, arith.ConstantOp):
        return None
    match value.owner.value:
        case FloatAttr() as number:
            return number.value.data
        case DenseIntOrFPElementsAttr() as dense if dense.is_splat():
            numbers: Any = dense
            return float(next(iter(numbers.iter_values())))
        case _:
            return None


def _cast(kind: type[Operation]) -> Rule:
    def rule(f: FunctionLowering, op: Operation) -> None:
        refuse_fastmath(f, op)
        if "roundingmode" in op.properties:
            f.refuse(op, "must round to nearest even", got=str(op.properties["roundingmode"]))
        f.define(op.results[0], f.cast(kind, f.value(op.operands[0]), f.lowered_type(op.results[0].type)))

    return rule


def _constant(f: FunctionLowering, op: arith.ConstantOp) -> None:
    value, type = op.value, f.lowered_type(op.result.type)
    if type == X86_AMX:
        f.refuse(op, "vectors must have one static dimension", got=str(op.result.type))
    if isinstance(value, DenseIntOrFPElementsAttr):
        value = retyped(cast(Dense, value), type)  # the type may have gone from index to i64
    elif isinstance(value, IntegerAttr) and type != value.type:
        f.define(op.result, f.integer(value.value.data))  # an index
        return
    elif not isinstance(value, DenseIntOrFPElementsAttr | IntegerAttr | FloatAttr):
        f.refuse(op, "must be an integer, a float or dense values", got=str(value))
    f.define(op.result, f.constant(value, type))


def _compare_integers(f: FunctionLowering, op: arith.CmpiOp) -> None:
    lhs, rhs = f.values(op.operands)
    if is_vector(lhs.type):
        f.refuse(op, "must compare scalars: xDSL gives a comparison of vectors a single i1", got=str(op.lhs.type))
    f.define(op.result, f.compare(COMPARISONS[op.predicate.value.data], lhs, rhs))


def _compare_floats(f: FunctionLowering, op: arith.CmpfOp) -> None:
    refuse_fastmath(f, op)
    lhs, rhs = f.values(op.operands)
    if is_vector(lhs.type):
        f.refuse(op, "must compare scalars: xDSL gives a comparison of vectors a single i1", got=str(op.lhs.type))
    f.define(op.result, f.emit(FCmpOp(_Predicate.from_int(op.predicate.value.data), lhs, rhs)))


def _select(f: FunctionLowering, op: arith.SelectOp) -> None:
    f.define(op.result, f.emit(SelectOp(*f.values(op.operands))))


def _index_cast(f: FunctionLowering, op: arith.IndexCastOp) -> None:
    value, type = f.value(op.input), f.lowered_type(op.result.type)
    have, want = element_bits(value.type), element_bits(type)
    if have != want:
        value = f.cast(llvm.SExtOp if have < want else llvm.TruncOp, value, type)
    f.define(op.result, value)


def _bitcast(f: FunctionLowering, op: arith.BitcastOp) -> None:
    value, type = f.value(op.input), f.lowered_type(op.result.type)
    f.define(op.result, value if value.type == type else f.cast(llvm.BitcastOp, value, type))


def _rounded_division(round_up: bool) -> Rule:
    """A rule for signed division toward −∞ or +∞: a truncated quotient, corrected by 1 where it differs.

    `round_up` selects the direction +∞.
    """

    def rule(f: FunctionLowering, op: Operation) -> None:
        lhs, rhs = f.values(op.operands)
        zero = f.splat(0, lhs.type)
        quotient = f.binary(llvm.SDivOp, lhs, rhs)
        remainder = f.binary(llvm.SRemOp, lhs, rhs)
        inexact = f.compare("ne", remainder, zero)
        # A remainder has the dividend's sign, which differs from the divisor's if the exact quotient is negative.
        signs = f.binary(llvm.XOrOp, remainder, rhs)
        beyond = f.compare("sge" if round_up else "slt", signs, zero)
        step = _widened_bit(f, f.binary(llvm.AndOp, inexact, beyond), lhs.type)
        f.define(op.results[0], f.binary(AddOp if round_up else SubOp, quotient, step, WRAP))

    return rule


def _unsigned_ceiling_division(f: FunctionLowering, op: arith.CeilDivUIOp) -> None:
    lhs, rhs = f.values(op.operands)
    quotient = f.binary(llvm.UDivOp, lhs, rhs)
    inexact = f.compare("ne", f.binary(llvm.URemOp, lhs, rhs), f.splat(0, lhs.type))
    f.define(op.result, f.binary(AddOp, quotient, _widened_bit(f, inexact, lhs.type), WRAP))


def _widened_bit(f: FunctionLowering, bit: SSAValue, type: Attribute) -> SSAValue:
    element = type.element_type if is_vector(type) else type
    return bit if element == i1 else f.cast(llvm.ZExtOp, bit, type)


CONVERSIONS: Mapping[str, type[Operation]] = {
    "arith.extsi": llvm.SExtOp,
    "arith.extui": llvm.ZExtOp,
    "arith.trunci": llvm.TruncOp,
    "arith.sitofp": llvm.SIToFPOp,
    "arith.uitofp": UIToFPOp,
    "arith.fptosi": FPToSIOp,
    "arith.fptoui": FPToUIOp,
}
"""Operation name → LLVM conversion. The keys are names because two classes share each name: xDSL's scalar conversion
and qmlir's completed conversion, which takes vectors."""


# ---------------------------------------------------------------------------------------------------------------
# math → llvm: only the functions that IEEE 754 defines to the last bit.
#
# exp, tanh and similar functions are absent on purpose: LLVM would call the machine's library, whose last bits differ
# between machines. Kernels compute them with arithmetic operations instead.


def _fused_multiply_add(f: FunctionLowering, op: math.FmaOp) -> None:
    """Lowers to the processor's instruction, or to f64 operations with the same bits if an x86 processor has none.

    The product of two f32 is exact in f64. The sum is rounded to odd: if it is not exact and its last bit is 0, it
    moves by one place toward the exact sum. A number that is rounded to odd with at least two bits to spare rounds to
    the same f32 as the exact number (see numerics/products.py). The error of the sum is that of Knuth's TwoSum; it is
    NaN where the sum is not finite, which then stays.
    """
    refuse_fastmath(f, op)
    a, b, c = f.values(op.operands)
    if not f.machine.features.isdisjoint(("fma", "neon")):
        f.define(op.result, f.intrinsic(f"llvm.fma.{mangled(c.type)}", (a, b, c), c.type))
        return
    lanes = c.type.get_shape() if is_vector(c.type) else None
    element = c.type.element_type if is_vector(c.type) else c.type
    if element != f32:
        f.refuse(op, "must multiply f32 on a processor without FMA", got=str(op.result.type))
    wide, bits = (VectorType(t, lanes) if lanes else t for t in (f64, i64))

    def floats(kind: type[Operation], x: SSAValue, y: SSAValue) -> SSAValue:
        return f.emit(kind.create(operands=[x, y], result_types=[wide], properties=NO_FASTMATH))

    x, y, addend = (f.cast(llvm.FPExtOp, v, wide) for v in (a, b, c))
    product = floats(llvm.FMulOp, x, y)
    total = floats(llvm.FAddOp, product, addend)
    part = floats(llvm.FSubOp, total, product)
    lost = floats(llvm.FSubOp, product, floats(llvm.FSubOp, total, part))
    error = floats(llvm.FAddOp, lost, floats(llvm.FSubOp, addend, part))
    stored, toward = (f.cast(llvm.BitcastOp, v, bits) for v in (total, error))
    one, last = f.splat(1, bits), f.splat(63, bits)
    away = f.binary(llvm.AShrOp, f.binary(llvm.XOrOp, stored, toward), last)  # −1 if the signs differ, else 0
    step = f.binary(llvm.OrOp, away, one)
    inexact = f.cast(llvm.ZExtOp, f.emit(FCmpOp(_Predicate.ONE, error, f.splat(0.0, wide))), bits)
    even = f.binary(llvm.AndOp, f.binary(llvm.XOrOp, stored, one), one)
    moves = f.binary(SubOp, f.splat(0, bits), f.binary(llvm.AndOp, inexact, even), WRAP)
    odd = f.binary(AddOp, stored, f.binary(llvm.AndOp, step, moves), WRAP)
    f.define(op.result, f.cast(llvm.FPTruncOp, f.cast(llvm.BitcastOp, odd, wide), c.type))


def _absolute_integer(f: FunctionLowering, op: math.AbsIOp) -> None:
    value = f.value(op.operands[0])
    least_is_poison = f.integer(0, i1)
    f.define(op.results[0], f.intrinsic(f"llvm.abs.{mangled(value.type)}", (value, least_is_poison), value.type))


RULES: Mapping[type[Operation], Rule] = {
    **{
        op: _cast(CONVERSIONS[op.name])
        for op in (*arith.Arith.operations, *completed.COMPLETED)
        if op.name in CONVERSIONS
    },
    arith.ConstantOp: _constant,
    arith.AddiOp: _overflowing(AddOp),
    arith.SubiOp: _overflowing(SubOp),
    arith.MuliOp: _overflowing(MulOp),
    arith.ShLIOp: _shift_left,
    arith.DivSIOp: _binary(llvm.SDivOp),
    arith.DivUIOp: _binary(llvm.UDivOp),
    arith.RemSIOp: _binary(llvm.SRemOp),
    arith.RemUIOp: _binary(llvm.URemOp),
    arith.FloorDivSIOp: _rounded_division(round_up=False),
    arith.CeilDivSIOp: _rounded_division(round_up=True),
    arith.CeilDivUIOp: _unsigned_ceiling_division,
    arith.AndIOp: _binary(llvm.AndOp),
    arith.OrIOp: _binary(llvm.OrOp),
    arith.XOrIOp: _binary(llvm.XOrOp),
    arith.ShRSIOp: _binary(llvm.AShrOp),
    arith.ShRUIOp: _binary(llvm.LShrOp),
    arith.MaxSIOp: elementwise_intrinsic("llvm.smax"),
    arith.MinSIOp: elementwise_intrinsic("llvm.smin"),
    arith.MaxUIOp: elementwise_intrinsic("llvm.umax"),
    arith.MinUIOp: elementwise_intrinsic("llvm.umin"),
    arith.AddfOp: _float(llvm.FAddOp),
    arith.SubfOp: _float(llvm.FSubOp),
    arith.MulfOp: _float(llvm.FMulOp),
    arith.DivfOp: _float(llvm.FDivOp),
    arith.NegfOp: _float(llvm.FNegOp),
    arith.MaximumfOp: elementwise_intrinsic("llvm.maximum"),
    arith.MinimumfOp: elementwise_intrinsic("llvm.minimum"),
    arith.MaxnumfOp: _Bound(_Predicate.OGT, _Predicate.OGE, 1.0, "llvm.maximumnum"),
    arith.MinnumfOp: _Bound(_Predicate.OLT, _Predicate.OLE, -1.0, "llvm.minimumnum"),
    arith.CmpiOp: _compare_integers,
    arith.CmpfOp: _compare_floats,
    arith.SelectOp: _select,
    arith.ExtFOp: _cast(llvm.FPExtOp),
    arith.TruncFOp: _cast(llvm.FPTruncOp),
    arith.IndexCastOp: _index_cast,
    arith.BitcastOp: _bitcast,
    math.AbsFOp: elementwise_intrinsic("llvm.fabs"),
    math.AbsIOp: _absolute_integer,
    math.CeilOp: elementwise_intrinsic("llvm.ceil"),
    math.FloorOp: elementwise_intrinsic("llvm.floor"),
    math.RoundEvenOp: elementwise_intrinsic("llvm.roundeven"),
    math.RoundOp: elementwise_intrinsic("llvm.round"),
    math.TruncOp: elementwise_intrinsic("llvm.trunc"),
    math.SqrtOp: elementwise_intrinsic("llvm.sqrt"),
    math.FmaOp: _fused_multiply_add,
    math.CopySignOp: elementwise_intrinsic("llvm.copysign"),
}

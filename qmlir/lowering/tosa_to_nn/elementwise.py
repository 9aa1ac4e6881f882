"""Operations on single elements: arithmetic, comparisons, logic, functions, casts and tables."""

from collections.abc import Mapping

import numpy as np
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerType, Signedness, i1, i8, i32, i64
from xdsl.dialects.tosa import NanMode
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.ir.interfaces import TensorOp, element_of, shape_of
from qmlir.ir.types import is_integer
from qmlir.ir.upstream.tosa import elementwise as tosa
from qmlir.ir.upstream.tosa.elementwise import NAMED
from qmlir.lowering.tosa_to_nn.code import NNCode, Rule, declared

# ---------------------------------------------------------------------------------------------------------------
# Operations that nn has, on the same elements.


SAME: Mapping[str, type[TensorOp]] = {
    "abs": nn.AbsOp,
    "bitwise_not": nn.NotOp,
    "ceil": nn.CeilOp,
    "cos": nn.CosOp,
    "erf": nn.ErfOp,
    "exp": nn.ExpOp,
    "floor": nn.FloorOp,
    "log": nn.LogOp,
    "logical_not": nn.NotOp,
    "reciprocal": nn.ReciprocalOp,
    "rsqrt": nn.RsqrtOp,
    "sigmoid": nn.SigmoidOp,
    "sin": nn.SinOp,
    "tanh": nn.TanhOp,
    "add": nn.AddOp,
    "bitwise_and": nn.AndOp,
    "bitwise_or": nn.OrOp,
    "bitwise_xor": nn.XorOp,
    "intdiv": nn.DivOp,
    "logical_and": nn.AndOp,
    "logical_left_shift": nn.ShiftLeftOp,
    "logical_or": nn.OrOp,
    "logical_xor": nn.XorOp,
    "pow": nn.PowOp,
    "sub": nn.SubOp,
    "equal": nn.EqualOp,
}
"""Operation of tosa → the operation of nn on the same operands."""

EXCHANGED: Mapping[str, type[TensorOp]] = {"greater": nn.LessOp, "greater_equal": nn.LessEqualOp}
"""Operation of tosa → the operation of nn on the operands in reverse order."""


def _same(kind: type[TensorOp], *, exchanged: bool = False) -> Rule:
    def rule(code: NNCode, op: Operation) -> SSAValue:
        values = [code.plain(x) for x in op.operands]
        return code.insert(kind, values[::-1] if exchanged else values)

    return rule


def _select(code: NNCode, op: tosa.SelectOp) -> SSAValue:
    return code.insert(nn.WhereOp, [code.plain(x) for x in op.operands])


# ---------------------------------------------------------------------------------------------------------------
# Arithmetic that differs: rescaled products, shifts that round, negation of quantized values.


def _mul(code: NNCode, op: tosa.MulOp) -> SSAValue:
    """a · b in the result's type; with a shift, the 64-bit product is shifted with rounding."""
    a, b, result = code.plain(op.input1), code.plain(op.input2), declared(op.output)
    shift = code.number(op.shift, "shift") if is_integer(result) else 0
    if not shift:
        return code.insert(nn.MulOp, [code.cast(x, result) if is_integer(result) else x for x in (a, b)])
    product = code.insert(nn.MulOp, [code.cast(x, i64) for x in (a, b)])
    return code.cast(rounded_shift(code, product, code.scalar(shift, product)), result)


def rounded_shift(code: NNCode, x: SSAValue, bits: SSAValue) -> SSAValue:
    """x · 2^−bits rounded half up, for bits of at least 1."""
    half = code.insert(nn.ShiftLeftOp, [code.scalar(1, x), code.plus(bits, -1)])
    return code.insert(nn.ShiftRightOp, [code.insert(nn.AddOp, [x, half]), bits])


def _arithmetic_right_shift(code: NNCode, op: tosa.ArithmeticRightShiftOp) -> SSAValue:
    """x · 2^−b rounded down; with `round`, the highest bit that is dropped is added, which cannot overflow."""
    x, bits = code.plain(op.input1), code.plain(op.input2)
    kept = code.insert(nn.ShiftRightOp, [x, bits])
    if not bool(op.round):
        return kept
    zero = code.scalar(0, bits)
    some = code.insert(nn.LessOp, [zero, bits])
    before = code.insert(nn.MaximumOp, [code.plus(bits, -1), zero])
    dropped = code.insert(nn.AndOp, [code.insert(nn.ShiftRightOp, [x, before]), code.scalar(1, x)])
    return code.insert(nn.AddOp, [kept, code.insert(nn.WhereOp, [some, dropped, code.scalar(0, dropped)])])


def unsigned(code: NNCode, x: SSAValue) -> SSAValue:
    """The bits of signless integers as unsigned integers."""
    kind = element_of(x)
    if not is_integer(kind):
        code.refuse("reads bits of integers", got=str(kind), remedy="convert the model again")
    if kind.signedness.data is Signedness.UNSIGNED:
        return x
    return code.insert(nn.BitcastOp, [x], element=IntegerType(kind.width.data, Signedness.UNSIGNED))


def _logical_right_shift(code: NNCode, op: Operation) -> SSAValue:
    x, bits = (code.plain(o) for o in op.operands)
    shifted = code.insert(nn.ShiftRightOp, [unsigned(code, x), unsigned(code, bits)])
    return code.insert(nn.BitcastOp, [shifted], element=element_of(x))


def _clz(code: NNCode, op: Operation) -> SSAValue:
    """Counts the shifts by 0 to 31 bits that leave nothing."""
    x = code.plain(op.operands[0])
    wide = code.reshape(unsigned(code, x), (*shape_of(x), 1))
    shifted = code.insert(nn.ShiftRightOp, [wide, code.constant(np.arange(32, dtype=np.uint32))])
    gone = code.cast(code.insert(nn.EqualOp, [shifted, code.scalar(0, shifted)]), i32)
    return code.reshape(code.insert(nn.ReduceSumOp, [gone], {"axes": [len(shape_of(x))]}), shape_of(x))


def _negate(code: NNCode, op: tosa.NegateOp) -> SSAValue:
    """−x, or for bytes z_x + z_y − x, saturated."""
    x = code.plain(op.input1)
    if not is_integer(kind := element_of(x)):
        return code.insert(nn.NegOp, [x])
    points = code.number(op.input1_zp, "input1_zp") + code.number(op.output_zp, "output_zp")
    if kind.width.data > 16:
        return code.insert(nn.NegOp, [x])
    wide = code.cast(x, i32)
    return code.saturated(code.insert(nn.SubOp, [code.scalar(points, wide), wide]), kind)


# ---------------------------------------------------------------------------------------------------------------
# Extremes and clamps. nn propagates NaN; where TOSA ignores it, NaN is replaced first.


def ignores_nan(op: Operation) -> bool:
    """Whether an operation has the NaN mode IGNORE on floats."""
    mode = getattr(op, "nan_mode", None)
    return mode is not None and mode.data == NanMode.IGNORE


def refuse_ignored_nan(code: NNCode, op: Operation) -> None:
    """Refuses the NaN mode IGNORE where it changes the result: on floats."""
    if ignores_nan(op) and not is_integer(declared(op.operands[0])):
        code.refuse("propagates NaN in nn", got="nan_mode IGNORE", remedy="export it with nan_mode PROPAGATE")


def _extremum(kind: type[TensorOp]) -> Rule:
    def rule(code: NNCode, op: Operation) -> SSAValue:
        a, b = (code.plain(x) for x in op.operands)
        if ignores_nan(op) and not is_integer(element_of(a)):
            a, b = (code.insert(nn.WhereOp, [code.insert(nn.IsNaNOp, [x]), other, x]) for x, other in ((a, b), (b, a)))
        return code.insert(kind, [a, b])

    return rule


LARGEST: Mapping[str, float] = {"f16": 65504.0, "f32": 3.4028234663852886e38, "bf16": 3.3895313892515355e38}
"""The largest finite number of a float type. Importers write it where a clamp has no bound."""


def float_bounds(kind: AnyFloat, low: float, high: float) -> dict[str, float]:
    """The bounds of a clamp on floats as properties of nn; infinities are none, nor is the largest number of one side.

    A clamp between both largest numbers replaces infinities, and keeps both bounds.
    """
    largest = LARGEST.get(str(kind), float("inf"))
    if (low, high) == (-largest, largest):
        largest = float("inf")
    return {n: b for n, b in (("min", low), ("max", high)) if abs(b) < largest}


def _clamp(code: NNCode, op: tosa.ClampOp) -> SSAValue:
    x, low, high = code.plain(op.input), op.min_val.value.data, op.max_val.value.data
    if not isinstance(op.min_val, FloatAttr):
        return code.bounded(x, int(low), int(high))
    if ignores_nan(op):
        x = code.insert(nn.WhereOp, [code.insert(nn.IsNaNOp, [x]), code.scalar(low, x), x])
    bounds = float_bounds(op.min_val.type, low, high)
    if bounds == {"min": 0.0}:
        return code.insert(nn.ReluOp, [x])
    return code.insert(nn.ClampOp, [x], bounds) if bounds else x


# ---------------------------------------------------------------------------------------------------------------
# Casts and tables.


def _cast(code: NNCode, op: tosa.CastOp) -> SSAValue:
    """TOSA rounds floats to the nearest integer, halves to even; nn rounds toward zero."""
    x, result = code.plain(op.input), declared(op.output)
    if not is_integer(element_of(x)) and is_integer(result) and result != i1:
        x = code.insert(nn.RoundOp, [x])
    return code.cast(x, result)


def _table(code: NNCode, op: tosa.TableOp) -> SSAValue:
    x, entries = code.plain(op.input1), code.known(op.table, "table")
    if element_of(x) == i8:
        return code.insert(qint.LookupOp, [x], {"table": entries})
    place = code.plus(code.cast(x, i32), 1 << 15)
    breakpoint = code.insert(nn.ShiftRightOp, [place, code.scalar(7, place)])
    fraction = code.insert(nn.AndOp, [place, code.scalar(127, place)])
    table = entries.astype(np.int32)
    base, slope = (
        code.insert(nn.GatherOp, [code.constant(t), breakpoint], {"axis": 0})
        for t in (table * 128, np.diff(table, append=np.int32(0)))
    )
    return code.insert(nn.AddOp, [base, code.insert(nn.MulOp, [slope, fraction])])


RULES: Mapping[type[Operation], Rule] = {
    **{NAMED[name]: _same(kind) for name, kind in SAME.items()},
    **{NAMED[name]: _same(kind, exchanged=True) for name, kind in EXCHANGED.items()},
    NAMED["logical_right_shift"]: _logical_right_shift,
    NAMED["clz"]: _clz,
    tosa.MaximumOp: _extremum(nn.MaximumOp),
    tosa.MinimumOp: _extremum(nn.MinimumOp),
    tosa.SelectOp: _select,
    tosa.MulOp: _mul,
    tosa.ArithmeticRightShiftOp: _arithmetic_right_shift,
    tosa.NegateOp: _negate,
    tosa.ClampOp: _clamp,
    tosa.CastOp: _cast,
    tosa.TableOp: _table,
}

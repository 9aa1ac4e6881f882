"""Samples of operations on single elements."""

from xdsl.dialects.builtin import (
    BFloat16Type,
    BoolAttr,
    Float4E2M1FNType,
    Float8E4M3FNType,
    Float8E4M3FNUZType,
    Float8E5M2FNUZType,
    Float8E5M2Type,
    IntegerType,
    Signedness,
    f16,
    f32,
    f64,
    i1,
    i8,
    i16,
    i32,
)
from xdsl.ir import Attribute

from qmlir.dialects import nn
from qmlir.dialects.nn.base import bound
from qmlir.dialects.nn.bitwise import BitwiseOp
from qmlir.dialects.nn.elementwise import FunctionOp, OperandPairOp
from tests.ops.sample import Operand, Sample, clamp, f, i

Properties = dict[str, Attribute | None]

TRUE, FALSE = (BoolAttr.from_bool(b) for b in (True, False))


def reals(**values: float) -> Properties:
    """Properties that are numbers."""
    return {name: bound(value) for name, value in values.items()}


def d(*shape: int, low: float = -2.0, high: float = 2.0) -> Operand:
    """An f64 operand."""
    return Operand(shape, f64, low, high)


def u(bits: int, *shape: int, most: int | None = None) -> Operand:
    """An unsigned operand: all values of `bits` bits, or those up to `most`."""
    most = (1 << min(bits, 63)) - 1 if most is None else most
    return Operand(shape, IntegerType(bits, Signedness.UNSIGNED), 0, most)


def truth(*shape: int) -> Operand:
    """A bool operand."""
    return Operand(shape, i1, 0, 1)


FUNCTIONS: tuple[tuple[type[FunctionOp], float, float, Properties], ...] = (
    (nn.AbsOp, -3, 2, {}),
    (nn.NegOp, -3, 2, {}),
    (nn.SignOp, -1, 1, {}),
    (nn.FloorOp, -4, 5, {}),
    (nn.CeilOp, -4, 5, {}),
    (nn.RoundOp, -4, 5, {}),
    (nn.SqrtOp, 0, 9, {}),
    (nn.ReciprocalOp, 0.5, 4, {}),
    (nn.RsqrtOp, 0.25, 9, {}),
    (nn.ExpOp, -5, 3, {}),
    (nn.LogOp, 0.5, 9, {}),
    (nn.ErfOp, -3, 3, {}),
    (nn.SinOp, -9, 9, {}),
    (nn.CosOp, -9, 9, {}),
    (nn.TanOp, -1.2, 1.2, {}),
    (nn.AsinOp, -0.9, 0.9, {}),
    (nn.AcosOp, -0.9, 0.9, {}),
    (nn.AtanOp, -6, 6, {}),
    (nn.SinhOp, -3, 3, {}),
    (nn.CoshOp, -3, 3, {}),
    (nn.AsinhOp, -9, 9, {}),
    (nn.AcoshOp, 1.5, 9, {}),
    (nn.AtanhOp, -0.9, 0.9, {}),
    (nn.HardSigmoidOp, -4, 4, reals(alpha=0.3, beta=0.4)),
    (nn.HardSwishOp, -5, 5, {}),
    (nn.LeakyReluOp, -5, 5, reals(alpha=0.1)),
    (nn.EluOp, -5, 5, reals(alpha=1.5)),
    (nn.SeluOp, -5, 5, reals(alpha=1.5, gamma=1.1)),
    (nn.CeluOp, -5, 5, reals(alpha=2.0)),
    (nn.SoftplusOp, -9, 9, {}),
    (nn.SoftsignOp, -9, 9, {}),
    (nn.MishOp, -6, 6, {}),
    (nn.SwishOp, -6, 6, reals(alpha=1.5)),
    (nn.ThresholdedReluOp, -5, 5, reals(alpha=1.25)),
    (nn.BinarizeOp, -5, 5, reals(threshold=1.5)),
    (nn.ShrinkOp, -5, 5, reals(bias=0.75, threshold=1.5)),
    (nn.GeluOp, -6, 6, {}),
)
"""Operation, the range it is tried on, its properties."""

PAIRS: tuple[type[OperandPairOp], ...] = (
    nn.DivOp,
    nn.MaximumOp,
    nn.MinimumOp,
    nn.PReluOp,
    nn.SquaredDifferenceOp,
)
COMPARISONS = (nn.EqualOp, nn.LessOp, nn.LessEqualOp)
BITWISE: tuple[type[BitwiseOp], ...] = (nn.AndOp, nn.OrOp, nn.XorOp)

FLOAT_SAMPLES = (
    *(Sample(op, "f32", (f(3, 60, low=low, high=high),), properties) for op, low, high, properties in FUNCTIONS),
    Sample(nn.GeluOp, "by tanh", (f(3, 60, low=-6, high=6),), {"tanh": TRUE}),
    Sample(nn.ExpOp, "beyond f32", (f(50, low=-200, high=80),)),
    Sample(nn.SubOp, "same shape", (f(2, 3, 4), f(2, 3, 4, low=-0.2, high=0.1))),
    Sample(nn.SubOp, "channels and relu", (f(1, 3, 3, 4), f(4, low=0, high=3)), clamp(0, 1.5)),
    *(Sample(op, "f32", (f(2, 3, 4), f(3, 1, low=0.5, high=2))) for op in PAIRS),
    Sample(nn.PReluOp, "wider slopes", (f(3, 1), f(2, 3, 4, low=-1, high=1))),
    Sample(nn.PowOp, "f32", (f(2, 3, 4, low=0.1, high=3), f(4, low=-2, high=3))),
    Sample(nn.ModOp, "f32", (f(40, low=-90, high=90), f(40, low=1, high=3)), {"truncated": TRUE}),
    *(Sample(op, "f32", (f(2, 3, 4), f(3, 4))) for op in COMPARISONS),
    Sample(nn.WhereOp, "f32", (truth(3, 1), f(2, 1, 4), f(4))),
    Sample(nn.IsNaNOp, "f32", (f(9),)),
    Sample(nn.IsInfOp, "f32", (f(9),), {"negative": FALSE}),
    Sample(nn.IsInfOp, "below", (f(9),), {"positive": FALSE}),
)

OTHER_SAMPLES = (
    *(Sample(op, "far", (f(50, low=-1e30, high=1e30),)) for op in (nn.SinOp, nn.CosOp, nn.TanOp)),
    *(
        Sample(op, "f64", (d(40, low=low, high=high),), properties)
        for op, low, high, properties in FUNCTIONS
        if op not in (nn.SinOp, nn.CosOp, nn.TanOp)
    ),
    *(Sample(op, "i8", (i(8, 300),)) for op in (nn.AbsOp, nn.NegOp, nn.SignOp, nn.ReluOp)),
    *(Sample(op, "ui16", (u(16, 300),)) for op in (nn.AbsOp, nn.NegOp, nn.SignOp, nn.ReluOp)),
    *(Sample(op, "f64", (d(5, 7), d(7))) for op in (nn.AddOp, nn.SubOp, nn.MulOp, *PAIRS, *COMPARISONS)),
    Sample(nn.AddOp, "clamped f64", (d(5, 7), d(7)), clamp(-0.3, 0.7)),
    *(Sample(op, "i32", (i(32, 300), i(32, 300))) for op in (nn.AddOp, nn.SubOp, nn.MulOp, *PAIRS, *COMPARISONS)),
    *(Sample(op, "ui8", (u(8, 300), u(8, 300))) for op in (nn.AddOp, nn.SubOp, nn.MulOp, *PAIRS, *COMPARISONS)),
    *(Sample(op, "i64 by few", (i(64, 300), i(64, 300, most=3))) for op in (nn.DivOp, nn.ModOp, nn.PowOp)),
    Sample(nn.ModOp, "as C", (i(16, 300), i(16, 300, most=9)), {"truncated": TRUE}),
    Sample(nn.ModOp, "ui32", (u(32, 300), u(32, 300))),
    Sample(nn.ModOp, "floored f32", (f(40, low=-90, high=90), f(40, low=-3, high=3))),
    Sample(nn.PowOp, "f64", (d(40, low=0.1, high=3), d(40, low=-2, high=3))),
    Sample(nn.PowOp, "ui16", (u(16, 300, most=9), u(16, 300, most=70))),
    Sample(nn.EqualOp, "i1", (truth(30), truth(30))),
    Sample(nn.WhereOp, "i64", (truth(3, 1), i(64, 2, 1, 4), i(64, 4))),
    Sample(nn.WhereOp, "i1", (truth(30), truth(30), truth(30))),
    *(Sample(op, "i1", (truth(30), truth(30))) for op in BITWISE),
    *(Sample(op, "i16", (i(16, 30), i(16, 30))) for op in BITWISE),
    Sample(nn.NotOp, "i1", (truth(30),)),
    Sample(nn.NotOp, "ui32", (u(32, 30),)),
    *(Sample(op, "i32", (i(32, 90), i(32, 90, most=40))) for op in (nn.ShiftLeftOp, nn.ShiftRightOp)),
    *(Sample(op, "ui8", (u(8, 90), u(8, 90, most=9))) for op in (nn.ShiftLeftOp, nn.ShiftRightOp)),
    *(Sample(nn.CastOp, f"f32 to {e}", (f(90, low=-300, high=300),), {}, e) for e in (f16, f64, i1, i8, i32)),
    Sample(nn.CastOp, "f32 to bf16", (f(90, low=-300, high=300),), {}, BFloat16Type()),
    *(
        Sample(nn.CastOp, f"f32 to {e.name.removeprefix('f')}", (f(90, low=-440, high=440),), {"saturate": flag}, e)
        for e, flag in (
            (Float8E4M3FNType(), FALSE),
            (Float8E4M3FNUZType(), TRUE),
            (Float8E5M2Type(), FALSE),
            (Float8E5M2FNUZType(), TRUE),
            (Float4E2M1FNType(), TRUE),
        )
    ),
    *(Sample(nn.CastOp, f"f32 to {e}", (f(90, low=-20, high=20),), {}, e) for e in (IntegerType(4), IntegerType(2))),
    Sample(nn.CastOp, "to the same", (f(9),), {"saturate": FALSE}, f32),
    *(Sample(nn.CastOp, f"i64 to {e}", (i(64, 90),), {}, e) for e in (f16, f32, f64, i1, i8, i16)),
    Sample(nn.CastOp, "ui8 to i16", (u(8, 90),), {}, i16),
    Sample(nn.CastOp, "i1 to f32", (truth(20),), {}, f32),
    Sample(nn.BitcastOp, "f32", (f(90),), {}, i32),
    Sample(nn.BitcastOp, "i64", (i(64, 90, most=1 << 60),), {}, f64),
)
"""Of elements that are not f32, or of operations that only other types have."""

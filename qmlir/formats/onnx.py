"""ONNX's operators and the operations of nn that they are: names, first operator sets, inputs and attributes.

The importer converts the operators in `OPERATORS` by their rows, and the exporter writes operations by the same rows.
If an import or an export is more than its row, the importer has a converter or the exporter a form of its own, which
takes precedence.
"""

from collections.abc import Mapping

from qmlir.dialects import nn
from qmlir.dialects.nn.reduction import ArgumentOp, CumulativeOp, ReductionOp
from qmlir.formats.rows import PAIR, Operator
from qmlir.ir.interfaces import TensorOp

AXIS = "axis"
"""The property of nn that is an axis of the first operand; a negative axis in ONNX counts from the end."""


ALPHA_GAMMA = {"alpha": ("alpha", 1.67326319217681884765625), "gamma": ("gamma", 1.05070102214813232421875)}

OPERATORS = (
    Operator(nn.AddOp, "Add", 7, PAIR),
    Operator(nn.SubOp, "Sub", 7, PAIR),
    Operator(nn.MulOp, "Mul", 7, PAIR),
    Operator(nn.DivOp, "Div", 7, PAIR),
    Operator(nn.ModOp, "Mod", 10, PAIR, {"fmod": ("truncated", False)}),
    Operator(nn.PowOp, "Pow", 7, PAIR),
    Operator(nn.MaximumOp, "Max", 6, PAIR),
    Operator(nn.MinimumOp, "Min", 6, PAIR),
    Operator(nn.EqualOp, "Equal", 7, PAIR),
    Operator(nn.LessOp, "Less", 7, PAIR),
    Operator(nn.LessEqualOp, "LessOrEqual", 12, PAIR),
    Operator(nn.LessOp, "Greater", 7, PAIR, exchanged=True),
    Operator(nn.LessEqualOp, "GreaterOrEqual", 12, PAIR, exchanged=True),
    Operator(nn.WhereOp, "Where", 9, ("condition", "x", "y")),
    Operator(nn.IsNaNOp, "IsNaN", 9),
    Operator(nn.AndOp, "And", 7, PAIR),
    Operator(nn.OrOp, "Or", 7, PAIR),
    Operator(nn.XorOp, "Xor", 7, PAIR),
    Operator(nn.NotOp, "Not"),
    Operator(nn.AndOp, "BitwiseAnd", 18, PAIR),
    Operator(nn.OrOp, "BitwiseOr", 18, PAIR),
    Operator(nn.XorOp, "BitwiseXor", 18, PAIR),
    Operator(nn.NotOp, "BitwiseNot", 18),
    Operator(nn.AbsOp, "Abs", 6),
    Operator(nn.NegOp, "Neg", 6),
    Operator(nn.SignOp, "Sign", 9),
    Operator(nn.FloorOp, "Floor", 6),
    Operator(nn.CeilOp, "Ceil", 6),
    Operator(nn.RoundOp, "Round", 11),
    Operator(nn.SqrtOp, "Sqrt", 6),
    Operator(nn.ReciprocalOp, "Reciprocal", 6),
    Operator(nn.ExpOp, "Exp", 6),
    Operator(nn.LogOp, "Log", 6),
    Operator(nn.ErfOp, "Erf", 9),
    Operator(nn.SinOp, "Sin", 7),
    Operator(nn.CosOp, "Cos", 7),
    Operator(nn.TanOp, "Tan", 7),
    Operator(nn.AsinOp, "Asin", 7),
    Operator(nn.AcosOp, "Acos", 7),
    Operator(nn.AtanOp, "Atan", 7),
    Operator(nn.SinhOp, "Sinh", 9),
    Operator(nn.CoshOp, "Cosh", 9),
    Operator(nn.AsinhOp, "Asinh", 9),
    Operator(nn.AcoshOp, "Acosh", 9),
    Operator(nn.AtanhOp, "Atanh", 9),
    Operator(nn.ReluOp, "Relu", 6),
    Operator(nn.SigmoidOp, "Sigmoid", 6),
    Operator(nn.TanhOp, "Tanh", 6),
    Operator(nn.HardSigmoidOp, "HardSigmoid", 6, attributes={"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
    Operator(nn.HardSwishOp, "HardSwish", 14),
    Operator(nn.SwishOp, "Swish", 24, attributes={"alpha": ("alpha", 1.0)}),
    Operator(nn.LeakyReluOp, "LeakyRelu", 6, attributes={"alpha": ("alpha", 0.01)}),
    Operator(nn.EluOp, "Elu", 6, attributes={"alpha": ("alpha", 1.0)}),
    Operator(nn.SeluOp, "Selu", 6, attributes=ALPHA_GAMMA),
    Operator(nn.CeluOp, "Celu", 12, attributes={"alpha": ("alpha", 1.0)}),
    Operator(nn.SoftplusOp, "Softplus"),
    Operator(nn.SoftsignOp, "Softsign"),
    Operator(nn.MishOp, "Mish", 18),
    Operator(nn.ThresholdedReluOp, "ThresholdedRelu", 10, attributes={"alpha": ("alpha", 1.0)}),
    Operator(nn.BinarizeOp, "Binarizer", attributes={"threshold": ("threshold", 0.0)}, domain="ai.onnx.ml"),
    Operator(nn.ShrinkOp, "Shrink", 9, attributes={"bias": ("bias", 0.0), "lambd": ("threshold", 0.5)}),
    Operator(nn.SoftmaxOp, "Softmax", 13, attributes={"axis": (AXIS, -1)}),
    Operator(nn.LogSoftmaxOp, "LogSoftmax", 13, attributes={"axis": (AXIS, -1)}),
    Operator(nn.LpNormalizationOp, "LpNormalization", attributes={"axis": (AXIS, -1), "p": ("p", 2)}),
)
"""The operators that are one operation on their inputs."""

WRITTEN: Mapping[type[TensorOp], Operator] = {o.operation: o for o in reversed(OPERATORS)}
"""Operation → the operator as which it is written."""

ON_INTEGERS = (nn.AddOp, nn.MulOp, nn.SigmoidOp, nn.LeakyReluOp)
"""Operations whose operator onnxruntime has on integers, too: QLinear and the operator's name, in its own domain.

Each input and the output is followed by its scale and zero point.
"""

REDUCTIONS: Mapping[type[ReductionOp], tuple[str, int]] = {
    nn.ReduceSumOp: ("ReduceSum", 13),
    nn.ReduceMeanOp: ("ReduceMean", 18),
    nn.ReduceProdOp: ("ReduceProd", 18),
    nn.ReduceMaxOp: ("ReduceMax", 18),
    nn.ReduceMinOp: ("ReduceMin", 18),
}
"""Operation → (ONNX's operator, the first operator set in which its axes are an input)."""

ARGUMENTS: Mapping[type[ArgumentOp], str] = {nn.ArgMaxOp: "ArgMax", nn.ArgMinOp: "ArgMin"}
"""Operation → ONNX's operator."""

CUMULATIVE: Mapping[type[CumulativeOp], tuple[str, int]] = {
    nn.CumulativeSumOp: ("CumSum", 11),
    nn.CumulativeProductOp: ("CumProd", 26),
}
"""Operation → (ONNX's operator, its first operator set)."""

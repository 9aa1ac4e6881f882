"""Caffe2's operators and the operations of nn that they are, with the names and defaults of their arguments.

The importer converts the operators in `OPERATORS` by their rows. If an import is more than its row, the importer has a
converter, which takes precedence.
"""

from collections.abc import Mapping

from qmlir.dialects import nn
from qmlir.dialects.nn.reduction import ArgumentOp, ReductionOp
from qmlir.formats.rows import Operator, comparisons
from qmlir.ir.interfaces import TensorOp

OPERATORS = (
    Operator(nn.AbsOp, "Abs"),
    Operator(nn.AcosOp, "Acos"),
    Operator(nn.AsinOp, "Asin"),
    Operator(nn.AtanOp, "Atan"),
    Operator(nn.CeilOp, "Ceil"),
    Operator(nn.CosOp, "Cos"),
    Operator(nn.CoshOp, "Cosh"),
    Operator(nn.EluOp, "Elu", attributes={"alpha": ("alpha", 1.0)}),
    Operator(nn.ErfOp, "Erf"),
    Operator(nn.ExpOp, "Exp"),
    Operator(nn.FloorOp, "Floor"),
    Operator(nn.GeluOp, "Gelu", attributes={"fast_gelu": ("tanh", False)}),
    Operator(nn.HardSigmoidOp, "HardSigmoid", attributes={"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
    Operator(nn.LeakyReluOp, "LeakyRelu", attributes={"alpha": ("alpha", 0.01)}),
    Operator(nn.LogOp, "Log"),
    Operator(nn.NegOp, "Negative"),
    Operator(nn.NotOp, "Not"),
    Operator(nn.ReciprocalOp, "Reciprocal"),
    Operator(nn.ReluOp, "Relu"),
    Operator(nn.RoundOp, "Round"),
    Operator(nn.RsqrtOp, "Rsqrt"),
    Operator(
        nn.SeluOp, "Selu",
        attributes={"alpha": ("alpha", 1.6732632423543772), "scale": ("gamma", 1.0507009873554805)},
    ),
    Operator(nn.SigmoidOp, "Sigmoid"),
    Operator(nn.SignOp, "Sign"),
    Operator(nn.SinOp, "Sin"),
    Operator(nn.SinhOp, "Sinh"),
    Operator(nn.SoftplusOp, "Softplus"),
    Operator(nn.SoftsignOp, "Softsign"),
    Operator(nn.SqrtOp, "Sqrt"),
    Operator(nn.TanOp, "Tan"),
    Operator(nn.TanhOp, "Tanh"),
    Operator(nn.LeakyReluOp, "Int8LeakyRelu", attributes={"alpha": ("alpha", 0.01)}, on_integers=True),
    Operator(nn.SigmoidOp, "Int8Sigmoid", on_integers=True),
    Operator(nn.TanhOp, "Int8Tanh", on_integers=True),
)  # fmt: skip
"""The operators that are one operation on their inputs."""

ARITHMETIC: Mapping[str, type[TensorOp]] = {
    "Add": nn.AddOp,
    "Sub": nn.SubOp,
    "Mul": nn.MulOp,
    "Div": nn.DivOp,
    "And": nn.AndOp,
    "Or": nn.OrOp,
    "Xor": nn.XorOp,
    "BitwiseAnd": nn.AndOp,
    "BitwiseOr": nn.OrOp,
    "BitwiseXor": nn.XorOp,
}
"""Operator on two tensors, the second of which broadcasts → operation."""

COMPARISONS = comparisons("EQ", "NE", "LT", "LE", "GT", "GE")
"""Operator → comparison."""

REDUCTIONS: Mapping[str, type[ReductionOp]] = {
    "ReduceSum": nn.ReduceSumOp,
    "ReduceMean": nn.ReduceMeanOp,
    "ReduceMax": nn.ReduceMaxOp,
    "ReduceMin": nn.ReduceMinOp,
}
"""Operator → reduction along axes; Caffe2 has each for the first and for the last dimensions, too."""

ARGUMENTS: Mapping[str, type[ArgumentOp]] = {"ArgMax": nn.ArgMaxOp, "ArgMin": nn.ArgMinOp}
"""Operator → operation."""

"""ONNX's operators on single elements that are one function of nn."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from qmlir.dialects import nn
from qmlir.dialects.nn.elementwise import FunctionOp


@dataclass(frozen=True)
class Operator:
    """An operator of ONNX with one input.

    kind        its name
    since       the first operator set with this form of it
    attributes  ONNX's name of an attribute → the name of the operation's property, and ONNX's default
    """

    kind: str
    since: int
    attributes: Mapping[str, tuple[str, float]] = field(default_factory=dict[str, tuple[str, float]])


FUNCTIONS: Mapping[type[FunctionOp], Operator] = {
    nn.AbsOp: Operator("Abs", 6),
    nn.NegOp: Operator("Neg", 6),
    nn.SignOp: Operator("Sign", 9),
    nn.FloorOp: Operator("Floor", 6),
    nn.CeilOp: Operator("Ceil", 6),
    nn.RoundOp: Operator("Round", 11),
    nn.SqrtOp: Operator("Sqrt", 6),
    nn.ReciprocalOp: Operator("Reciprocal", 6),
    nn.ExpOp: Operator("Exp", 6),
    nn.LogOp: Operator("Log", 6),
    nn.ErfOp: Operator("Erf", 9),
    nn.SinOp: Operator("Sin", 7),
    nn.CosOp: Operator("Cos", 7),
    nn.TanOp: Operator("Tan", 7),
    nn.AsinOp: Operator("Asin", 7),
    nn.AcosOp: Operator("Acos", 7),
    nn.AtanOp: Operator("Atan", 7),
    nn.SinhOp: Operator("Sinh", 9),
    nn.CoshOp: Operator("Cosh", 9),
    nn.AsinhOp: Operator("Asinh", 9),
    nn.AcoshOp: Operator("Acosh", 9),
    nn.AtanhOp: Operator("Atanh", 9),
    nn.ReluOp: Operator("Relu", 6),
    nn.SigmoidOp: Operator("Sigmoid", 6),
    nn.TanhOp: Operator("Tanh", 6),
    nn.HardSigmoidOp: Operator("HardSigmoid", 6, {"alpha": ("alpha", 0.2), "beta": ("beta", 0.5)}),
    nn.HardSwishOp: Operator("HardSwish", 14),
    nn.LeakyReluOp: Operator("LeakyRelu", 6, {"alpha": ("alpha", 0.01)}),
    nn.EluOp: Operator("Elu", 6, {"alpha": ("alpha", 1.0)}),
    nn.SeluOp: Operator(
        "Selu",
        6,
        {"alpha": ("alpha", 1.67326319217681884765625), "gamma": ("gamma", 1.05070102214813232421875)},
    ),
    nn.CeluOp: Operator("Celu", 12, {"alpha": ("alpha", 1.0)}),
    nn.SoftplusOp: Operator("Softplus", 1),
    nn.SoftsignOp: Operator("Softsign", 1),
    nn.MishOp: Operator("Mish", 18),
    nn.ThresholdedReluOp: Operator("ThresholdedRelu", 10, {"alpha": ("alpha", 1.0)}),
    nn.ShrinkOp: Operator("Shrink", 9, {"bias": ("bias", 0.0), "lambd": ("threshold", 0.5)}),
}
"""Function → its operator."""

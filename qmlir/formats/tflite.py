"""TFLite's operators on single elements that are one function of nn."""

from collections.abc import Mapping

from qmlir.dialects import nn
from qmlir.dialects.nn.elementwise import FunctionOp

FUNCTIONS: Mapping[type[FunctionOp], tuple[str, str]] = {
    nn.AbsOp: ("ABS", "AbsOptions"),
    nn.NegOp: ("NEG", "NegOptions"),
    nn.SignOp: ("SIGN", "SignOptions"),
    nn.FloorOp: ("FLOOR", ""),
    nn.CeilOp: ("CEIL", ""),
    nn.RoundOp: ("ROUND", ""),
    nn.SqrtOp: ("SQRT", ""),
    nn.RsqrtOp: ("RSQRT", ""),
    nn.ExpOp: ("EXP", "ExpOptions"),
    nn.LogOp: ("LOG", ""),
    nn.SinOp: ("SIN", ""),
    nn.CosOp: ("COS", "CosOptions"),
    nn.ReluOp: ("RELU", ""),
    nn.SigmoidOp: ("LOGISTIC", ""),
    nn.TanhOp: ("TANH", ""),
    nn.HardSwishOp: ("HARD_SWISH", "HardSwishOptions"),
}
"""Function → its operator, and the schema's name of the operator's options; empty if it has none."""

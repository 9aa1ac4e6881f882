"""Elementwise functions of one operand without attributes: a table from ONNX operator to nn operation."""

from collections.abc import Callable

from qmlir.dialects import nn
from qmlir.dialects.nn.pointwise import FunctionOp
from qmlir.frontends.builder import Node
from qmlir.frontends.onnx.converters import converts
from qmlir.frontends.values import Value

FUNCTIONS: dict[str, tuple[int, type[FunctionOp]]] = {
    "Abs": (6, nn.AbsOp),
    "Neg": (6, nn.NegOp),
    "Sign": (9, nn.SignOp),
    "Floor": (6, nn.FloorOp),
    "Ceil": (6, nn.CeilOp),
    "Round": (11, nn.RoundOp),
    "Sqrt": (6, nn.SqrtOp),
    "Reciprocal": (6, nn.ReciprocalOp),
    "Exp": (6, nn.ExpOp),
    "Log": (6, nn.LogOp),
    "Erf": (9, nn.ErfOp),
    "Sin": (7, nn.SinOp),
    "Cos": (7, nn.CosOp),
    "Tan": (7, nn.TanOp),
    "Asin": (7, nn.AsinOp),
    "Acos": (7, nn.AcosOp),
    "Atan": (7, nn.AtanOp),
    "Sinh": (9, nn.SinhOp),
    "Cosh": (9, nn.CoshOp),
    "Asinh": (9, nn.AsinhOp),
    "Acosh": (9, nn.AcoshOp),
    "Atanh": (9, nn.AtanhOp),
    "Relu": (6, nn.ReluOp),
    "Sigmoid": (6, nn.SigmoidOp),
    "Tanh": (6, nn.TanhOp),
    "HardSwish": (14, nn.HardSwishOp),
    "Softplus": (1, nn.SoftplusOp),
    "Softsign": (1, nn.SoftsignOp),
    "Mish": (18, nn.MishOp),
}
"""ONNX operator → (the first operator set version that the entry serves, nn operation)."""


def _converter(op: type[FunctionOp]) -> Callable[[Node, Value], Value]:
    def convert(node: Node, x: Value) -> Value:
        return node.compute(op, [x])

    return convert


for _operator, (_since, _op) in FUNCTIONS.items():
    converts(_operator, since=_since)(_converter(_op))

"""Forms of elementary functions."""

from collections.abc import Callable

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import Graph, Tensor
from qmlir.backends.tflite.pointwise import one, several
from qmlir.backends.tflite.tables import tabled
from qmlir.backends.tflite.values import Values
from qmlir.dialects import nn
from qmlir.dialects.nn.pointwise import UnaryOp

NAMED: dict[type[UnaryOp], str] = {
    nn.AbsOp: "ABS",
    nn.NegOp: "NEG",
    nn.SignOp: "SIGN",
    nn.FloorOp: "FLOOR",
    nn.CeilOp: "CEIL",
    nn.RoundOp: "ROUND",
    nn.SqrtOp: "SQRT",
    nn.RsqrtOp: "RSQRT",
    nn.ExpOp: "EXP",
    nn.LogOp: "LOG",
    nn.SinOp: "SIN",
    nn.CosOp: "COS",
}
"""Operation → TFLite's operator."""


@exports(*NAMED)
def named(op: UnaryOp, values: Values) -> None:
    """Writes the operation as one operator."""
    one(NAMED[type(op)], op, values)


def _reciprocal(graph: Graph, x: Tensor) -> Tensor:
    return graph.pointwise("DIV", graph.number(1, x), x)


def _tan(graph: Graph, x: Tensor) -> Tensor:
    return graph.pointwise("DIV", graph.pointwise("SIN", x), graph.pointwise("COS", x))


COMPOSED: dict[type[UnaryOp], Callable[[Graph, Tensor], Tensor]] = {nn.ReciprocalOp: _reciprocal, nn.TanOp: _tan}
"""Operation → the function that adds its operators."""


@exports(*COMPOSED)
def composed(op: UnaryOp, values: Values) -> None:
    """Writes the operation as several operators."""
    several(op, values, COMPOSED[type(op)])


@exports(
    nn.ErfOp, nn.AsinOp, nn.AcosOp, nn.AtanOp, nn.SinhOp, nn.CoshOp, nn.AsinhOp, nn.AcoshOp, nn.AtanhOp,
)  # fmt: skip
def missing(op: UnaryOp, values: Values) -> None:
    """Writes a function that TFLite lacks as a lookup table; raises NoForm unless it maps bytes to bytes."""
    if not tabled(op, values):
        raise NoForm("must be a function that TFLite has", op.name, "quantize it to bytes, or rewrite the model")

"""Forms of elementwise arithmetic on two operands."""

import numpy as np

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import BOOL, Graph, Options, Tensor
from qmlir.backends.tflite.pointwise import one, several
from qmlir.backends.tflite.values import Values, constant
from qmlir.dialects import nn
from qmlir.dialects.nn.pointwise import OperandPairOp
from qmlir.ir.interfaces import shape_of

ANY_SCALE: Options = {"PotScaleInt16": False}
"""The option that allows scales of 16-bit data that are not powers of two."""

NAMED: dict[type[OperandPairOp], tuple[str, Options]] = {
    nn.AddOp: ("ADD", ANY_SCALE),
    nn.SubOp: ("SUB", ANY_SCALE),
    nn.MulOp: ("MUL", {}),
    nn.MaximumOp: ("MAXIMUM", {}),
    nn.MinimumOp: ("MINIMUM", {}),
    nn.SquaredDifferenceOp: ("SQUARED_DIFFERENCE", {}),
}
"""Operation → TFLite's operator and its options."""


@exports(*NAMED)
def named(op: OperandPairOp, values: Values) -> None:
    """Writes the operation as one operator."""
    kind, options = NAMED[type(op)]
    one(kind, op, values, options)


@exports(nn.DivOp)
def div(op: nn.DivOp, values: Values) -> None:
    """Writes DIV; the divisors of integers must be constants other than 0."""
    _without_zeros(op, values)
    one("DIV", op, values)


@exports(nn.ModOp)
def mod(op: nn.ModOp, values: Values) -> None:
    """Writes FLOOR_MOD; the divisors of integers must be constants other than 0."""
    if bool(op.truncated):
        raise NoForm("must have the divisor's sign", "the dividend's", "give it the other sign")
    _without_zeros(op, values)
    one("FLOOR_MOD", op, values)


def _without_zeros(op: OperandPairOp, values: Values) -> None:
    divisors, form = constant(op.rhs), values.form(op.rhs)
    if form.parameters is None and form.dtype.kind in "iu" and (divisors is None or not divisors.all()):
        raise NoForm("needs divisors that are constant and not 0", "others", "make the divisors a constant without 0")


@exports(nn.PowOp)
def pow(op: nn.PowOp, values: Values) -> None:
    """Writes POW; the exponents of integers must be constants that are not negative."""
    exponents = constant(op.rhs)
    if values.form(op.rhs).dtype.kind in "iu" and (exponents is None or (exponents < 0).any()):
        raise NoForm(
            "needs exponents that are constant and not negative",
            "others",
            "make the exponents a constant of 0 and more",
        )
    one("POW", op, values)


@exports(nn.PReluOp)
def prelu(op: nn.PReluOp, values: Values) -> None:
    """Writes PRELU if only the slopes broadcast, else a comparison and a selection."""
    if shape_of(op.lhs) == shape_of(op.y):
        one("PRELU", op, values)
    else:
        several(op, values, _choice)


def _choice(graph: Graph, x: Tensor, slope: Tensor) -> Tensor:
    negative = graph.pointwise("LESS", x, graph.constant(np.zeros((), x.dtype)), dtype=BOOL)
    return graph.pointwise("SELECT_V2", negative, graph.pointwise("MUL", x, slope), x)

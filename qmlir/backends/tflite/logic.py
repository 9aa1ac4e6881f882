"""Forms of logical operations on i1 and of bitwise operations on integers."""

import numpy as np

from qmlir.backends.forms import NoForm
from qmlir.backends.tflite.exporters import exports
from qmlir.backends.tflite.graph import BOOL
from qmlir.backends.tflite.pointwise import one
from qmlir.backends.tflite.values import Values
from qmlir.dialects import nn
from qmlir.dialects.nn.logic import BitwiseOp, ShiftOp

LOGICAL: dict[type[BitwiseOp], str] = {nn.AndOp: "LOGICAL_AND", nn.OrOp: "LOGICAL_OR"}
"""Operation → TFLite's operator on i1."""


@exports(*LOGICAL)
def logical(op: BitwiseOp, values: Values) -> None:
    """Writes one operator on i1."""
    one(LOGICAL[type(op)], op, values)


@exports(nn.XorOp)
def xor(op: nn.XorOp, values: Values) -> None:
    """Writes BITWISE_XOR on integers, NOT_EQUAL on i1."""
    if values.form(op.y).dtype == BOOL:
        one("NOT_EQUAL", op, values)
    else:
        one("BITWISE_XOR", op, values)


@exports(nn.NotOp)
def invert(op: nn.NotOp, values: Values) -> None:
    """Writes LOGICAL_NOT on i1, BITWISE_XOR with all bits set on integers."""
    x = values.stored(op.x)
    if x.dtype == BOOL:
        one("LOGICAL_NOT", op, values)
        return
    bits = values.graph.constant(np.invert(np.zeros((), x.dtype)))
    values.hold(op.y, values.graph.pointwise("BITWISE_XOR", x, bits))


@exports(nn.ShiftLeftOp, nn.ShiftRightOp)
def shift(op: ShiftOp, values: Values) -> None:
    """Raises NoForm: TFLite's only shift, RIGHT_SHIFT, does not define counts beyond the width."""
    raise NoForm("must be an operation that TFLite has", op.name, "multiply or divide by a power of two")

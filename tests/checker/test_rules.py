"""The checker has a rule for each operation on integers; a network of an operation without one gets no certificate."""

from qmlir.checker.floats import MOVING
from qmlir.checker.intervals import RULES
from qmlir.dialects.nn import NN
from qmlir.dialects.nn.bitwise import BitwiseOp
from qmlir.dialects.nn.elementwise import ComparisonOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.reduction import ArgumentOp, ExtremeOp
from qmlir.dialects.qint import QINT

BOUNDED = (MovementOp, ComparisonOp, BitwiseOp, ArgumentOp, ExtremeOp)
"""The operations on floats and on integers whose results are bounded by those of their operands, or by their types."""


def test_every_operation_on_integers_has_a_rule() -> None:
    in_floats = {"qint.float_add"}
    assert {op.name for op in QINT.operations} - RULES.keys() == in_floats
    assert {op.name for op in NN.operations if issubclass(op, BOUNDED)} <= RULES.keys()


def test_every_operation_that_moves_floats_may_stand_at_the_entry() -> None:
    assert set(MOVING) == {op.name for op in NN.operations if issubclass(op, MovementOp)}

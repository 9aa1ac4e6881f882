"""The checker has a rule for each operation on integers; a network of an operation without one gets no certificate."""

from qmlir.checker.floats import MOVING
from qmlir.checker.intervals import RULES, derive
from qmlir.checker.network import network_of
from qmlir.dialects.nn import NN
from qmlir.dialects.nn.bitwise import BitwiseOp, ShiftOp
from qmlir.dialects.nn.elementwise import ComparisonOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.reduction import ArgumentOp, ExtremeOp
from qmlir.dialects.qint import QINT
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text

BOUNDED = (MovementOp, ComparisonOp, BitwiseOp, ShiftOp, ArgumentOp, ExtremeOp)
"""The operations on floats and on integers whose results are bounded by those of their operands, or by their types."""


def test_every_operation_on_integers_has_a_rule() -> None:
    in_floats = {"qint.float_add"}
    assert {op.name for op in QINT.operations} - RULES.keys() == in_floats
    assert {op.name for op in NN.operations if issubclass(op, BOUNDED)} <= RULES.keys()


def test_every_operation_that_moves_floats_may_stand_at_the_entry() -> None:
    assert set(MOVING) == {op.name for op in NN.operations if issubclass(op, MovementOp)}


SHIFTS = """
func.func @main(%x: tensor<4xi8>, %c: tensor<1xi8>) -> (tensor<4xi8>, tensor<4xi8>, tensor<4xi8>) {
  %four = nn.constant <tensor<i8>, [4]> : tensor<i8>
  %up = nn.shift_left %x, %four : tensor<4xi8>, tensor<i8> -> tensor<4xi8>
  %down = nn.shift_right %up, %four : tensor<4xi8>, tensor<i8> -> tensor<4xi8>
  %any = nn.shift_right %x, %c : tensor<4xi8>, tensor<1xi8> -> tensor<4xi8>
  func.return %up, %down, %any : tensor<4xi8>, tensor<4xi8>, tensor<4xi8>
}
"""


def test_the_intervals_of_shifts() -> None:
    """Half of a byte lies in [−8, 7]; by a number that is computed, the interval is that of all integers."""
    network = network_of(parse_text(make_context(), SHIFTS, "net.mlir"))
    found = [derived.range for derived in derive(network).values() if derived.operands[1:]]
    assert found == [(-128, 127), (-8, 7), (-128, 127)]

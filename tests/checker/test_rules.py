"""The checker has a rule for each operation on integers; a network of an operation without one gets no certificate."""

import pytest

from qmlir.checker.floats import MOVING
from qmlir.checker.intervals import RULES, derive
from qmlir.checker.network import network_of
from qmlir.checker.unproven import RefusedError
from qmlir.dialects.nn import NN
from qmlir.dialects.nn.bitwise import BitwiseOp
from qmlir.dialects.nn.elementwise import ComparisonOp
from qmlir.dialects.nn.movement import MovementOp
from qmlir.dialects.nn.reduction import ArgumentOp, ExtremeOp
from qmlir.dialects.qint import QINT
from qmlir.ir.context import make_context
from qmlir.ir.source import parse_text

BOUNDED = (MovementOp, ComparisonOp, BitwiseOp, ArgumentOp, ExtremeOp)
"""The operations on floats and on integers whose results are bounded by those of their operands, or by their types."""


def test_every_operation_on_integers_has_a_rule() -> None:
    in_floats = {"qint.float_add"}
    assert {op.name for op in QINT.operations} - RULES.keys() == in_floats
    assert {op.name for op in NN.operations if issubclass(op, BOUNDED)} <= RULES.keys()


@pytest.mark.parametrize("reduction", ["max", "add"])
def test_updates_are_bounded_if_they_are_combined_by_a_maximum(reduction: str) -> None:
    types = "tensor<3xi8>, tensor<2xi8>, tensor<2x1xi64>"
    module = f"""func.func @main(%x: tensor<3xi8>, %u: tensor<2xi8>, %i: tensor<2x1xi64>) -> tensor<3xi8> {{
      %0 = nn.scatter_reduce_nd %x, %u, %i {{reduction = "{reduction}"}} : {types} -> tensor<3xi8>
      func.return %0 : tensor<3xi8>
    }}"""
    network = network_of(parse_text(make_context(), module, "network"))
    if reduction == "max":
        assert derive(network)
    else:
        with pytest.raises(RefusedError, match="combined by add"):
            derive(network)


def test_every_operation_that_moves_floats_may_stand_at_the_entry() -> None:
    assert set(MOVING) == {op.name for op in NN.operations if issubclass(op, MovementOp)}

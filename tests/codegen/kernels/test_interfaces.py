"""What kernels ask of an arithmetic: whoever adds to sums of parts has to say how these are joined."""

from dataclasses import dataclass
from typing import Any

import pytest
from xdsl.dialects.builtin import i64

from qmlir.codegen.kernels.interfaces import ArithmeticOfParts
from qmlir.lowering.qint_to_loops import arithmetic
from qmlir.lowering.qint_to_loops.arithmetic import Pairs, SplitPairs, WrappedPairs


@dataclass(frozen=True)
class Unjoined(Pairs, ArithmeticOfParts):
    """An arithmetic that does not say what becomes of its parts."""


def test_sums_of_parts_that_nobody_joins() -> None:
    made: type[Any] = Unjoined
    with pytest.raises(TypeError, match=r"Unjoined .*abstract methods.* add_shared, joined, parts"):
        made(zero_point=0, sums=i64)


def test_what_all_outputs_share() -> None:
    """An arithmetic that shares nothing is asked for nothing: it has no such sums."""
    assert SplitPairs(zero_point=0).shared == 0
    assert list(SplitPairs(zero_point=0).add_shared([], [])) == []
    assert WrappedPairs(zero_point=0).shared == 1
    assert not issubclass(arithmetic.SaturatingPairs, ArithmeticOfParts)

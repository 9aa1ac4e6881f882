"""The registry: entries of base classes, and tables that contradict each other."""

import pytest

from qmlir.dialects import nn
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.nn.functions import LinearOp
from qmlir.ir.registry import Registry


def test_the_nearest_base_class_decides() -> None:
    names = Registry({FunctionOp: "table", LinearOp: "linear"}, {nn.RequantizeOp: "requantize"})
    assert [names[op] for op in (nn.TanhOp, nn.ReluOp, nn.ClampOp, nn.RequantizeOp)] == [
        "table", "linear", "linear", "requantize",
    ]  # fmt: skip


def test_a_class_without_an_entry() -> None:
    names = Registry({FunctionOp: "table"})
    assert nn.AddOp not in names
    assert names.get(nn.AddOp) is None
    with pytest.raises(KeyError):
        names[nn.AddOp]


def test_tables_do_not_contradict_each_other() -> None:
    with pytest.raises(AssertionError, match="two entries for TanhOp"):
        Registry({nn.TanhOp: 1}, {nn.TanhOp: 2})

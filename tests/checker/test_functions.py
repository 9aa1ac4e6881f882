"""Tables are compared with their functions within a budget; equal ones are compared once."""

from typing import Any

import pytest

from qmlir.checker import functions
from qmlir.checker.functions import Budget, largest_error
from qmlir.checker.unproven import UnprovenError

BYTES = {"scale": 0.5, "zero_point": 0}
RELU: dict[str, Any] = {"name": "nn.relu", "parameters": {}, "clamp": [0, 127], "input": BYTES, "output": BYTES}


def test_equal_tables_are_compared_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(functions, "MOST_ENTRIES", 300)
    budget, table = Budget(), [max(x, 0) for x in range(-128, 128)]
    assert [largest_error(RELU, table, budget, pairs=False) for _ in range(3)] == [0, 0, 0]
    with pytest.raises(UnprovenError, match="tables of more than 300 entries together"):
        largest_error(RELU, [*table[:-1], 126], budget, pairs=False)


def test_a_table_of_another_function_is_another_table() -> None:
    budget, table = Budget(), [max(x, 0) for x in range(-128, 128)]
    other = RELU | {"output": {"scale": 0.25, "zero_point": 0}}
    assert largest_error(RELU, table, budget, pairs=False) == 0
    assert largest_error(other, table, budget, pairs=False) == 63

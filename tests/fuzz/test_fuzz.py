"""A short run of the fuzzer, always the same; `make fuzz` runs longer ones."""

import warnings

import numpy as np
import pytest

from tests.fuzz.cases import case
from tests.fuzz.checks import Case, Finding, check
from tests.fuzz.graphs import Graph, Node
from tests.fuzz.options import Options, Shares
from tests.fuzz.shrink import shrunk

SEED = 0
EACH, BATCHES = 10, 6


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("batch", range(BATCHES))
def test_nothing_is_found(batch: int) -> None:
    shares = Shares(machine=0.1, device=0.0)
    for number in range(batch * EACH, (batch + 1) * EACH):
        assert check(case(SEED, number, shares)).findings == [], f"python -m tests.fuzz --seed {SEED} --number {number}"


def test_a_case_is_what_its_number_says() -> None:
    first, again = (case(3, 5, Shares()) for _ in range(2))
    assert isinstance(first, Case)
    assert isinstance(again, Case)
    assert str(first.options) == str(again.options)
    assert first.graph.nodes == again.graph.nodes
    for name, arrays in first.graph.samples.items():
        np.testing.assert_array_equal(arrays, again.graph.samples[name])


def test_a_finding_is_shrunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong sigmoid is found in a network of four operations, and is all that is left of it."""
    from tests.fuzz import checks

    def wrong(case: Case) -> checks.Outcome:
        kinds = {n.operator for n in case.graph.nodes}
        return checks.Outcome(findings=[Finding("float", "values", "")] if "Sigmoid" in kinds else [])

    monkeypatch.setattr("tests.fuzz.shrink.check", wrong)
    nodes = (
        Node("Relu", ("x",), ("a",)),
        Node("Sigmoid", ("a",), ("b",)),
        Node("Add", ("b", "x"), ("c",)),
        Node("Neg", ("c",), ("d",)),
    )
    x = tuple(np.ones((2, 3), np.float32) for _ in range(3))
    graph = Graph(nodes, {}, {"x": x}, ("d", "a"), 20)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = shrunk(Case(graph, Options(schema="symmetric", data=True)), ("float", "values"), 20)
    assert found is not None
    smallest, _ = found
    assert [n.operator for n in smallest.graph.nodes] == ["Sigmoid"]
    assert smallest.options == Options()
    assert [a.shape for a in smallest.graph.samples["a"]] == [(1, 1)]

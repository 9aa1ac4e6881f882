"""Unique of computed tensors, whose results have as many elements as the data say, against onnxruntime."""

from typing import Any

import numpy as np

from tests.conftest import crossed
from tests.frontends.onnx.agreement import node, reason
from tests.frontends.onnx.test_detection import BOOL, FLOAT, INT64, agree, graph_of

OUTPUTS = ["y", "first", "which", "count"]


def samples(*shape: int, dtype: Any = np.float32, seed: int = 0) -> list[dict[str, Any]]:
    """Few values, so that many are equal; then one value, then all different ones."""
    rng, size = np.random.default_rng(seed), int(np.prod(shape))
    draws = [rng.integers(-2, 3, shape), np.ones(shape), rng.permutation(size).reshape(shape)]
    return [{"x": draw.astype(dtype)} for draw in draws]


@crossed({"shape, axis": [((9,), None), ((3, 4), None), ((5, 3), 0), ((2, 6, 2), 1), ((4, 5), -1)], "sort": [0, 1]})
def test_floats(shape: tuple[int, ...], axis: int | None, sort: int) -> None:
    attributes = {"sorted": sort} | ({} if axis is None else {"axis": axis})
    proto = graph_of([node("Unique", "x", " ".join(OUTPUTS), **attributes)], {"x": (FLOAT, shape)}, OUTPUTS)
    agree(proto, *samples(*shape))


def test_integers() -> None:
    agree(graph_of([node("Unique", "x")], {"x": (INT64, [12])}, ["y"]), *samples(12, dtype=np.int64))


def test_only_the_places() -> None:
    """A network may go on with a result."""
    nodes = [node("Unique", "x", "u first"), node("Gather", "x first", "y")]
    agree(graph_of(nodes, {"x": (FLOAT, [8])}, ["y"]), *samples(8))


def test_truth_values_are_refused() -> None:
    """onnxruntime has no such kernel; neither has qmlir an order of them."""
    assert "types are not computed on" in reason(graph_of([node("Unique", "x")], {"x": (BOOL, [8])}, ["y"]))

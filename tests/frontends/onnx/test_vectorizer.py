"""Frequencies of n-grams against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from tests.conftest import crossed
from tests.frontends.onnx.agreement import node, reason
from tests.frontends.onnx.test_detection import INT64, agree, graph_of

GRAMS: dict[str, Any] = {
    "ngram_counts": [0, 3, 9], "pool_int64s": [1, 2, 5, 1, 2, 2, 2, 3, 1, 1, 2, 3],
    "ngram_indexes": [0, 1, 2, 6, 4, 3, 5], "mode": "TF", "min_gram_length": 1, "max_gram_length": 3,
    "max_skip_count": 0,
}  # fmt: skip
"""Three numbers, three pairs and a triple."""


def network(shape: tuple[int, ...], **changed: Any) -> Any:
    return graph_of([node("TfIdfVectorizer", "x", **(GRAMS | changed))], {"x": (INT64, shape)}, ["y"])


@crossed(
    {
        "changed": [
            {},
            {"max_skip_count": 3},
            {"min_gram_length": 2},
            {"max_gram_length": 2, "max_skip_count": 1},
            {"mode": "IDF"},
            {"mode": "TFIDF", "weights": [0.5, 1, 2, 3, 0.25, 7, 1.5]},
            {"mode": "IDF", "weights": [0.5, 1, 2, 3, 0.25, 7, 1.5], "max_skip_count": 2},
        ],
        "shape": [(12,), (3, 12), (2, 1)],
    }
)
def test_frequencies(shape: tuple[int, ...], changed: dict[str, Any]) -> None:
    rng = np.random.default_rng(1)
    agree(network(shape, **changed), *({"x": rng.integers(1, 4, shape)} for _ in range(3)))


def test_what_is_refused() -> None:
    assert "strings" in reason(network((4,), pool_strings=["a"]))
    assert "twice" in reason(network((4,), pool_int64s=[1, 1, 5, 1, 2, 2, 2, 3, 1, 1, 2, 3]))
    assert "have one index" in reason(network((4,), ngram_indexes=[0, 0, 2, 6, 4, 3, 5]))
    for changed, error in (
        ({"mode": "TFF"}, "its attribute mode must be TF, IDF or TFIDF, got TFF"),
        ({"ngram_indexes": [0]}, "an index for each n-gram"),
        ({"ngram_counts": [0, 4, 9]}, "whole 2-grams, got 5 items"),
        ({"ngram_counts": [0, 30]}, "ascending places in 12 items"),
        ({"min_gram_length": 4}, "must be positive and in order"),
        ({"weights": [1.0]}, "must have 7 weights, got 1"),
    ):
        with pytest.raises(NodeError, match=error):
            load_onnx(network((4,), **changed))
    with pytest.raises(NodeError, match="one dimension or two"):
        load_onnx(network((2, 2, 2)))

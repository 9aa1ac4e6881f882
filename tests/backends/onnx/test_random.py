"""Random networks, quantized and in floats: onnxruntime, its optimizations off, on the exported files."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, seed
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.policies.runtimes import follow
from tests.backends.onnx.runtime import SATURATING, exported, run
from tests.backends.onnx.stepwise import Steps, compare
from tests.conftest import THOROUGH, crossed
from tests.graphs import SCHEMAS, Graph, drawn, graphs, quantized

EACH = 25 if THOROUGH else 5

RARE = 0.05
"""The share of stored integers that may differ where only averages of a few integers lie halfway between two."""

pytestmark = [pytest.mark.slow, SATURATING]


@dataclass(frozen=True)
class Promise:
    """What a format promises under some numerics.

    most    by how many steps a stored integer may differ
    rarely  the share of them that may
    always  the schema under which all may: its factors are shifts, and sums lie halfway too
    """

    format: str
    numerics: str
    most: int
    rarely: float
    always: str = ""


PROMISES = (
    Promise("onnx-qdq", "default", 1, RARE, "symmetric_with_power2_scale"),
    Promise("onnx-qoperator", "onnxruntime", 1, RARE),  # means over windows, and what stays on floats
    Promise("onnx-integer", "default", 0, 0.0),
    Promise("onnx-integer", "onnxruntime", 0, 0.0),
)


@crossed({"schema": SCHEMAS, "promise": PROMISES})
def test_random_networks(schema: str, promise: Promise, tmp_path: Path) -> None:
    total = Steps()

    def check(module: ModuleOp, graph: Graph) -> bool:
        follow(module, promise.numerics)
        exported(module, tmp_path / "whole.onnx", format=promise.format)
        total.include(compare(module, tmp_path / "graph.onnx", graph.samples, promise.format))
        return True

    assert quantized(schema, EACH, check) >= EACH * 4 // 5
    assert total.compared
    assert total.most <= promise.most, total
    if schema != promise.always:
        assert total.differing <= promise.rarely * total.compared, total


def test_random_float_networks(tmp_path: Path) -> None:
    @seed(4)
    @drawn(EACH)
    @given(graphs())
    def check(graph: Graph) -> None:
        path = tmp_path / "float.onnx"
        exported(graph.module, path)  # observers are no operations
        ours = qmlir.reference(graph.without_observers())
        for sample in graph.samples:
            for theirs, expected in zip(run(path, [sample]), ours.run(sample), strict=True):
                np.testing.assert_allclose(theirs, expected, rtol=1e-4, atol=1e-5 * np.abs(expected).max(initial=0))

    check()

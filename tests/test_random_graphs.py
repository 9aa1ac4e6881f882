"""CPU code equals the reference on random networks, bit for bit: float, under every schema and precision.

An example takes most of a second to compile, so a failing one is printed as it is, not shrunk.
"""

from typing import get_args

import numpy as np
import pytest
from hypothesis import given, seed
from hypothesis import strategies as st
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir import stages
from qmlir.errors import PipelineError, QmlirError
from qmlir.numerics.calibration import BUILT_IN
from qmlir.numerics.schemas import Precision
from tests.conftest import THOROUGH
from tests.graphs import SCHEMAS, Graph, drawn, graphs

PRECISIONS = (("int8", "same"), ("int8", "same"), ("int16", "int8"), ("int16", "same"))
"""Of activations and weights."""

BATCHES = 20 if THOROUGH else 2
EACH = 25


def _agrees(module: ModuleOp, graph: Graph) -> None:
    executable, reference = qmlir.compile(module), qmlir.reference(module)
    for sample in graph.samples:
        for ours, expected in zip(executable.run(sample), reference.run(sample), strict=True):
            np.testing.assert_array_equal(ours, expected)


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(BATCHES))
def test_cpu_equals_reference(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "VERIFY_LOOPS", batch == 0)
    compared = 0

    @seed(batch)
    @drawn(EACH)
    @given(graphs(choices=batch % 2 == 1), st.sampled_from(SCHEMAS), st.booleans(), st.sampled_from(PRECISIONS))
    def check(graph: Graph, schema: str, per_channel: bool, precisions: tuple[str, str]) -> None:
        nonlocal compared
        precision, weights = precisions
        try:
            quantized = qmlir.quantize(
                graph.module, schema=schema, precision=precision, weight_precision=weights, per_channel=per_channel
            )
        except PipelineError:  # no observer of this network holds a range
            return
        _agrees(quantized, graph)
        compared += 1

    check()
    assert compared >= EACH * 4 // 5


@pytest.mark.slow
@pytest.mark.parametrize("batch", range(2 if THOROUGH else 1))
def test_float_cpu_equals_reference(batch: int) -> None:
    @seed(1000 + batch)
    @drawn(EACH)
    @given(graphs())
    def check(graph: Graph) -> None:
        _agrees(qmlir.Pipeline("simplify")(graph.without_observers()), graph)

    check()


@pytest.mark.slow
def test_quantizing_on_data_ends_in_a_network_or_in_a_typed_error() -> None:
    """Under every schema, precision and calibration, of samples that are integers times a step too."""
    done = 0

    @seed(2000)
    @drawn(EACH)
    @given(
        graphs(),
        st.sampled_from(SCHEMAS),
        st.sampled_from(get_args(Precision)),
        st.sampled_from(BUILT_IN),
        st.sampled_from([None, 1.0, 8.0]),
    )
    def check(graph: Graph, schema: str, precision: str, calibration: str, steps: float | None) -> None:
        nonlocal done
        module = graph.without_observers()
        samples = [x if steps is None else np.round(x * np.float32(steps)) / np.float32(steps) for x in graph.samples]
        options = {"schema": schema, "precision": precision, "calibration": calibration}
        try:
            quantized = qmlir.quantize(module, qmlir.profile(module, samples), data=samples, **options)  # pyright: ignore[reportArgumentType]
        except QmlirError:
            return
        for sample in samples:
            qmlir.reference(quantized).run(sample)
        done += 1

    check()
    assert done >= EACH // 3

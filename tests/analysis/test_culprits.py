"""Culprits are the operations whose error alone moves the outputs most, whatever their own error is."""

from pathlib import Path

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper, save

import qmlir
from qmlir.analysis.culprits import Effects, culprits
from tests.cli.small import write_small

SAMPLES = [np.random.default_rng(i).standard_normal((1, 16)).astype(np.float32) for i in range(4)]


@pytest.fixture(scope="module")
def damped(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """y = 0.001 · x² + sigmoid(x) + x, where x² is to be clipped, and so is the coarsest tensor."""
    nodes = [
        helper.make_node("Mul", ["x", "x"], ["coarse"]),
        helper.make_node("Mul", ["coarse", "little"], ["damped"]),
        helper.make_node("Sigmoid", ["x"], ["gate"]),
        helper.make_node("Add", ["damped", "gate"], ["sum"]),
        helper.make_node("Add", ["sum", "x"], ["y"]),
    ]
    shape = [1, 16]
    graph = helper.make_graph(
        nodes,
        "damped",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, shape)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, shape)],
        [numpy_helper.from_array(np.array(0.001, np.float32), "little")],
    )
    path = tmp_path_factory.mktemp("culprits") / "damped.onnx"
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 13)], ir_version=8), str(path))
    return path


POLICY = {"rules": [{"name": "coarse", "range": [-1.0, 1.0]}]}


def test_the_coarsest_operation_is_no_culprit_if_nothing_depends_on_it(damped: Path) -> None:
    module = qmlir.load(damped)
    q = qmlir.quantize(module, data=SAMPLES, policy=POLICY)
    found = culprits(module, q, SAMPLES, most=10)
    assert [row.effect for row in found] == sorted(row.effect for row in found)
    by_name = {row.tensor: row for row in found}
    assert min(found, key=lambda row: row.own).tensor in ("coarse", "damped")  # which reads it
    assert by_name["coarse"].own < 10  # dB
    assert by_name["coarse"].effect > 50
    assert found[0].tensor in ("y", "sum", "gate")
    few = culprits(module, q, SAMPLES, most=2)
    assert few == found[:2]


def test_an_effect_is_the_error_that_reaches_the_output(damped: Path) -> None:
    module = qmlir.load(damped)
    effects = Effects(module, qmlir.quantize(module, data=SAMPLES, policy=POLICY), SAMPLES)
    x = np.concatenate(SAMPLES)
    y = 0.001 * x**2 + 1 / (1 + np.exp(-x)) + x
    error = 0.001 * (np.minimum(x**2, 1) - x**2)  # but for rounding
    assert effects.noise(["coarse"]) == pytest.approx((error**2).sum() / (y**2).sum(), rel=0.1)
    assert effects.noise([]) == 0


def test_a_search_without_evaluations_names_the_coarsest(tmp_path: Path) -> None:
    small = write_small(tmp_path)
    module, samples = qmlir.load(small.onnx), [each[None] for each in small.samples]
    effects = Effects(module, qmlir.quantize(module, data=samples), samples[:1])
    (only,) = effects.worst(1, 0)
    assert only.tensor == min(effects.names, key=effects.own)

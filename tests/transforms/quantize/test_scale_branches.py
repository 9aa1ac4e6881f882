"""Small branches of a concatenation that contractions read: what the result gains, and where branches stay."""

from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.dialects.nn import MulOp
from qmlir.frontends.onnx import load_onnx
from tests.frontends.onnx.agreement import floats, model, node
from tests.transforms.quantize.calibrated import sqnr

SAMPLES = [{"x": floats(1, 4, 12, 12, seed=k)} for k in range(8)]


def _decibels(
    between: str | None = None, gate: str = "Sigmoid", weight: float = 16, **options: Any
) -> tuple[float, int]:
    """The SQNR of a layer that reads features and a gate in [0, 1] with larger weights, and the number of products."""
    rng = np.random.default_rng(0)
    shapes = {"f": (8, 4, 3, 3), "g": (8, 4, 3, 3), "w": (8, 16, 3, 3)}
    arrays = {name: rng.normal(size=shape).astype(np.float32) for name, shape in shapes.items()}
    arrays["f"] *= 3
    arrays["g"] *= 0.3 if gate == "Sigmoid" else 0.03
    arrays["w"][:, 8:] *= weight
    nodes = [node("Conv", "x f", "a"), node("Relu", "a", "features"), node("Conv", "x g", "b"), node(gate, "b", "gate")]
    nodes.append(node("Concat", "features gate", "joined", axis=1))
    if between:
        size = {} if between == "Relu" else {"kernel_shape": [2, 2], "strides": [2, 2]}
        nodes.append(node(between, "joined", "read", **size))
    nodes.append(node("Conv", "read w" if between else "joined w"))
    network = load_onnx(model(nodes, {"x": [1, 4, 12, 12]}, arrays))
    q = qmlir.quantize(network, data=SAMPLES, **options)
    truth, got = ([run(x) for x in SAMPLES] for run in (qmlir.reference(network), qmlir.reference(q)))
    return sqnr(np.stack(truth), np.stack(got)), sum(isinstance(op, MulOp) for op in q.walk())


@pytest.mark.parametrize("between", [None, "MaxPool", "AveragePool", "Relu"])
def test_a_small_gate_keeps_its_bits(between: str | None) -> None:
    found, products = _decibels(between)
    assert found > 33  # 22 without
    assert products == 1


def test_a_contraction_takes_the_factor() -> None:
    found, products = _decibels(gate="Relu", weight=256)
    assert found > 33
    assert products == 0


def test_sixteen_bits() -> None:
    assert _decibels(precision="int16")[0] > 75
    assert _decibels(precision="int16", weight_precision="int8")[1] == 0  # it would cost the weights more


def test_rules_hold() -> None:
    policy = {"rules": [{"name": "joined", "range": [0.0, 80.0]}]}
    assert _decibels(policy=policy)[1] == 0


def test_a_device_that_does_not_multiply_is_asked_for_no_product() -> None:
    assert _decibels(target="gemmini")[1] == 0

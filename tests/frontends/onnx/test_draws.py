"""Operators whose results are random: drawn at import, the same in every import and every call."""

from typing import Any

import numpy as np
import pytest

import qmlir
from qmlir.errors import NodeError, QmlirWarning
from qmlir.frontends.onnx import load_onnx
from tests.frontends.onnx.agreement import Array, load, model, node

DRAWN = "drawn once and are the same in every call"


def drawn(operator: str, **attributes: Any) -> Array:
    """What an operator adds to zeros; those without inputs have a shape."""
    inputs = "x" if operator.endswith("Like") else ""
    proto = model([node(operator, inputs, "d", **attributes), node("Add", "x d")], {"x": [40, 50]})
    with pytest.warns(QmlirWarning, match=f'{operator} "d": its random numbers are {DRAWN}'):
        module = load(proto)
    y = np.asarray(qmlir.reference(module)(np.zeros((40, 50), np.float32)))
    np.testing.assert_array_equal(qmlir.compile(module)(np.zeros((40, 50), np.float32)), y)
    return y


@pytest.mark.parametrize("operator", ["RandomUniform", "RandomUniformLike"])
def test_uniform(operator: str) -> None:
    shape = {} if operator.endswith("Like") else {"shape": [40, 50]}
    y = drawn(operator, low=-2.0, high=4.0, seed=3.0, **shape)
    np.testing.assert_array_equal(y, np.random.RandomState(3).uniform(-2, 4, (40, 50)).astype(np.float32))


@pytest.mark.parametrize("operator", ["RandomNormal", "RandomNormalLike"])
def test_normal(operator: str) -> None:
    shape = {} if operator.endswith("Like") else {"shape": [40, 50]}
    y = drawn(operator, mean=5.0, scale=0.5, seed=0.5, **shape)
    assert abs(y.mean() - 5) < 0.05
    assert abs(y.std() - 0.5) < 0.05
    np.testing.assert_array_equal(y, drawn(operator, mean=5.0, scale=0.5, seed=0.5, **shape))


def test_nodes_without_seeds_draw_different_numbers() -> None:
    nodes = [node("RandomNormal", "", name, shape=[4]) for name in "ab"] + [node("Sub", "a b", "d"), node("Add", "x d")]
    with pytest.warns(QmlirWarning, match=DRAWN):
        module = load(model(nodes, {"x": [4]}))
    assert (np.asarray(qmlir.reference(module)(np.zeros(4, np.float32))) != 0).all()


def test_bernoulli() -> None:
    proto = model(node("Bernoulli", "x", seed=1.0), {"x": [1000]}, opset=15)
    with pytest.warns(QmlirWarning, match=DRAWN):
        module = load(proto)
    x = np.linspace(0, 1, 1000, dtype=np.float32)
    y = np.asarray(qmlir.reference(module)(x))
    assert set(np.unique(y)) == {0, 1}
    assert abs(y.mean() - 0.5) < 0.05
    assert y[:300].mean() < 0.3 < 0.7 < y[-300:].mean()


def test_dropout_in_training() -> None:
    constants: dict[str, Array] = {"ratio": np.array(0.25, np.float32), "mode": np.array(True)}
    proto = model(node("Dropout", "x ratio mode", "y mask", seed=0), {"x": [800]}, constants, outputs=("y", "mask"))
    with pytest.warns(QmlirWarning, match=DRAWN):
        module = load(proto)
    found = qmlir.reference(module)(np.ones(800, np.float32))
    np.testing.assert_array_equal(found["mask"], np.random.RandomState(0).uniform(0, 1, 800) >= 0.25)
    np.testing.assert_array_equal(found["y"], np.where(found["mask"], np.float32(1 / 0.75), 0))
    with pytest.raises(NodeError, match=r"its ratio must lie in \[0, 1\), got 1.0"):
        load_onnx(model(node("Dropout", "x ratio mode"), {"x": [8]}, constants | {"ratio": np.array(1, np.float32)}))

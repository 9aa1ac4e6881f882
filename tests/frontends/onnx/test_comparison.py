"""Comparisons, logic and Where against onnxruntime."""

import numpy as np
import pytest
from onnx import TensorProto

from qmlir.frontends.onnx import load_onnx
from tests.frontends.onnx.agreement import agree, kinds, model, node, ops_of

COMPARISONS = {
    "Equal": "nn.equal",
    "Less": "nn.less",
    "Greater": "nn.less",
    "LessOrEqual": "nn.less_equal",
    "GreaterOrEqual": "nn.less_equal",
}


@pytest.mark.parametrize("operator", COMPARISONS)
def test_comparison_chooses(operator: str) -> None:
    nodes = [node(operator, "a b", "c"), node("Where", "c a b")]
    found = kinds(agree(model(nodes, {"a": [3, 4], "b": [4]})))
    assert found == [COMPARISONS[operator], "nn.where"]


@pytest.mark.parametrize("operator", ["And", "Or", "Xor"])
def test_logic(operator: str) -> None:
    nodes = [
        node("Less", "a b", "c"),
        node("Less", "a z", "d"),
        node("Not", "d", "e"),
        node(operator, "c e", "f"),
        node("Where", "f a b"),
    ]
    found = kinds(agree(model(nodes, {"a": [30], "b": [30]}, {"z": np.zeros(1, np.float32)})))
    assert found == ["nn.less", "nn.less", "nn.not", f"nn.{operator.lower()}", "nn.where"]


def test_signs_of_infinities() -> None:
    for negative, positive in ((1, 0), (0, 1), (1, 1)):
        test = node("IsInf", "x", "i", detect_negative=negative, detect_positive=positive)
        nodes = [node("Div", "a z", "x"), test, node("Where", "i a z")]
        agree(model(nodes, {"a": [9]}, {"z": np.zeros(1, np.float32)}))


def test_no_sign_is_never_found() -> None:
    proto = model(node("IsInf", "x", detect_negative=0, detect_positive=0), {"x": [3]})
    (op,) = ops_of(load_onnx(proto))
    assert op.value.array.tolist() == [False] * 3  # type: ignore[attr-defined]


@pytest.mark.parametrize("direction", ["LEFT", "RIGHT"])
def test_shifts(direction: str) -> None:
    nodes = [
        node("Abs", "x", "a"),
        node("Cast", "a", "i", to=TensorProto.UINT32),
        node("BitShift", "i n", "s", direction=direction),
        node("Cast", "s", "y", to=TensorProto.FLOAT),
    ]
    agree(model(nodes, {"x": [3]}, {"n": np.array([1, 0, 2], np.uint32)}))


def test_folded_at_import() -> None:
    """The shapes that exporters compute are constants."""
    constants = {"a": np.array([1, 4, 3]), "b": np.array([4, 1, 1])}
    nodes = [node("Less", "a b", "c"), node("Where", "c a b", "d"), node("Reshape", "x d")]
    assert kinds(agree(model(nodes, {"x": [1, 1]}, constants))) == ["nn.reshape"]

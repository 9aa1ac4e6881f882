"""Constants are folded by the operations themselves where no fold is registered, as long as they are small."""

import numpy as np
import pytest

from qmlir.frontends.onnx import folding
from tests.frontends.onnx.agreement import FLOAT, INT64, agree, floats, kinds, load, main_of, model, node


def test_what_has_a_converter_folds() -> None:
    """Arithmetic on weights, in float and in integers, through several nodes."""
    nodes = [
        node("Relu", "w", "r"), node("Sigmoid", "r", "s"), node("Conv", "image k", "c"), node("Flatten", "c", "f"),
        node("MatMul", "f m", "p"), node("Add", "s p", "q"), node("Add", "x q"),
    ]  # fmt: skip
    constants = {"w": floats(4), "image": floats(1, 1, 5, 5), "k": floats(1, 1, 3, 3), "m": floats(9, 4)}
    assert kinds(agree(model(nodes, {"x": [1, 4]}, constants))) == ["nn.add"]


def test_shapes_through_floats() -> None:
    """Exporters compute sizes in float: Shape → Cast → Mul → Floor → Cast → Reshape."""
    nodes = [
        node("Shape", "x", "s"), node("Cast", "s", "f", to=FLOAT), node("Mul", "f half", "h"), node("Floor", "h", "g"),
        node("Cast", "g", "n", to=INT64), node("Concat", "n minus", "shape", axis=0), node("Reshape", "x shape"),
    ]  # fmt: skip
    module = load(model(nodes, {"x": [6, 7]}, {"half": np.array([0.5, 0.3], np.float32), "minus": np.array([-1])}))
    assert str(main_of(module).function_type.outputs.data[0]) == "tensor<3x2x7xf32>"
    assert kinds(module) == ["nn.reshape"]


def test_large_results_stay_in_the_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(folding, "SMALL", 10)
    nodes = [node("Sigmoid", "w", "s"), node("Add", "x s")]
    assert kinds(load(model(nodes, {"x": [6]}, {"w": floats(6)}))) == ["nn.sigmoid", "nn.add"]
    assert kinds(load(model(nodes, {"x": [5]}, {"w": floats(5)}))) == ["nn.add"]

"""Softmax and batch normalization against onnxruntime."""

import numpy as np
import pytest

from tests.frontends.onnx.agreement import agree, floats, kinds, model, node, reason


@pytest.mark.parametrize("opset", [7, 11])
@pytest.mark.parametrize("axis", [None, 0, 1, 2, 3])
def test_softmax_of_flattened_dimensions(opset: int, axis: int | None) -> None:
    attributes = {} if axis is None else {"axis": axis}
    agree(model(node("Softmax", "x", **attributes), {"x": [2, 3, 4, 5]}, opset=opset))


def test_softmax_of_flattened_dimensions_needs_no_reshape_where_there_is_one() -> None:
    for shape, axis in (([2, 3], 1), ([2, 3, 1, 1], 1), ([2, 3, 4], 2)):
        module = agree(model(node("Softmax", "x", axis=axis), {"x": shape}, opset=9))
        assert kinds(module) == ["nn.softmax"]


@pytest.mark.parametrize("axis", [None, 0, 1, -2])
def test_softmax_along_one_axis(axis: int | None) -> None:
    attributes = {} if axis is None else {"axis": axis}
    assert kinds(agree(model(node("Softmax", "x", **attributes), {"x": [2, 3, 4]}, opset=13))) == ["nn.softmax"]


def parameters(channels: int) -> dict[str, np.ndarray]:
    return {
        "scale": floats(channels, seed=1),
        "bias": floats(channels, seed=2),
        "mean": floats(channels, seed=3),
        "var": np.abs(floats(channels, seed=4)) + 0.1,
    }


@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (2, 3), (2, 3, 5), (2, 3, 2, 5, 4)])
def test_batch_normalization(opset: int, shape: tuple[int, ...]) -> None:
    proto = model(
        node("BatchNormalization", "x scale bias mean var", epsilon=1e-3), {"x": shape}, parameters(3), opset=opset
    )
    assert kinds(agree(proto)) == ["nn.mul", "nn.add"]


def test_batch_normalization_refuses_training_and_computed_parameters() -> None:
    inputs = "x scale bias mean var"
    proto = model(node("BatchNormalization", inputs, training_mode=1), {"x": [2, 3]}, parameters(3), opset=15)
    assert "training" in reason(proto)
    proto = model(
        node("BatchNormalization", inputs, "y m v _ _"), {"x": [2, 3]}, parameters(3), outputs=("y", "m"), opset=9
    )
    assert 'output "m" is used' in reason(proto)
    computed = parameters(3)
    del computed["scale"]
    proto = model(node("BatchNormalization", inputs), {"x": [2, 3], "scale": [3]}, computed)
    assert 'scale "scale" is computed' in reason(proto)
    per_element = {k: np.ones((3, 4), np.float32) for k in ("scale", "bias", "mean", "var")}
    proto = model(node("BatchNormalization", inputs, spatial=0), {"x": [2, 3, 4]}, per_element, opset=7)
    assert "not spatial" in reason(proto)

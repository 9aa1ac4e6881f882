"""Resize and Upsample in their modes against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from qmlir.backends.reference import evaluate
from qmlir.errors import NodeError
from tests.conftest import crossed
from tests.frontends.onnx.agreement import agree, floats, kinds, load, main_of, model, node, reason

TRANSFORMATIONS = ["half_pixel", "pytorch_half_pixel", "align_corners", "asymmetric", "half_pixel_symmetric"]


def resized(sizes: list[int], opset: int = 19, shape: tuple[int, ...] = (1, 2, 5, 6), **attributes: Any) -> Any:
    """A model of one Resize to sizes."""
    constants = {"sizes": np.array([*shape[:2], *sizes])}
    return model(node("Resize", "x _ _ sizes", **attributes), {"x": [*shape]}, constants, opset=opset)


@crossed(
    {"sizes": [[10, 9], [3, 4], [1, 13]], "mode": ["nearest", "linear", "cubic"], "transformation": TRANSFORMATIONS},
    turns=3,
)
def test_modes_and_transformations(mode: str, transformation: str, sizes: list[int]) -> None:
    if mode == "nearest" and transformation != "asymmetric":
        # Elsewhere onnxruntime computes places in f32, and takes another neighbour where they lie in the middle.
        sizes = [10, 12] if sizes == [10, 9] else sizes
    attributes: dict[str, Any] = {"mode": mode, "coordinate_transformation_mode": transformation}
    module = agree(resized(sizes, **attributes))
    assert ("nn.resize" in kinds(module)) == (mode != "nearest")


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize(("sizes", "found"), [([5, 3], ["nn.gather"]), ([9, 3], ["nn.gather", "nn.resize"])])
def test_an_axis_of_single_neighbours_is_moved(mode: str, sizes: list[int], found: list[str]) -> None:
    """Every second element of an axis is no sum: it stays on its own scale, as what a gather takes does."""
    module = agree(resized(sizes, mode=mode, coordinate_transformation_mode="asymmetric"))
    assert kinds(module) == found


@pytest.mark.parametrize("nearest_mode", ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"])
def test_nearest_modes(nearest_mode: str) -> None:
    agree(resized([10, 3], mode="nearest", nearest_mode=nearest_mode))
    half: dict[str, Any] = {"coordinate_transformation_mode": "asymmetric"}
    agree(resized([10, 12], mode="nearest", nearest_mode=nearest_mode, **half))


@pytest.mark.parametrize("mode", ["linear", "cubic"])
@pytest.mark.parametrize("sizes", [[2, 3], [3, 5], [9, 4]])
def test_antialias(mode: str, sizes: list[int]) -> None:
    agree(resized(sizes, mode=mode, antialias=1))


def test_cubic_attributes() -> None:
    agree(resized([9, 7], mode="cubic", cubic_coeff_a=-0.5, exclude_outside=1))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_crop_and_resize(mode: str) -> None:
    roi = np.array([0, 0, 0.2, -0.3, 1, 1, 0.9, 1.4], np.float32)
    constants = {"roi": roi, "sizes": np.array([1, 2, 7, 8])}
    attributes = {"coordinate_transformation_mode": "tf_crop_and_resize", "extrapolation_value": 2.5, "mode": mode}
    agree(model(node("Resize", "x roi _ sizes", **attributes), {"x": [1, 2, 5, 6]}, constants))


@pytest.mark.parametrize("opset", [7, 9, 10, 11, 13, 19])
@pytest.mark.parametrize("mode", ["nearest", "linear"])
def test_scales_through_the_versions(opset: int, mode: str) -> None:
    scales = [1.0, 1.0, 2.0, 3.0] if opset < 10 else [1.0, 1.0, 0.6, 2.5]
    operator = "Upsample" if opset < 10 else "Resize"
    place = {7: "x", 9: "x s", 10: "x s"}.get(opset, "x r s")
    attributes: dict[str, Any] = {"scales": scales} if opset == 7 else {}
    constants = {} if opset == 7 else {"s": np.array(scales, np.float32)}
    if opset > 10:
        constants["r"] = np.zeros(0, np.float32)
        attributes["coordinate_transformation_mode"] = "asymmetric"
    agree(model(node(operator, place, mode=mode, **attributes), {"x": [1, 2, 5, 4]}, constants, opset=opset))


@pytest.mark.parametrize("policy", ["stretch", "not_larger", "not_smaller"])
def test_some_axes_and_policies(policy: str) -> None:
    constants = {"sizes": np.array([7, 10])}
    attributes = {"axes": [3, 2], "keep_aspect_ratio_policy": policy, "mode": "linear"}
    agree(model(node("Resize", "x _ _ sizes", **attributes), {"x": [1, 2, 5, 4]}, constants, opset=18))


def test_resize_to_the_same_size_is_nothing() -> None:
    nodes = [node("Relu", "x", "r"), node("Resize", "r _ _ sizes", mode="linear")]
    assert kinds(load(model(nodes, {"x": [1, 2, 3, 4]}, {"sizes": np.array([1, 2, 3, 4])}))) == ["nn.relu"]


def test_refusals() -> None:
    with pytest.raises(NodeError, match="either scales or sizes, got none"):
        load(model(node("Resize", "x"), {"x": [1, 2]}))
    with pytest.raises(NodeError, match="coordinate_transformation_mode must be one of"):
        load(resized([3, 3], coordinate_transformation_mode="sideways"))
    with pytest.raises(NodeError, match="needs 4 scales above 0"):
        load(model(node("Resize", "x _ s"), {"x": [1, 2, 3, 4]}, {"s": floats(3)}))
    assert "antialiases nearest" in reason(resized([3, 3], mode="nearest", antialias=1))
    assert "computed at run time" in reason(model(node("Resize", "x _ s"), {"x": [1, 2], "s": [2]}))


def test_aligned_corners_of_fractional_scales_follow_onnx_where_onnxruntime_does_not() -> None:
    """ONNX's own case for these: coordinates are of scale · length, where onnxruntime takes the rounded length."""
    scales = {"s": np.array([1, 1, 0.6, 0.6], np.float32)}
    attributes = {"mode": "linear", "coordinate_transformation_mode": "align_corners"}
    module = load(model(node("Resize", "x _ s", **attributes), {"x": [1, 1, 2, 4]}, scales, opset=19))
    (y,) = evaluate(main_of(module), [np.arange(1, 9, dtype=np.float32).reshape(1, 1, 2, 4)])
    np.testing.assert_allclose(y.ravel(), [1, 22 / 7], rtol=1e-6)

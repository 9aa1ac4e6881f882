"""Images read at computed places, and what is put back, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from qmlir.errors import NodeError
from tests.frontends.onnx.agreement import agree, kinds, load, model, node, reason


@pytest.mark.parametrize("padding_mode", ["zeros", "border", "reflection"])
@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("mode", ["bilinear", "nearest", "bicubic"])
def test_grid_sample(mode: str, align_corners: int, padding_mode: str) -> None:
    attributes: dict[str, Any] = {"mode": mode, "align_corners": align_corners, "padding_mode": padding_mode}
    nodes = node("GridSample", "x g", **attributes)
    agree(model(nodes, {"x": [2, 3, 5, 6], "g": [2, 4, 7, 2]}, opset=16))


@pytest.mark.parametrize("mode", ["linear", "nearest"])
def test_grid_sample_of_volumes(mode: str) -> None:
    agree(model(node("GridSample", "x g", mode=mode), {"x": [1, 2, 3, 4, 5], "g": [1, 3, 4, 2, 3]}, opset=20))


@pytest.mark.parametrize("align_corners", [0, 1])
@pytest.mark.parametrize("size", [[2, 3, 4, 5], [2, 1, 2, 3, 4]])
def test_affine_grid(size: list[int], align_corners: int) -> None:
    d = len(size) - 2
    nodes = node("AffineGrid", "t s", align_corners=align_corners)
    agree(model(nodes, {"t": [2, d, d + 1]}, {"s": np.array(size)}, opset=20))


def test_affine_grid_of_another_size() -> None:
    with pytest.raises(NodeError, match="theta must be \\[2, 2, 3\\]"):
        load(model(node("AffineGrid", "t s"), {"t": [1, 2, 3]}, {"s": np.array([2, 3, 4, 5])}, opset=20))


def test_max_unpool() -> None:
    pool = {"kernel_shape": [2, 2], "strides": [2, 2]}
    nodes = [node("MaxPool", "x", "m i", **pool), node("MaxUnpool", "m i", **pool)]
    agree(model(nodes, {"x": [2, 3, 4, 6]}))


@pytest.mark.parametrize(
    "attributes", [{}, {"pads": [1, 0, 1, 2]}, {"strides": [2, 1], "dilations": [1, 2], "pads": [0, 1, 1, 1]}]
)
def test_col2im(attributes: dict[str, Any]) -> None:
    image, block = (6, 7), (2, 3)
    strides, dilations = attributes.get("strides", [1, 1]), attributes.get("dilations", [1, 1])
    pads = attributes.get("pads", [0] * 4)
    positions = [
        (image[i] + pads[i] + pads[i + 2] - dilations[i] * (block[i] - 1) - 1) // strides[i] + 1 for i in range(2)
    ]
    constants = {"i": np.array(image), "b": np.array(block)}
    nodes = node("Col2Im", "x i b", **attributes)
    agree(model(nodes, {"x": [2, 3 * 6, positions[0] * positions[1]]}, constants, opset=18))


@pytest.mark.parametrize(("group", "offset_group"), [(1, 1), (2, 1), (1, 2)])
@pytest.mark.parametrize("masked", [False, True])
def test_deform_conv(group: int, offset_group: int, masked: bool) -> None:
    inputs: dict[str, Any] = {
        "x": [2, 4, 6, 5], "w": [6, 4 // group, 3, 2], "o": [2, offset_group * 12, 3, 5], "b": [6]
    }  # fmt: skip
    if masked:
        inputs["m"] = [2, offset_group * 6, 3, 5]
    attributes = {"group": group, "offset_group": offset_group, "strides": [2, 1], "pads": [1, 0, 1, 1]}
    nodes = node("DeformConv", "x w o b m" if masked else "x w o b", **attributes)
    agree(model(nodes, inputs, opset=19))


@pytest.mark.parametrize("opset", [10, 16])
@pytest.mark.parametrize("batch", [1, 2])
def test_roi_align(opset: int, batch: int) -> None:
    rois = np.array([[0, 0, 9, 9], [1, 5, 4, 9], [-3, -2, 20, 7], [5, 5, 5.1, 5.2]], np.float32)
    constants = {"r": rois, "i": np.array([0, batch - 1, 0, batch - 1])}
    attributes = {"output_height": 3, "output_width": 2, "sampling_ratio": 2, "spatial_scale": 0.8}
    nodes = node("RoiAlign", "x r i", **attributes)
    agree(model(nodes, {"x": [batch, 3, 9, 8]}, constants, opset=opset))


def test_roi_align_refuses() -> None:
    shapes = {"x": [1, 1, 4, 4], "r": [2, 4]}
    constants = {"i": np.array([0, 0])}
    assert "sampling_ratio" in reason(model(node("RoiAlign", "x r i"), shapes, constants, opset=16))
    most = node("RoiAlign", "x r i", mode="max", sampling_ratio=2)
    assert "max of weighted" in reason(model(most, shapes, constants, opset=16))


# ---------------------------------------------------------------------------------------------------------------
# Masks


@pytest.mark.parametrize("upper", [0, 1])
@pytest.mark.parametrize("k", [None, 0, 2, -1, 9])
def test_trilu(k: int | None, upper: int) -> None:
    constants = {} if k is None else {"k": np.array(k)}
    agree(model(node("Trilu", "x k" if constants else "x", upper=upper), {"x": [2, 4, 5]}, constants))


@pytest.mark.parametrize("axis", [-1, 0, 1])
@pytest.mark.parametrize("values", [None, [2.0, 5.0]])
def test_one_hot(axis: int, values: list[float] | None) -> None:
    constants: dict[str, Any] = {"d": np.array(3)}
    inputs: dict[str, Any] = {"f": [4, 6]}
    if values is None:
        inputs["v"] = [2]
    else:
        constants["v"] = np.array(values, np.float32)
    nodes = [node("Mul", "f four", "g"), node("Cast", "g", "i", to=7), node("OneHot", "i d v", axis=axis)]
    agree(model(nodes, inputs, constants | {"four": np.array(4, np.float32)}))


@pytest.mark.parametrize("batch_axis", [0, 1])
def test_reverse_sequence(batch_axis: int) -> None:
    shape = [5, 4, 3] if batch_axis else [4, 5, 3]
    attributes = {"batch_axis": batch_axis, "time_axis": 1 - batch_axis}
    constants = {"n": np.array([5, 1, 3, 2])}
    assert kinds(agree(model(node("ReverseSequence", "x n", **attributes), {"x": shape}, constants)))
    nodes = [node("Abs", "f", "a"), node("Ceil", "a", "c"), node("Cast", "c", "n", to=7)]
    nodes.append(node("ReverseSequence", "x n", **attributes))
    agree(model(nodes, {"x": shape, "f": [4]}))


# ---------------------------------------------------------------------------------------------------------------
# What depends on values


@pytest.mark.parametrize("operator", ["NonZero", "Unique"])
def test_what_depends_on_values(operator: str) -> None:
    constants = {"c": np.array([[3.0, 0, 3], [1, 0, 7]], np.float32)}
    nodes = [node(operator, "c", "p"), node("Cast", "p", "q", to=1), node("Add", "x q")]
    agree(model(nodes, {"x": [1]}, constants))


@pytest.mark.parametrize("sorted", [0, 1])
@pytest.mark.parametrize("axis", [None, 0, 1])
def test_unique(axis: int | None, sorted: int) -> None:
    constants = {"c": np.array([[3.0, 0, 3], [1, 0, 1], [3, 0, 3]], np.float32)}
    attributes = {"sorted": sorted} | ({} if axis is None else {"axis": axis})
    names = "pqrs"
    nodes = [node("Unique", "c", " ".join(names), **attributes)]
    for name in names:
        nodes += [node("Cast", name, f"{name}f", to=1), node("Add", f"x {name}f", f"{name}y")]
    agree(model(nodes, {"x": [1]}, constants, outputs=[f"{name}y" for name in names]))


@pytest.mark.parametrize("center_point_box", [0, 1])
def test_non_max_suppression(center_point_box: int) -> None:
    rng = np.random.default_rng(0)
    constants = {
        "b": rng.uniform(0, 1, (2, 20, 4)).astype(np.float32),
        "s": rng.uniform(0, 1, (2, 3, 20)).astype(np.float32),
        "n": np.array([4]),
        "iou": np.array([0.3], np.float32),
        "least": np.array([0.4], np.float32),
    }
    nodes = [
        node("NonMaxSuppression", "b s n iou least", "p", center_point_box=center_point_box),
        node("Cast", "p", "q", to=1),
        node("Add", "x q"),
    ]
    agree(model(nodes, {"x": [1]}, constants))
    del constants["b"]
    del constants["n"]
    assert "its max_output_boxes" in reason(model(nodes[0], {"b": [2, 20, 4], "n": [1]}, constants, outputs=["p"]))

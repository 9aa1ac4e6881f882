"""Slices, gathers, scatters and order against onnxruntime."""

from typing import Any

import numpy as np
import onnx
import pytest

from qmlir.dialects.nn import GatherNDOp, GatherOp, SliceOp
from qmlir.errors import NodeError
from tests.frontends.onnx.agreement import agree, floats, kinds, load, model, node, ops_of, reason

INT64 = onnx.TensorProto.INT64


def computed(name: str = "i", source: str = "f") -> onnx.NodeProto:
    """Indices that only running tells: small integers of both signs."""
    return node("Cast", source, name, to=INT64)


SLICES = [
    ([1], [3], None, None),
    ([0, 1], [2, 4], [0, 2], None),
    ([-3], [9999], [-1], None),
    ([4], [-9999], [2], [-1]),
    ([9999], [0], [2], [-2]),
    ([0, 4], [4, 0], [1, 2], [3, -3]),
    ([3], [1], [0], None),
]


@pytest.mark.parametrize(("starts", "ends", "axes", "steps"), SLICES)
def test_slice(starts: list[int], ends: list[int], axes: list[int] | None, steps: list[int] | None) -> None:
    if steps is None:
        attributes: dict[str, Any] = {"starts": starts, "ends": ends}
        attributes |= {} if axes is None or min(axes) < 0 else {"axes": axes}
        if axes is None or min(axes) >= 0:
            agree(model(node("Slice", "x", **attributes), {"x": [4, 3, 5]}, opset=7))
    constants = {"s": np.array(starts), "e": np.array(ends)}
    constants |= {} if axes is None else {"a": np.array(axes)}
    constants |= {} if steps is None else {"t": np.array(steps)}
    names = " ".join(n if n in constants else "_" for n in "seat").replace(" _ _", "").removesuffix(" _")
    for opset in (10, 13, 21):
        module = agree(model(node("Slice", f"x {names}"), {"x": [4, 3, 5]}, constants, opset=opset))
        assert kinds(module) == ["nn.slice"]


def test_slice_refuses_computed_bounds() -> None:
    proto = model([computed(), node("Slice", "x i i")], {"x": [4], "f": [1]})
    assert "its starts" in reason(proto)


@pytest.mark.parametrize("opset", [7, 13, 18])
def test_split(opset: int) -> None:
    names = ["a", "b", "c"]
    many = {"num_outputs": 3} if opset >= 18 else {}
    agree(model(node("Split", "x", "a b c", axis=1, **many), {"x": [2, 6]}, opset=opset, outputs=names))
    if opset == 7:
        agree(model(node("Split", "x", "a b c", split=[1, 2, 3]), {"x": [6, 2]}, opset=7, outputs=names))
    else:
        constants = {"s": np.array([1, 0, 5])}
        agree(model(node("Split", "x s", "a b c", axis=-1), {"x": [2, 6]}, constants, opset=opset, outputs=names))
    if opset == 18:  # the last part is smaller
        agree(model(node("Split", "x", "a b c", axis=1, **many), {"x": [2, 7]}, opset=opset, outputs=names))


def test_split_that_does_not_add_up() -> None:
    with pytest.raises(NodeError, match="must add up to 6, got \\[1, 2\\]"):
        load(model(node("Split", "x s", "a b"), {"x": [6]}, {"s": np.array([1, 2])}, outputs=["a", "b"]))


@pytest.mark.parametrize("opset", [7, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, -1])
def test_gather(opset: int, axis: int) -> None:
    axis = axis if opset >= 11 else axis % 3
    agree(model([computed(), node("Gather", "x i", axis=axis)], {"x": [4, 5, 6], "f": [2, 3]}, opset=opset))
    module = agree(model(node("Gather", "x i", axis=axis), {"x": [4, 5, 6]}, {"i": np.array([[2, 0], [1, 1]])}))
    assert any(isinstance(op, GatherOp) for op in ops_of(module))


@pytest.mark.parametrize("indices", [2, [1], [0, 1, 2], [3, 1], [[0, 2]], [-1], [-1, -2]])
def test_gather_of_what_is_a_slice(indices: Any) -> None:
    module = agree(model(node("Gather", "x i", axis=1), {"x": [2, 4, 3]}, {"i": np.array(indices)}))
    assert any(isinstance(op, SliceOp) for op in ops_of(module))
    assert "nn.gather" not in kinds(module)


def test_gather_outside() -> None:
    with pytest.raises(NodeError, match="indices must lie in \\[-4, 3\\], got 4"):
        load(model(node("Gather", "x i"), {"x": [4, 2]}, {"i": np.array([0, 4])}))


def test_embedding() -> None:
    agree(model([computed(), node("Gather", "w i")], {"f": [2, 7]}, {"w": floats(5, 3)}))


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
def test_gather_and_scatter_elements(axis: int) -> None:
    inputs = {"x": [4, 5, 6], "f": [2, 3, 3]}
    agree(model([computed(), node("GatherElements", "x i", axis=axis)], inputs))
    where = np.argsort(floats(4, 5, 6), axis=axis)  # each place once: ONNX leaves open which of several counts
    agree(model(node("ScatterElements", "x i u", axis=axis), {"x": [4, 5, 6], "u": [4, 5, 6]}, {"i": where}))
    agree(model(node("Scatter", "x i u", axis=axis % 3), {"x": [4, 5, 6], "u": [4, 5, 6]}, {"i": where}, opset=9))


@pytest.mark.parametrize("reduction", ["add", "mul", "max", "min"])
def test_scatter_reductions(reduction: str) -> None:
    nodes = [computed(), node("ScatterElements", "x i u", axis=1, reduction=reduction)]
    agree(model(nodes, {"x": [3, 5], "f": [3, 4], "u": [3, 4]}, opset=18))
    places = {"i": np.array([[0], [2], [0]])}
    agree(model(node("ScatterND", "x i u", reduction=reduction), {"x": [3, 5], "u": [3, 5]}, places, opset=18))


@pytest.mark.parametrize("batch_dims", [0, 1])
def test_gather_nd(batch_dims: int) -> None:
    nodes = [computed(), node("GatherND", "x i", batch_dims=batch_dims)]
    module = agree(model(nodes, {"x": [3, 5, 6], "f": [3, 4, 2 - batch_dims]}, opset=13))
    assert any(isinstance(op, GatherNDOp) for op in ops_of(module))


def test_scatter_nd() -> None:
    agree(model(node("ScatterND", "x i u"), {"x": [4, 5], "u": [2, 5]}, {"i": np.array([[3], [1]])}))


@pytest.mark.parametrize("axis", [None, 0, 1])
def test_compress(axis: int | None) -> None:
    keep = {"c": np.array([True, False, True])}
    attributes = {} if axis is None else {"axis": axis}
    agree(model(node("Compress", "x c", **attributes), {"x": [3, 4]}, keep))
    nodes = [node("Cast", "f", "c", to=onnx.TensorProto.BOOL), node("Compress", "x c", **attributes)]
    agree(model(nodes, {"x": [3, 4], "f": [3]}))


@pytest.mark.parametrize("largest", [0, 1])
@pytest.mark.parametrize("axis", [0, -1])
def test_top_k(axis: int, largest: int) -> None:
    nodes = [node("TopK", "x k", "v i", axis=axis, largest=largest), node("Cast", "i", "j", to=1)]
    agree(model(nodes, {"x": [6, 7]}, {"k": np.array([3])}, outputs=["v", "j"], opset=11))
    if largest:
        agree(model(node("TopK", "x", "y i", axis=axis, k=3), {"x": [6, 7]}, opset=9))
    places = [node("TopK", "x k", "_ i", axis=axis, largest=largest), node("Cast", "i", "y", to=1)]
    assert kinds(load(model(places, {"x": [6, 7]}, {"k": np.array([3])}))) == ["nn.top_k", "nn.cast"]


def test_top_k_of_too_many() -> None:
    with pytest.raises(NodeError, match="cannot take 8 elements"):
        load(model(node("TopK", "x k", "y i"), {"x": [7]}, {"k": np.array([8])}))


HUGE = 1 << 40


@pytest.mark.parametrize(
    ("nodes", "constants"),
    [
        (node("Resize", "x _ _ s", mode="linear"), {"s": np.array([HUGE, 3])}),
        (node("Pad", "x p", mode="edge"), {"p": np.array([HUGE, 0, 0, 0])}),
        ([computed("i", "x"), node("OneHot", "i d v")], {"d": np.array(HUGE), "v": floats(2)}),
        (node("AffineGrid", "t s"), {"t": floats(1, 2, 3), "s": np.array([1, 1, HUGE, 2])}),
        ([node("EyeLike", "big"), node("Tile", "x r", "big")][::-1], {"r": np.array([1 << 18, 1 << 18])}),
    ],
)
def test_a_few_bytes_do_not_fill_the_memory(nodes: Any, constants: dict[str, Any]) -> None:
    assert "it makes a constant of shape" in reason(model(nodes, {"x": [2, 3]}, constants))

"""Data movement and constants against onnxruntime, and what of it happens at import."""

from typing import Any

import numpy as np
import pytest
from onnx import helper, numpy_helper

from qmlir.errors import NodeError
from tests.frontends.onnx.agreement import agree, floats, kinds, load, model, node, ops_of, reason


@pytest.mark.parametrize("opset", [7, 13, 14, 21])
@pytest.mark.parametrize("shape", [(4, 6), (0, -1), (-1,), (2, 0, 4), (0, 0, 0), (1, -1, 2)])
def test_reshape(opset: int, shape: tuple[int, ...]) -> None:
    agree(model(node("Reshape", "x s"), {"x": [2, 3, 4]}, {"s": np.array(shape)}, opset=opset))


def test_reshape_refuses_a_computed_shape() -> None:
    proto = model(node("Reshape", "x s"), {"x": [2, 3], "s": [2]})
    proto.graph.input[1].type.tensor_type.elem_type = 7
    assert 'shape "s" is computed at run time' in reason(proto)


@pytest.mark.parametrize("opset", [7, 9, 11, 13])
@pytest.mark.parametrize("axis", [0, 1, 2, 3])
def test_flatten(opset: int, axis: int) -> None:
    agree(model(node("Flatten", "x", axis=axis), {"x": [2, 3, 4]}, opset=opset))


@pytest.mark.parametrize("axes", [None, [0], [0, 2], [-2]])
def test_squeeze(axes: list[int] | None) -> None:
    for opset in (7, 11):
        attributes = {} if axes is None else {"axes": axes}
        if opset >= 11 or axes != [-2]:
            agree(model(node("Squeeze", "x", **attributes), {"x": [1, 3, 1, 4]}, opset=opset))
    constants = {} if axes is None else {"axes": np.array(axes)}
    agree(model(node("Squeeze", "x axes" if constants else "x"), {"x": [1, 3, 1, 4]}, constants, opset=13))


@pytest.mark.parametrize("axes", [[0], [0, 2], [3, 0], [-1]])
def test_unsqueeze(axes: list[int]) -> None:
    if axes != [-1]:
        agree(model(node("Unsqueeze", "x", axes=axes), {"x": [3, 4]}, opset=7))
    agree(model(node("Unsqueeze", "x", axes=axes), {"x": [3, 4]}, opset=11))
    agree(model(node("Unsqueeze", "x axes"), {"x": [3, 4]}, {"axes": np.array(axes)}, opset=13))


@pytest.mark.parametrize("opset", [7, 13, 21])
def test_transpose(opset: int) -> None:
    agree(model(node("Transpose", "x"), {"x": [2, 3, 4]}, opset=opset))
    agree(model(node("Transpose", "x", perm=[1, 0, 2]), {"x": [2, 3, 4]}, opset=opset))


@pytest.mark.parametrize("opset", [7, 11, 13])
def test_concat(opset: int) -> None:
    agree(model(node("Concat", "a b a", axis=1), {"a": [2, 3], "b": [2, 4]}, opset=opset))
    agree(model(node("Concat", "a b", axis=0), {"a": [2, 3]}, {"b": floats(1, 3)}, opset=opset))
    if opset >= 11:
        agree(model(node("Concat", "a b", axis=-1), {"a": [2, 3], "b": [2, 4]}, opset=opset))


def test_pad() -> None:
    agree(model(node("Pad", "x", pads=[1, 0, 2, 3], value=0.5), {"x": [2, 3]}, opset=7))
    for opset in (11, 13, 18, 21):
        constants = {"pads": np.array([1, 0, 2, 3]), "value": np.array(0.5, np.float32)}
        agree(model(node("Pad", "x pads value"), {"x": [2, 3]}, constants, opset=opset))
        agree(model(node("Pad", "x pads", mode="constant"), {"x": [2, 3]}, constants, opset=opset))
    constants = {"pads": np.array([1, 2]), "axes": np.array([-1])}
    agree(model(node("Pad", "x pads _ axes"), {"x": [2, 3]}, constants))


@pytest.mark.parametrize("mode", ["reflect", "edge", "wrap"])
@pytest.mark.parametrize("pads", [[0, 1, 2, 0], [2, 3, 1, 0], [0, 0, 0, 0]])
def test_pad_modes(mode: str, pads: list[int]) -> None:
    agree(model(node("Pad", "x p", mode=mode), {"x": [3, 4]}, {"p": np.array(pads)}, opset=19))


@pytest.mark.parametrize("pads", [[-1, 0, 0, 0], [-1, 2, 0, -3], [1, -1, -2, -1]])
def test_pad_crops(pads: list[int]) -> None:
    agree(model(node("Pad", "x p"), {"x": [3, 5]}, {"p": np.array(pads)}))


def test_pad_refuses() -> None:
    with pytest.raises(NodeError, match="must leave something"):
        load(model(node("Pad", "x p"), {"x": [3]}, {"p": np.array([-2, -2])}))
    with pytest.raises(NodeError, match="its mode must be"):
        load(model(node("Pad", "x p", mode="mirror"), {"x": [3]}, {"p": np.array([1, 1])}))
    assert "computed at run time" in reason(model(node("Pad", "x p v"), {"x": [3], "v": []}, {"p": np.array([1, 1])}))


@pytest.mark.parametrize("shape", [[3, 1], [2, 3, 4], [1, 1, 1], [4]])
def test_expand(shape: list[int]) -> None:
    agree(model(node("Expand", "x s"), {"x": [3, 1]}, {"s": np.array(shape)}))


@pytest.mark.parametrize("repeats", [[1, 1], [2, 3], [3, 1]])
def test_tile(repeats: list[int]) -> None:
    agree(model(node("Tile", "x r"), {"x": [2, 3]}, {"r": np.array(repeats)}))


@pytest.mark.parametrize("mode", ["DCR", "CRD"])
def test_depth_and_space(mode: str) -> None:
    agree(model(node("DepthToSpace", "x", blocksize=2, mode=mode), {"x": [2, 12, 3, 4]}))
    agree(model(node("SpaceToDepth", "x", blocksize=2), {"x": [2, 3, 4, 6]}))
    with pytest.raises(NodeError, match="multiple of blocksize²"):
        load(model(node("DepthToSpace", "x", blocksize=5), {"x": [2, 12, 3, 4]}))


@pytest.mark.parametrize("k", [0, 1, -2])
def test_eye_like(k: int) -> None:
    agree(model([node("EyeLike", "x", "e", k=k), node("Add", "x e")], {"x": [3, 5]}))


@pytest.mark.parametrize(("shape", "axes"), [([5, 2, 7], None), ([2, 8], [0, 2]), ([3, 4], [-1, -2])])
def test_center_crop_pad(shape: list[int], axes: list[int] | None) -> None:
    attributes = {} if axes is None else {"axes": axes}
    nodes = node("CenterCropPad", "x s", **attributes)
    agree(model(nodes, {"x": [4, 3, 6]}, {"s": np.array(shape)}, opset=18))


@pytest.mark.parametrize(
    "attribute",
    [
        {"value": numpy_helper.from_array(floats(3))},
        {"value_float": 0.25},
        {"value_floats": [0.25, 1.0, -3.0]},
    ],
)
def test_constant(attribute: dict[str, Any]) -> None:
    constant = helper.make_node("Constant", [], ["c"], **attribute)
    agree(model([constant, node("Add", "x c")], {"x": [2, 3]}))


@pytest.mark.parametrize("attribute", [{"value_ints": [3, 2]}, {"value": numpy_helper.from_array(np.array([3, 2]))}])
def test_constant_integers_are_shapes(attribute: dict[str, Any]) -> None:
    constant = helper.make_node("Constant", [], ["c"], **attribute)
    assert [o.name for o in ops_of(agree(model([constant, node("Reshape", "x c")], {"x": [2, 3]})))] == ["nn.reshape"]


def test_constant_integer_is_an_axis() -> None:
    nodes = [
        helper.make_node("Constant", [], ["c"], value_int=-1),
        node("Unsqueeze", "c z", "a"),
        node("Squeeze", "x a"),
    ]
    assert kinds(agree(model(nodes, {"x": [3, 1]}, {"z": np.array([0])}))) == ["nn.reshape"]


def test_constant_strings_are_opaque() -> None:
    nodes = [helper.make_node("Constant", [], ["y"], value_string="text")]
    assert "value_string" in reason(model(nodes, {}))


# ---------------------------------------------------------------------------------------------------------------
# Constant subexpressions


def test_the_shape_chain_that_pytorch_writes() -> None:
    """x.view(x.size(0), -1, 2)."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Gather", "shape zero", "batch", axis=0),
        node("Unsqueeze", "batch axes", "batch1"),
        node("Concat", "batch1 rest two", "target", axis=0),
        node("Reshape", "x target"),
    ]
    constants = {"zero": np.array(0), "axes": np.array([0]), "rest": np.array([-1]), "two": np.array([2])}
    assert [o.name for o in ops_of(agree(model(nodes, {"x": [3, 4, 2]}, constants)))] == ["nn.reshape"]


def test_shape_arithmetic() -> None:
    """Shape → Slice, Cast, Mul, Div, Sub, Add → Concat → Reshape."""
    nodes = [
        node("Shape", "x", "shape"),
        node("Slice", "shape start end", "last"),
        node("Cast", "last", "lastf", to=1),
        node("Mul", "lastf half", "halff"),
        node("Cast", "halff", "halfi", to=7),
        node("Div", "last two", "halfd"),
        node("Sub", "halfi halfd", "none"),
        node("Add", "none two", "sum"),
        node("Concat", "minus sum", "target", axis=0),
        node("Reshape", "x target"),
    ]
    constants = {
        "start": np.array([2]), "end": np.array([9]), "half": np.array([0.5], np.float32), "two": np.array([2]),
        "minus": np.array([-1]),
    }  # fmt: skip
    assert [o.name for o in ops_of(agree(model(nodes, {"x": [3, 4, 7]}, constants)))] == ["nn.reshape"]


def test_expand_of_a_constant_of_shape_and_range() -> None:
    nodes = [
        node("ConstantOfShape", "shape", "ones", value=numpy_helper.from_array(np.array([2.0], np.float32))),
        node("Range", "zero three one", "range"),
        node("Where", "mask range three", "chosen"),
        node("Cast", "chosen", "floats", to=1),
        node("Mul", "ones floats", "weights"),
        node("Add", "x weights"),
    ]
    constants = {
        "shape": np.array([2, 3]), "zero": np.array(0), "three": np.array(3), "one": np.array(1),
        "mask": np.array([True, False, True]),
    }  # fmt: skip
    assert kinds(agree(model(nodes, {"x": [2, 3]}, constants))) == ["nn.add"]


def test_weights_are_moved_at_import() -> None:
    nodes = [
        node("Transpose", "w", "wt"), node("Reshape", "wt s", "wr"), node("Unsqueeze", "wr a", "wu"),
        node("Squeeze", "wu a", "ws"), node("Flatten", "ws", "wf"), node("MatMul", "x wf"),
    ]  # fmt: skip
    constants = {"w": floats(2, 3, 4), "s": np.array([6, 4]), "a": np.array([0])}
    assert [o.name for o in ops_of(agree(model(nodes, {"x": [1, 6]}, constants)))] == [
        "nn.constant",
        "nn.fully_connected",
    ]


@pytest.mark.parametrize(
    ("start", "end", "step"), [(0, 2, 1), (-3, -1, 1), (1, 2**63 - 1, 2), (-1, -(2**63), -1), (3, 0, -2), (2, -9, -1)]
)
def test_slices_of_constants(start: int, end: int, step: int) -> None:
    values = {"s": np.array([start]), "e": np.array([end]), "a": np.array([0]), "k": np.array([step])}
    size = len(range(*slice(start, None if step < 0 and end < -4 else end, step).indices(4)))
    agree(model([node("Slice", "c s e a k", "d"), node("Add", "x d")], {"x": [size]}, {"c": floats(4), **values}))


def test_integer_division_rounds_toward_zero() -> None:
    nodes = [node("Div", "a b", "q"), node("Cast", "q", "f", to=1), node("Add", "x f")]
    agree(model(nodes, {"x": [4]}, {"a": np.array([7, -7, 7, -7]), "b": np.array([2, 2, -2, -2])}))


def test_a_fold_is_not_to_fill_the_memory() -> None:
    nodes = [node("ConstantOfShape", "s", "y")]
    assert "has more than 2^40 elements" in reason(model(nodes, {"x": [1]}, {"s": np.array([1 << 21, 1 << 20])}))

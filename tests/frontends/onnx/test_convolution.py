"""Conv and ConvTranspose against onnxruntime, in any number of dimensions."""

from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from onnx import helper
from onnx.reference import ReferenceEvaluator

from qmlir.backends.reference import evaluate
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from tests.conftest import crossed
from tests.frontends.onnx.agreement import (
    agree,
    assert_close,
    floats,
    kinds,
    load,
    main_of,
    model,
    node,
    onnxruntime_run,
    ops_of,
)


@crossed(
    {
        "attributes": [
            {},
            {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1]},
            {"dilations": [2, 3]},
            {"auto_pad": "SAME_UPPER", "strides": [2, 2]},
            {"auto_pad": "SAME_LOWER", "strides": [2, 3]},
            {"auto_pad": "VALID", "strides": [1, 2]},
        ],
        "opset": [7, 11, 22],
    }
)
def test_conv(opset: int, attributes: dict[str, Any]) -> None:
    proto = model(
        node("Conv", "x w b", **attributes),
        {"x": [2, 3, 9, 8]},
        {"w": floats(4, 3, 3, 2), "b": floats(4, seed=1)},
        opset=opset,
    )
    assert kinds(agree(proto)) == ["nn.conv2d"]


def test_conv_weights_become_ohwi() -> None:
    w = floats(4, 3, 5, 2)
    module = agree(model(node("Conv", "x w"), {"x": [1, 3, 6, 6]}, {"w": w}))
    (constant,) = (o for o in ops_of(module) if o.name == "nn.constant")
    assert np.array_equal(constant.value.array, w.transpose(0, 2, 3, 1))  # type: ignore[attr-defined]


def test_conv_without_bias_and_with_computed_weights_and_bias() -> None:
    agree(model(node("Conv", "x w"), {"x": [1, 2, 5, 5]}, {"w": floats(3, 2, 3, 3)}))
    agree(model(node("Conv", "x w b"), {"x": [1, 2, 5, 5], "w": [3, 2, 3, 3], "b": [3]}))
    agree(model(node("Conv", "x w", group=4), {"x": [1, 4, 5, 5], "w": [8, 1, 3, 3]}))


@pytest.mark.parametrize("multiplier", [1, 3])
def test_depthwise_conv(multiplier: int) -> None:
    proto = model(
        node("Conv", "x w b", group=4, pads=[1, 1, 1, 1], strides=[2, 1]),
        {"x": [1, 4, 7, 6]},
        {"w": floats(4 * multiplier, 1, 3, 3), "b": floats(4 * multiplier, seed=1)},
    )
    assert kinds(agree(proto)) == ["nn.depthwise_conv2d"]


def test_one_group_of_one_channel_is_a_plain_convolution() -> None:
    proto = model(node("Conv", "x w"), {"x": [1, 1, 5, 5]}, {"w": floats(3, 1, 3, 3)})
    assert kinds(agree(proto)) == ["nn.conv2d"]


GROUPS = [(2, 4, 6), (2, 4, 2), (4, 8, 4), (3, 6, 33)]


@pytest.mark.parametrize(("groups", "channels", "outputs"), GROUPS)
def test_grouped_conv(groups: int, channels: int, outputs: int) -> None:
    proto = model(
        node("Conv", "x w b", group=groups, pads=[1, 1, 1, 1]),
        {"x": [2, channels, 7, 6]},
        {"w": floats(outputs, channels // groups, 3, 3), "b": floats(outputs, seed=1)},
    )
    assert kinds(agree(proto)) == ["nn.conv2d"]
    agree(
        model(node("Conv", "x w", group=groups), {"x": [1, channels, 5, 5], "w": [outputs, channels // groups, 3, 3]})
    )


ATTRIBUTES: dict[int, list[dict[str, Any]]] = {
    1: [{}, {"strides": [2], "pads": [1, 2]}, {"dilations": [3]}, {"auto_pad": "SAME_UPPER", "strides": [3]}],
    3: [
        {},
        {"strides": [2, 1, 3], "pads": [1, 0, 2, 0, 1, 1]},
        {"dilations": [2, 1, 2], "pads": [1, 1, 1, 1, 1, 1]},
        {"auto_pad": "SAME_LOWER", "strides": [2, 2, 1]},
    ],
    4: [{}, {"strides": [2, 1, 2, 1]}],
}
OF_OTHER_RANKS = [(rank, attributes) for rank, cases in ATTRIBUTES.items() for attributes in cases]


@crossed({"rank, attributes": OF_OTHER_RANKS, "groups": [1, 2, 4]})
def test_conv_of_other_ranks(rank: int, groups: int, attributes: dict[str, Any]) -> None:
    proto = model(
        node("Conv", "x w b", group=groups, **attributes),
        {"x": [2, 4, 7, 6, 5, 4][: rank + 2]},
        {"w": floats(*[8, 4 // groups, 2, 3, 2, 2][: rank + 2]), "b": floats(8, seed=1)},
    )
    if rank == 4:  # onnxruntime has none
        return check_against_onnx(proto)
    agree(proto)


def check_against_onnx(proto: onnx.ModelProto) -> None:
    """Compares with ONNX's own reference."""
    function = main_of(load(proto))
    x = floats(*[d.dim_value for d in proto.graph.input[0].type.tensor_type.shape.dim])
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x})
    assert_close(evaluate(function, [x])[0], np.asarray(wanted))


def test_conv_of_a_volume_of_single_planes_gathers_nothing() -> None:
    proto = model(node("Conv", "x w", group=4), {"x": [1, 4, 3, 5, 5]}, {"w": floats(4, 1, 1, 3, 3)})
    assert [k for k in kinds(agree(proto)) if k != "nn.reshape"] == ["nn.depthwise_conv2d"]


def test_conv_with_negative_padding_crops() -> None:
    window = {"kernel_shape": [3, 3], "pads": [-1, 0, 2, -2]}
    module = load(model(node("Conv", "x w", **window), {"x": [1, 4, 7, 8]}, {"w": floats(6, 4, 3, 3)}))
    assert kinds(module) == ["nn.slice", "nn.conv2d"]
    cropped = [node("Slice", "x from to axes", "z"), node("Conv", "z w", pads=[0, 0, 2, 0])]
    ends = {"from": np.array([1]), "to": np.array([99]), "axes": np.array([2])}
    x, w = floats(1, 4, 7, 8), floats(6, 4, 3, 3)
    (wanted,) = onnxruntime_run(model(cropped, {"x": [1, 4, 7, 6]}, {"w": w} | ends), {"x": x[..., :6]})
    assert_close(evaluate(main_of(module), [x])[0], wanted)


@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_conv_of_halves_and_doubles(dtype: npt.DTypeLike) -> None:
    x, w = floats(1, 2, 5, 5).astype(dtype), floats(3, 2, 3, 3).astype(dtype)
    element = helper.np_dtype_to_tensor_dtype(x.dtype)
    proto = model(node("Conv", "x w"), {"x": x.shape}, {"w": w}, element=element)
    (got,) = evaluate(main_of(load(proto)), [x])
    (wanted,) = ReferenceEvaluator(proto).run(None, {"x": x.astype(np.float64).astype(dtype)})
    assert got.dtype == x.dtype
    np.testing.assert_allclose(got, np.asarray(wanted), rtol=4 * np.finfo(x.dtype).eps, atol=4 * np.finfo(x.dtype).eps)


TRANSPOSED: list[tuple[int, dict[str, Any]]] = [
    (2, {}),
    (2, {"strides": [3, 2]}),
    (2, {"strides": [3, 2], "pads": [1, 2, 1, 2]}),
    (2, {"strides": [3, 2], "output_padding": [1, 1]}),
    (2, {"strides": [3, 2], "output_shape": [11, 10], "auto_pad": "SAME_UPPER"}),
    (2, {"strides": [3, 2], "output_shape": [14, 11]}),
    (2, {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    (2, {"dilations": [2, 3], "strides": [2, 1]}),
    (2, {"pads": [2, 3, 2, 2]}),
    (2, {"auto_pad": "VALID"}),
    (1, {"strides": [2], "pads": [1, 0]}),
    (3, {"strides": [2, 1, 2], "pads": [1, 0, 1, 0, 1, 1], "output_padding": [1, 0, 0]}),
]


@crossed({"rank, attributes": TRANSPOSED, "groups": [1, 2, 4]})
def test_conv_transpose(rank: int, attributes: dict[str, Any], groups: int) -> None:
    proto = model(
        node("ConvTranspose", "x w b", group=groups, **attributes),
        {"x": [2, 4, 4, 5, 3][: rank + 2]},
        {
            "w": floats(*[4, 6 // min(groups, 2), 3, 3, 2][: rank + 2]),
            "b": floats(6 // min(groups, 2) * groups, seed=1),
        },
    )
    agree(proto)


def test_conv_transpose_of_computed_weights() -> None:
    agree(model(node("ConvTranspose", "x w", strides=[2, 2]), {"x": [1, 2, 3, 4], "w": [2, 3, 3, 2]}))


def test_attributes_that_do_not_fit() -> None:
    for operator, attributes, need in (
        ("Conv", {"kernel_shape": [2, 2]}, "its kernel_shape must be that of its weights"),
        ("Conv", {"group": 3}, "in 3 groups"),
        ("Conv", {"strides": [1]}, "its attribute strides needs 2 values"),
        ("Conv", {"pads": [-4, 0, -4, 0]}, "must fit into its padded input"),
        ("ConvTranspose", {"group": 3}, "in 3 groups"),
        ("ConvTranspose", {"output_padding": [1]}, "its attribute output_padding needs 2 values"),
        ("ConvTranspose", {"output_shape": [1, -1]}, "its attribute output_shape needs 2 values"),
    ):
        with pytest.raises(NodeError, match=need):
            load_onnx(model(node(operator, "x w", **attributes), {"x": [1, 4, 7, 7]}, {"w": floats(4, 4, 3, 3)}))
    with pytest.raises(NodeError, match="as many spatial dimensions"):
        load_onnx(model(node("Conv", "x w"), {"x": [1, 4, 7, 7]}, {"w": floats(4, 4, 3)}))

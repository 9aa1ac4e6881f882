"""Pools against onnxruntime: padding, automatic padding, ceil_mode."""

from typing import Any

import numpy as np
import onnx
import pytest

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
    reason,
)

WINDOWS = [
    {"kernel_shape": [2, 2]},
    {"kernel_shape": [3, 2], "strides": [2, 1], "pads": [1, 0, 2, 1]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"},
    {"kernel_shape": [3, 3], "strides": [2, 3], "auto_pad": "SAME_LOWER"},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID"},
]

CEILED = [
    {"kernel_shape": [2, 2], "strides": [2, 2]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [3, 3], "strides": [3, 3], "pads": [1, 0, 0, 1]},
    {"kernel_shape": [2, 2], "strides": [3, 3], "pads": [1, 1, 1, 1]},
    {"kernel_shape": [1, 1], "strides": [3, 3]},
    {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "VALID"},
]


@crossed({"window": WINDOWS, "opset": [7, 8, 10, 11, 12, 22]})
def test_max_pool(opset: int, window: dict[str, Any]) -> None:
    module = agree(model(node("MaxPool", "x", **window), {"x": [2, 3, 9, 8]}, opset=opset))
    assert kinds(module) == ["nn.max_pool2d"]


@crossed({"window": CEILED, "size": [6, 7, 8, 9]})
def test_max_pool_ceil_mode(size: int, window: dict[str, Any]) -> None:
    agree(model(node("MaxPool", "x", ceil_mode=1, **window), {"x": [1, 2, size, size + 1]}))


def test_max_pool_dilations() -> None:
    agree(model(node("MaxPool", "x", kernel_shape=[3, 2], dilations=[2, 3], pads=[1, 1, 1, 1]), {"x": [1, 2, 9, 9]}))


DILATED = [
    ([1, 2, 4, 5], {"kernel_shape": [2, 3], "dilations": [2, 2]}, [1, 2, 1, 2], [1, 2, 1, 2]),
    ([1, 2, 7, 6], {"kernel_shape": [3, 3], "dilations": [2, 2], "strides": [3, 2]}, [2, 1, 2, 2], [2, 2, 2, 1]),
    ([2, 1, 7], {"kernel_shape": [4], "dilations": [2], "strides": [2]}, [3, 3], [3, 3]),
]


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize(("shape", "window", "upper", "lower"), DILATED)
def test_same_padding_counts_dilations(
    operator: str, shape: list[int], window: dict[str, Any], upper: list[int], lower: list[int]
) -> None:
    """The padding of ONNX's text, written out: by itself, onnxruntime pads as if nothing were dilated."""
    x = floats(*shape)
    for auto_pad, pads in (("SAME_UPPER", upper), ("SAME_LOWER", lower)):
        (wanted,) = onnxruntime_run(model(node(operator, "x", pads=pads, **window), {"x": shape}), {"x": x})
        proto = model(node(operator, "x", auto_pad=auto_pad, **window), {"x": shape})
        assert_close(evaluate(main_of(load(proto)), [x])[0], wanted)
        inferred = onnx.shape_inference.infer_shapes(proto).graph.output[0].type.tensor_type.shape.dim
        assert [d.dim_value for d in inferred] == list(wanted.shape)


@crossed({"window": WINDOWS, "include": [0, 1], "opset": [7, 10, 11, 19, 22]})
def test_average_pool(opset: int, include: int, window: dict[str, Any]) -> None:
    module = agree(
        model(node("AveragePool", "x", count_include_pad=include, **window), {"x": [2, 3, 9, 8]}, opset=opset)
    )
    assert kinds(module) == ["nn.average_pool2d"]


@crossed({"window": CEILED, "include": [0, 1], "size": [6, 7, 8, 9]})
def test_average_pool_ceil_mode(size: int, include: int, window: dict[str, Any]) -> None:
    agree(model(node("AveragePool", "x", ceil_mode=1, count_include_pad=include, **window), {"x": [1, 2, size, size]}))


def test_average_pool_whose_window_may_lie_in_the_padding() -> None:
    window = {"kernel_shape": [2, 2], "pads": [2, 2, 2, 2]}
    proto = model(node("AveragePool", "x", count_include_pad=1, **window), {"x": [1, 2, 4, 4]})
    module = load(proto)
    assert kinds(module) == ["nn.pad", "nn.average_pool2d"]
    x = floats(1, 2, 4, 4)  # onnxruntime takes such padding only as an operation of its own
    padded = [node("Pad", "x p", "z"), node("AveragePool", "z", kernel_shape=[2, 2])]
    (wanted,) = onnxruntime_run(model(padded, {"x": x.shape}, {"p": np.array([0, 0, 2, 2, 0, 0, 2, 2])}), {"x": x})
    assert_close(evaluate(main_of(module), [x])[0], wanted)
    for operator in ("AveragePool", "MaxPool"):
        assert "as large as its window" in reason(model(node(operator, "x", **window), {"x": [1, 2, 4, 4]}))


OTHER_RANKS = [
    ([2, 3, 9], {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}),
    ([2, 3, 8], {"kernel_shape": [3], "strides": [2], "ceil_mode": 1}),
    ([2, 3, 6, 7, 5], {"kernel_shape": [2, 3, 2]}),
    ([1, 3, 6, 7, 5], {"kernel_shape": [2, 3, 2], "strides": [2, 1, 2], "pads": [1, 0, 1, 0, 2, 1]}),
    ([1, 3, 6, 7, 5], {"kernel_shape": [2, 3, 2], "strides": [3, 2, 2], "ceil_mode": 1, "pads": [1, 1, 0, 0, 1, 0]}),
    ([1, 3, 6, 7, 5], {"kernel_shape": [2, 2, 2], "dilations": [3, 2, 2]}),
    ([1, 3, 6, 7, 5], {"kernel_shape": [3, 2, 2], "auto_pad": "SAME_UPPER", "strides": [2, 2, 2]}),
]


@pytest.mark.parametrize(("shape", "window"), OTHER_RANKS)
def test_pools_of_other_ranks(shape: list[int], window: dict[str, Any]) -> None:
    agree(model(node("MaxPool", "x", **window), {"x": shape}))
    for include in (0, 1):
        if not (include and window.get("ceil_mode")):  # onnxruntime counts what ceil_mode adds
            agree(model(node("AveragePool", "x", count_include_pad=include, **window), {"x": shape}))


@pytest.mark.parametrize("shape", [[2, 3, 5], [2, 3, 4, 5, 2]])
def test_global_pools_of_other_ranks(shape: list[int]) -> None:
    for operator in ("GlobalAveragePool", "GlobalMaxPool"):
        agree(model(node(operator, "x"), {"x": shape}))


def test_a_pool_needs_a_spatial_dimension() -> None:
    for proto in (node("MaxPool", "x", kernel_shape=[2]), node("GlobalAveragePool", "x")):
        with pytest.raises(NodeError, match="at least one spatial dimension"):
            load_onnx(model(proto, {"x": [1, 2]}))


PLACES = [
    ([1, 2, 4, 4], {"kernel_shape": [2, 2]}),
    ([2, 3, 5, 6], {"kernel_shape": [3, 2], "strides": [2, 2], "pads": [1, 1, 0, 0], "storage_order": 1}),
    ([2, 3, 7], {"kernel_shape": [3], "pads": [1, 1]}),
]


@pytest.mark.parametrize(("shape", "window"), PLACES)
def test_max_pool_indices(shape: list[int], window: dict[str, Any]) -> None:
    proto = model(node("MaxPool", "x", "y indices", **window), {"x": shape}, outputs=("y", "indices"))
    proto.graph.output[1].type.tensor_type.elem_type = onnx.TensorProto.INT64
    agree(proto)


def test_max_pool_indices_that_are_not_given() -> None:
    proto = model(node("MaxPool", "x", "y indices", kernel_shape=[2, 2]), {"x": [1, 2, 4, 4]})
    assert kinds(agree(proto)) == ["nn.max_pool2d"]  # nobody reads them
    window = {"kernel_shape": [2, 2, 2]}
    proto = model(node("MaxPool", "x", "y indices", **window), {"x": [1, 2, 4, 4, 4]}, outputs=("y", "indices"))
    assert "one or two dimensions" in reason(proto)


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("shape", [[1, 3, 9], [2, 3, 7, 8], [1, 1, 4, 5], [1, 2, 4, 5, 4]])
def test_lp_pool(shape: list[int], p: int) -> None:
    rank = len(shape) - 2
    window = {"kernel_shape": [3, 2, 2][:rank], "strides": [2, 1, 1][:rank], "pads": [1, 0, 1][:rank] * 2}
    agree(model(node("LpPool", "x", p=p, **window), {"x": shape}))
    agree(model(node("GlobalLpPool", "x", p=p), {"x": shape}))


@pytest.mark.parametrize("p", [1, 2, 3])
def test_a_norm_of_one_element_is_its_magnitude(p: int) -> None:
    proto = model(node("GlobalLpPool", "x", p=p), {"x": [2, 3, 1, 1]})
    agree(proto)
    assert not [op for op in load_onnx(proto).walk() if op.name in ("nn.mul", "nn.pow", "nn.sqrt")]


@pytest.mark.parametrize("opset", [7, 22])
@pytest.mark.parametrize("operator", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pools(opset: int, operator: str) -> None:
    agree(model(node(operator, "x"), {"x": [2, 3, 5, 4]}, opset=opset))


@pytest.mark.parametrize("keepdims", [0, 1])
@pytest.mark.parametrize("axes", [[2, 3], [-1, -2], [1, 2]])
def test_reduce_mean_over_the_image(keepdims: int, axes: list[int]) -> None:
    for opset in (7, 11, 13):
        proto = model(node("ReduceMean", "x", axes=axes, keepdims=keepdims), {"x": [2, 3, 5, 4]}, opset=opset)
        assert "nn.global_average_pool" in kinds(agree(proto))
    constants = {"axes": np.array(axes)}
    agree(model(node("ReduceMean", "x axes", keepdims=keepdims), {"x": [2, 3, 5, 4]}, constants, opset=18))


def test_reduce_mean_over_nothing_and_over_other_axes() -> None:
    agree(model(node("ReduceMean", "x", noop_with_empty_axes=1), {"x": [2, 3]}))
    agree(model(node("ReduceMean", "x", axes=[1]), {"x": [2, 3, 5, 4]}, opset=13))
    agree(model(node("ReduceMean", "x"), {"x": [2, 3, 5, 4]}, opset=13))


@pytest.mark.parametrize("auto_pad", ["SAME_UPPER", "SAME_LOWER"])
def test_same_padding_under_strides_beyond_the_kernel_crops_nothing(auto_pad: str) -> None:
    """onnxruntime's pools and convolutions crop by different amounts there, and its MaxPool fails."""
    attributes = {"kernel_shape": [1, 2], "strides": [4, 5]}
    same = load(model(node("AveragePool", "x", auto_pad=auto_pad, **attributes), {"x": [1, 2, 4, 5]}))
    (y,) = evaluate(main_of(same), [x := floats(1, 2, 4, 5)])
    np.testing.assert_allclose(y, x[:, :, :1, :2].mean(axis=3, keepdims=True), rtol=1e-6)

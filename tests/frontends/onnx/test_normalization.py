"""Softmax and normalizations against onnxruntime."""

from typing import Any

import numpy as np
import onnx
import pytest
from onnx.reference import ReferenceEvaluator

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from tests.frontends.onnx.agreement import agree, floats, kinds, load, main_of, model, node, reason


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


@pytest.mark.parametrize("shape", [(4, 3, 5, 4), (6, 3)])
def test_batch_normalization_in_training_mode(shape: tuple[int, ...]) -> None:
    """By the mean and the variance of the data, towards which the given ones are moved."""
    operator = node("BatchNormalization", "x scale bias mean var", "y m v", training_mode=1, momentum=0.8)
    proto = model(operator, {"x": shape}, parameters(3), outputs=("y", "m", "v"), opset=15)
    x = floats(*shape) * 3 + 1
    wanted: Any = ReferenceEvaluator(proto).run(None, {"x": x})
    for ours, theirs in zip(evaluate(main_of(load(proto)), [x]), wanted, strict=True):
        np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-5)


def test_what_batch_normalization_refuses() -> None:
    inputs = "x scale bias mean var"
    proto = model(
        node("BatchNormalization", inputs, "y m v _ _"), {"x": [2, 3]}, parameters(3), outputs=("y", "m"), opset=9
    )
    assert 'output "m" is used' in reason(proto)
    per_element = {k: np.ones((3, 4), np.float32) for k in ("scale", "bias", "mean", "var")}
    proto = model(node("BatchNormalization", inputs, spatial=0), {"x": [2, 3, 4]}, per_element, opset=7)
    assert "not spatial" in reason(proto)


def test_batch_normalization_with_computed_parameters() -> None:
    constants = parameters(3)
    shapes = {"x": [2, 3, 4, 5], "scale": [3], "mean": [3]}
    for name in ("scale", "mean"):
        del constants[name]
    agree(model(node("BatchNormalization", "x scale bias mean var"), shapes, constants))


@pytest.mark.parametrize("axis", [-1, 1, 2, 0])
@pytest.mark.parametrize("bias", ["", " b"])
def test_layer_normalization(axis: int, bias: str) -> None:
    shape = [2, 3, 4, 5]
    constants = {"s": floats(*shape[axis:], seed=1), "b": floats(*shape[axis:], seed=2)}
    proto = model(node("LayerNormalization", f"x s{bias}", axis=axis, epsilon=1e-3), {"x": shape}, constants)
    assert kinds(agree(proto)) == ["nn.layer_norm", "nn.mul"] + ["nn.add"] * bool(bias)


@pytest.mark.parametrize("axis", [-1, 1, 0])
@pytest.mark.parametrize("names", ["y m d", "y m", "y _ d"])
def test_layer_normalization_with_further_outputs(axis: int, names: str) -> None:
    shape = [2, 3, 4]
    shapes = {"x": shape, "s": shape[axis:], "b": shape[axis:]}
    proto = model(
        node("LayerNormalization", "x s b", names, axis=axis), shapes, outputs=[n for n in names.split() if n != "_"]
    )
    assert kinds(agree(proto)).count("nn.layer_norm") == 1


def test_quantized_statistics_of_a_layer_normalization_keep_a_deviation_far_below_the_mean() -> None:
    proto = model(node("LayerNormalization", "x s", "y m d"), {"x": [4, 8], "s": [8]}, outputs=("d",))
    module = load_onnx(proto)
    random = np.random.default_rng(0)
    x = (random.normal(size=(4, 8)) * 0.1 + 2.5).astype(np.float32)
    data = [{"x": x, "s": np.ones(8, np.float32)}]
    (got,) = qmlir.reference(qmlir.quantize(module, qmlir.profile(module, data), precision="int16")).run(data[0])
    np.testing.assert_allclose(got, qmlir.reference(module).run(data[0])[0], rtol=2e-3)


@pytest.mark.parametrize("axis", [-1, 1])
def test_rms_normalization(axis: int) -> None:
    constants = {"s": floats(*[2, 3, 4][axis:], seed=1)}
    attributes = {"axis": axis, "epsilon": 1e-3}
    ours = load(model(node("RMSNormalization", "x s", **attributes), {"x": [2, 3, 4]}, constants, opset=23))
    older = agree(model(node("SimplifiedLayerNormalization", "x s", **attributes), {"x": [2, 3, 4]}, constants))
    assert kinds(ours) == kinds(older) == ["nn.rms_norm", "nn.mul"]
    x = floats(2, 3, 4)
    assert np.array_equal(evaluate(main_of(ours), [x])[0], evaluate(main_of(older), [x])[0])


@pytest.mark.parametrize("operator", ["SkipLayerNormalization", "SkipSimplifiedLayerNormalization"])
@pytest.mark.parametrize("outputs", [("y",), ("y", "_", "_", "sum")])
@pytest.mark.parametrize("bias", [False, True])
def test_skip_normalizations(operator: str, outputs: tuple[str, ...], bias: bool) -> None:
    simple = operator == "SkipSimplifiedLayerNormalization"
    inputs = f"x skip s {'' if simple else 'b '}{'c' if bias else ''}"
    proto = model(
        node(operator, inputs, " ".join(outputs), domain="com.microsoft"),
        {"x": [2, 3, 4], "skip": [2, 3, 4]},
        {name: floats(4, seed=i) for i, name in enumerate("sbc")},
        outputs=[o for o in outputs if o != "_"],
    )
    proto.opset_import.append(onnx.helper.make_opsetid("com.microsoft", 1))
    agree(proto)


@pytest.mark.parametrize("shape", [(2, 3, 5, 4), (2, 3, 5), (2, 3, 2, 5, 4)])
def test_instance_normalization(shape: tuple[int, ...]) -> None:
    proto = model(node("InstanceNormalization", "x s b", epsilon=1e-3), {"x": shape, "s": [3]}, {"b": floats(3)})
    agree(proto)


@pytest.mark.parametrize("opset", [18, 21])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_normalization(opset: int, groups: int) -> None:
    count = 6 if opset == 21 else groups
    constants = {"s": floats(count, seed=1), "b": floats(count, seed=2)}
    attributes = {"num_groups": groups, "epsilon": 1e-3}
    proto = model(node("GroupNormalization", "x s b", **attributes), {"x": [2, 6, 3, 4]}, constants, opset=opset)
    agree(proto)


@pytest.mark.parametrize("axis", [-1, 0, 2])
@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization(axis: int, p: int) -> None:
    assert kinds(agree(model(node("LpNormalization", "x", axis=axis, p=p), {"x": [2, 3, 4]}))) == [
        "nn.lp_normalization"
    ]


@pytest.mark.parametrize("axes", [None, [2, 3], [1], [0, 1, 2, 3], [1, 2], [-1], [3, 1]])
@pytest.mark.parametrize("opset", [9, 13])
def test_mean_variance_normalization(axes: list[int] | None, opset: int) -> None:
    attributes = {} if axes is None else {"axes": axes}
    proto = model(node("MeanVarianceNormalization", "x", **attributes), {"x": [2, 3, 4, 5]}, opset=opset)
    assert kinds(agree(proto)).count("nn.layer_norm") == 1


def test_mean_variance_normalization_of_equal_elements_is_zero_as_onnx_defines_it() -> None:
    proto = model(node("MeanVarianceNormalization", "x"), {"x": [1, 2, 2, 2]})
    (y,) = evaluate(main_of(load_onnx(proto)), [np.full((1, 2, 2, 2), 3.3, np.float32)])
    assert (y == 0).all()


def test_mean_variance_normalization_of_no_elements() -> None:
    proto = model(node("MeanVarianceNormalization", "x"), {"x": [0, 2, 2, 2]})
    (y,) = evaluate(main_of(load_onnx(proto)), [np.zeros((0, 2, 2, 2), np.float32)])
    assert y.shape == (0, 2, 2, 2)


def test_quantized_mean_variance_normalization_keeps_a_deviation_far_below_the_mean() -> None:
    proto = model(node("MeanVarianceNormalization", "x"), {"x": [4, 2, 4, 1]})
    x = (np.random.default_rng(0).normal(size=(4, 2, 4, 1)) * 0.1 + 1.5).astype(np.float32)
    step = x.max() / 255
    x = (np.rint(x / step) * step).astype(np.float32)  # bytes hold it as it is: 14 steps are a deviation
    module = load_onnx(proto)
    data = [{"x": x}]
    (got,) = qmlir.reference(qmlir.quantize(module, qmlir.profile(module, data), precision="int8")).run(data[0])
    (want,) = qmlir.reference(module).run(data[0])
    assert np.abs(got - want).max() < 2e-2 * np.abs(want).max()


def test_local_response_normalization() -> None:
    for attributes in ({"size": 3}, {"size": 5, "alpha": 0.5, "beta": 0.6, "bias": 2.0}):
        module = agree(model(node("LRN", "x", **attributes), {"x": [2, 7, 3, 4]}))
        assert kinds(module) == ["nn.local_response_normalization"]


def test_what_does_not_fit() -> None:
    for proto, need in (
        (node("GroupNormalization", "x s s", num_groups=4), "fall into 4 groups"),
        (node("LpNormalization", "x", p=3), "p to be 1 or 2"),
        (node("LRN", "x", size=0), "a size of at least 1"),
        (node("LayerNormalization", "x s", axis=7), "its axis must lie in"),
    ):
        with pytest.raises(NodeError, match=need):
            load_onnx(model(proto, {"x": [2, 6, 3]}, {"s": floats(6)}))


@pytest.mark.parametrize(("opset", "axis"), [(21, -1), (21, 1), (11, 1), (11, 2), (11, 0)])
def test_log_softmax(opset: int, axis: int) -> None:
    agree(model(node("LogSoftmax", "x", axis=axis), {"x": [2, 3, 4]}, opset=opset))

"""Activations, and what is the identity at inference, against onnxruntime."""

import numpy as np
import onnx
import pytest

from qmlir.backends.reference import evaluate
from qmlir.errors import NodeError
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.rewriting import names_of_value
from tests.frontends.onnx.agreement import agree, floats, kinds, main_of, model, node, ops_of, reason


@pytest.mark.parametrize("opset", [7, 13, 14, 22])
@pytest.mark.parametrize("operator", ["Relu", "Sigmoid", "Tanh"])
def test_activation(opset: int, operator: str) -> None:
    assert kinds(agree(model(node(operator, "x"), {"x": [3, 7]}, opset=opset))) == [f"nn.{operator.lower()}"]


@pytest.mark.parametrize("opset", [7, 10])
@pytest.mark.parametrize("bounds", [{"min": -0.5, "max": 0.25}, {"min": 0.0}, {"max": 0.3}])
def test_clip_with_attributes(opset: int, bounds: dict[str, float]) -> None:
    module = agree(model(node("Clip", "x", **bounds), {"x": [3, 7]}, opset=opset))
    (op,) = ops_of(module)
    found = {k: float(np.float32(v)) for k, v in zip(("min", "max"), op.bounds(), strict=True) if v is not None}  # type: ignore[attr-defined]
    assert found == {k: float(np.float32(v)) for k, v in bounds.items()}


@pytest.mark.parametrize("opset", [11, 12, 13])
@pytest.mark.parametrize("inputs", ["x low high", "x low", "x _ high"])
def test_clip_with_inputs(opset: int, inputs: str) -> None:
    bounds = {"low": np.array(-0.5, np.float32), "high": np.array(0.25, np.float32)}
    agree(model(node("Clip", inputs), {"x": [3, 7]}, {k: v for k, v in bounds.items() if k in inputs}, opset=opset))


def test_clip_without_bounds_is_the_identity() -> None:
    assert kinds(agree(model(node("Clip", "x"), {"x": [3]}))) == []


def test_clip_with_crossed_bounds_is_the_upper_one() -> None:
    bounds = {"low": np.array(0.5, np.float32), "high": np.array(0.25, np.float32)}
    agree(model(node("Clip", "x low high"), {"x": [3, 7]}, bounds, opset=13))


def test_clip_by_computed_bounds() -> None:
    both = model(node("Clip", "x low high"), {"x": [3, 7], "low": [], "high": []})
    assert kinds(agree(both)) == ["nn.maximum", "nn.minimum"]
    assert kinds(agree(model(node("Clip", "x _ high"), {"x": [3, 7], "high": []}))) == ["nn.minimum"]


def test_clip_of_integers() -> None:
    bounds = {"low": np.array(-5, np.int32), "high": np.array(9, np.int32)}
    module = load_onnx(model(node("Clip", "x low high"), {"x": [3]}, bounds, element=6))
    module.verify()
    (y,) = evaluate(main_of(module), [np.array([-9, 2, 2**30], np.int32)])
    assert y.tolist() == [-5, 2, 9]


def test_clip_refuses_bounds_of_many_elements() -> None:
    with pytest.raises(NodeError, match="lower bound must be a scalar"):
        load_onnx(model(node("Clip", "x low"), {"x": [3], "low": [3]}))


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("LeakyRelu", {"alpha": 0.3}),
        ("Elu", {"alpha": 1.5}),
        ("Selu", {"alpha": 1.5, "gamma": 1.25}),
        ("Celu", {"alpha": 2.0}),
        ("HardSigmoid", {"alpha": 0.3, "beta": 0.4}),
        ("ThresholdedRelu", {"alpha": 0.75}),
        ("Shrink", {"bias": 0.25, "lambd": 0.75}),
        ("HardSwish", {}),
        ("Softplus", {}),
        ("Softsign", {}),
        ("Mish", {}),
    ],
)
def test_activation_with_attributes(operator: str, attributes: dict[str, float]) -> None:
    for given in (attributes, {}):
        (kind,) = kinds(agree(model(node(operator, "x", **given), {"x": [3, 7]})))
        assert kind.removeprefix("nn.").replace("_", "") == operator.lower()


def test_binarizer_of_the_ml_domain() -> None:
    for given in ({"threshold": 0.25}, {}):
        network = model(node("Binarizer", "x", domain="ai.onnx.ml", **given), {"x": [3, 7]})
        network.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 1))
        assert kinds(agree(network)) == ["nn.binarize"]


def test_identity_hands_its_names_on() -> None:
    nodes = [node("Relu", "x", "r", name="relu"), node("Identity", "r", "y", name="same")]
    (relu,) = ops_of(agree(model(nodes, {"x": [3]})))
    names = names_of_value(relu.results[0])
    assert list(names.nodes) == ["relu", "same"]
    assert list(names.tensors) == ["r"]
    assert list(names.absorbed) == ["y"]


def test_identity_of_an_argument_and_of_a_constant() -> None:
    module = agree(model(node("Identity", "x"), {"x": [3]}))
    names = names_of_value(main_of(module).args[0])
    assert (list(names.tensors), list(names.absorbed)) == (["x"], ["y"])
    agree(model([node("Identity", "c", "d"), node("Add", "x d")], {"x": [3]}, {"c": floats(3)}))


def test_identity_through_a_layout_transpose_names_what_computes() -> None:
    nodes = [node("MaxPool", "x", "p", kernel_shape=[2, 2]), node("Identity", "p", "y")]
    (pool,) = (o for o in ops_of(agree(model(nodes, {"x": [1, 2, 4, 4]}))) if o.name == "nn.max_pool2d")
    assert list(names_of_value(pool.results[0]).absorbed) == ["y"]


@pytest.mark.parametrize("opset", [7, 10])
def test_dropout_with_attributes(opset: int) -> None:
    assert kinds(agree(model(node("Dropout", "x", ratio=0.3), {"x": [3]}, opset=opset))) == []


def test_dropout_with_inputs() -> None:
    constants = {"ratio": np.array(0.3, np.float32), "mode": np.array(False)}
    agree(model(node("Dropout", "x"), {"x": [3]}))
    agree(model(node("Dropout", "x ratio"), {"x": [3]}, constants))
    agree(model(node("Dropout", "x ratio mode"), {"x": [3]}, constants, opset=12))


def test_dropout_of_nothing_is_one_in_training_mode_too() -> None:
    constants = {"ratio": np.array(0, np.float32), "mode": np.array(True)}
    agree(model(node("Dropout", "x ratio mode"), {"x": [3]}, constants, opset=13))


def test_dropout_mask_keeps_everything() -> None:
    proto = model(node("Dropout", "x", "y mask"), {"x": [3]}, outputs=("y", "mask"))
    module = load_onnx(proto)
    (mask,) = ops_of(module)
    assert mask.evaluate()[0].tolist() == [True] * 3  # type: ignore[attr-defined]
    assert 'output "mask" is used' in reason(
        model(node("Dropout", "x", "y mask"), {"x": [3]}, outputs=("y", "mask"), opset=7)
    )

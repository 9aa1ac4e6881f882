"""Float operators that onnxruntime's optimizer fuses, against onnxruntime."""

from typing import Any

import numpy as np
import pytest

from qmlir.errors import NodeError
from tests.frontends.onnx.agreement import Array, agree, floats, kinds, load, node, reason
from tests.frontends.onnx.test_attention import contributed

X = {"x": [2, 3, 5]}


@pytest.mark.parametrize(
    ("kind", "inputs", "attributes"),
    [
        ("Gelu", "x", {}),
        ("BiasGelu", "x b", {}),
        ("FastGelu", "x", {}),
        ("FastGelu", "x b", {}),
        ("QuickGelu", "x", {}),
        ("QuickGelu", "x", {"alpha": 0.7}),
    ],
)
def test_activation(kind: str, inputs: str, attributes: dict[str, Any]) -> None:
    constants = {"b": floats(5, seed=4)} if "b" in inputs else {}
    module = agree(contributed(node(kind, inputs, **attributes), X, constants))
    function = "nn.swish" if kind == "QuickGelu" else "nn.gelu"
    assert kinds(module) == [*(["nn.add"] if constants else []), function]


SQUARE: dict[str, dict[str, Any]] = {
    "plain": {},
    "alpha": {"alpha": 0.3},
    "transA": {"transA": 1},
    "transB and alpha": {"transB": 1, "alpha": -2.0},
    "both": {"transA": 1, "transB": 1},
    "transBatchA": {"transBatchA": 1},
    "transBatchB": {"transBatchB": 1, "alpha": 0.5},
    "everything": {"transBatchA": 1, "transBatchB": 1, "transA": 1, "transB": 1, "alpha": 0.5},
}


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("name", SQUARE)
def test_fused_matmul(name: str, constant: bool) -> None:
    """The first and the last two dimensions are equal, so every way of transposing fits and gives another result."""
    shape = [3, 3, 3]
    proto_node = node("FusedMatMul", "x w", **SQUARE[name])
    constants: dict[str, Array] = {"w": floats(*shape, seed=7)} if constant else {}
    agree(contributed(proto_node, {"x": shape} | ({} if constant else {"w": shape}), constants))


def test_fused_matmul_of_different_sizes() -> None:
    batch = node("FusedMatMul", "x w", transBatchA=1, transBatchB=1, transB=1)
    agree(contributed(batch, {"x": [4, 2, 3, 5], "w": [6, 2, 3, 5]}, {}))
    layer = contributed(node("FusedMatMul", "x w", transB=1, alpha=0.25), X, {"w": floats(4, 5)})
    assert "nn.fully_connected" in kinds(agree(layer))
    assert "nn.mul" not in kinds(agree(layer))
    agree(contributed(node("FusedMatMul", "x w", transA=1), {"x": [5], "w": [5, 2]}, {}))


ACTIVATIONS: dict[str, dict[str, float]] = {
    "Relu": {},
    "Sigmoid": {},
    "Tanh": {},
    "Softplus": {},
    "Softsign": {},
    "Elu": {"alpha": 0.5},
    "LeakyRelu": {"alpha": 0.2},
    "ThresholdedRelu": {"alpha": 0.4},
    "HardSigmoid": {"alpha": 0.3, "beta": 0.4},
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_fused_gemm(name: str) -> None:
    given = {f"activation_{key}": value for key, value in ACTIVATIONS[name].items()}
    gemm = node("FusedGemm", "x w c", activation=name, transB=1, alpha=0.5, beta=2.0, **given)
    agree(contributed(gemm, {"x": [3, 5]}, {"w": floats(4, 5), "c": floats(4, seed=2)}))


def test_fused_gemm_without_an_addend() -> None:
    gemm = node("FusedGemm", "x w", activation="Relu", transA=1)
    agree(contributed(gemm, {"x": [5, 3], "w": [5, 4]}, {}))


@pytest.mark.parametrize("inputs", ["x w", "x w b", "x w b z"])
@pytest.mark.parametrize(
    ("activation", "parameters"),
    [("Relu", []), ("LeakyRelu", [0.3]), ("Clip", [-0.25, 0.75]), ("HardSigmoid", [0.3, 0.4]), ("", [])],
)
def test_fused_conv(inputs: str, activation: str, parameters: list[float]) -> None:
    given: dict[str, Any] = {"activation": activation} if activation else {}
    if parameters:
        given["activation_params"] = parameters
    conv = node("FusedConv", inputs, pads=[1, 0, 1, 0], strides=[1, 2], **given)
    shapes = {"x": [2, 3, 6, 7]} | ({"z": [2, 4, 6, 3]} if "z" in inputs else {})
    constants = {"w": floats(4, 3, 3, 3), "b": floats(4)}
    agree(contributed(conv, shapes, {name: constants[name] for name in inputs.split() if name in constants}))


def test_what_is_refused() -> None:
    gemm = node("FusedGemm", "x w", activation="Dice")
    assert 'its activation is "Dice"' in reason(contributed(gemm, {"x": [3, 5]}, {"w": np.ones((5, 2), np.float32)}))
    conv = node("FusedConv", "x w", activation="Erf")
    assert 'its activation is "Erf"' in reason(contributed(conv, {"x": [1, 1, 3, 3]}, {"w": floats(1, 1, 3, 3)}))
    wrong = {"w": floats(1, 1, 3, 3), "b": np.ones(1, np.int8)}
    with pytest.raises(NodeError, match="its bias must be f32"):
        load(contributed(node("FusedConv", "x w b"), {"x": [1, 1, 3, 3]}, wrong))
    with pytest.raises(NodeError, match="must fit"):
        load(contributed(node("FusedConv", "x w", activation="Clip"), {"x": [1, 1, 3, 3]}, {"w": floats(1, 1, 3, 3)}))

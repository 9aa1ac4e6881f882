"""ReLU, leaky ReLU and PReLU are named however a model writes them, and are then what the model's own operator is."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import onnxruntime as ort
import pytest
from onnx import NodeProto, TensorProto, helper, numpy_helper

import qmlir
from qmlir.backends.reference import evaluate
from qmlir.ir.signature import main_function
from qmlir.transforms.nn.simplify import simplify

SLOPES = np.array([-0.5, 0, 0.1, 0.25, 1.5], np.float32).reshape(5, 1, 1)
X = np.random.default_rng(0).normal(size=(1, 5, 4, 4)).astype(np.float32) * 3

node = helper.make_node
SPELLINGS: dict[str, Sequence[NodeProto]] = {
    "keras": [
        node("Relu", ["h"], ["above"]),
        node("Neg", ["h"], ["n"]),
        node("Relu", ["n"], ["below"]),
        node("Mul", ["below", "opposite"], ["m"]),
        node("Add", ["above", "m"], ["y"]),
    ],
    "difference": [
        node("Relu", ["h"], ["above"]),
        node("Neg", ["h"], ["n"]),
        node("Max", ["n", "zero"], ["below"]),
        node("Mul", ["slope", "below"], ["m"]),
        node("Sub", ["above", "m"], ["y"]),
    ],
    "extrema": [
        node("Max", ["h", "zero"], ["above"]),
        node("Min", ["zero", "h"], ["below"]),
        node("Mul", ["below", "slope"], ["m"]),
        node("Add", ["m", "above"], ["y"]),
    ],
    "absolute": [
        node("Abs", ["h"], ["a"]),
        node("Mul", ["a", "without"], ["m"]),
        node("Mul", ["h", "with"], ["n"]),
        node("Add", ["n", "m"], ["y"]),
    ],
    "choice": [
        node("Mul", ["h", "slope"], ["m"]),
        node("Less", ["h", "zero"], ["c"]),
        node("Where", ["c", "m", "h"], ["y"]),
    ],
}
"""Spellings of PReLU of a tensor h."""

NEAR = {
    "twice above": [node("Relu", ["h"], ["r"]), node("Add", ["r", "h"], ["y"])],
    "bends elsewhere": [node("Mul", ["h", "slope"], ["m"]), node("Max", ["m", "one"], ["y"])],
    "absolute": [node("Relu", ["h"], ["r"]), node("Add", ["r", "r"], ["s"]), node("Sub", ["s", "h"], ["y"])],
}
"""Functions that are none of these."""


def _model(nodes: Sequence[NodeProto], path: Path, slopes: np.ndarray = SLOPES) -> Path:
    """A layer, and functions of its result."""
    rng = np.random.default_rng(2)
    constants = {
        "w": rng.normal(size=(5, 5, 1, 1)).astype(np.float32),
        "slope": slopes,
        "opposite": -slopes,
        "with": (1 + slopes) / 2,
        "without": (1 - slopes) / 2,
        "zero": np.float32(0),
        "one": np.float32(1),
    }
    read = {name for each in nodes for name in each.input}
    graph = helper.make_graph(
        [node("Conv", ["x", "w"], ["h"]), *nodes],
        "hinge",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, list(X.shape))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, list(X.shape))],
        [numpy_helper.from_array(np.asarray(v, np.float32), n) for n, v in constants.items() if n in {*read, "w"}],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 16)], ir_version=8), path)
    return path


def _kinds(path: Path) -> set[str]:
    module = qmlir.load(path)
    simplify(module)
    (expected,) = ort.InferenceSession(path).run(None, {"x": X})
    (y,) = evaluate(main_function(module), [X])
    np.testing.assert_allclose(y, np.asarray(expected), rtol=1e-5, atol=1e-5)
    return {op.name for op in main_function(module).body.block.ops} - {"func.return", "nn.constant", "nn.transpose"}


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    ("slopes", "name"), [(SLOPES, "nn.prelu"), (SLOPES[3:4], "nn.leaky_relu"), (SLOPES[1:2], "nn.relu")]
)
def test_hinges_are_named(spelling: str, slopes: np.ndarray, name: str, tmp_path: Path) -> None:
    kinds = _kinds(_model(SPELLINGS[spelling], tmp_path / "net.onnx", slopes))
    assert kinds == {"nn.conv2d", name} - {"nn.relu"}  # which is fused


def test_a_leaky_relu_of_two_operators(tmp_path: Path) -> None:
    nodes = [node("Mul", ["h", "slope"], ["m"]), node("Max", ["m", "h"], ["y"])]
    assert _kinds(_model(nodes, tmp_path / "net.onnx", SLOPES[2:3])) == {"nn.conv2d", "nn.leaky_relu"}


@pytest.mark.parametrize("function", NEAR)
def test_other_functions_are_not(function: str, tmp_path: Path) -> None:
    assert not _kinds(_model(NEAR[function], tmp_path / "net.onnx", SLOPES[4:])) & {"nn.prelu", "nn.leaky_relu"}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_the_integers_are_those_of_the_operator(spelling: str, tmp_path: Path) -> None:
    data = [np.random.default_rng(i).normal(size=X.shape).astype(np.float32) for i in range(4)]
    spelled = qmlir.quantize(_model(SPELLINGS[spelling], tmp_path / "a.onnx"), data=data, measure=False)
    own = qmlir.quantize(_model([node("PRelu", ["h", "slope"], ["y"])], tmp_path / "b.onnx"), data=data, measure=False)
    for x in data:
        np.testing.assert_array_equal(qmlir.reference(spelled)(x), qmlir.reference(own)(x))

"""A batch that was symbolic in the source model is symbolic in the exported one; or a warning says why it is not."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qmlir
from qmlir.dialects.inputs import batch_symbols
from qmlir.errors import PipelineError, QmlirWarning
from qmlir.ir.facts import MIXES
from qmlir.settings.policy import Policy, rule_of
from tests.backends.onnx.runtime import SATURATING, run, session
from tests.conftest import crossed

RNG = np.random.default_rng(0)


def write(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    inputs: Mapping[str, Sequence[int | str]],
    constants: Mapping[str, Any],
    rank: int = 2,
) -> Path:
    """Writes a network of some nodes; its output is "y"."""
    given = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in inputs.items()]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, [None] * rank)
    held = [numpy_helper.from_array(np.asarray(array), name) for name, array in constants.items()]
    graph = helper.make_graph(list(nodes), "net", given, [output], held)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), str(path))
    return path


def weights(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


def images(path: Path) -> Path:
    """Convolutions, a residual sum, a concatenation, pools, factors for channels, a flattening and a dense layer."""
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["a"], "conv", pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["a"], ["r"], "relu"),
        helper.make_node("Conv", ["r", "d"], ["b"], "depthwise", pads=[1, 1, 1, 1], group=4),
        helper.make_node("Add", ["r", "b"], ["s"], "sum"),
        helper.make_node("Concat", ["s", "r"], ["c"], "concat", axis=1),
        helper.make_node("MaxPool", ["c"], ["p"], "pool", kernel_shape=[2, 2], strides=[2, 2]),
        helper.make_node("Sigmoid", ["p"], ["q"], "gate"),
        helper.make_node("GlobalAveragePool", ["p"], ["k"], "squeeze"),
        helper.make_node("Mul", ["q", "k"], ["g"], "gated"),
        helper.make_node("Mul", ["g", "p"], ["e"], "excite"),
        helper.make_node("AveragePool", ["e"], ["v"], "average", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        helper.make_node("LeakyRelu", ["v"], ["l"], "leaky", alpha=0.25),
        helper.make_node("Slice", ["l", "from", "to", "axes"], ["h"], "slice"),
        helper.make_node("Flatten", ["h"], ["f"], "flatten"),
        helper.make_node("Gemm", ["f", "m", "n"], ["z"], "dense", transB=1),
        helper.make_node("Softmax", ["z"], ["y"], "softmax"),
    ]
    constants = {
        "w": weights(4, 3, 3, 3), "d": weights(4, 1, 3, 3), "m": weights(5, 8 * 4 * 3), "n": weights(5),
        "from": np.array([0]), "to": np.array([3]), "axes": np.array([3]),
    }  # fmt: skip
    return write(path, nodes, {"x": ["N", 3, 8, 8]}, constants)


def sequence(path: Path) -> Path:
    """Attention of one head: products of computed matrices, a transposition, a mean, a normalization."""
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["k"], "keys"),
        helper.make_node("Transpose", ["k"], ["t"], "turned", perm=[0, 2, 1]),
        helper.make_node("MatMul", ["x", "t"], ["s"], "scores"),
        helper.make_node("Softmax", ["s"], ["p"], "softmax", axis=-1),
        helper.make_node("MatMul", ["p", "x"], ["o"], "mixed"),
        helper.make_node("Add", ["o", "x"], ["r"], "residual"),
        helper.make_node("LayerNormalization", ["r", "one", "zero"], ["l"], "norm", axis=-1),
        helper.make_node("ReduceMean", ["l"], ["y"], "mean", axes=[1], keepdims=0),
    ]
    constants = {"w": weights(6, 6), "one": np.ones(6, np.float32), "zero": np.zeros(6, np.float32)}
    return write(path, nodes, {"x": ["batch", 5, 6]}, constants)


OF_FORMAT = {
    "float": {"Conv", "Gemm"},
    "onnx-qdq": {"Conv", "Gemm", "QuantizeLinear", "DequantizeLinear"},
    "onnx-qoperator": {
        *("QLinearConv", "QGemm", "QLinearAdd", "QLinearMul", "QLinearSigmoid", "QLinearLeakyRelu", "QLinearSoftmax"),
        *("QLinearAveragePool", "QLinearGlobalAveragePool"),
    },
    "onnx-integer": {"ConvInteger", "MatMulInteger", "Gather", "Less", "Where", "Sign", "Div", "ReduceSum"},
}  # fmt: skip
"""Format → operators that a file of `images` has in it."""


def dims(path: Path) -> list[list[int | str]]:
    """The sizes and symbols of inputs and outputs."""
    graph = onnx.load(str(path)).graph
    return [
        [d.dim_param or d.dim_value for d in info.type.tensor_type.shape.dim] for info in (*graph.input, *graph.output)
    ]


@SATURATING
@crossed(
    {
        "make, shape": [(images, (3, 8, 8)), (sequence, (5, 6))],
        "form": ["float", "onnx-qdq", "onnx-qoperator", "onnx-integer"],
    }
)
def test_a_batch_gives_what_its_samples_give(make: Any, shape: tuple[int, ...], form: str, tmp_path: Path) -> None:
    source = make(tmp_path / "source.onnx")
    module = qmlir.load(source)
    symbol = dims(source)[0][0]
    assert batch_symbols(module) == {"x": symbol}
    x = RNG.normal(size=(3, *shape)).astype(np.float32)
    if form != "float":
        # onnx-integer has no form of an integer layer normalization
        rules = [rule_of("kind=layer_norm keep-float=true")] if form == "onnx-integer" and make is sequence else []
        module = qmlir.quantize(module, data=[sample[None] for sample in x], policy=Policy(rules=rules))
        qmlir.save(module, tmp_path / "q.mlir")
        module = qmlir.load(tmp_path / "q.mlir")
    qmlir.export(module, tmp_path / "e.onnx", format=None if form == "float" else form)
    assert [shape[0] for shape in dims(tmp_path / "e.onnx")] == [symbol, symbol]
    onnx.checker.check_model(str(tmp_path / "e.onnx"), full_check=True)
    graph = onnx.load(str(tmp_path / "e.onnx")).graph
    if make is images:
        assert OF_FORMAT[form] <= {node.op_type for node in graph.node}
    elif form == "onnx-qoperator":
        assert "QLinearMatMul" in {node.op_type for node in graph.node}
    assert {t.name for t in graph.initializer} <= {name for node in graph.node for name in node.input}
    (whole,) = run(tmp_path / "e.onnx", [x])
    alone = np.concatenate([run(tmp_path / "e.onnx", [sample[None]])[0] for sample in x])
    np.testing.assert_allclose(whole, alone, rtol=1e-5, atol=1e-6)
    if form == "float":
        loaded = session(source)
        np.testing.assert_allclose(whole, np.asarray(loaded.run(None, {"x": x})[0]), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        ([helper.make_node("Softmax", ["x"], ["y"], "across", axis=0)], 'Softmax "across": it works across samples'),
        ([helper.make_node("ReduceSum", ["x", "first"], ["y"], "total")], 'ReduceSum "total": it works across samples'),
        ([helper.make_node("MatMul", ["square", "x"], ["y"], "mixing")], "it sums over samples"),
        ([helper.make_node("Concat", ["x", "row"], ["y"], "joined", axis=0)], "what is the same for all"),
        ([helper.make_node("Reshape", ["x", "flat"], ["y"], "flat")], "no samples along its first axis"),
        ([helper.make_node("CumSum", ["x", "zero"], ["y"], "running")], "it works across samples"),
        ([helper.make_node("Transpose", ["x"], ["y"], "turned", perm=[1, 0])], "no samples along its first axis"),
        ([helper.make_node("Mul", ["row", "row"], ["y"], "fixed")], "no samples along its first axis"),
    ],
)
def test_who_mixes_samples_is_named(nodes: list[onnx.NodeProto], reason: str, tmp_path: Path) -> None:
    constants = {
        "first": np.array([0]), "zero": np.array(0), "square": np.ones((1, 1), np.float32), "row": weights(1, 4),
        "flat": np.array([2, 2]),
    }  # fmt: skip
    source = write(tmp_path / "source.onnx", nodes, {"x": ["N", 4]}, constants)
    module = qmlir.load(source)
    MIXES.drop(module)  # by which the import names operations that are gone on one sample
    with pytest.warns(QmlirWarning, match=f"the batch of .* stays 1, not N: .*{reason}"):
        qmlir.export(module, tmp_path / "e.onnx")
    assert dims(tmp_path / "e.onnx")[0][0] == 1


def test_what_is_bound_stays_bound(tmp_path: Path) -> None:
    module = qmlir.load(images(tmp_path / "source.onnx"), bind={"N": 2})
    assert batch_symbols(module) == {}
    qmlir.export(module, tmp_path / "e.onnx")
    assert [shape[0] for shape in dims(tmp_path / "e.onnx")] == [2, 2]


def test_two_symbols(tmp_path: Path) -> None:
    nodes = [helper.make_node("Add", ["a", "b"], ["y"], "sum")]
    source = write(tmp_path / "source.onnx", nodes, {"a": ["N", 4], "b": ["M", 4]}, {})
    with pytest.warns(QmlirWarning, match="the inputs have several symbols: N, M"):
        qmlir.export(qmlir.load(source), tmp_path / "e.onnx")


def test_an_attribute_that_is_none(tmp_path: Path) -> None:
    text = 'module attributes {qmlir.batch = "N"} { func.func @main(%x: tensor<1xf32>) -> tensor<1xf32> '
    text += "{ %y = nn.relu %x : tensor<1xf32> -> tensor<1xf32> func.return %y : tensor<1xf32> } }"
    (tmp_path / "m.mlir").write_text(text)
    with pytest.raises(PipelineError, match=r'must have symbols by input as qmlir.batch, got "N"; remove it'):
        qmlir.export(qmlir.load(tmp_path / "m.mlir"), tmp_path / "e.onnx")

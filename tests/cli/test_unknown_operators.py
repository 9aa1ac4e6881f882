"""Operators that qmlir does not know, in the middle of a network: every command says which, in one error."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import qmlir
from qmlir.cli import opt
from qmlir.errors import QmlirError
from tests.cli.small import run


@pytest.fixture
def model(tmp_path: Path) -> Path:
    """Convolutions around operators of another domain, of whose results no shape is known."""
    nodes = [
        helper.make_node("Conv", ["x", "k"], ["a"], "conv1", pads=[1] * 4),
        helper.make_node("Foo", ["a"], ["b"], "foo", domain="my.domain"),
        helper.make_node("Relu", ["b"], ["c"], "relu"),
        helper.make_node("Conv", ["c", "k"], ["d"], "conv2", pads=[1] * 4),
        helper.make_node("Bar", ["d"], ["e"], "bar", domain="my.domain"),
        helper.make_node("Add", ["e", "x"], ["y"], "add"),
    ]
    image = [1, 4, 8, 8]
    graph = helper.make_graph(
        nodes,
        "custom",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, image)],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, image)],
        [numpy_helper.from_array(np.ones((4, 4, 3, 3), np.float32), "k")],
    )
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my.domain", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), tmp_path / "net.onnx")
    np.savez(tmp_path / "x.npz", x=np.ones((2, *image[1:]), np.float32))
    return tmp_path / "net.onnx"


COMMANDS = [
    "import {m} -o {d}/net.mlir",
    "import --raw {m} -o {d}/net.mlir",
    "profile {m} --data {d}/x.npz -o {d}/net.yaml",
    "quantize {m} --data {d}/x.npz -o {d}/int8.mlir",
    "quantize {m} -o {d}/int8.mlir",
    "run {m} --data {d}/x.npz",
    "run {m} --reference --data {d}/x.npz",
    "run {m} --target nmp --data {d}/x.npz",
    "compile {m} -o {d}/net.o",
    "compile {m} --target nmp -o {d}/net.npu",
    "export {m} -o {d}/out.onnx",
    "export {m} --format=onnx-integer -o {d}/out.onnx",
    "export {m} --format=tflite -o {d}/out.tflite",
    "analyze {m} {m} --data {d}/x.npz",
    "device check nmp {m}",
]


@pytest.mark.parametrize("command", COMMANDS)
def test_each_command_lists_the_operators(command: str, model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = sorted(model.parent.iterdir())
    assert run(*command.format(m=model, d=model.parent).split()) == 1
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert f"error: {model}: every operation must be one that qmlir knows, got 2 that are not" in error
    assert '1 x my.domain.Foo ("foo"): qmlir knows no my.domain.Foo' in error
    assert '1 x my.domain.Bar ("bar"): qmlir knows no my.domain.Bar' in error
    assert "and 3 after them whose shapes are not known for that" in error
    assert sorted(model.parent.iterdir()) == before


def test_passes_leave_them_alone(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for flag in ("--simplify", "--insert-observers", "--fold-qdq", "--nn-to-qint"):
        assert opt.main([flag, "--elide-weights", str(model)]) == 0
        assert capsys.readouterr().out.count("qmlir.opaque") == 5


ENDS = {
    "no shape": helper.make_tensor_value_info("y", TensorProto.FLOAT, None),
    "a symbol": helper.make_tensor_value_info("y", TensorProto.FLOAT, ["n", 8]),
    "no type": onnx.ValueInfoProto(name="y"),
    "a text": helper.make_tensor_value_info("y", TensorProto.STRING, [1]),
    "a sequence": helper.make_tensor_sequence_value_info("y", TensorProto.FLOAT, None),
    "a map": helper.make_value_info("y", helper.make_map_type_proto(
        TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, [])
    )),
}  # fmt: skip
"""What a file says of a result that an unknown operator computes."""

PLACES = {
    "last": (["Gemm h0 a", "Foo a y"], 1, 0),
    "first": (["Foo h0 a", "Gemm a y"], 1, 1),
    "several": (["Foo h0 a", "Foo a b", "Gemm b y"], 2, 1),
    "several results": (["Gemm h0 a", "Foo a y z"], 1, 0),
    "several that meet": (["Gemm h0 a", "Foo a b c", "Add b+c y"], 1, 1),
    "no operands": (["Gemm h0 a", "Foo  b", "Add a+b y"], 1, 1),
    "beside a known result": (["Gemm h0 z", "Foo z y"], 1, 0),
}
"""Operators with their inputs and outputs; how many of them are unknown, and how many follow these."""


def ended(file: Path, place: str = "last", end: str = "no shape") -> Path:
    """A network with unknown operators in some places, whose results the file describes in some way."""
    nodes: list[onnx.NodeProto] = []
    for text in PLACES[place][0]:
        kind, read, *made = text.split(" ")
        inputs = [name for name in read.split("+") if name] + ["k"] * (kind == "Gemm")
        nodes.append(helper.make_node(kind, inputs, made, made[0], domain="my.domain" if kind == "Foo" else ""))
    outputs = [ENDS[end]]
    if any("z" in node.output for node in nodes):
        outputs.append(helper.make_tensor_value_info("z", TensorProto.FLOAT, None))
    argument = helper.make_tensor_value_info("h0", TensorProto.FLOAT, [1, 8])
    weights = numpy_helper.from_array(np.ones((8, 8), np.float32), "k")
    graph = helper.make_graph(nodes, "ended", [argument], outputs, [weights])
    opsets = [helper.make_opsetid("", 18), helper.make_opsetid("my.domain", 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=9), file)
    return file


@pytest.mark.parametrize("command", ["quantize {m} -o {d}/int8.mlir", "import {m} -o {d}/net.mlir"])
@pytest.mark.parametrize(
    ("place", "end"), [*((place, "no shape") for place in PLACES), *(("last", end) for end in ENDS)]
)
def test_results_of_unknown_type(
    command: str, place: str, end: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    model = ended(tmp_path / "net.onnx", place, end)
    assert run(*command.format(m=model, d=tmp_path).split()) == 1
    error, (_, unknown, after) = capsys.readouterr().err, PLACES[place]
    assert error.count("\n") == 1
    assert f"every operation must be one that qmlir knows, got {unknown} that" in error
    assert f"{unknown} x my.domain.Foo" in error
    assert (f"and {after} after" in error) == bool(after)
    assert list(tmp_path.iterdir()) == [model]


def test_a_network_of_unknown_results_is_summarized(tmp_path: Path) -> None:
    text = str(qmlir.summary(ended(tmp_path / "net.onnx")))
    assert text.startswith("(tensor<1x8xf32>) -> tensor<*xf32>; 2 operations")
    assert "qmlir.opaque" in text


@pytest.mark.parametrize("end", ENDS)
def test_samples_are_not_read_for_results_of_unknown_type(end: str, tmp_path: Path) -> None:
    np.savez(tmp_path / "x.npz", h0=np.ones((2, 8), np.float32))
    with pytest.raises(QmlirError, match='output "y" of the network: must be a tensor of numbers with a known shape'):
        qmlir.read_samples(tmp_path / "x.npz", ended(tmp_path / "net.onnx", end=end))

"""Operators that qmlir does not know, in the middle of a network: every command says which, in one error."""

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from qmlir.cli import opt
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

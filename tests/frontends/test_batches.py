"""Models whose batch is dynamic: which of them keep samples apart, and what the import says of those that do not."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper

import qmlir
from qmlir.dialects.inputs import InputNotes
from qmlir.errors import QmlirWarning, UnsupportedError
from tests.backends.onnx.runtime import session
from tests.backends.onnx.test_batch import write

CONSTANTS: dict[str, Any] = {
    "first": np.array([0]), "second": np.array([1]), "row": np.ones((1, 3), np.float32),
    "three": np.array([3]),
}  # fmt: skip


def loaded(nodes: list[onnx.NodeProto], path: Path) -> Path:
    return write(path / "net.onnx", nodes, {"x": ["N", 4]}, CONSTANTS)


@pytest.mark.parametrize(
    ("nodes", "reason"),
    [
        (
            [helper.make_node("ReduceSum", ["x", "first"], ["s"], "total"), helper.make_node("Sub", ["x", "s"], ["y"])],
            r'nn.reduce_sum "total": must keep the samples of a batch apart, but works along the axis',
        ),
        (
            [
                helper.make_node("ReduceMean", ["x"], ["s"], "mean", axes=[0]),
                helper.make_node("Sub", ["x", "s"], ["y"]),
            ],
            r'"mean": must keep the samples of a batch apart, but works along the axis',
        ),
        (
            [helper.make_node("Gather", ["x", "first"], ["s"], "begin"), helper.make_node("Sub", ["x", "s"], ["y"])],
            r'nn.slice "begin": must keep the samples of a batch apart, but works along the axis',
        ),
        (
            [helper.make_node("Slice", ["x", "first", "second", "first"], ["y"], "one")],
            r'nn.slice "one": must keep the samples of a batch apart, but works along the axis',
        ),
    ],
)
def test_operations_on_the_batch_that_do_nothing_on_one_sample(
    nodes: list[onnx.NodeProto], reason: str, tmp_path: Path
) -> None:
    module = qmlir.load(loaded(nodes, tmp_path))
    x = np.arange(4, dtype=np.float32)[None]
    qmlir.compile(module)(x)  # one sample is what it always was
    with pytest.raises(UnsupportedError, match=reason):
        qmlir.compile(module, batch=2)
    qmlir.save(module, tmp_path / "net.mlir")
    with pytest.raises(UnsupportedError, match=reason):
        qmlir.compile(tmp_path / "net.mlir", batch=2)
    with pytest.warns(QmlirWarning, match="the batch of .* stays 1, not N"):
        qmlir.export(module, tmp_path / "again.onnx")
    with pytest.warns(QmlirWarning, match="the batch of .* stays 1, not N"):
        qmlir.export(module, tmp_path / "again.tflite")


def test_what_is_made_for_each_sample_is_a_constant(tmp_path: Path) -> None:
    """As a token that stands in front of each sequence."""
    nodes = [
        helper.make_node("Shape", ["x"], ["all"], end=1), helper.make_node("Concat", ["all", "three"], ["s"], axis=0),
        helper.make_node("Expand", ["row", "s"], ["e"]), helper.make_node("Concat", ["e", "x"], ["y"], axis=1),
    ]  # fmt: skip
    path = loaded(nodes, tmp_path)
    assert InputNotes.of(qmlir.load(path)).mixes == ""
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.testing.assert_array_equal(qmlir.compile(path, batch=3)(x), session(path).run(None, {"x": x})[0])


def test_a_model_that_holds_for_one_sample_only_has_no_other_meaning(tmp_path: Path) -> None:
    """Its batch is symbolic, but it adds a row for one sample to a reshaped one."""
    constants = CONSTANTS | {"shape": np.array([1, 4]), "w": np.ones((4, 2), np.float32)}
    nodes = [
        helper.make_node("Reshape", ["x", "shape"], ["r"], "reshape"),
        helper.make_node("MatMul", ["r", "w"], ["y"], "product"),
    ]
    path = write(tmp_path / "net.onnx", nodes, {"x": ["N", 4]}, constants)
    assert InputNotes.of(qmlir.load(path)).mixes == ""
    x = np.arange(8, dtype=np.float32).reshape(2, 4)
    np.testing.assert_array_equal(qmlir.compile(path, batch=2)(x), x.sum(1, keepdims=True).repeat(2, 1))

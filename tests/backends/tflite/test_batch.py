"""A batch that was dynamic in the source model is dynamic in an exported TFLite file; or a warning says why not."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tflite
from ai_edge_litert.interpreter import Interpreter, OpResolverType
from onnx import helper

import qmlir
from qmlir.dialects.inputs import batch_symbols
from qmlir.errors import QmlirWarning
from tests.backends.onnx.test_batch import images, sequence, weights, write
from tests.conftest import crossed

schema: Any = tflite


def run(path: Path, x: Any, *, reference: bool) -> Any:
    """The output of LiteRT for a batch."""
    resolver = OpResolverType.BUILTIN_REF if reference else OpResolverType.AUTO
    interpreter = Interpreter(model_path=str(path), experimental_op_resolver_type=resolver)
    (detail,) = interpreter.get_input_details()
    interpreter.resize_tensor_input(detail["index"], x.shape, strict=True)  # refuses sizes that are not open
    interpreter.allocate_tensors()
    interpreter.set_tensor(detail["index"], x)
    interpreter.invoke()
    return interpreter.get_tensor(interpreter.get_output_details()[0]["index"]).copy()


def signatures(path: Path) -> list[list[int]]:
    """The shapes of inputs and outputs, with -1 for sizes that are open."""
    graph = schema.Model.GetRootAs(path.read_bytes()).Subgraphs(0)
    found: list[list[int]] = []
    for i in (*graph.InputsAsNumpy(), *graph.OutputsAsNumpy()):
        tensor = graph.Tensors(int(i))
        given = tensor.ShapeSignatureAsNumpy() if tensor.ShapeSignatureLength() else tensor.ShapeAsNumpy()
        found.append([int(n) for n in given])
    return found


@pytest.mark.slow
@crossed({"make, shape": [(images, (3, 8, 8)), (sequence, (5, 6))], "quantized": [False, True]})
def test_a_batch_gives_what_its_samples_give(
    make: Any, shape: tuple[int, ...], quantized: bool, tmp_path: Path
) -> None:
    x = np.random.default_rng(0).normal(size=(5, *shape)).astype(np.float32)
    module = qmlir.load(make(tmp_path / "source.onnx"))
    if quantized:
        module = qmlir.quantize(module, data=[sample[None] for sample in x])
    qmlir.export(module, path := tmp_path / "net.tflite")
    inputs, outputs = signatures(path)
    assert inputs == [-1, *shape]
    assert outputs[0] == -1
    for reference in (True, False):
        alone = np.concatenate([run(path, sample[None], reference=reference) for sample in x])
        for count in (1, 2, 5):
            np.testing.assert_array_equal(run(path, x[:count], reference=reference), alone[:count], strict=True)
    again = qmlir.load(path)
    assert batch_symbols(again) == {"x": "batch"}
    np.testing.assert_array_equal(
        qmlir.compile(again, batch=5)(x), np.concatenate([qmlir.compile(again)(s[None]) for s in x])
    )
    qmlir.export(again, tmp_path / "again.tflite")
    assert signatures(tmp_path / "again.tflite") == [inputs, outputs]


def test_a_network_that_mixes_samples_keeps_its_batch(tmp_path: Path) -> None:
    nodes = [helper.make_node("Softmax", ["x"], ["y"], "across", axis=0)]
    source = write(tmp_path / "source.onnx", nodes, {"x": ["N", 4]}, {})
    with pytest.warns(QmlirWarning, match='the batch of .* stays 1, not N: nn.softmax "across": must keep'):
        qmlir.export(source, tmp_path / "net.tflite")
    assert signatures(tmp_path / "net.tflite") == [[1, 4], [1, 4]]


def test_an_operator_that_needs_the_size_of_the_batch(tmp_path: Path) -> None:
    """LiteRT's BROADCAST_TO has no spelling for "what is left"."""
    nodes = [
        helper.make_node("Expand", ["x", "shape"], ["e"], "wide"),
        helper.make_node("Add", ["e", "w"], ["y"], "sum"),
    ]
    constants = {"shape": np.array([1, 3, 4]), "w": weights(3, 4)}
    source = write(tmp_path / "source.onnx", nodes, {"x": ["N", 1, 4]}, constants, rank=3)
    with pytest.warns(QmlirWarning, match="stays 1, not N: BROADCAST_TO has sizes of the batch in a constant"):
        qmlir.export(source, tmp_path / "net.tflite")
    assert signatures(tmp_path / "net.tflite") == [[1, 1, 4], [1, 3, 4]]


def test_slices_take_what_is_left(tmp_path: Path) -> None:
    nodes = [helper.make_node("Slice", ["x", "from", "to", "axes"], ["y"], "slice")]
    constants = {"from": np.array([1]), "to": np.array([3]), "axes": np.array([1])}
    source = write(tmp_path / "source.onnx", nodes, {"x": ["N", 4]}, constants)
    qmlir.export(source, tmp_path / "net.tflite")
    x = weights(3, 4)
    np.testing.assert_array_equal(run(tmp_path / "net.tflite", x, reference=True), x[:, 1:3])


def test_what_has_no_symbol_stays_fixed(tmp_path: Path) -> None:
    qmlir.export(qmlir.load(sequence(tmp_path / "source.onnx"), bind={"batch": 2}), tmp_path / "net.tflite")
    assert signatures(tmp_path / "net.tflite") == [[2, 5, 6], [2, 6]]

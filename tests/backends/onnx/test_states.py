"""States in .onnx files: what the importer reads again, what another runtime passes on, and damaged metadata."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.errors import FileError
from qmlir.formats.onnx_states import STATES
from qmlir.ir.context import make_context
from qmlir.ir.signature import main_function, signature_of
from qmlir.ir.source import parse_text
from qmlir.ir.states import StateAttr, set_state
from tests.conftest import crossed

RANDOM = np.random.default_rng(0)
X = [RANDOM.uniform(-1, 1, (1, 4)).astype(np.float32) for _ in range(8)]
RESETS = {
    "one number": np.array(0.25, np.float32),
    "an array": np.array([[0.5, -1.5, 0.1, 3e-30]], np.float32),
    "0": np.array(0, np.float32),
}


TEXT = """
func.func @main(%x: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>},
    %s: tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["s"]>, qmlir.state = #qmlir.state<0>})
    -> (tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["next"]>},
        tensor<1x4xf32> {qmlir.name = #qmlir.name<tensors ["y"]>}) {
  %n = nn.add %s, %x {min = -2.0 : f32, max = 2.0 : f32} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  %y = nn.relu %n : tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %n, %y : tensor<1x4xf32>, tensor<1x4xf32>
}
"""


def running_sum(reset: np.ndarray) -> ModuleOp:
    """The positive parts of a running sum that begins at `reset`."""
    module = parse_text(make_context(), TEXT, "sum.mlir")
    set_state(main_function(module), 1, StateAttr.of(0, reset))
    return module


def quantized(reset: np.ndarray) -> ModuleOp:
    return qmlir.quantize(running_sum(reset), data=[X])


def same(made: ModuleOp, read: ModuleOp) -> None:
    """Checks that two networks have the same states and outputs."""
    ours, theirs = (signature_of(main_function(m)) for m in (made, read))
    assert [s.argument.name for s in ours.states] == [s.argument.name for s in theirs.states] == ["s"]
    np.testing.assert_array_equal(ours.states[0].reset, theirs.states[0].reset)
    wanted, found = qmlir.reference(made), qmlir.reference(read)
    for x in X:
        np.testing.assert_array_equal(found(x), wanted(x))


@pytest.mark.parametrize("reset", RESETS)
def test_a_float_network_is_read_with_its_states(reset: str, tmp_path: Path) -> None:
    made = running_sum(RESETS[reset])
    qmlir.export(made, tmp_path / "sum.onnx")
    same(made, qmlir.load(tmp_path / "sum.onnx"))
    same(made, qmlir.load(tmp_path / "sum.onnx", state={"s": "next"}))


@crossed({"reset": RESETS, "format": ["onnx-qdq", "onnx-qoperator", "onnx-integer"]})
def test_a_quantized_network_is_read_with_its_states(format: str, reset: str, tmp_path: Path) -> None:
    made = quantized(RESETS[reset])
    assert signature_of(main_function(made)).states[0].reset.dtype == np.int8
    qmlir.export(made, tmp_path / "sum.onnx", format=format, activations="kept")
    same(made, qmlir.load(tmp_path / "sum.onnx"))


def test_a_program_around_onnxruntime_finds_the_reset_value(tmp_path: Path) -> None:
    made = quantized(RESETS["an array"])
    qmlir.export(made, tmp_path / "sum.onnx", format="onnx-integer")
    session = onnxruntime.InferenceSession(tmp_path / "sum.onnx")
    ((name, kept),) = json.loads(session.get_modelmeta().custom_metadata_map[STATES]).items()
    state, reference = np.array(kept["reset"], np.int8).reshape(1, 4), qmlir.reference(made)
    for x in X:
        state, y = session.run([kept["next"], "y"], {"x": x, name: state})
        np.testing.assert_array_equal(y, reference(x))


def test_a_part_of_the_network_may_leave_the_state_out(tmp_path: Path) -> None:
    qmlir.export(running_sum(RESETS["an array"]), tmp_path / "sum.onnx")
    assert not signature_of(main_function(qmlir.load(tmp_path / "sum.onnx", outputs=["y"]))).states
    module = qmlir.load(tmp_path / "sum.onnx", constants={"s": np.zeros((1, 4), np.float32)})
    assert not signature_of(main_function(module)).states


@pytest.mark.parametrize(
    ("metadata", "got"),
    [
        ("[", "Expecting value"),
        ("[]", "no object of names"),
        ('{"s": 1}', 'no output "next" of "s"'),
        ('{"s": {"next": "next", "reset": "0"}}', 'something else than numbers as "reset" of "s"'),
        ('{"s": {"next": "next", "reset": [1, 2]}}', "cannot reshape array of size 2"),
        ('{"t": {"next": "next"}}', '"t", which is no input of the file'),
        ('{"s": {"next": "z"}}', '"z", which is no output of the file'),
    ],
)
def test_damaged_metadata(metadata: str, got: str, tmp_path: Path) -> None:
    _check_damage(running_sum(RESETS["0"]), metadata, got, tmp_path)


@pytest.mark.parametrize("number", [200, 1.5, 10**30])
def test_a_number_that_does_not_fit(number: Any, tmp_path: Path) -> None:
    metadata = json.dumps({"s": {"next": "next", "reset": number}})
    _check_damage(quantized(RESETS["0"]), metadata, "int8", tmp_path)


def _check_damage(module: ModuleOp, metadata: str, got: str, tmp_path: Path) -> None:
    qmlir.export(module, tmp_path / "sum.onnx", activations="kept")
    model = onnx.load(tmp_path / "sum.onnx")
    onnx.helper.set_model_props(model, {STATES: metadata})
    onnx.save(model, tmp_path / "sum.onnx")
    with pytest.raises(FileError, match=STATES) as caught:
        qmlir.load(tmp_path / "sum.onnx")
    assert got in str(caught.value)
    assert "or remove" in str(caught.value)
    onnx.helper.set_model_props(model, {})
    onnx.save(model, tmp_path / "sum.onnx")
    network = qmlir.load(tmp_path / "sum.onnx", state={"s": "next"})
    assert len(signature_of(main_function(network)).states) == 1

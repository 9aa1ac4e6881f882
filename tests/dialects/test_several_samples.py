"""Attention that puts positions before samples, and merges samples with heads, keeps the batch through every stage."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import helper

import qmlir
from qmlir.dialects.batches import with_batch
from qmlir.dialects.inputs import batch_size, batch_symbols, mixes_samples
from qmlir.errors import ProfileError, UnsupportedError
from qmlir.frontends.onnx import load_onnx
from qmlir.ir.interfaces import Array
from qmlir.ir.signature import main_function
from tests.frontends.onnx.agreement import FLOAT, floats, model, node
from tests.frontends.tflite.files import interpreter, run

SAMPLES = [floats(1, 6, 8, seed=seed) for seed in range(8)]
BATCH = np.concatenate(SAMPLES)

WEIGHTS = {
    "w": 0.4 * floats(8, 24, seed=20), "o": 0.4 * floats(8, 8, seed=21), "b": 0.1 * floats(8, seed=22),
    **{f"i{n}": np.array(n) for n in range(3)}, "lead": np.array([0]), "squeezed": np.array([-2]),
    "three": np.array([6, -1, 3, 8]), "heads": np.array([6, -1, 4]), "rows": np.array([-1, 8]),
    "positions": np.array([6, -1, 8]), "root": np.array(0.5, np.float32),
}  # fmt: skip


def attention() -> onnx.ModelProto:
    """As `torch.nn.TransformerEncoderLayer` computes it: [n, 6, 8] → [6, n, 8] → [6, 2n, 4] → … → [n, 6, 8]."""
    make = helper.make_node
    nodes = [
        make("Transpose", ["x"], ["t"], perm=[1, 0, 2]), node("MatMul", "t w", "m"), node("Reshape", "m three", "f"),
        node("Unsqueeze", "f lead", "u"), make("Transpose", ["u"], ["v"], perm=[3, 1, 2, 0, 4]),
        node("Squeeze", "v squeezed", "s"),
    ]  # fmt: skip
    for part, name in enumerate("qkv"):
        nodes.append(make("Gather", ["s", f"i{part}"], [f"{name}1"], axis=0))
        nodes.append(node("Reshape", f"{name}1 heads", f"{name}2"))
        nodes.append(make("Transpose", [f"{name}2"], [f"{name}3"], perm=[1, 0, 2]))
    nodes += [
        node("Mul", "q3 root", "q4"), make("Transpose", ["k3"], ["k4"], perm=[0, 2, 1]), node("MatMul", "q4 k4", "a"),
        make("Softmax", ["a"], ["p"], axis=-1), node("MatMul", "p v3", "c"),
        make("Transpose", ["c"], ["d"], perm=[1, 0, 2]), node("Reshape", "d rows", "e"), node("Gemm", "e o b", "g"),
        node("Reshape", "g positions", "h"), make("Transpose", ["h"], ["r"], perm=[1, 0, 2]), node("Add", "x r", "y"),
    ]  # fmt: skip
    proto = model(nodes, {"x": ["batch", 6, 8]}, WEIGHTS)
    proto.graph.output[0].CopyFrom(helper.make_tensor_value_info("y", FLOAT, ["batch", 6, 8]))
    return proto


def each(network: Any) -> Array:
    reference = qmlir.reference(network)
    return np.concatenate([np.asarray(reference(x)) for x in SAMPLES])


def test_the_import_knows_that_samples_stay_apart() -> None:
    network = load_onnx(attention())
    assert (batch_symbols(network), mixes_samples(network)) == ({"x": "batch"}, "")
    session = onnxruntime.InferenceSession(attention().SerializeToString())
    expected = np.asarray(session.run(None, {"x": BATCH})[0])
    np.testing.assert_allclose(each(network), expected, rtol=1e-5, atol=1e-5)
    simplified = qmlir.Pipeline("simplify")(network)
    assert str(qmlir.Pipeline("simplify")(simplified)) == str(simplified)
    longer, function = with_batch(simplified, main_function(simplified), 8)
    np.testing.assert_allclose(qmlir.reference(longer)(BATCH), expected, rtol=1e-5, atol=1e-5)
    shorter, _ = with_batch(longer, function, 1, before=8)
    np.testing.assert_array_equal(each(shorter), each(simplified))


@pytest.mark.slow
def test_a_batch_of_code_has_the_bits_of_single_calls() -> None:
    quantized = qmlir.quantize(load_onnx(attention()), data=SAMPLES)
    assert {entry.outcome for entry in qmlir.decisions(quantized)} == {"quantized"}
    np.testing.assert_array_equal(qmlir.compile(quantized, batch=8)(BATCH), each(quantized))


def test_exported_files_have_the_batch_again(tmp_path: Path) -> None:
    # TFLite has no layer of 8 bits whose result has 16, as query and key have by default.
    quantized = qmlir.quantize(load_onnx(attention()), data=SAMPLES, residuals="same", attention="stored")
    expected = each(quantized)
    qmlir.export(quantized, tmp_path / "net.onnx", activations="kept")
    session = onnxruntime.InferenceSession(tmp_path / "net.onnx")
    got = np.asarray(session.run(None, {"x": BATCH})[0])
    step = np.abs(expected).max() / 127
    assert np.abs(got - expected).max() <= 2 * step
    qmlir.export(quantized, tmp_path / "net.tflite")
    made = interpreter(str(tmp_path / "net.tflite"), "litert-reference")
    made.resize_tensor_input(made.get_input_details()[0]["index"], [8, 6, 8])
    made.allocate_tensors()
    assert np.abs(run(made, [BATCH])[0] - expected).max() <= 2 * step


@pytest.mark.slow
def test_a_profile_does_not_depend_on_the_batch() -> None:
    one, eight = load_onnx(attention()), load_onnx(attention(), bind={"batch": 8})
    assert (batch_size(one), batch_size(eight)) == (1, 8)
    profiles = [qmlir.profile(one, SAMPLES), qmlir.profile(eight, [BATCH])]
    (left, right) = ({n: (t.key, t.shape) for n, t in profile.tensors.items()} for profile in profiles)
    assert left == right
    for profile in profiles:
        expected = each(qmlir.quantize(one, profile))
        np.testing.assert_array_equal(qmlir.reference(qmlir.quantize(eight, profile))(BATCH), expected)
    other = load_onnx(model(node("Relu", "x"), {"x": ["batch", 6, 8]}), bind={"batch": 8})
    with pytest.raises(ProfileError):
        qmlir.quantize(other, profiles[0])


def test_a_token_that_all_samples_share_is_repeated() -> None:
    """A class token in front of the positions: simplifying comes to an end, and the batch stays."""
    make = helper.make_node
    nodes = [
        node("Shape", "x", "size"), make("Gather", ["size", "i0"], ["n"], axis=0), node("Unsqueeze", "n lead", "m"),
        make("Concat", ["m", "rest"], ["to"], axis=0), node("Expand", "token to", "tokens"),
        make("Concat", ["tokens", "x"], ["c"], axis=1), make("Transpose", ["c"], ["t"], perm=[1, 0, 2]),
        node("Reshape", "t rows", "r"), node("Gemm", "r o b", "g"), node("Reshape", "g seven", "h"),
        make("Transpose", ["h"], ["y"], perm=[1, 0, 2]),
    ]  # fmt: skip
    constants = {name: WEIGHTS[name] for name in ("i0", "lead", "rows", "o", "b")}
    constants |= {"rest": np.array([1, 8]), "token": floats(1, 1, 8), "seven": np.array([7, -1, 8])}
    network = load_onnx(model(nodes, {"x": ["batch", 6, 8]}, constants))
    quantized = qmlir.quantize(network, data=SAMPLES)
    np.testing.assert_array_equal(qmlir.compile(quantized, batch=8)(BATCH), each(quantized))


@pytest.mark.slow
def test_a_device_takes_one_sample() -> None:
    """What moves the samples only is a reshape there."""
    quantized = qmlir.quantize(load_onnx(attention()), data=SAMPLES, target="nmp")
    plain = qmlir.quantize(load_onnx(attention()), data=SAMPLES)
    transposes = [sum(op.name == "nn.transpose" for op in network.walk()) for network in (quantized, plain)]
    assert transposes[0] < transposes[1]
    np.testing.assert_array_equal(
        qmlir.compile(quantized, target="nmp")(SAMPLES[0]), qmlir.reference(quantized)(SAMPLES[0])
    )


def test_what_mixes_samples_is_named() -> None:
    """Positions before samples, and a softmax over both."""
    nodes = [helper.make_node("Transpose", ["x"], ["t"], perm=[1, 0, 2]), node("Reshape", "t rows", "r"),
             helper.make_node("Softmax", ["r"], ["s"], axis=0), node("Reshape", "s positions", "h"),
             helper.make_node("Transpose", ["h"], ["y"], perm=[1, 0, 2])]  # fmt: skip
    network = load_onnx(model(nodes, {"x": ["batch", 6, 8]}, {n: WEIGHTS[n] for n in ("rows", "positions")}))
    assert "works along the axis on which the samples lie" in mixes_samples(network)
    with pytest.raises(UnsupportedError, match="works along the axis"):
        qmlir.compile(network, batch=2)

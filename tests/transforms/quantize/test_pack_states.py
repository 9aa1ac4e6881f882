"""`cache_precision=int4`: caches hold two quotients a byte, and a magnitude for each row."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import qmlir
from qmlir.cli.main import main
from qmlir.dialects.nn import HadamardOp, MatMulOp
from qmlir.ir.facts import ROTATED, ROTATION
from qmlir.numerics.schemas import QuantizationError
from tests.transforms.quantize.llama import STATES, llama
from tests.transforms.quantize.llama import sequence as texts
from tests.transforms.quantize.test_divide_states import (
    DEPTH,
    HEADS,
    PLACES,
    SCATTERED,
    SHIFTED,
    Array,
    network,
    outputs,
    quantized,
    sequence,
)

IN_FOUR = {"cache_precision": "int4"}


def unpacked(packed: Array) -> Array:
    """The integers of bytes: those of the low bits, then those of the high bits."""
    low, high = packed & 15, (packed >> 4) & 15
    joined = np.concatenate([low, high], axis=-1).astype(np.int8)
    return np.where(joined > 7, joined - 16, joined)


@pytest.mark.parametrize("moves", [SCATTERED, SHIFTED], ids=["scattered", "shifted"])
def test_a_cache_holds_4_bits_and_magnitudes(moves: str, tmp_path: Path) -> None:
    path = network(moves, tmp_path)
    module = quantized(path, **IN_FOUR)
    executable, reference = qmlir.compile(module), qmlir.reference(module)
    calls = sequence(99)
    own = outputs(executable, calls)
    assert all((a == b).all() for a, b in zip(own, outputs(reference, calls), strict=True))
    held = executable.state
    assert {name: (array.dtype, array.shape) for name, array in held.items()} == {
        "s": (np.int8, (HEADS, PLACES, DEPTH // 2)),
        "s.magnitudes": (np.int16, (HEADS, PLACES, 1)),
    }
    assert (held["s"] == reference.state["s"]).all()
    rows = np.concatenate([call["x"] for call in calls], axis=1)  # the calls fill all places, one behind the other
    wanted = 7 * rows / np.abs(rows).max(axis=-1, keepdims=True)
    assert (np.abs(unpacked(held["s"])).max(axis=-1) == 7).all()  # each row fills its bits
    assert np.abs(unpacked(held["s"]) - wanted).max() < 0.51  # half a step, and what rows of 16 bits have lost before
    exact = outputs(qmlir.compile(path), calls)
    noise = sum(((a - b) ** 2).sum() for a, b in zip(own, exact, strict=True))
    assert 10 * np.log10(sum((b**2).sum() for b in exact) / noise) > 20


def test_a_packed_cache_is_certified(tmp_path: Path) -> None:
    qmlir.save(quantized(network(SCATTERED, tmp_path), **IN_FOUR), tmp_path / "q.mlir")
    assert main(["certify", str(tmp_path / "q.mlir"), "-o", str(tmp_path / "q.json"), "--quiet"]) == 0
    assert main(["certify", "--check", str(tmp_path / "q.json"), "--quiet"]) == 0


@pytest.mark.slow
def test_onnxruntime_has_the_same_integers(tmp_path: Path) -> None:
    module = quantized(network(SCATTERED, tmp_path), **IN_FOUR)
    qmlir.export(module, tmp_path / "q.onnx", format="onnx-integer")
    session, reference = onnxruntime.InferenceSession(tmp_path / "q.onnx"), qmlir.reference(module)
    held = {name: np.zeros_like(array) for name, array in reference.state.items()}
    for call in sequence(99):
        y, *after = session.run(None, {**call, **held})
        held = dict(zip(held, after, strict=True))
        np.testing.assert_array_equal(y, reference(call))
        for name, array in reference.state.items():
            np.testing.assert_array_equal(held[name], array)


def test_what_is_refused(tmp_path: Path) -> None:
    path = network(SCATTERED, tmp_path)
    data: list[Any] = [sequence(0)]
    with pytest.raises(QuantizationError, match=r"got activations=static; give activations=dynamic$"):
        qmlir.quantize(path, data=data, measure=False, cache_precision="int4")
    assert qmlir.compile(quantized(path, **IN_FOUR)).state["s"].shape[-1] == DEPTH // 2
    whole = path.read_text().replace('{qmlir.name = #qmlir.name<tensors ["s"]>, qmlir.state = #qmlir.state<1>}', "")
    path.write_text(whole)
    given = [{**call, "input2": np.zeros((HEADS, PLACES, DEPTH), np.float32)} for call in sequence(0)]
    with pytest.raises(QuantizationError, match=r"got no such state; leave it out, or name states by --state$"):
        qmlir.quantize(path, data=given, measure=False, activations="dynamic", cache_precision="int4")


def test_rows_of_an_odd_number_of_elements(tmp_path: Path) -> None:
    path = network(SCATTERED, tmp_path)
    path.write_text(path.read_text().replace(f"x{DEPTH}x", f"x{DEPTH - 1}x").replace(f"{DEPTH}>", f"{DEPTH - 1}>"))
    data: list[Any] = [[{**call, "x": call["x"][..., 1:].copy()} for call in sequence(0)]]
    need = r'state "s": cache-precision=int4 stores two elements of a row in a byte.*, got 15; leave it out$'
    with pytest.raises(QuantizationError, match=need):
        qmlir.quantize(path, data=data, measure=False, activations="dynamic", cache_precision="int4")


@pytest.mark.slow
def test_a_language_model_rotates_keys(tmp_path: Path) -> None:
    """Its recipe does; floats stay what they were, and integers are those of the reference."""
    onnx.save(llama(), tmp_path / "llama.onnx")
    module = qmlir.Pipeline("simplify")(qmlir.load(tmp_path / "llama.onnx", state=STATES))
    rotated = qmlir.Pipeline("rotate-keys")(module)
    noted = [op for op in rotated.walk() if isinstance(op, MatMulOp) and ROTATED.on(op)]
    assert {ROTATED.of(op) for op in noted} == {"queries and keys rotated in blocks of 8"}
    assert sum(isinstance(op, HadamardOp) for op in rotated.walk()) == 2 * len(noted)
    plain, turned = qmlir.compile(module), qmlir.compile(rotated)
    for sample in texts():
        wanted = plain(sample)
        np.testing.assert_allclose(turned(sample), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    assert np.abs(plain.state["k0"] - turned.state["k0"]).max() > 0.1
    q = qmlir.quantize(module, data=[texts()], measure=False, recipe="language-model", cache_precision="int4")
    assert ROTATION.of(q) == "caches"
    executable, reference = qmlir.compile(q), qmlir.reference(q)
    assert executable.state["k0"].shape[-1] == 4
    for sample in texts():
        np.testing.assert_array_equal(executable(sample), reference(sample))

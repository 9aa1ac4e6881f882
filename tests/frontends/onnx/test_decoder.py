"""A decoder whose caches of keys and values are states: float, quantized, and with a cache that grows."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest

import qmlir
from qmlir.errors import OptionError
from qmlir.ir.interfaces import element_of
from qmlir.ir.signature import main_function
from tests.frontends.onnx.decoder import HEAD, HEADS, PLACES, STATES, Sample, decoder, samples

CALLS = 100


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("decoder") / "decoder.onnx"
    onnx.save(decoder(), place)
    return place


@pytest.mark.slow
def test_a_decoder_equals_onnxruntime_with_explicit_caches(path: Path) -> None:
    module = qmlir.Pipeline("simplify")(qmlir.load(path, state=STATES))
    reference, executable = qmlir.reference(module), qmlir.compile(module)
    session = onnxruntime.InferenceSession(path)
    caches: dict[str, Any] = {name: np.zeros((PLACES, HEADS, HEAD), np.float32) for name in STATES}
    for sample in samples(CALLS):
        logits: Any
        logits, *kept = session.run(None, {**sample, **caches})
        caches = dict(zip(STATES, kept, strict=True))
        found = executable(sample)
        np.testing.assert_array_equal(found, reference(sample))
        np.testing.assert_allclose(found, logits, rtol=0, atol=1e-5 * np.abs(logits).max())
    for name, state in executable.state.items():
        np.testing.assert_allclose(state, caches[name], rtol=0, atol=1e-5)


def growing(count: int, seed: int = 1) -> list[Sample]:
    """Samples whose positions go on."""
    return [{**sample, "position": np.array([[i]])} for i, sample in enumerate(samples(count, seed))]


@pytest.mark.slow
@pytest.mark.parametrize("window", [PLACES, 5])
def test_a_ring_runs_beyond_its_places(window: int, tmp_path: Path) -> None:
    """A sliding window over a ring: onnxruntime's floats, and integers that numpy and machine code have alike."""
    path = tmp_path / "ring.onnx"
    onnx.save(decoder(window=window), path)
    module = qmlir.load(path, state=STATES)
    executable, session = qmlir.compile(module), onnxruntime.InferenceSession(path)
    caches: dict[str, Any] = {name: np.zeros((PLACES, HEADS, HEAD), np.float32) for name in STATES}
    floats = []
    for sample in growing(3 * PLACES):
        logits: Any
        logits, *kept = session.run(None, {**sample, **caches})
        caches = dict(zip(STATES, kept, strict=True))
        floats.append(logits)
        np.testing.assert_allclose(executable(sample), logits, rtol=0, atol=1e-5 * np.abs(logits).max())
    quantized = qmlir.quantize(module, data=[growing(3 * PLACES, seed) for seed in range(3, 6)])
    reference, executable = qmlir.reference(quantized), qmlir.compile(quantized)
    agreeing = 0
    for sample, logits in zip(growing(3 * PLACES), floats, strict=True):
        found = executable(sample)
        np.testing.assert_array_equal(found, reference(sample))
        agreeing += int(found.argmax() == logits.argmax())
    assert agreeing >= 0.9 * 3 * PLACES


@pytest.mark.slow
@pytest.mark.parametrize("precision", ["int8", "uint8", "int16"])
def test_a_quantized_decoder_keeps_integers(path: Path, precision: str) -> None:
    module = qmlir.Pipeline("simplify")(qmlir.load(path, state=STATES))
    sequences = [samples(PLACES, seed) for seed in range(6)]
    quantized = qmlir.quantize(module, data=sequences, precision=precision, recipe="none")
    types = [str(element_of(a)) for a in main_function(quantized).body.block.args[2:]]
    storage = {"int8": "i8", "uint8": "u8", "int16": "i16"}[precision]
    assert all(type.startswith(f"!quant.uniform<{storage}:f32, ") for type in types), types
    float_meaning, reference, executable = qmlir.reference(module), qmlir.reference(quantized), qmlir.compile(quantized)
    agreeing = 0
    for sample in samples(CALLS):
        found = executable(sample)
        np.testing.assert_array_equal(found, reference(sample))
        agreeing += int(found.argmax() == float_meaning(sample).argmax())
    assert agreeing >= 0.9 * CALLS


@pytest.mark.slow
def test_a_quantized_decoder_on_a_device(path: Path, tmp_path: Path) -> None:
    module = qmlir.load(path, state=STATES)
    quantized = qmlir.quantize(module, data=[samples(PLACES)], target="ethos-u55-like")
    reference, device = qmlir.reference(quantized), qmlir.compile(quantized, target="ethos-u55-like")
    device.save(tmp_path / "net.npu")
    loaded = qmlir.load_program(tmp_path / "net.npu", "ethos-u55-like")
    given = samples(6)
    wanted = [reference(sample) for sample in given]
    for sample, want, (together,) in zip(given, wanted, loaded.run_all(given), strict=True):
        np.testing.assert_array_equal(device(sample), want)
        np.testing.assert_array_equal(together, want)


@pytest.mark.slow
def test_saved_and_loaded_it_keeps_its_states(path: Path, tmp_path: Path) -> None:
    quantized = qmlir.quantize(qmlir.load(path, state=STATES), data=[samples(PLACES)])
    qmlir.save(quantized, tmp_path / "net.mlir")
    first, second = qmlir.reference(quantized), qmlir.reference(tmp_path / "net.mlir")
    for sample in samples(3):
        np.testing.assert_array_equal(first(sample), second(sample))


@pytest.mark.slow
def test_analyses_run_samples_in_order(path: Path) -> None:
    module = qmlir.Pipeline("simplify")(qmlir.load(path, state=STATES))
    quantized = qmlir.quantize(module, data=[samples(PLACES)])
    assert not qmlir.compare(quantized, samples(4)).differences
    rows = {row.tensor: row for row in qmlir.analyze(module, quantized, samples(PLACES))}
    assert rows["present_keys"].cumulative_sqnr > 20  # dB: also of what earlier calls wrote
    assert qmlir.score(module, quantized, samples(4), [0] * 4).agreeing is not None


@pytest.mark.slow
def test_an_exported_decoder_has_its_caches_as_inputs_and_outputs(path: Path, tmp_path: Path) -> None:
    quantized = qmlir.quantize(qmlir.load(path, state=STATES), data=[samples(PLACES)])
    qmlir.export(quantized, tmp_path / "net.onnx", format="onnx-integer")
    session, reference = onnxruntime.InferenceSession(tmp_path / "net.onnx"), qmlir.reference(quantized)
    caches = {name: np.asarray(state) for name, state in reference.state.items()}
    for sample in samples(5):
        logits, *kept = session.run(None, {**sample, **caches})
        caches = dict(zip(caches, kept, strict=True))
        np.testing.assert_array_equal(logits, reference(sample))


REFUSED = {
    "no input": ({"past": "present_keys"}, "must name an input of the network, got past"),
    "no output": ({"past_keys": "present"}, "must name an output of the network, got present"),
    "another type": ({"past_keys": "logits"}, "must bind tensors of one type, got .*; bind the output that replaces"),
    "twice": ({"past_keys": "present_keys", "past_values": "present_keys"}, "must name an output that is no state's"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_no_state(path: Path, case: str) -> None:
    pairs, message = REFUSED[case]
    with pytest.raises(OptionError, match=message):
        qmlir.load(path, state=pairs)
    assert len(qmlir.reference(qmlir.load(path, state=STATES)).state) == 2  # the outputs that replace the inputs


def test_names_that_are_no_names(path: Path) -> None:
    with pytest.raises(OptionError, match="must be outputs by input"):
        qmlir.load(path, state=["past_keys"])  # pyright: ignore[reportArgumentType]


def test_a_cache_that_grows_says_what_to_do(tmp_path: Path) -> None:
    onnx.save(decoder(grows=True), tmp_path / "growing.onnx")
    with pytest.raises(OptionError, match=r"a state that grows has no place of fixed size, .* a cache of fixed size"):
        qmlir.load(tmp_path / "growing.onnx", bind={"past": 4}, state=STATES)
    onnx.save(decoder(), tmp_path / "fixed.onnx")
    qmlir.load(tmp_path / "fixed.onnx", state=STATES)

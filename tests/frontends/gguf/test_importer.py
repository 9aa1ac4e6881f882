"""Importing GGUF files: networks of the Llama family compute what plain numpy does, call after call."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.dialects.nn import ConstantOp
from qmlir.errors import FileError, OptionError, QmlirError
from qmlir.ir.levels import levels_of
from qmlir.ir.rewriting import tensor_name
from qmlir.ir.signature import main_function, signature_of
from qmlir.ir.states import states_of
from qmlir.numerics import Array
from qmlir.numerics.affine import Affine
from tests.frontends.gguf import llama
from tests.frontends.gguf.files import Stored, file_of, floats, parts, random_tensor, tiny

PLACES = 12


def network(folder: Path, metadata: Mapping[str, Any], tensors: Mapping[str, Stored], **bind: int) -> ModuleOp:
    path, data = folder / "model.gguf", file_of(metadata, tensors)
    if not path.exists() or path.read_bytes() != data:  # networks of a file need it as it was
        path.write_bytes(data)
    return qmlir.load(path, bind={"context": PLACES, **bind})


def called(run: Any, tokens: Array, rows: int) -> Array:
    """The logits of a sequence in calls of so many tokens."""
    found = [
        np.asarray(run({"token": tokens[at : at + rows], "pos": np.arange(at, at + rows)}))
        for at in range(0, len(tokens), rows)
    ]
    return np.concatenate(found)


NETWORKS: dict[str, dict[str, Any]] = {
    "llama": {},
    "qwen2": {"architecture": "qwen2", "rope__freq_base": 500.0},
    "qwen3": {"architecture": "qwen3", "attention__key_length": 12, "attention__value_length": 6},
    "tied": {"tied": True, "attention__head_count_kv": 4, "attention__scale": 0.5},
    "window": {"attention__sliding_window": 5, "rope__scaling__type": "linear", "rope__scaling__factor": 2.0},
    "gemma3": {
        "architecture": "gemma3",
        "layers": 7,
        "tied": True,
        "attention__sliding_window": 5,
        "attention__sliding_window_pattern": 6,
        "rope__freq_base": 1e6,
        "rope__scaling__factor": 8.0,
    },
    "unscaled": {"rope__scaling__type": "none", "rope__scaling__factor": 2.0, "attention__head_count_kv": [2, 2]},
}


@pytest.mark.parametrize("rows", [1, 4])
@pytest.mark.parametrize("name", NETWORKS)
def test_networks_compute_what_numpy_does(name: str, rows: int, tmp_path: Path) -> None:
    metadata, tensors = parts(**NETWORKS[name])
    if name == "unscaled":
        tensors["rope_freqs.weight"] = ("F32", (4,), np.array([1, 2, 4, 8], "<f4").tobytes())
    tokens = np.random.default_rng(3).integers(0, 20, PLACES)
    run = qmlir.reference(network(tmp_path, metadata, tensors, rows=rows))
    expected = llama.logits(metadata, floats(tensors), tokens)
    np.testing.assert_allclose(called(run, tokens, rows), expected, rtol=0, atol=2e-5 * np.abs(expected).max())


@pytest.mark.parametrize(
    ("given", "bind", "window"),
    [
        ({"attention__sliding_window": 5}, {"rows": 4}, 5),
        ({"attention__sliding_window": 12}, {"rows": 1}, 12),
        ({}, {"rows": 1}, 12),
        ({}, {"rows": 4}, 9),
        ({"attention__sliding_window": 10}, {"rows": 4, "window": 6}, 6),
        ({"architecture": "gemma3", "layers": 6, "attention__sliding_window": 5}, {"rows": 4}, 9),
    ],
)
def test_rings_beyond_the_context(given: dict[str, Any], bind: dict[str, int], window: int, tmp_path: Path) -> None:
    """A cache of 12 places, and 40 tokens: each sees those before it, as far as the window."""
    metadata, tensors = parts(**{"layers": 1, **given})
    tokens = np.random.default_rng(4).integers(0, 20, 40)
    run = qmlir.reference(network(tmp_path, metadata, tensors, positions=40, **bind))
    expected = llama.logits(metadata, floats(tensors), tokens, window)
    found = called(run, tokens, bind["rows"])
    np.testing.assert_allclose(found, expected, rtol=0, atol=2e-5 * np.abs(expected).max())


def test_quantized_rings(tmp_path: Path) -> None:
    """Calls of four tokens and of one give the same bits beyond the context, in numpy and in machine code."""
    path = tmp_path / "model.gguf"
    path.write_bytes(tiny(layers=1))
    sizes = {"context": 12, "positions": 40, "window": 9}
    networks = {name: qmlir.load(path, bind={"rows": n, **sizes}) for name, n in (("prefill", 4), ("decode", 1))}
    tokens = np.random.default_rng(5).integers(0, 20, (3, 40))
    texts = [[{"token": t[at : at + 4], "pos": np.arange(at, at + 4)} for at in range(0, 40, 4)] for t in tokens]
    quantized = qmlir.quantize(networks, data=texts)
    exe = qmlir.compile(quantized)
    expected = called(exe["prefill"], tokens[0], 4)
    exe.reset()
    mixed = np.concatenate(
        [called(exe["prefill"], tokens[0][:8], 4)]
        + [np.asarray(exe["decode"]({"token": tokens[0][i : i + 1], "pos": np.array([i])})) for i in range(8, 40)]
    )
    assert (mixed == expected).all()
    path = tmp_path / "quantized.mlir"
    qmlir.save(quantized, path)
    assert (called(qmlir.reference(qmlir.load(path, entry="prefill")), tokens[0], 4) == expected).all()


def test_signature(tmp_path: Path) -> None:
    module = network(tmp_path, *parts("qwen3", attention__key_length=12, attention__value_length=6), rows=3)
    function = main_function(module)
    inputs, outputs = signature_of(function).flat().names()
    assert inputs == ["token", "pos", "k0", "v0", "k1", "v1"]
    assert outputs == ["logits", "k0_out", "v0_out", "k1_out", "v1_out"]
    assert [str(t) for t in function.function_type.inputs] == [
        *["tensor<3xi64>"] * 2,
        *["tensor<2x12x12xf32>", "tensor<2x12x6xf32>"] * 2,
    ]
    assert {i: state.index for i, state in states_of(function).items()} == {2: 1, 3: 2, 4: 3, 5: 4}


def test_sizes_by_default(tmp_path: Path) -> None:
    """A token a call, and as many places as the model was trained for, 512 at most."""
    for trained, places in ((64, 64), (1024, 512)):
        (tmp_path / "model.gguf").write_bytes(tiny(context_length=trained))
        inputs = main_function(qmlir.load(tmp_path / "model.gguf")).function_type.inputs.data
        assert [str(t) for t in inputs[1:3]] == ["tensor<1xi64>", f"tensor<2x{places}x8xf32>"]


@pytest.mark.parametrize("kind", ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "F16", "BF16", "Q4_K", "Q5_K", "Q6_K"])
def test_weights_keep_the_levels_of_the_file(kind: str, tmp_path: Path) -> None:
    """They are stated through text, and the network computes with exactly these floats."""
    scale = 8 if kind.endswith("K") else 1
    metadata, tensors = parts(kind=kind, tied=True, scale=scale, layers=1)
    module = qmlir.Pipeline("simplify")(network(tmp_path, metadata, tensors, rows=4))
    qmlir.save(module, tmp_path / "model.mlir")
    module = qmlir.load(tmp_path / "model.mlir")
    weights = [op for op in module.walk() if isinstance(op, ConstantOp) and levels_of(op) is not None]
    assert len(weights) == (0 if kind in ("F16", "BF16") else 8)  # the embedding is one of them, and read twice
    for op in weights:
        levels = levels_of(op)
        assert isinstance(levels, Affine)
        assert levels.stored(op.value.array) is not None
    table = [op for op in weights if op.value.array.shape[0] == 20]
    assert [len(list(op.y.uses)) for op in table] == [2] * (len(weights) > 0)
    tokens = np.arange(PLACES)
    expected = llama.logits(metadata, floats(tensors), tokens)
    found = called(qmlir.reference(module), tokens, 4)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-4 * np.abs(expected).max())


def test_weights_are_made_of_the_file_when_they_are_asked_for(tmp_path: Path) -> None:
    """Also of a file that is gone, or replaced by another; one that was written to is refused."""
    module = network(tmp_path, *parts(kind="Q4_1", layers=1))
    (op,) = [o for o in module.walk() if isinstance(o, ConstantOp) and tensor_name(o.y) == "blk.0.attn_q.weight"]
    before = op.value.array
    op.value.data.release()
    assert op.value.array is not before
    np.testing.assert_array_equal(op.value.array, before)
    op.value.data.release()
    path = tmp_path / "model.gguf"
    path.rename(tmp_path / "other.gguf")
    path.write_bytes(b"other bytes")
    np.testing.assert_array_equal(op.value.array, before)
    op.value.data.release()
    (tmp_path / "other.gguf").rename(path)
    with path.open("ab") as file:
        file.write(b"more")
    with pytest.raises(FileError, match=r"must stay as it is while a network of it is in use.*load the network again"):
        _ = op.value.array
    again = qmlir.load(path, bind={"context": PLACES})
    (op,) = [o for o in again.walk() if isinstance(o, ConstantOp) and tensor_name(o.y) == "blk.0.attn_q.weight"]
    np.testing.assert_array_equal(op.value.array, before)


@pytest.mark.slow
def test_quantized_weights_forget_the_levels_of_the_file(tmp_path: Path) -> None:
    """By default they become integers of 8 bits; reference and machine code agree."""
    module = network(tmp_path, *parts(kind="Q4_1", layers=1), rows=4)
    rng = np.random.default_rng(0)
    samples = [{"token": rng.integers(0, 20, 4), "pos": np.arange(at, at + 4)} for at in (0, 4, 8)]
    quantized = qmlir.quantize(module, data=[samples])
    assert not any(isinstance(levels_of(o), Affine) for o in quantized.walk() if isinstance(o, ConstantOp))
    run, reference = qmlir.compile(quantized), qmlir.reference(quantized)
    for sample in samples:
        assert (np.asarray(run(sample)) == np.asarray(reference(sample))).all()


# ---------------------------------------------------------------------------------------------------------------
# What is refused


def refused(folder: Path, need: str, metadata: Mapping[str, Any], tensors: Mapping[str, Stored], **bind: int) -> None:
    with pytest.raises(QmlirError, match=need):
        network(folder, metadata, tensors, **bind)


@pytest.mark.parametrize(
    ("key", "value", "need"),
    [
        (
            "general.architecture",
            "gemma2",
            "of the Llama family: llama, qwen2, qwen3, gemma3, got gemma2; export the model",
        ),
        ("llama.expert_count", 8, "its llama.expert_count must be 0: qmlir builds no mixture of experts, got 8"),
        ("llama.attention.causal", False, "attention.causal must be true"),
        (
            "llama.attention.sliding_window_pattern",
            2,
            "must be 1 or missing, as in all networks of its architecture, got 2",
        ),
        ("llama.rope.scaling.type", "yarn", "its llama.rope.scaling.type must be none or linear, got yarn"),
        ("llama.rope.dimension_count", 4, "must be the 8 elements of a head, an even number, got 4"),
        ("llama.attention.key_length", 7, "must be the 7 elements of a head, an even number"),
        ("llama.attention.head_count_kv", 3, "must be a multiple of 3, the heads of keys, got 4"),
        ("llama.attention.head_count_kv", [2, 1], r"must be the same in all layers, got \[2, 1\]"),
        ("llama.attention.head_count", 0, "must be a whole number from 1 to 16777216, got 0"),
        ("llama.attention.layer_norm_rms_epsilon", -1.0, "must be a positive number, got -1.0"),
        ("llama.attention.layer_norm_rms_epsilon", float("nan"), "must be a positive number, got nan"),
        ("llama.block_count", 3, 'must have the tensor "blk.2.attn_norm.weight"'),
        ("llama.block_count", 1, 'no tensors but those of its architecture, got "blk.1.attn_k.weight", .* and 5 more'),
        ("llama.feed_forward_length", 32, r'"blk.0.ffn_gate.weight" must be of shape \[32, 32\], got \[64, 32\]'),
        ("llama.block_count", "2", "llama.block_count must be a whole number"),
    ],
)
def test_settings_that_are_refused(key: str, value: Any, need: str, tmp_path: Path) -> None:
    metadata, tensors = parts()
    refused(tmp_path, need, {**metadata, key: value}, tensors)


def test_gemma_of_27b_is_refused(tmp_path: Path) -> None:
    """It scales its scores by another number, which its files do not state."""
    metadata, tensors = parts("gemma3")
    refused(tmp_path, "gemma3.block_count must not be 62", {**metadata, "gemma3.block_count": 62}, tensors)


def test_a_setting_that_is_missing(tmp_path: Path) -> None:
    metadata, tensors = parts()
    del metadata["llama.block_count"]
    refused(tmp_path, "block_count must be a whole number from 1 to 16777216, got None", metadata, tensors)


def test_tensors_that_are_refused(tmp_path: Path) -> None:
    metadata, tensors = parts()
    rng = np.random.default_rng(0)
    gate = random_tensor("F32", (8, 32), rng)
    refused(tmp_path, 'got "blk.0.ffn_gate_inp.weight"', metadata, {**tensors, "blk.0.ffn_gate_inp.weight": gate})
    refused(tmp_path, 'got "blk.0.attn_q_norm.weight"', metadata, {**tensors, "blk.0.attn_q_norm.weight": gate})
    flat = random_tensor("F32", (640,), rng)
    need = r'"token_embd.weight" must be of shape \[640, 32\], got \[640\]'
    refused(tmp_path, need, metadata, {**tensors, "token_embd.weight": flat})


@pytest.mark.parametrize(
    ("bind", "need"),
    [
        ({"row": 2}, "bind row: must be rows, context, positions or window; did you mean rows?"),
        ({"rows": 0}, "bind rows: must be 1 to 12, the places of the context, got 0"),
        ({"rows": 13}, "bind rows: must be 1 to 12"),
        ({"context": 65}, "bind context: must be 1 to 64, as the model was trained, got 65"),
        ({"context": 0}, "bind context"),
        ({"positions": 11}, "bind positions: must be 12, the places of the context, to 16777216, got 11"),
        ({"window": 0}, "bind window: must be 1 to 12: 12 places that a call leaves, got 0"),
        ({"window": 12, "rows": 4, "positions": 20}, "bind window: must be 1 to 9: 9 places that a call leaves"),
    ],
)
def test_sizes_that_are_refused(bind: dict[str, int], need: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=need.replace("?", r"\?")):
        network(tmp_path, *parts(), **bind)


def test_windows_that_a_ring_does_not_keep(tmp_path: Path) -> None:
    windowed = parts(attention__sliding_window=10)
    need = "bind context: must be 13 or more: the window of 10 places and the other rows of a call, got 12; or bind"
    with pytest.raises(OptionError, match=need):
        network(tmp_path, *windowed, rows=4, positions=20)
    network(tmp_path, *windowed, rows=4, positions=20, window=9)
    with pytest.raises(OptionError, match="bind window: must be 1 to 10: a window of 10, as the model was trained"):
        network(tmp_path, *windowed, window=11)


@pytest.mark.parametrize(
    ("option", "given"),
    [
        ("signature", {"signature": "main"}),
        ("weights", {"weights": "init.pb"}),
        ("shape", {"shapes": {"x": "2"}}),
        ("constant", {"constants": {"pos": np.zeros(1, np.int64)}}),
        ("outputs", {"outputs": ["logits"]}),
    ],
)
def test_options_of_other_formats(option: str, given: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "model.gguf").write_bytes(tiny())
    with pytest.raises(OptionError, match=f"^{option}: "):
        qmlir.load(tmp_path / "model.gguf", **given)


def test_no_file(tmp_path: Path) -> None:
    with pytest.raises(FileError, match="there is no such file"):
        qmlir.load(tmp_path / "none.gguf")

"""Weights of 4 bits that a file stores in blocks, beside integers: kept, proved, and the same on all back ends."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.checker import check_certificate
from qmlir.dialects.nn import BlockedFullyConnectedOp, ConstantOp, GatherOp, HadamardOp, MulOp
from qmlir.dialects.nn import FullyConnectedOp as FloatLayerOp
from qmlir.dialects.qint import AffineFullyConnectedOp, FullyConnectedOp
from qmlir.ir.facts import FACTORS, ROTATED, ROTATION
from qmlir.ir.interfaces import shape_of
from qmlir.transforms.quantize.adjust.channel_pairs import constant_array, set_constant
from tests.checker.networks import certified
from tests.frontends.gguf.files import file_of, parts, random_tensor

ROWS, CONTEXT, VOCABULARY = 4, 16, 20


def decoder(folder: Path, kind: str, **changed: Any) -> ModuleOp:
    """A tiny decoder whose last layer is its embedding, with weights of a type of blocks."""
    metadata, tensors = parts(kind=kind, layers=1, tied=True, scale=8 if kind.endswith("K") else 2, **changed)
    (folder / "model.gguf").write_bytes(file_of(metadata, tensors))
    return qmlir.load(folder / "model.gguf", bind={"rows": ROWS, "context": CONTEXT})


def sequences(count: int, seed: int = 0) -> list[list[dict[str, Any]]]:
    rng = np.random.default_rng(seed)
    places = [np.arange(first, first + ROWS) for first in range(0, CONTEXT, ROWS)]
    return [[{"token": rng.integers(0, VOCABULARY, ROWS), "pos": place} for place in places] for _ in range(count)]


def quantized(module: ModuleOp, **options: Any) -> ModuleOp:
    given = {"weight_precision": "int4", **options}
    return qmlir.quantize(module, data=sequences(3), measure=False, **given)


def layers(module: ModuleOp) -> list[BlockedFullyConnectedOp]:
    return [op for op in module.walk() if isinstance(op, BlockedFullyConnectedOp)]


def integers_of(module: ModuleOp) -> list[str]:
    return [op.name for op in qmlir.Pipeline("nn-to-qint")(module).walk()]


def held(gain: MulOp) -> Any:
    factors = FACTORS.of(gain)
    assert factors is not None
    return factors.array


def decibels(found: list[Any], exact: list[Any]) -> float:
    ours, theirs = (np.concatenate([np.asarray(a, np.float64) for a in each]) for each in (found, exact))
    return float(10 * np.log10((theirs**2).sum() / ((ours - theirs) ** 2).sum()))


@pytest.mark.parametrize(("kind", "blocked"), [("Q4_0", "blocked"), ("Q4_1", "affine"), ("Q4_K", "affine")])
def test_layers_keep_the_blocks_of_their_file(kind: str, blocked: str, tmp_path: Path) -> None:
    """All but the last layer, whose integers are those of the table; no operation is on floats."""
    module = decoder(tmp_path, kind)
    q = quantized(module)
    assert ROTATION.of(q) == "run-time"
    assert len(layers(q)) == 7
    entries = list(qmlir.decisions(q))
    assert {e.outcome for e in entries} == {"quantized"}
    for entry in (e for e in entries if e.operation == "nn.blocked_fully_connected"):
        assert entry.reason == "i8 activations, i32 results, u4 weights in blocks of 32"
    (last,) = (e for e in entries if e.operation == "nn.fully_connected")
    assert "i8 weights per channel" in last.reason
    names = integers_of(q)
    assert names.count(f"qint.{blocked}_fully_connected") == 7
    reference, compiled, exact = qmlir.reference(q), qmlir.compile(q), qmlir.reference(module)
    ours, theirs = list[Any](), list[Any]()
    for sample in sequences(1, seed=9)[0]:
        ours.append(np.asarray(reference(sample)))
        theirs.append(exact(sample))
        np.testing.assert_array_equal(np.asarray(compiled(sample)), ours[-1])
    assert decibels(ours, theirs) > 14


def test_its_sums_are_certified(tmp_path: Path) -> None:
    certified(quantized(decoder(tmp_path, "Q4_1")), tmp_path)
    check_certificate(tmp_path / "certificate.json")


@pytest.mark.parametrize(("largest", "rotates_table"), [(32, True), (1, False)])
def test_a_stream_that_is_rotated_at_run_time_computes_the_same(
    largest: int, rotates_table: bool, tmp_path: Path
) -> None:  # fmt: skip
    """Weights stay as they are; rows of the stream, and their normalizations, are rotated.

    A table with a large channel is rotated, and the last layer with it; one whose integers would be coarser is not.
    """
    module = qmlir.Pipeline("simplify")(decoder(tmp_path, "Q4_1"))
    lookup, head = embedding_and_head(module)
    table = constant_array(lookup.x)
    assert table is not None
    uneven = np.where(np.arange(table.shape[1]) == 3, largest * table, table)
    set_constant(lookup, 0, uneven)
    head.operands[1] = lookup.x
    rotated = qmlir.Pipeline(("rotate", {"what": "run-time"}))(module)
    before, after = (
        {a.tobytes() for op in m.walk() if isinstance(op, ConstantOp) and (a := op.value.array).ndim == 2}
        for m in (module, rotated)
    )
    assert before - after <= {table.tobytes(), uneven.tobytes()}
    assert (uneven.tobytes() in after) is not rotates_table
    lookup, head = embedding_and_head(rotated)
    np.testing.assert_array_equal(constant_array(head.w), constant_array(lookup.x))
    assert isinstance(head.x.owner, HadamardOp) is rotates_table
    assert sum(isinstance(op, HadamardOp) for op in rotated.walk()) == 6
    plain, turned = qmlir.compile(module), qmlir.compile(rotated)
    for sample in sequences(1)[0]:
        wanted = np.asarray(plain(sample))
        np.testing.assert_allclose(np.asarray(turned(sample)), wanted, rtol=0, atol=2e-5 * np.abs(wanted).max())


def embedding_and_head(module: ModuleOp) -> tuple[GatherOp, FloatLayerOp]:
    """The lookup of embeddings, and the layer that has the same weights."""
    lookup = next(o for o in module.walk() if isinstance(o, GatherOp) and shape_of(o.x)[0] == VOCABULARY)
    head = next(o for o in module.walk() if isinstance(o, FloatLayerOp) and shape_of(o.w)[0] == VOCABULARY)
    return lookup, head


def test_what_the_blocks_hold_is_exact(tmp_path: Path) -> None:
    """Each multiplier stands for a share of the largest scale of its row, to 2^−11 of it."""
    q = quantized(decoder(tmp_path, "Q4_1"), recipe="none", activations="dynamic")
    module = qmlir.Pipeline("nn-to-qint")(q)
    ours = [op for op in module.walk() if isinstance(op, AffineFullyConnectedOp)]
    for layer, integer in zip(layers(q), ours, strict=True):
        w, s, z = (v.owner.value.array for v in (layer.w, layer.s, layer.z))  # type: ignore[union-attr]
        exact = layer.floats(w.astype(np.float32), s, z)
        held = [v.owner.value.array.astype(np.float64) for v in (integer.w, integer.m, integer.k)]  # type: ignore[union-attr]
        spread = [layer.spread(a) for a in held[1:]]
        found = (held[0] * spread[0] + spread[1]) * layer.output_scales()[:, None]
        limit = 9 * np.abs(s).max(axis=1, keepdims=True) / (1 << 11)
        assert (np.abs(found - exact) <= limit).all()


DIRECT = """
func.func @main(%x: tensor<2x16xf32>) -> (tensor<2x16xf32>, tensor<2x16xf32>) {
  %w = nn.constant <tensor<16x16xf32>, "0xBYTES"> : tensor<16x16xf32>
  %a = nn.fully_connected %x, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
  %b = nn.fully_connected %a, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
  %s = nn.add %a, %b : tensor<2x16xf32>, tensor<2x16xf32> -> tensor<2x16xf32>
  %n = nn.rms_norm %s {axis = 1 : i64, epsilon = 1.0e-05 : f32} : tensor<2x16xf32> -> tensor<2x16xf32>
  %y = nn.fully_connected %n, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
  %z = nn.fully_connected %s, %w : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
  func.return %y, %z : tensor<2x16xf32>, tensor<2x16xf32>
}
"""


def test_a_stream_that_a_layer_reads_directly_is_not_rotated(tmp_path: Path) -> None:
    weights = np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32)
    (tmp_path / "net.mlir").write_text(DIRECT.replace("BYTES", weights.tobytes().hex()))
    module = qmlir.Pipeline("rotate-at-run-time")(qmlir.load(tmp_path / "net.mlir"))
    assert not any(isinstance(op, HadamardOp) for op in module.walk())
    reasons = {ROTATED.of(op) for op in module.walk() if ROTATED.on(op)}
    assert reasons == {"not rotated: a layer reads it without a normalization"}


@pytest.mark.parametrize("options", [{"weight_precision": "int8"}, {"activations": "static"}])
def test_other_layers_have_a_scale_for_each_row(options: dict[str, Any], tmp_path: Path) -> None:
    """Weights of 8 bits, and layers of static rows, whose sums have no magnitude behind them."""
    assert not layers(quantized(decoder(tmp_path, "Q4_1"), **options))


def test_integers_of_more_bits_are_rounded_again(tmp_path: Path) -> None:
    assert not layers(quantized(decoder(tmp_path, "Q5_1")))
    assert not layers(quantized(decoder(tmp_path, "Q4_1"), weight_precision="int3"))


def test_rotated_weights_are_no_blocks_any_more(tmp_path: Path) -> None:
    """Who asks for a rotation of weights gets it, and weights of 4 bits a channel."""
    q = quantized(decoder(tmp_path, "Q4_1"), rotate="all")
    assert not layers(q)
    assert ROTATION.of(q) == "all"


def test_gains_are_divided_block_by_block(tmp_path: Path) -> None:
    """A factor for each block of channels, which the scales of the blocks undo.

    The gain is a constant behind a normalization, and a layer in the product of a gated feed-forward network.
    """
    module = decoder(tmp_path, "Q4_1")
    for op in [o for o in module.walk() if isinstance(o, MulOp)]:
        gain = constant_array(op.rhs)
        if gain is not None and gain.shape == shape_of(op.y)[-1:]:
            set_constant(op, 1, (gain * np.repeat([4, 1], len(gain) // 2)).astype(np.float32))
    q = quantized(module)
    gains = [op for op in q.walk() if isinstance(op, MulOp) and FACTORS.on(op)]
    assert [held(g).shape for g in gains] == [(2,), (2,), (4,)]
    for gain in gains:
        assert held(gain).min() == 1
    assert any(held(g).max() > 1 for g in gains[:2])
    assert held(gains[2]).max() > 1
    assert sum(isinstance(op, HadamardOp) for op in q.walk()) == 6


def test_a_layer_that_is_not_the_table_keeps_its_own(tmp_path: Path) -> None:
    metadata, tensors = parts(kind="Q4_1", layers=1, scale=2)
    tensors["output.weight"] = random_tensor("Q4_1", tensors["output.weight"][1], np.random.default_rng(3))
    (tmp_path / "model.gguf").write_bytes(file_of(metadata, tensors))
    q = quantized(qmlir.load(tmp_path / "model.gguf", bind={"rows": ROWS, "context": CONTEXT}))
    assert len(layers(q)) == 8
    assert not any(isinstance(op, FullyConnectedOp) for op in q.walk())
    assert not any(isinstance(op, ConstantOp) and op.value.array.dtype == np.float64 for op in q.walk())


@pytest.mark.parametrize("granularity", ["channel", "group-32"])
def test_weights_that_are_no_blocks_get_scales_of_rows_or_groups(granularity: str, tmp_path: Path) -> None:
    """A decoder whose file has floats; the last layer has the table's 8 bits and a scale for each row."""
    module = decoder(tmp_path, "F32")
    q = quantized(module, granularity=granularity)
    reasons = {d.node: d.reason for d in qmlir.decisions(q) if d.operation == "nn.fully_connected"}
    assert "i8 weights per channel" in reasons.pop("logits")
    groups = [reason for reason in reasons.values() if "group" in reason]
    assert len(groups) == (len(reasons) if granularity != "channel" else 0)
    reference, compiled = qmlir.reference(q), qmlir.compile(q)
    for sample in sequences(1, seed=9)[0]:
        np.testing.assert_array_equal(np.asarray(compiled(sample)), np.asarray(reference(sample)))


def test_a_table_and_the_layer_that_shares_it_have_one_array(tmp_path: Path) -> None:
    module = quantized(decoder(tmp_path, "Q8_0"), weight_precision="same")
    stored = [op.value.data for op in module.walk() if isinstance(op, ConstantOp) and VOCABULARY in op.value.shape]
    tables = [each for each in stored if each.dtype == np.int8]
    assert len(tables) == 2
    assert tables[0] is tables[1]

"""Rotations of channels: what the network computes stays the same in float, and its integers lose less."""

import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.checker import check_certificate
from qmlir.dialects.nn import ConstantOp, FullyConnectedOp, GatherOp
from qmlir.errors import OptionError, PipelineError, ProfileError, QmlirWarning, UnsupportedError
from qmlir.ir.facts import ROTATED
from qmlir.numerics.hadamard import block_of, rotation
from qmlir.transforms.quantize.prepare.rotate_residual_stream import Table
from tests.checker.networks import certified
from tests.transforms.quantize.llama import STATES, llama, sequence

Array = npt.NDArray[Any]


def loaded(folder: Path, **options: Any) -> ModuleOp:
    onnx.save(llama(**options), folder / "llama.onnx")
    return qmlir.Pipeline("simplify")(qmlir.load(folder / "llama.onnx", state=STATES))


def outputs(module: ModuleOp) -> Array:
    runner = qmlir.compile(module)
    return np.concatenate([runner(sample) for sample in sequence()])


def test_all_rotations_compute_the_same(tmp_path: Path) -> None:
    module = loaded(tmp_path)
    rotated = qmlir.Pipeline(("rotate", {"what": "all"}))(module)
    texts = " ".join({ROTATED.of(op) or "" for op in rotated.walk()})
    assert "values rotated in heads of 8 by Hadamard matrices of order 8" in texts
    assert "reads products rotated in blocks of 32" in texts
    plain, turned = qmlir.compile(module), qmlir.compile(rotated)
    for sample in sequence():
        wanted = plain(sample)
        np.testing.assert_allclose(turned(sample), wanted, rtol=0, atol=1e-5 * np.abs(wanted).max())
    caches = [(np.asarray(r.state["k0"]), np.asarray(r.state["v0"])) for r in (plain, turned)]
    np.testing.assert_allclose(caches[0][0], caches[1][0], rtol=0, atol=1e-5)
    assert np.abs(caches[0][1] - caches[1][1]).max() > 0.1, "the cache holds rotated values"
    lengths = [np.linalg.norm(values, axis=-1) for _, values in caches]
    np.testing.assert_allclose(*lengths, rtol=0, atol=1e-4)


def test_values_that_the_caller_holds_are_not_rotated(tmp_path: Path) -> None:
    loaded(tmp_path)
    module = qmlir.Pipeline("simplify")(qmlir.load(tmp_path / "llama.onnx"))
    rotated = qmlir.Pipeline("rotate-values")(module)
    (why,) = {ROTATED.of(op) for op in rotated.walk() if ROTATED.on(op)}
    assert why == 'values not rotated: the network returns them, "v0_out"'


GATED = """
func.func @main(%a: tensor<1x16xf32>, %b: tensor<1x16xf32>) -> tensor<1x1xf32> {
  %w = nn.constant <tensor<1x16xf32>, [WEIGHTS]> : tensor<1x16xf32>
  %p = nn.mul %a, %b : tensor<1x16xf32>, tensor<1x16xf32> -> tensor<1x16xf32>
  %y = nn.fully_connected %p, %w : tensor<1x16xf32>, tensor<1x16xf32> -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}
"""


@pytest.mark.filterwarnings("ignore:rotate=residual")
def test_formats_without_transforms(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    (tmp_path / "net.mlir").write_text(GATED.replace("WEIGHTS", ", ".join(f"{i}.0" for i in range(16))))
    data = [{f"input{i}": rng.normal(size=(1, 16)).astype(np.float32) for i in range(2)} for _ in range(4)]
    ways = (
        lambda network: qmlir.export(network, tmp_path / "net.tflite"),
        qmlir.Pipeline("nn-to-qint", "qint-to-tosa"),
        qmlir.Pipeline("nn-to-qint", "qint-to-linalg"),
    )
    turned, plain = (
        qmlir.quantize(tmp_path / "net.mlir", data=data, rotate=rotate, io="int8", measure=False)
        for rotate in ("all", "residual")
    )
    for way in ways:
        with pytest.raises(UnsupportedError, match=r"nn\.hadamard.*quantize with rotate=residual, which has none"):
            way(turned)
        way(plain)


@pytest.mark.slow
def test_the_integers_of_all_rotations(tmp_path: Path) -> None:
    module, data = loaded(tmp_path, tied=False), [sequence(seed) for seed in range(4)]
    wanted = outputs(module)
    quantized = qmlir.quantize(module, data=data, rotate="all", activations="dynamic", measure=False)
    reference, found = qmlir.reference(quantized), outputs(quantized)
    np.testing.assert_array_equal(found, np.concatenate([reference(sample) for sample in sequence()]))
    assert [e.outcome for e in qmlir.decisions(quantized) if e.operation == "nn.hadamard"] == ["quantized"]
    assert 10 * np.log10(np.square(wanted).sum() / np.square(found - wanted).sum()) > 25
    certified(quantized, tmp_path)
    check_certificate(tmp_path / "certificate.json")


@pytest.mark.parametrize("tied", [True, False])
def test_a_rotated_network_computes_the_same(tied: bool, tmp_path: Path) -> None:
    module = loaded(tmp_path, tied=tied)
    rotated = qmlir.Pipeline("rotate")(module)
    wanted, found = outputs(module), outputs(rotated)
    assert np.abs(found - wanted).max() < 1e-5 * np.abs(wanted).max()
    texts = {ROTATED.of(op) for op in rotated.walk() if ROTATED.on(op)}
    assert texts == {"rotated with a residual stream of 2 sums by a Hadamard matrix of order 24"}
    tables = [op.x.owner for op in rotated.walk() if isinstance(op, GatherOp)]
    heads = [op.w.owner for op in rotated.walk() if isinstance(op, FullyConnectedOp)]
    shared = any(
        np.shares_memory(table.value.array, head.value.array)
        for table in tables for head in heads
        if isinstance(table, ConstantOp) and isinstance(head, ConstantOp)
    )  # fmt: skip
    assert shared is tied


@pytest.mark.slow
def test_rotated_tensors_lose_less(tmp_path: Path) -> None:
    """One channel of the stream is forty times as large as the others, which a common scale leaves few integers."""
    module = loaded(tmp_path, tied=False)
    wanted, data = outputs(module), [sequence(seed) for seed in range(4)]
    errors: list[float] = []
    for rotate in ("none", "residual"):
        quantized = qmlir.quantize(module, data=data, rotate=rotate, residuals="same", recipe="none", measure=False)
        errors.append(float(np.square(outputs(quantized) - wanted).sum()))
        reasons = [e.reason for e in qmlir.decisions(quantized)]
        assert any("rotated with a residual stream" in reason for reason in reasons) is (rotate != "none")
    assert errors[1] < errors[0] / 4


def test_a_profile_of_rotated_tensors(tmp_path: Path) -> None:
    module, data = loaded(tmp_path), [sequence(seed) for seed in range(2)]
    plain, turned = (qmlir.profile(module, data, rotate=rotate) for rotate in ("none", "residual"))
    assert any(name.endswith(".rotated") for name in turned.tensors)
    qmlir.quantize(module, turned, rotate="residual")
    with pytest.raises(ProfileError, match=r"profile this model with rotate=residual, or"):
        qmlir.quantize(module, plain, rotate="residual")
    with pytest.raises(OptionError, match="must be one of none, residual, all"):
        qmlir.profile(module, data, rotate="rest")


def test_ranges_come_after_the_rotation(tmp_path: Path) -> None:
    module, data = loaded(tmp_path), [sequence(seed) for seed in range(2)]
    observed = qmlir.Pipeline("simplify", "insert-observers")(module)
    with pytest.raises(PipelineError, match=r"rotate=residual must be done before .* run --rotate=what=residual"):
        qmlir.quantize(observed, data=data, rotate="residual")
    for network in (module, qmlir.Pipeline(("rotate", {"what": "residual"}), "insert-observers")(module)):
        quantized = qmlir.quantize(network, data=data, rotate="residual", measure=False)
        assert any("rotated with" in e.reason for e in qmlir.decisions(quantized))


def test_a_network_without_a_stream(tmp_path: Path) -> None:
    text = "func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {\n  %y = nn.relu %x : tensor<4xf32> -> tensor<4xf32>\n"
    (tmp_path / "net.mlir").write_text(text + "  func.return %y : tensor<4xf32>\n}\n")
    with pytest.warns(QmlirWarning, match="nothing was rotated"):
        qmlir.quantize(tmp_path / "net.mlir", data=[np.ones(4, np.float32)], rotate="residual", measure=False)


BODY = """
func.func @main(%x: tensor<2x4xf32>, %i: tensor<2xi64>) -> ({results}) {{
  %t = nn.constant <tensor<3x4xf32>, [1.0, 2.0, 3.0, 4.0, 1.0, 0.0, 3.0, 1.0, 5.0, 2.0, 3.0, 4.0]> : tensor<3x4xf32>
  %w = nn.constant <tensor<4x4xf32>, [1.0, 2.0, 0.0, 4.0, 0.0, 1.0, 0.0, 0.0, 0.0, 3.0, 1.0, 0.0, 1.0, 0.0, 0.0, 1.0]> : tensor<4x4xf32>
  %e = nn.gather %t, %i {{axis = 0 : i64}} : tensor<3x4xf32>, tensor<2xi64> -> tensor<2x4xf32>
  %b = nn.fully_connected %x, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>
  {lines}
}}
"""  # noqa: E501

NORM = "nn.rms_norm %s {axis = 1 : i64, epsilon = 1.0e-05 : f32} : tensor<2x4xf32> -> tensor<2x4xf32>"
SUM = "%s = nn.add %e, %b : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>"
LAYER = "%y = nn.fully_connected %n, %w : tensor<2x4xf32>, tensor<4x4xf32> -> tensor<2x4xf32>"

REFUSED = {
    "a mean": (SUM, "%n = " + NORM.replace("rms", "layer"), LAYER, "the mean, which a rotation does not keep"),
    "an input": (SUM.replace("%e", "%x"), "%n = " + NORM, LAYER, 'it begins with the input "input0"'),
    "a function": (
        SUM, "%n = " + NORM, LAYER + "\n%z = nn.relu %s : tensor<2x4xf32> -> tensor<2x4xf32>", 'nn.relu "nn.relu" reads'
    ),
    "a normalized result": (SUM, "%n = " + NORM, "%y = nn.relu %n : tensor<2x4xf32> -> tensor<2x4xf32>", "no layer"),
    "a result": (SUM, "%n = " + NORM, LAYER, "the network returns it"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_exact_is_left(case: str, tmp_path: Path) -> None:
    *lines, reason = REFUSED[case]
    results = ["%y", *{"a result": ["%s"], "a function": ["%z"]}.get(case, [])]
    types = ", ".join(["tensor<2x4xf32>"] * len(results))
    text = BODY.format(results=types, lines="\n  ".join([*lines, f"func.return {', '.join(results)} : {types}"]))
    (tmp_path / "net.mlir").write_text(text)
    module = qmlir.load(tmp_path / "net.mlir")
    rng = np.random.default_rng(0)
    data = [{"input0": rng.normal(size=(2, 4)).astype(np.float32), "input1": np.array([0, 2])} for _ in range(4)]
    quantized = qmlir.quantize(module, data=data, rotate="residual", measure=False)
    (why,) = {e.reason for e in qmlir.decisions(quantized) if e.operation == "nn.add"}
    assert "not rotated: " in why
    assert reason in why
    rotated = qmlir.Pipeline("rotate-residual-stream")(module)
    sample = data[0]
    for found, wanted in zip(qmlir.reference(rotated).run(sample), qmlir.reference(module).run(sample), strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("size", [2, 12, 16, 20, 24, 28, 36, 44, 60, 576, 92, 6])
def test_rotations_are_orthogonal(size: int) -> None:
    matrix = rotation(size)
    assert matrix is not None
    np.testing.assert_allclose(matrix @ matrix.T, np.eye(size), atol=1e-14)
    block = {92: 4, 6: 2}.get(size, size)
    assert block_of(size) == block
    np.testing.assert_allclose(np.abs(matrix[matrix != 0]), block**-0.5, rtol=1e-15)
    assert (matrix != 0).sum() == size * block


def test_no_rotation_of_an_odd_number_of_channels() -> None:
    assert rotation(577) is None


def test_a_table_is_compared_some_rows_at_a_time() -> None:
    """A table of embeddings is as large as all layers: whether a head has its weights takes no copy of it."""
    rng = np.random.default_rng(0)
    table, factors = rng.normal(size=(100_000, 64)).astype(np.float32), rng.uniform(1, 2, 64).astype(np.float32)
    head = table * factors
    tracemalloc.start()
    found = Table(table, table).factors_of(head)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert found is not None
    np.testing.assert_allclose(found, factors, rtol=1e-6)
    assert peak < table.nbytes / 2
    assert Table(table, table).factors_of(head[::-1]) is None

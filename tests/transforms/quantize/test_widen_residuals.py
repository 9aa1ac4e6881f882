"""Residual streams of 16 bits between layers of 8: the ledger says so, and machine code has the reference's bits."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.scores import sqnr
from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import AddOp, RequantizeOp
from qmlir.dialects.nn.quantizable import data_operands, uniform
from qmlir.ir.signature import main_function
from qmlir.transforms.quantize.prepare import widen_residuals
from tests.transforms.quantize.calibrated import calibrated, parsed, quantized

SIZE, BLOCKS = 8, 3

SAMPLES = np.random.default_rng(2).normal(0, 1, (24, 4, SIZE)).astype(np.float32) * ([12.0] + [1.0] * (SIZE - 1))
SAMPLES = SAMPLES.astype(np.float32)


@pytest.fixture(scope="module")
def network(tmp_path_factory: pytest.TempPathFactory) -> ModuleOp:
    """Three blocks x + fully_connected(layer_norm(x) · gain); one channel of x is an order of magnitude larger."""
    random, data, square = np.random.default_rng(0), f"tensor<4x{SIZE}xf32>", f"tensor<{SIZE}x{SIZE}xf32>"

    def numbers(array: Any) -> str:
        return ", ".join(f"{v:.6f}" for v in array.ravel())

    lines, x = list[str](), "%x"
    for block in range(BLOCKS):
        weights, gain = numbers(random.normal(0, 0.4, (SIZE, SIZE))), numbers(random.uniform(0.5, 2, SIZE))
        lines.append(f"""
  %w{block} = nn.constant <{square}, [{weights}]> : {square}
  %g{block} = nn.constant <tensor<{SIZE}xf32>, [{gain}]> : tensor<{SIZE}xf32>
  %n{block} = nn.layer_norm {x} {{axis = 1 : i64, epsilon = 1.0E-05 : f32}} : {data} -> {data}
  %m{block} = nn.mul %n{block}, %g{block} : {data}, tensor<{SIZE}xf32> -> {data}
  %f{block} = nn.fully_connected %m{block}, %w{block} : {data}, {square} -> {data}
  %s{block} = nn.add {x}, %f{block} : {data}, {data} -> {data}""")
        x = f"%s{block}"
    path = tmp_path_factory.mktemp("residuals") / "net.mlir"
    path.write_text(f"func.func @main(%x: {data}) -> {data} {{{''.join(lines)}\n  func.return {x} : {data}\n}}\n")
    return qmlir.load(path)


def score(network: ModuleOp, wide: ModuleOp) -> float:
    truth, found = (np.stack([run(x).reshape(-1) for x in SAMPLES]) for run in map(qmlir.compile, (network, wide)))
    return sqnr(truth, found)


@pytest.mark.slow
@pytest.mark.parametrize("residuals", ["int16", "auto"])
def test_streams_gain(network: ModuleOp, residuals: str) -> None:
    narrow, wide = (qmlir.quantize(network, data=list(SAMPLES), residuals=r) for r in ("same", residuals))
    reasons = [entry.reason for entry in qmlir.decisions(wide) if "residual stream of 3 sums" in entry.reason]
    assert len(reasons) == 3 * BLOCKS  # the layers, the sums and the normalizations; their gains are in the weights
    assert all("8 bits would leave" in reason for reason in reasons) == (residuals == "auto")
    assert score(network, wide) > score(network, narrow) + 3


@pytest.mark.parametrize(
    ("schema", "precision"),
    [("asymmetric", "int8"), ("asymmetric", "uint8"), ("symmetric", "int8"), ("symmetric_with_power2_scale", "int8")],
)
def test_machine_code_is_reference(network: ModuleOp, schema: str, precision: str) -> None:
    wide = qmlir.quantize(network, data=list(SAMPLES), residuals="int16", schema=schema, precision=precision)
    assert {entry.outcome for entry in qmlir.decisions(wide)} == {"quantized"}
    reference, compiled = qmlir.reference(wide), qmlir.compile(wide)
    for x in SAMPLES:
        assert np.array_equal(reference(x), compiled(x))


def test_rules(network: ModuleOp) -> None:
    """A precision that a rule names stays."""
    policy = {"rules": [{"kind": "layer_norm", "precision": "int8"}]}
    wide = qmlir.quantize(network, data=list(SAMPLES), residuals="int16", policy=policy)
    norms = [e.reason for e in qmlir.decisions(wide) if e.operation == "nn.layer_norm"]
    assert norms == ["i8 activations"] * BLOCKS


@pytest.mark.slow
def test_layers_read_outliers_of_a_stream() -> None:
    """The range through which a layer reads a wide stream in 8 bits keeps the extremes that a least error cuts off."""
    random, data = np.random.default_rng(3), "tensor<64x8xf32>"
    weights = ", ".join(f"{v:.6f}" for v in random.normal(0, 0.4, 64))
    text = f"""
func.func @main(%x: {data}) -> {data} {{
  %w = nn.constant <tensor<8x8xf32>, [{weights}]> : tensor<8x8xf32>
  %0 = nn.fully_connected %x, %w : {data}, tensor<8x8xf32> -> {data}
  %s = nn.add %x, %0 : {data}, {data} -> {data}
  %y = nn.fully_connected %s, %w : {data}, tensor<8x8xf32> -> {data}
  func.return %y : {data}
}}"""
    samples = [random.standard_normal((64, 8)).astype(np.float32) for _ in range(400)]
    spans = dict[str, float]()
    for calibration in ("auto", "mse"):
        module = calibrated(parsed(text), samples)
        seen = next(o.bounds for o in module.walk() if isinstance(o, ObserveOp) and isinstance(o.value.owner, AddOp))
        found = quantized(module, residuals="int16", calibration=calibration)
        (read,) = (o for o in found.walk() if isinstance(o, RequantizeOp) and uniform(o.y).storage_width == 8)
        assert seen is not None
        assert uniform(read.x).storage_width == 16
        spans[calibration] = 255 * uniform(read.y).scale / (seen[1] - seen[0])
    assert spans["auto"] >= 0.99 > 0.93 > spans["mse"]


def test_a_chain_of_sums_is_traced_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sum of a chain belongs to the same stream; none is asked for its operands again for each later sum."""
    data, length = "tensor<4xf32>", 200
    lines = [f"%s0 = nn.relu %x : {data} -> {data}"]
    for n in range(length):
        lines += [
            f"%r{n} = nn.relu %s{n} : {data} -> {data}",
            f"%s{n + 1} = nn.add %s{n}, %r{n} : {data}, {data} -> {data}",
        ]
    body = "\n".join([*lines, f"func.return %s{length} : {data}"])
    module = parsed(f"func.func @main(%x: {data}) -> {data} {{\n{body}\n}}")
    asked: list[object] = []

    def counted(op: object) -> Any:
        asked.append(op)
        return data_operands(op)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(widen_residuals, "data_operands", counted)
    (stream,) = widen_residuals.residual_streams(main_function(module).body.block)
    assert len(stream.sums) == length
    assert len(asked) < 10 * length

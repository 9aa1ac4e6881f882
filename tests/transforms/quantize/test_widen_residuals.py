"""Residual streams of 16 bits between layers of 8: the ledger says so, and machine code has the reference's bits."""

from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.scores import sqnr

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


def score(network: ModuleOp, quantized: ModuleOp) -> float:
    truth, found = (np.stack([run(x).reshape(-1) for x in SAMPLES]) for run in map(qmlir.compile, (network, quantized)))
    return sqnr(truth, found)


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
    quantized = qmlir.quantize(network, data=list(SAMPLES), residuals="int16", schema=schema, precision=precision)
    assert {entry.outcome for entry in qmlir.decisions(quantized)} == {"quantized"}
    reference, compiled = qmlir.reference(quantized), qmlir.compile(quantized)
    for x in SAMPLES:
        assert np.array_equal(reference(x), compiled(x))


def test_rules(network: ModuleOp) -> None:
    """A precision that a rule names stays."""
    policy = {"rules": [{"kind": "layer_norm", "precision": "int8"}]}
    quantized = qmlir.quantize(network, data=list(SAMPLES), residuals="int16", policy=policy)
    norms = [e.reason for e in qmlir.decisions(quantized) if e.operation == "nn.layer_norm"]
    assert norms == ["i8 activations"] * BLOCKS

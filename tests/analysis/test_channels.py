"""Channels that are further from the float network than their storage explains."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.analysis.channels import MARGIN, survey
from qmlir.cli.main import main
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.quantizable import uniform
from qmlir.frontends.onnx import load_onnx
from tests.cli.small import write_small
from tests.conftest import crossed
from tests.frontends.onnx.agreement import floats, model, node

Array = npt.NDArray[Any]

SAMPLES = [floats(1, 3, 8, 8, seed=seed) for seed in range(3)]


def layer(kind: str) -> ModuleOp:
    """A convolution whose channels are of very different heights, beside biases that are not."""
    groups = {"group": 3} if kind == "depthwise" else {}
    weights = floats(6, 1 if groups else 3, 3, 3) * np.float32(10) ** np.arange(0, -12, -2)[:, None, None, None]
    arrays = {"w": weights.astype(np.float32), "b": np.array([1, 2, -3, 4, 5, -6], np.float32)}
    return load_onnx(model(node("Conv", "x w b", **groups), {"x": (1, 3, 8, 8)}, arrays))


@pytest.mark.slow
@crossed(
    {"precision, weights": [("int8", "same"), ("int16", "same"), ("int16", "int8")], "kind": ["full", "depthwise"]}
)
def test_what_rounding_explains_is_in_line(kind: str, precision: Any, weights: Any) -> None:
    module = layer(kind)
    profile = qmlir.profile(module, SAMPLES)
    rows = survey(module, qmlir.quantize(module, profile, precision=precision, weight_precision=weights), SAMPLES)
    assert len(rows) == 6
    assert rows[0].excess < MARGIN / 2
    assert {row.channel for row in rows} == set(range(6))


def test_a_channel_without_its_bias_is_named() -> None:
    module = layer("full")
    quantized = qmlir.quantize(module, qmlir.profile(module, SAMPLES), precision="int16")
    (op,) = (o for o in quantized.walk() if isinstance(o, WeightedOp))
    assert op.b is not None
    old = op.b.owner
    assert isinstance(old, ConstantOp)
    lost = old.value.array.copy()
    lost[4] = 0
    new = ConstantOp(lost, old.y.type, dict(old.attributes))
    op.parent.insert_op_before(new, old)  # type: ignore[union-attr]
    op.operands[2] = new.y
    worst, *others = survey(module, quantized, SAMPLES)
    assert (worst.channel, worst.operation, worst.is_out_of_line) == (4, "nn.conv2d", True)
    assert worst.steps * uniform(op.y).scale == pytest.approx(5, rel=0.01)
    assert not any(row.is_out_of_line for row in others)


@pytest.mark.slow
def test_the_command_names_a_channel_that_saturates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    small = write_small(tmp_path)
    network, data = str(small.onnx), str(small.data)
    profile, quantized = str(tmp_path / "p.yaml"), str(tmp_path / "q.mlir")
    assert main(["profile", network, "--data", data, "-o", profile]) == 0
    command = ["analyze", network, quantized, "--data", data, "--channels"]
    assert main(["quantize", network, "--profile", profile, "-o", quantized]) == 0
    assert main(command) == 0
    assert "0 of 7 channels are out of line over 6 samples; by more than 12 dB" in capsys.readouterr().out
    rule = "name=scores range=-0.001,0.001"
    assert main(["quantize", network, "--profile", profile, "--rule", rule, "-o", quantized]) == 0
    assert main([*command, "--json", str(tmp_path / "rows.json")]) == 0
    out = capsys.readouterr().out
    rows = json.loads((tmp_path / "rows.json").read_text())["channels"]
    assert rows
    assert all(row["tensor"] == "scores" and row["excess"] > MARGIN for row in rows)
    assert f"{len(rows)} of 7 channels are out of line" in out

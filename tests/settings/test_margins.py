"""The option `margins` is a flag, a setting of policies, an argument and an option of the pass, by its declaration."""

from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.cli.main import main
from tests.conftest import ROOT

DIGITS = ROOT / "examples" / "digits"


def scales(module: object) -> list[str | None]:
    return [entry.scale for entry in qmlir.decisions(module)]  # type: ignore[arg-type]


@pytest.mark.slow
def test_every_door_knows_the_option(tmp_path: Path) -> None:
    samples = list(np.load(DIGITS / "digits.npz")["calibration_images"][:8, None])
    wide = scales(qmlir.quantize(DIGITS / "digits.onnx", data=samples, calibration="auto"))
    narrow = scales(qmlir.quantize(DIGITS / "digits.onnx", data=samples, calibration="auto", margins=False))
    ruled = qmlir.quantize(DIGITS / "digits.onnx", data=samples, policy={"default": {"margins": False}})
    assert wide != narrow == scales(ruled)
    np.save(tmp_path / "x.npy", np.concatenate(samples))
    arguments = ["quantize", str(DIGITS / "digits.onnx"), "--data", str(tmp_path / "x.npy"), "--no-margins", "-q"]
    assert main([*arguments, "-o", str(tmp_path / "q.mlir")]) == 0
    assert scales(qmlir.load(tmp_path / "q.mlir")) == narrow

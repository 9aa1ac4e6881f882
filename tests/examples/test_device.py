"""The page that brings up a device, from top to bottom: its files, its commands, what they answer, and its Python."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from tests.reader import Reader


@pytest.mark.slow
def test_the_page(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(root / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    reader = Reader(root, capsys)
    reader.follow((root / "examples" / "device" / "README.md").read_text("utf-8"))
    assert reader.checked >= 6
    ours, reference, serial = (np.load(f"{name}.npz")["scores"] for name in ("outputs", "reference", "serial"))
    assert np.array_equal(ours, reference)
    assert np.array_equal(ours, serial)
    labels = np.load("examples/digits/digits.npz")["test_labels"]
    assert (ours.reshape(len(labels), -1).argmax(1) == labels).mean() > 0.95
    assert os.path.getsize("commands.mlir") > 0

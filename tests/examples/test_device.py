"""The page that brings up a device, from top to bottom: its files, its commands, what they answer, and its Python."""

import os
import re
import shlex
import shutil
from pathlib import Path

import numpy as np
import pytest

from qmlir.cli import main as qmlir_main
from qmlir.cli import opt

BLOCK = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
MAINS = {"qmlir": qmlir_main.main, "qmlir-opt": opt.main}


class Reader:
    """Who follows the page: a file that grows, and the answer of the last command."""

    def __init__(self, capsys: pytest.CaptureFixture[str]):
        self.capsys, self.answer, self.status, self.asked = capsys, "", 0, 0

    def toml(self, text: str) -> None:
        with Path("mine.toml").open("a", encoding="utf-8") as file:
            file.write(text + "\n")

    def sh(self, text: str) -> None:
        for line in text.splitlines():
            tool, *arguments = shlex.split(line)
            if tool == "touch":
                Path(arguments[0]).touch()
                continue
            assert self.status == 0, self.answer
            self.status = MAINS[tool](arguments)
            shown = self.capsys.readouterr()
            self.answer = shown.out + shown.err

    def text(self, text: str) -> None:
        for line in text.splitlines():
            assert line in self.answer
            self.asked += 1
        if "error: " in text:
            assert self.status == 1
            self.status = 0

    def python(self, text: str) -> None:
        exec(text, {})


def test_the_page(
    root: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(root / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    reader = Reader(capsys)
    for kind, text in BLOCK.findall((root / "examples" / "device" / "README.md").read_text("utf-8")):
        getattr(reader, kind)(text)
    assert reader.status == 0
    assert reader.asked >= 6
    ours, reference, serial = (np.load(f"{name}.npz")["scores"] for name in ("outputs", "reference", "serial"))
    assert np.array_equal(ours, reference)
    assert np.array_equal(ours, serial)
    labels = np.load("examples/digits/digits.npz")["test_labels"]
    assert (ours.reshape(len(labels), -1).argmax(1) == labels).mean() > 0.95
    assert os.path.getsize("commands.mlir") > 0

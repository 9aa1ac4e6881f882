"""The examples in the help texts: each command has some, and they run in order on the digits network."""

import shlex
import shutil
from pathlib import Path

import pytest

from qmlir.cli import main
from qmlir.cli.examples import EXAMPLES

COMMANDS = main.command_parsers()


def test_each_command_has_an_example() -> None:
    assert set(EXAMPLES) == set(COMMANDS)


@pytest.mark.parametrize("name", EXAMPLES)
def test_help_ends_with_the_example(name: str) -> None:
    text = COMMANDS[name].format_help()
    assert text.endswith(f"example:\n{EXAMPLES[name]}\n")
    assert "  --json [FILE]" in text or name == "completion"


@pytest.mark.slow
def test_they_run(root: Path, kept: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMLIR_CACHE", str(kept))
    for name in ("digits.onnx", "digits.npz"):
        shutil.copy(root / "examples" / "digits" / name, tmp_path)
    monkeypatch.chdir(tmp_path)
    for name, lines in EXAMPLES.items():
        if name == "profile merge":
            shutil.copy("digits.yaml", "more.yaml")
        for line in () if name == "completion" else lines.replace("\\\n", "").splitlines():
            program, *arguments = shlex.split(line)
            assert (program, main.main(arguments)) == ("qmlir", 0), line

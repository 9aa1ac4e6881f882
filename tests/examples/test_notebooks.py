"""The notebooks run as scripts, and are what marimo would save."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

NOTEBOOKS = sorted((ROOT / "examples" / "notebooks").glob("*.py"))


def run(*words: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, *words], capture_output=True, text=True, check=False)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_runs_as_a_script(notebook: Path, kept: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QMLIR_CACHE", str(kept))
    done = run("-W", "ignore", notebook)
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.splitlines()) >= 3


@pytest.mark.slow
def test_marimo_finds_nothing_wrong() -> None:
    assert len(NOTEBOOKS) == 3
    done = run("-W", "ignore", "-m", "marimo", "check", "--strict", *NOTEBOOKS)
    assert done.returncode == 0, done.stdout + done.stderr

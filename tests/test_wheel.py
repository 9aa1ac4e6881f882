"""The wheel holds all that the package needs, and works in an environment of its own, away from the repository."""

import os
import subprocess
import sys
import venv
import zipfile
from email import message_from_string
from email.message import Message
from pathlib import Path

import numpy as np
import pytest

from tests.conftest import ROOT

pytestmark = pytest.mark.slow

UNREACHABLE = ("Could not find a version", "No matching distribution", "Connection", "NewConnectionError")


def pip(python: str | Path, *arguments: str | Path) -> None:
    """Runs pip; a test that cannot reach a package index is skipped."""
    command = [python, "-m", "pip", "--disable-pip-version-check", "--quiet", *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT)
    if done.returncode and any(sign in done.stderr for sign in UNREACHABLE):
        pytest.skip(f"no package index can be reached: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    sources = tmp_path_factory.mktemp("sources")  # a copy: builds leave files beside the sources
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    for name in filter(None, listed.stdout.split("\0")):
        if name.startswith("qmlir/") or name in ("pyproject.toml", "README.md", "LICENSE"):
            (sources / name).parent.mkdir(parents=True, exist_ok=True)
            (sources / name).write_bytes((ROOT / name).read_bytes())
    pip(sys.executable, "wheel", "--no-deps", "--wheel-dir", folder, sources)
    (built,) = folder.glob("qmlir-*.whl")
    return built


def metadata(wheel: Path) -> Message:
    with zipfile.ZipFile(wheel) as archive:
        (name,) = (n for n in archive.namelist() if n.endswith(".dist-info/METADATA"))
        return message_from_string(archive.read(name).decode())


def test_holds_every_file_of_the_package(wheel: Path) -> None:
    listed = subprocess.run(["git", "ls-files", "qmlir"], cwd=ROOT, capture_output=True, text=True, check=True)
    with zipfile.ZipFile(wheel) as archive:
        held = set(archive.namelist())
    assert sorted(set(listed.stdout.split()) - held) == []
    assert any(name.endswith("targets/vta.toml") for name in held)
    assert any(name.endswith("licenses/LICENSE") for name in held)


def test_metadata(wheel: Path) -> None:
    said = metadata(wheel)
    assert said["License-Expression"] == "Apache-2.0 WITH LLVM-exception"
    assert set(said.get_all("Provides-Extra", [])) >= {"images", "report", "test", "docs", "dev", "interop", "torch"}
    assert said["Description-Content-Type"] == "text/markdown"


def test_runs_in_an_empty_environment(wheel: Path, tmp_path: Path) -> None:
    venv.create(tmp_path / "env", with_pip=True)
    programs = tmp_path / "env" / "bin"
    pip(programs / "python", "install", wheel)
    environment = {**os.environ, "PYTHONPATH": "", "PATH": f"{programs}:{os.environ['PATH']}"}
    for name in ("digits.onnx", "digits.npz"):
        (tmp_path / name).write_bytes((ROOT / "examples" / "digits" / name).read_bytes())

    def qmlir(*arguments: str) -> str:
        command = [programs / "qmlir", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    assert metadata(wheel)["Version"] in qmlir("--version")
    data = "digits.npz:calibration_images"
    qmlir("quantize", "digits.onnx", "--data", data, "--samples", "20", "--target", "vta", "-o", "q.mlir")
    qmlir("quantize", "digits.onnx", "--data", data, "--samples", "20", "-o", "q.mlir")
    qmlir("run", "q.mlir", "--data", "digits.npz:test_images", "-o", "outputs.npz")
    labels = np.load(tmp_path / "digits.npz")["test_labels"]
    scores = np.load(tmp_path / "outputs.npz")["scores"].reshape(len(labels), -1)
    assert (scores.argmax(axis=1) == labels).mean() > 0.97

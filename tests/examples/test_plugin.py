"""The example package in an environment of its own: pip installs it, and the commands of its page use it."""

import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


class Environment:
    """A virtual environment that sees the packages of this one, and into which pip installs more."""

    def __init__(self, folder: Path, root: Path):
        self.folder, self.root = folder, root
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", folder], check=True)
        self.bin = folder / ("Scripts" if os.name == "nt" else "bin")
        where = "import sysconfig; print(sysconfig.get_path('purelib'))"
        site = Path(self.run("python", "-c", where).strip())
        # Behind the environment's own packages come those of this one, editable qmlir and pip included.
        (site / "parent.pth").write_text(f"import site; site.addsitedir({sysconfig.get_path('purelib')!r})\n")
        for tool in ("qmlir", "qmlir-opt", "xdsl-opt", "filecheck", "lit", "pytest"):
            script = Path(sys.executable).with_name(tool).read_text(encoding="utf-8")
            (self.bin / tool).write_text(re.sub(r"\A#!.*", f"#!{self.bin / 'python'}", script), encoding="utf-8")
            (self.bin / tool).chmod(0o755)

    def run(self, tool: str, *arguments: str | Path, cwd: Path | None = None) -> str:
        path = os.pathsep.join([str(self.bin), os.environ["PATH"]])
        environment = {**os.environ, "PATH": path, "PYTHONPATH": "", "QMLIR_CACHE": "off"}
        done = subprocess.run(
            [self.bin / tool, *arguments], cwd=cwd, env=environment, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout


def installed(root: Path, folder: Path, example: str) -> Environment:
    """An environment in which the package of an example is installed from a copy of its folder."""
    made = Environment(folder / "venv", root)
    source = folder / example
    shutil.copytree(root / "examples" / example, source, ignore=shutil.ignore_patterns("build", "*.egg-info"))
    made.run("python", "-m", "pip", "install", "--quiet", "--no-deps", source)
    return made


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory, root: Path) -> Environment:
    return installed(root, tmp_path_factory.mktemp("plugin"), "plugin")


def test_the_page(environment: Environment, root: Path, tmp_path: Path) -> None:
    page = (root / "examples" / "plugin" / "README.md").read_text(encoding="utf-8")
    (commands,) = re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    (listed,) = re.findall(r"^```text\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    shutil.copytree(root / "examples" / "digits", tmp_path / "examples" / "digits")
    shown = ""
    for tool, *arguments in map(shlex.split, commands.splitlines()):
        if tool != "pip":  # the fixture has installed it
            shown += environment.run(tool, *arguments, cwd=tmp_path)
    assert listed in shown
    assert "calibration by clip-tails of qmlir-example 0.1.0" in shown
    assert "rounding by carry-errors of qmlir-example 0.1.0" in shown
    assert "scores: float32[" in shown
    quantized = (tmp_path / "smooth_int8.mlir").read_text(encoding="utf-8")
    assert quantized.count("example.squareplus") == 4


def test_its_own_tests(environment: Environment, root: Path, tmp_path: Path) -> None:
    shutil.copytree(root / "examples" / "plugin" / "tests", tmp_path / "tests")
    assert "5 passed" in environment.run("pytest", "-q", "-p", "no:cacheprovider", "tests", cwd=tmp_path)
    assert "Passed: 1" in environment.run("lit", tmp_path / "tests")


def test_help_and_policies(environment: Environment, root: Path, tmp_path: Path) -> None:
    shown = environment.run("qmlir-opt", "--list-passes")
    assert "  --smooth-relu\n      Replaces relu by squareplus (qmlir-example 0.1.0)\n" in shown
    words = " ".join(shown.split())  # lines break at the terminal's width
    assert "aciq | clip-tails | percentile-N> (default: auto)" in words
    assert "<auto | nearest | gptq | adaround | carry-errors> (default: auto)" in words
    (tmp_path / "policy.yaml").write_text("rules: [{layer: first, calibration: clip-tails}]", encoding="utf-8")
    model, data = root / "examples/digits/digits.onnx", root / "examples/digits/digits.npz"
    arguments = (model, "--data", f"{data}:calibration_images", "--policy", "policy.yaml", "--ledger", "l.json")
    environment.run("qmlir", "quantize", *arguments, "-o", "q.mlir", cwd=tmp_path)
    assert (tmp_path / "l.json").read_text(encoding="utf-8").count("clip-tails of qmlir-example 0.1.0") == 1

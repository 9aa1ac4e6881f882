"""xdsl-opt, as it is installed, reads our dialects and runs our passes."""

import subprocess
import sys
from pathlib import Path

import pytest
from xdsl.universe import Universe

from qmlir.cli import opt
from qmlir.ir.universe import QMLIR_UNIVERSE

XDSL_OPT = Path(sys.executable).with_name("xdsl-opt")


def xdsl_opt(*arguments: str) -> str:
    done = subprocess.run([XDSL_OPT, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.slow
@pytest.mark.parametrize(
    "passes",
    [
        "simplify",
        "simplify,quantize{schema=symmetric per-channel=false calibration=minmax},nn-to-qint",
        "simplify,quantize,nn-to-qint,tabulate,nn-to-loops,qint-to-loops,finish-loops",
    ],
)
def test_xdsl_opt_runs_our_passes(passes: str, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = str(root / "examples/digits/model.mlir")
    assert opt.main([f"--pass-pipeline={passes}", "--inline-weights", model]) == 0
    ours = capsys.readouterr().out.strip()
    assert xdsl_opt("-p", passes, model) == ours


@pytest.mark.slow
def test_xdsl_opt_reads_what_we_write(root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = tmp_path / "qint.mlir"
    assert opt.main(["--quantize", "--nn-to-qint", str(root / "examples/digits/model.mlir"), "-o", str(text)]) == 0
    assert xdsl_opt(str(text)) == text.read_text(encoding="utf-8").strip()
    assert xdsl_opt("--print-op-generic", str(text)).startswith('"builtin.module"')


def test_no_name_is_xdsls() -> None:
    """Two universes may not have a name in common: `xdsl-opt` would not start."""
    whole = Universe.get_multiverse()
    assert whole.all_dialects.keys() >= QMLIR_UNIVERSE.all_dialects.keys() >= {"nn", "qint", "quant", "npu"}
    assert whole.all_passes.keys() >= QMLIR_UNIVERSE.all_passes.keys() >= {"quantize", "nn-to-qint"}
    for name, dialect in QMLIR_UNIVERSE.all_dialects.items():
        assert dialect().name == name

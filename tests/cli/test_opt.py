"""The driver as a whole: what lit cannot show. Bugs, interrupts, files that must not appear, and the time it takes."""

import io
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects import arith
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, PatternRewriteWalker, RewritePattern, op_type_rewrite_pattern

from qmlir.cli import opt
from qmlir.ir import passes
from tests.cli.small import is_one_paragraph

TEXT = "func.func @f() {\n  %a = arith.constant 1 : i32\n  func.return\n}\n"


@dataclass(frozen=True)
class BuggyPass(ModulePass):
    """Has a bug in a pattern."""

    name = "buggy"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        PatternRewriteWalker(BuggyPattern()).rewrite_module(op)


class BuggyPattern(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: arith.ConstantOp, rewriter: PatternRewriter, /) -> None:
        raise KeyError("lost")


@dataclass(frozen=True)
class BreakingPass(ModulePass):
    """Leaves IR that does not verify."""

    name = "breaking"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for inner in op.walk():
            if isinstance(inner, arith.ConstantOp):
                inner.detach()


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setitem(passes.PASSES, "buggy", f"{__name__}:BuggyPass")
    monkeypatch.setitem(passes.PASSES, "breaking", f"{__name__}:BreakingPass")
    monkeypatch.delenv("QMLIR_DEBUG", raising=False)
    path = tmp_path / "f.mlir"
    path.write_text(TEXT)
    return str(path)


def test_a_bug_is_one_paragraph_without_traceback_or_ir(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["--buggy", file]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"error: {file}:2:8: pass \"buggy\" failed with KeyError: 'lost' at cli/test_opt.py:")
    assert "please report it" in err
    assert is_one_paragraph(err)


@pytest.mark.parametrize("how", ["--debug", "QMLIR_DEBUG"])
def test_debug_shows_the_traceback(
    how: str, file: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    flags = [how] if how.startswith("--") else []
    if not flags:
        monkeypatch.setenv(how, "1")
    assert opt.main(["--buggy", file, *flags]) == 1
    err = capsys.readouterr().err
    assert "match_and_rewrite" in err
    assert "builtin.module" not in err


def test_a_pass_that_leaves_invalid_ir(file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main(["--breaking", "--verify-each=false", "--elide-weights", file]) == 0
    capsys.readouterr()
    Path(file).write_text("func.func @f() -> i32 {\n  %a = arith.constant 1 : i32\n  func.return %a : i32\n}")
    assert opt.main(["--breaking", file]) == 1
    assert 'f.mlir:1:1: pass "breaking" left invalid IR: func.func: ' in capsys.readouterr().err


def test_an_error_leaves_the_old_file(file: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "out.mlir"
    target.write_text("old")
    assert opt.main(["--buggy", file, "-o", str(target)]) == 1
    assert target.read_text() == "old"
    assert sorted(p.name for p in tmp_path.iterdir()) == ["f.mlir", "out.mlir"]
    assert opt.main([file, "-o", str(target)]) == 0
    assert target.read_text().startswith("builtin.module")


def test_a_device_stays_a_device(file: str) -> None:
    assert opt.main([file, "-o", "/dev/null"]) == 0
    assert Path("/dev/null").is_char_device()


def test_a_link_stays_a_link(file: str, tmp_path: Path) -> None:
    real, link = tmp_path / "real.mlir", tmp_path / "link.mlir"
    real.write_text("old")
    link.symlink_to(real)
    assert opt.main([file, "-o", str(link)]) == 0
    assert link.is_symlink()
    assert real.read_text().startswith("builtin.module")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"\x80\x02\xff", "must be MLIR text, got binary data"),
        (b"func.func @f( {", ":1:15: Expected argument or type"),
        (b'"', ":1:1: a string needs a quote at its end"),
        (b"arith.constant 1 : i32 }", ":1:24: Could not parse entire input!"),
    ],
)
def test_wrong_text(content: bytes, message: str, file: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path(file).write_bytes(content)
    assert opt.main([file]) == 1
    err = capsys.readouterr().err
    assert message in err
    assert is_one_paragraph(err)


def test_no_operation_is_an_empty_module(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stdin", io.StringIO("// nothing\n"))
    assert opt.main([]) == 0
    assert capsys.readouterr().out == "builtin.module {\n}\n"


def test_a_folder_is_no_input(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main([str(tmp_path)]) == 1
    assert capsys.readouterr().err == f"error: {tmp_path}: is a directory\n"


@pytest.mark.slow
def test_help_is_there_within_a_second() -> None:
    command = [sys.executable, "-c", "import sys; from qmlir.cli.opt import main; sys.exit(main())", "--help"]
    seconds: list[float] = []
    for _ in range(3):  # the machine may be busy: the best of three counts
        start = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - start)
    assert min(seconds) < 1.0

"""Standard output that is full, closed or read in part, and standard error that nobody can read."""

import errno
import io
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.small import Small, run

FULL = Path("/dev/full")
LISTING = [sys.executable, "-m", "qmlir", "device", "list"]
PASSES = [sys.executable, "-c", "import sys; from qmlir.cli.opt import main; sys.exit(main())", "--list-passes"]
UNKNOWN = [sys.executable, "-m", "qmlir", "devise"]

needs_full = pytest.mark.skipif(not FULL.exists(), reason="this system has no /dev/full")


def shell(words: list[str], redirected: str) -> tuple[int, str]:
    """The exit status and the standard error of a command in a shell."""
    line = '"$@" ' + redirected
    ended = subprocess.run(["bash", "-c", line, "bash", *words], capture_output=True, text=True, check=False)
    return ended.returncode, ended.stderr


@pytest.mark.slow
@needs_full
@pytest.mark.parametrize("words", [LISTING, PASSES, [*LISTING[:3], "--help"]], ids=["qmlir", "qmlir-opt", "help"])
def test_full_output_is_an_error_in_a_sentence(words: list[str]) -> None:
    status, error = shell(words, ">/dev/full")
    assert (status, error) == (1, "error: standard output: must be writable, got no space left on device\n")


@pytest.mark.slow
@pytest.mark.parametrize("words", [LISTING, PASSES], ids=["qmlir", "qmlir-opt"])
def test_closed_output_is_an_error_in_a_sentence(words: list[str]) -> None:
    assert shell(words, ">&-") == (1, "error: standard output: must be writable, got bad file descriptor\n")


def test_nothing_is_said_to_a_reader_who_left() -> None:
    assert shell(PASSES, "| true; exit ${PIPESTATUS[0]}") == (1, "")


@pytest.mark.slow
@needs_full
@pytest.mark.parametrize("where", ["2>/dev/full", "2>&-"])
def test_errors_that_nobody_reads_keep_the_status(where: str) -> None:
    assert shell(LISTING, f">/dev/null {where}") == (0, "")
    assert shell(UNKNOWN, f">/dev/null {where}") == (1, "")


@pytest.mark.slow
def test_no_file_takes_the_place_of_a_closed_stream(small: Small) -> None:
    graph = [*LISTING[:3], "graph", str(small.onnx), "-o", str(small / "g.dot"), "--json"]
    assert shell(graph, "<&- >&- 2>&-") == (1, "")
    assert (small / "g.dot").read_text().startswith("digraph")


class Failing(io.StringIO):
    """A stream that fails as the system's do."""

    def __init__(self, number: int):
        super().__init__()
        self.number = number

    def write(self, text: str) -> int:
        raise OSError(self.number, "cannot be written")


COMMANDS: dict[str, list[str]] = {
    "import": ["import", "small.onnx", "-o", "a.mlir"],
    "profile": ["profile", "small.onnx", "--data", "data.npz", "-o", "a.yaml"],
    "profile merge": ["profile", "merge", "p.yaml", "-o", "a.yaml"],
    "quantize": ["quantize", "small.onnx", "--profile", "p.yaml", "-o", "a.mlir"],
    "print-config": ["quantize", "small.onnx", "--print-config"],
    "ledger": ["ledger", "q.mlir"],
    "ledger diff": ["ledger", "diff", "q.mlir", "q.mlir"],
    "analyze": ["analyze", "small.onnx", "q.mlir", "--data", "data.npz"],
    "compare": ["compare", "q.mlir", "q.mlir", "--data", "data.npz"],
    "crosscheck": ["crosscheck", "q.mlir", "q.mlir@reference", "--data", "data.npz"],
    "certify": ["certify", "q.mlir", "-o", "a.json"],
    "graph": ["graph", "small.onnx", "-o", "a.dot"],
    "device show": ["device", "show", "nmp"],
    "device check": ["device", "check", "nmp"],
    "compile": ["compile", "q.mlir", "-o", "a.o"],
    "export": ["export", "q.mlir", "-o", "a.onnx"],
    "run": ["run", "q.mlir", "--data", "data.npz"],
    "document": ["run", "q.mlir", "--data", "data.npz", "--json"],
    "completion": ["completion", "bash"],
}


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tests.cli.small import write_small

    small = write_small(tmp_path_factory.mktemp("streams"))
    assert run("profile", small.onnx, "--data", small.data, "-o", small / "p.yaml", "-q") == 0
    assert run("quantize", small.onnx, "--profile", small / "p.yaml", "-o", small / "q.mlir", "-q") == 0
    return small.folder


@pytest.mark.parametrize("words", COMMANDS.values(), ids=COMMANDS)
def test_every_command_tells_that_its_text_is_lost(
    words: list[str], quantized: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(quantized)
    capsys.readouterr()
    monkeypatch.setattr(sys, "stdout", Failing(errno.ENOSPC))
    assert run(*words) == 1
    error = capsys.readouterr().err
    assert "error: standard output: must be writable, got cannot be written" in error
    assert "bug" not in error
    monkeypatch.setattr(sys, "stdout", Failing(errno.EPIPE))
    assert run(*words) == 1
    assert "rror" not in capsys.readouterr().err


def test_letters_that_an_encoding_lacks_are_escaped(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    narrow = io.TextIOWrapper(io.BytesIO(), encoding="ascii", write_through=True)
    monkeypatch.setattr(sys, "stdout", narrow)
    (tmp_path / "µ.yaml").write_text("")
    assert run("completion", "bash") == 0
    assert run("graph", "examples/digits/model.mlir", "-o", tmp_path / "µ.dot") == 0
    narrow.buffer.seek(0)
    assert rb"\xb5.dot: written" in narrow.buffer.read()

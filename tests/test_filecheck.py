"""The tests of filecheck_tests/ in this process: what `lit` does with a new Python for each command, much faster.

Only the commands those tests use are known here (a test with another one is left to lit): qmlir-opt, filecheck, not,
cat, test -e, rm, cp, echo, and between them `|`, `&&`, `<`, `>`, `2>` and `2>&1`.
"""

import contextlib
import io
import shlex
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from unittest import mock

import filecheck.main
import pytest

from qmlir.cli import opt
from tests.conftest import ROOT

FOLDER = ROOT / "filecheck_tests"
FILES = sorted(f for f in FOLDER.rglob("*.mlir") if "Output" not in f.parts)


@dataclass
class Outcome:
    """What a command left: exit status and text."""

    status: int = 0
    out: str = ""
    err: str = ""


class NeedsShell(Exception):
    """A command that only a real shell can run."""


@pytest.mark.parametrize("file", FILES, ids=lambda f: str(f.relative_to(FOLDER)))
def test_filecheck(file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    lines = run_lines(file, tmp_path / "out")
    assert lines, "a test without a RUN line tests nothing"
    for line in lines:
        try:
            outcome = run(line)
        except NeedsShell as need:
            pytest.skip(f"{need} needs a shell: run lit")
        assert outcome.status == 0, f"{line}\nstatus {outcome.status}\n{outcome.out}\n{outcome.err}"


def run_lines(file: Path, temporary: Path) -> list[str]:
    """The commands of a test, with lit's substitutions made."""
    lines: list[str] = []
    continued = False
    for text in file.read_text(encoding="utf-8").splitlines():
        _, found, command = text.partition("RUN:")
        if not found:
            continue
        command = command.strip()
        lines[-1:] = [lines[-1] + " " + command] if continued else [*lines[-1:], command]
        continued = lines[-1].endswith("\\")
        lines[-1] = lines[-1].removesuffix("\\")
    for name, value in (("%s", file), ("%S", file.parent), ("%t", temporary)):
        lines = [line.replace(name, str(value)) for line in lines]
    return lines


def run(line: str) -> Outcome:
    """Run one line: commands joined by `&&`, each a pipe."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars="|&;<>")
    lexer.whitespace_split = True
    outcome = Outcome()
    for part in split(list(lexer), "&&"):
        outcome.out = ""
        for stage in split(part, "|"):
            stage_outcome = command(stage, outcome.out)
            outcome = Outcome(
                max(outcome.status, stage_outcome.status), stage_outcome.out, outcome.err + stage_outcome.err
            )
        if outcome.status:
            break
    return outcome


def split(words: list[str], separator: str) -> list[list[str]]:
    """The words between separators."""
    parts: list[list[str]] = [[]]
    for word in words:
        if word == separator:
            parts.append([])
        else:
            parts[-1].append(word)
    return parts


def command(words: list[str], text: str) -> Outcome:
    """Run one command on the text of its standard input; what its redirections leave goes on as output."""
    arguments: list[str] = []
    streams: dict[str, Stream] = {"1": Stream(), "2": Stream()}
    pipe, terminal = streams["1"], streams["2"]
    rest = iter(words)
    for word in rest:
        if word == "<":
            text = Path(next(rest)).read_text(encoding="utf-8")
        elif word in (">", ">&"):
            which = arguments.pop() if arguments[-1] in ("1", "2") else "1"
            target = next(rest)
            streams[which] = streams[target] if word == ">&" else Stream(Path(target))
        elif set(word) <= set("|&;<>"):
            raise NeedsShell(word)
        else:
            arguments.append(word)
    status = program(arguments, text, streams["1"].text, streams["2"].text)
    for stream in streams.values():
        stream.close()
    return Outcome(status, pipe.text.getvalue(), terminal.text.getvalue())


@dataclass
class Stream:
    """Where a program's output goes: a file, or on to whoever reads `text`."""

    file: Path | None = None
    text: io.StringIO = field(default_factory=io.StringIO)

    def close(self) -> None:
        """Write the file, if it is one."""
        if self.file is not None:
            self.file.write_text(self.text.getvalue(), encoding="utf-8")


def program(arguments: list[str], text: str, out: io.StringIO, err: io.StringIO) -> int:
    """Run a program by name; its exit status."""
    name, *rest = arguments
    match name:
        case "not":
            return int(program(rest, text, out, err) == 0)
        case "qmlir-opt":
            return in_process(lambda: opt.main(rest), text, out, err)
        case "filecheck":
            return in_process(lambda: filecheck.main.main(arguments), text, out, err)
        case "cat":
            out.write("".join(Path(f).read_text(encoding="utf-8") for f in rest) if rest else text)
        case "echo":
            out.write(" ".join(rest) + "\n")
        case "rm":
            for file in rest[rest[0] == "-f" :]:
                Path(file).unlink(missing_ok=True)
        case "cp":
            shutil.copy(*rest)
        case "test":
            return int(not Path(rest[-1]).exists())
        case _:
            raise NeedsShell(name)
    return 0


def in_process(main: Callable[[], int | None], text: str, out: io.StringIO, err: io.StringIO) -> int:
    """Call a program's `main` with streams of its own."""
    stdin = mock.patch.object(sys, "stdin", io.StringIO(text))
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err), stdin:
        try:
            return main() or 0
        except SystemExit as ended:
            return int(ended.code or 0)

"""A case of a table: what is refused with a remedy, and what works once the remedy is applied."""

import contextlib
import io
import re
import shlex
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from xdsl.utils.exceptions import ParseError, VerifyException

import qmlir
from qmlir.cli import main as qmlir_main
from qmlir.cli import opt as qmlir_opt
from qmlir.errors import QmlirError

Action = Callable[[Path], object]
"""Something to do in a folder."""


class CommandError(Exception):
    """What a command says that fails."""


@dataclass(frozen=True)
class Case:
    """What meets an error, and the same with the error's remedy applied, one after the other in one folder."""

    refused: Action
    remedied: Action


def check(text: str, case: Case, folder: Path) -> None:
    """Carries a remedy out: the message holds its text, and what it says works."""
    try:
        case.refused(folder)
    except (QmlirError, ParseError, VerifyException, CommandError) as error:
        message = str(error)
    else:
        raise AssertionError(f"nothing was refused with {text!r}")
    pattern = ".+?".join(re.escape(part) for part in text.split("…"))
    assert re.search(pattern, message, re.DOTALL), message
    case.remedied(folder)


def command(arguments: str, *, opt: bool = False) -> Action:
    """Runs `qmlir`, or `qmlir-opt`, in the folder."""

    def run(folder: Path) -> None:
        out, err = io.StringIO(), io.StringIO()
        with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            status = (qmlir_opt if opt else qmlir_main).main(shlex.split(arguments))
        if status:
            raise CommandError(err.getvalue())

    return run


def opt(arguments: str) -> Action:
    """Runs `qmlir-opt` in the folder."""
    return command(arguments, opt=True)


def passes(text: str, *names: "str | tuple[str, dict[str, object]]") -> Action:
    """Runs passes on a module of MLIR text."""

    def run(folder: Path) -> object:
        path = folder / "case.mlir"
        path.write_text(text, encoding="utf-8")
        return qmlir.Pipeline(*names)(qmlir.load(path))

    return run


def both(*actions: Action) -> Action:
    """One after the other."""
    return lambda folder: [action(folder) for action in actions]


def write(name: str, content: str | bytes) -> Action:
    """Writes a file in the folder."""
    data = content.encode() if isinstance(content, str) else content
    return lambda folder: (folder / name).write_bytes(data)

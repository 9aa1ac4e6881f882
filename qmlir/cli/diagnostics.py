"""Turns exceptions into diagnostics: the messages that a driver prints when something goes wrong.

A diagnostic is one paragraph, `error: model.mlir:3:8: what is wrong; what to do`. It treats three kinds of exceptions:

* qmlir's typed errors, whose messages are complete;
* xDSL's exceptions, including NotImplementedError (qmlir refuses with its own types). Their notes hold a dump of the
  module, 200 MB if weights are large, which is never shown. The place is that of the operation they were raised at;
* all other exceptions: bugs of qmlir. The diagnostic asks the user to report them.
"""

import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Literal, TextIO

from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException, ParseError, UnregisteredConstructException
from xdsl.utils.lexer import Location

from qmlir.errors import QmlirError, QmlirWarning
from qmlir.errors.printable import printable
from qmlir.ir.source import SourceError, location_of, one_line

Severity = Literal["error", "warning", "remark", "note"]


@dataclass(frozen=True)
class Diagnostic:
    """A message to the user; `location` is None unless it is about a place in a text file."""

    severity: Severity
    message: str
    location: Location | None = None

    def __str__(self) -> str:
        place = f"{printable(str(self.location))}: " if self.location else ""
        return f"{self.severity}: {place}{printable(self.message, longest=4000)}"


def diagnostic_of(error: Exception, *, doing: str) -> Diagnostic:
    """Returns the diagnostic for an exception.

    Args:
        error: The exception.
        doing: What the driver was doing, for a bug report: `pass "quantize"`.
    """
    match error:
        case SourceError():
            return Diagnostic("error", error.message, error.location)
        case ParseError():
            return Diagnostic("error", one_line(error), error.span.get_location())
        case QmlirError() | DiagnosticException() | UnregisteredConstructException() | NotImplementedError():
            return Diagnostic("error", one_line(error), location_of_error(error))
        case FileNotFoundError() | PermissionError() | IsADirectoryError() | NotADirectoryError():
            return Diagnostic("error", f"{error.filename}: {(error.strerror or 'cannot be read').lower()}")
        case _:
            return Diagnostic("error", _bug_report(error, doing), location_of_error(error))


def diagnose(error: Exception, *, doing: str, debug: bool) -> Diagnostic:
    """Returns the diagnostic for an exception; with `debug`, prints its traceback to standard error."""
    if debug:
        sys.stderr.write("".join(traceback.format_tb(error.__traceback__)))
    return diagnostic_of(error, doing=doing)


def report(diagnostics: Sequence[Diagnostic]) -> None:
    """Prints diagnostics to standard error."""
    sys.stderr.write("".join(f"{d}\n" for d in diagnostics))


@contextmanager
def reported_warnings() -> Generator[None]:
    """Prints each of qmlir's warnings as a diagnostic, also repeated ones; other warnings stay with Python."""
    with warnings.catch_warnings():
        warnings.filterwarnings("always", category=QmlirWarning)
        pythons = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, QmlirWarning):
                report([Diagnostic("warning", str(message))])
            else:
                pythons(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def _bug_report(error: Exception, doing: str) -> str:
    where = ""
    for frame in _frames(error.__traceback__):
        path = Path(frame.tb_frame.f_code.co_filename)
        where = f" at {path.parent.name}/{path.name}:{frame.tb_lineno}"
    what = one_line(error)
    what = f"{type(error).__name__}: {what[:200]}" if what else type(error).__name__
    return (
        f"{doing} failed with {what}{where}; this is a bug in qmlir: please report it with the command and its input "
        "(--debug shows the traceback)"
    )


def location_of_error(error: BaseException) -> Location | None:
    """Returns the place of the operation that an error is about, or None.

    xDSL's pattern rewriter passes an exception through `Operation.emit_error` of the current operation. A pass with its
    own loop over operations calls the loop's variable `op`, by convention of this code base; the innermost frame with
    such a variable decides. A module does not count, because it is the whole file.
    """
    found: Operation | None = None
    for frame in _frames(error.__traceback__):
        variables = frame.tb_frame.f_locals
        if frame.tb_frame.f_code is _EMIT_ERROR.__code__:
            found = variables["self"]
            break
        op = variables.get("op")
        if isinstance(op, Operation) and not isinstance(op, ModuleOp):
            found = op
    return location_of(found) if found is not None else None


_EMIT_ERROR: Callable[..., object] = Operation.emit_error


def _frames(traceback: TracebackType | None) -> list[TracebackType]:
    frames: list[TracebackType] = []
    while traceback is not None:
        frames.append(traceback)
        traceback = traceback.tb_next
    return frames

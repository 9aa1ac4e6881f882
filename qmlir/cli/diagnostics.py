"""Messages that a driver prints when something goes wrong, and `--verify-diagnostics`, which expects them."""

import re
import sys
import traceback
import warnings
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Literal, TextIO

from rich.cells import cell_len
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import DiagnosticException, ParseError, UnregisteredConstructException
from xdsl.utils.lexer import Location

from qmlir.cli.terminal import broken
from qmlir.errors import QmlirError, QmlirWarning, printable
from qmlir.ir.source import SourceError, location_of
from qmlir.ir.upstream.source_parser import one_line

# ---------------------------------------------------------------------------------------------------------------
# Turns exceptions into diagnostics: the messages that a driver prints when something goes wrong.
#
# A diagnostic is one paragraph, `error: model.mlir:3:8: what is wrong; what to do`, and below it the line that it is
# about. It treats three kinds of exceptions:
#
# * qmlir's typed errors, whose messages are complete;
# * xDSL's exceptions, including NotImplementedError (qmlir refuses with its own types). Their notes hold a dump of the
#   module, 200 MB if weights are large, which is never shown. The place is that of the operation they were raised at;
# * all other exceptions: bugs of qmlir. The diagnostic asks the user to report them.


Severity = Literal["error", "warning", "remark", "note"]


@dataclass(frozen=True)
class Diagnostic:
    """A message to the user; `location` is None unless it is about a place in MLIR text."""

    severity: Severity
    message: str
    location: Location | None = None

    @property
    def place(self) -> Location | None:
        """The place in a text file that the message is about: its location, or the place that it begins with."""
        if self.location is not None or (found := _PLACE.match(self.message)) is None:
            return self.location
        return Location(found["file"], int(found["line"]), int(found["column"]))

    def __str__(self) -> str:
        place = f"{printable(str(self.location))}: " if self.location else ""
        return f"{self.severity}: {place}{printable(self.message, longest=4000)}"


_PLACE = re.compile(r"(?P<file>[^\n]+?):(?P<line>\d{1,9}):(?P<column>\d{1,9}): ")
"""What messages about YAML, TOML and JSON files begin with."""


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


def report(
    diagnostics: Sequence[Diagnostic], texts: Mapping[str, str] | None = None, *, with_lines: bool = True
) -> None:
    """Prints diagnostics to standard error; each with the line that it is about and a caret, if its place is known.

    Args:
        diagnostics: The messages.
        texts: The text of files that cannot be read again, by name: standard input.
        with_lines: Whether lines and carets are printed.
    """
    for each in diagnostics:
        sys.stderr.write(f"{broken(str(each), sys.stderr)}\n{excerpt(each.place, texts or {}) if with_lines else ''}")


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


# ---------------------------------------------------------------------------------------------------------------
# Shows the line of a text file that a diagnostic is about, with a caret under the column:
#
#     error: net.mlir:3:8: operation nn.rely is not registered; did you mean nn.relu?
#       %0 = nn.rely %x : tensor<1x2xf32> -> tensor<1x2xf32>
#            ^


SHOWN = 60
"""The most characters of a line that are shown on either side of the caret; lines of weights are megabytes long."""

MARGIN = "  "


def excerpt(place: Location | None, texts: Mapping[str, str]) -> str:
    """Returns two lines: the line at a place in a text, and a caret; empty if there is no place, or no such line.

    Args:
        place: The place.
        texts: The text of files by name; all other files are read.
    """
    if place is None or (line := _line_at(place, texts)) is None:
        return ""
    at = min(max(place.col - 1, 0), len(line))
    first, last = max(at - SHOWN, 0), at + SHOWN
    before = ("…" if first else "") + _plain(line[first:at])
    after = _plain(line[at:last]).rstrip() + ("…" if len(line) > last else "")
    before = before.lstrip()
    if not before + after:
        return ""
    return f"{MARGIN}{before}{after}\n{MARGIN}{' ' * cell_len(before)}^\n"


def _line_at(place: Location, texts: Mapping[str, str]) -> str | None:
    """Returns the line at a place, without its end; None if the text cannot be read or has no such line."""
    number = place.line - 1
    if place.file in texts:
        return next(islice(texts[place.file].split("\n"), number, None), None)
    path = Path(place.file)
    try:
        if not path.is_file():
            return None
        with path.open(encoding="utf-8", errors="replace", newline="\n") as lines:
            found = next(islice(lines, number, None), None)
    except (OSError, ValueError):  # a name with a null character is a ValueError
        return None
    return None if found is None else found.rstrip("\r\n")


def _plain(text: str) -> str:
    """Returns text with one printable character for each of its own."""
    return "".join(c if c.isprintable() else " " if c == "\t" else "?" for c in text)


# ---------------------------------------------------------------------------------------------------------------
# `--verify-diagnostics`: compares the errors that a file's comments announce with the errors that occur.
#
# A comment announces a diagnostic on its own line, or on another line:
#
#     func.return %x : i64  // expected-error {{but got i64}}
#     // expected-error@+1 {{weights must be}}          the next line;  @-1 the line before
#     // expected-error@below {{a}}                     the next line without such a comment; @above likewise
#     // expected-error-re@+1 {{got {{[0-9]+}} axes}}   inside, double braces hold a regular expression
#     // expected-error@unknown {{no ranges}}           a diagnostic without a place in this file
#
# `expected-warning`, `-remark` and `-note` work alike. Each error and warning must match an expectation on its line and
# contain its text, and each expectation must be matched. A note or a remark without an expectation is no error, as in
# mlir-opt.


_EXPECTED = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<re>-re)?\s*"
    r"(?:@(?P<at>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*)\}\}\s*$"
)
_MALFORMED = re.compile(r"//\s*expected-(error|warning|remark|note)\b")


@dataclass(frozen=True)
class Expectation:
    """A diagnostic that a comment announces.

    line          the line it must be reported on; None for a diagnostic without a place in the file
    pattern       the expression that its message must match
    text          the expectation as the comment writes it
    comment_line  the line of the comment
    """

    severity: str
    line: int | None
    pattern: re.Pattern[str]
    text: str
    comment_line: int

    def meets(self, diagnostic: Diagnostic, file: str) -> bool:
        """Whether `diagnostic` matches the expectation in severity, line and text."""
        location = diagnostic.location
        line = location.line if location is not None and location.file == file else None
        if self.severity != diagnostic.severity or self.line != line:
            return False
        return self.pattern.search(diagnostic.message) is not None


def expectations(text: str, *, first_line: int = 1) -> tuple[list[Expectation], list[Diagnostic]]:
    """Returns the expectations in the comments of a file, or of a piece of it.

    Args:
        text: The file or the piece.
        first_line: The number of its first line.

    Returns:
        The expectations, and an error for each comment that looks like an expectation but is malformed.
    """
    lines = text.split("\n")
    found: list[Expectation] = []
    malformed: list[Diagnostic] = []
    for index, line in enumerate(lines):
        match = _EXPECTED.search(line)
        if match is None:
            if _MALFORMED.search(line):
                malformed.append(Diagnostic("error", f"this is no expectation that can be met: {line.strip()}"))
            continue
        target = _target(lines, index, match["at"])
        source = _pattern(match["text"]) if match["re"] else re.escape(match["text"])
        found.append(
            Expectation(
                match["severity"],
                None if target is None else target + first_line,
                re.compile(source),
                match["text"],
                index + first_line,
            )
        )
    return found, malformed


def _target(lines: Sequence[str], index: int, at: str | None) -> int | None:
    """Returns the index of the line that the expectation at line `index` is about; None for no place."""
    if at == "unknown":
        return None
    if at in ("above", "below"):
        step = -1 if at == "above" else 1
        index += step
        while 0 <= index < len(lines) and _EXPECTED.search(lines[index]):
            index += step
        return index
    return index + int(at or 0)


def _pattern(text: str) -> str:
    """Returns the regular expression of an `-re` text: double braces hold expressions, the rest is literal."""
    parts = re.split(r"\{\{(.*?)\}\}", text)
    return "".join(f"(?:{part})" if i % 2 else re.escape(part) for i, part in enumerate(parts))


def mismatches(diagnostics: Sequence[Diagnostic], announced: Sequence[Expectation], file: str) -> list[Diagnostic]:
    """Returns an error for each error or warning without an expectation, and for each unmet expectation."""
    open_ones = list(announced)
    wrong: list[Diagnostic] = []
    for diagnostic in diagnostics:
        met = next((e for e in open_ones if e.meets(diagnostic, file)), None)
        if met is not None:
            open_ones.remove(met)
        elif diagnostic.severity in ("error", "warning"):
            wrong.append(
                Diagnostic("error", f"unexpected {diagnostic.severity}: {diagnostic.message}", diagnostic.location)
            )
    for expectation in open_ones:
        where = "at no known place" if expectation.line is None else f"on line {expectation.line}"
        wrong.append(
            Diagnostic(
                "error",
                f'expected {expectation.severity} "{expectation.text}" {where} was not produced',
                Location(file, expectation.comment_line, 1),
            )
        )
    return wrong

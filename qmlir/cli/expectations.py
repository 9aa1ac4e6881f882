"""`--verify-diagnostics`: compares the errors that a file's comments announce with the errors that occur.

A comment announces a diagnostic on its own line, or on another line:

    func.return %x : i64  // expected-error {{but got i64}}
    // expected-error@+1 {{weights must be}}          the next line;  @-1 the line before
    // expected-error@below {{a}}                     the next line without such a comment; @above likewise
    // expected-error-re@+1 {{got {{[0-9]+}} axes}}   inside, double braces hold a regular expression
    // expected-error@unknown {{no ranges}}           a diagnostic without a place in this file

`expected-warning`, `-remark` and `-note` work alike. Each error and warning must match an expectation on its line and
contain its text, and each expectation must be matched. A note or a remark without an expectation is no error, as in
mlir-opt.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.utils.lexer import Location

from qmlir.cli.diagnostics import Diagnostic

_EXPECTED = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<re>-re)?\s*"
    r"(?:@(?P<at>[+-]\d+|above|below|unknown))?\s*\{\{(?P<text>.*)\}\}\s*$"
)
_MALFORMED = re.compile(r"//\s*expected-(error|warning|remark|note)\b")


@dataclass(frozen=True)
class Expectation:
    """An announced diagnostic: on `line` (None: without a known place), with a message that matches `pattern`."""

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

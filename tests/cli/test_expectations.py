"""The matcher behind --verify-diagnostics."""

from xdsl.utils.lexer import Location

from qmlir.cli.diagnostics import Diagnostic, expectations, mismatches


def error(line: int | None, message: str, *, file: str = "f", severity: str = "error") -> Diagnostic:
    return Diagnostic(severity, message, None if line is None else Location(file, line, 1))  # pyright: ignore[reportArgumentType]


def wrong(text: str, *diagnostics: Diagnostic) -> list[str]:
    announced, malformed = expectations(text)
    return [str(d) for d in malformed + mismatches(diagnostics, announced, "f")]


def test_lines() -> None:
    text = """a // expected-error {{own}}
    // expected-error@+2 {{next but one}}
    // expected-error@below {{below}}
    op
    // expected-error@-1 {{one up}}
    // expected-error@above {{above}}
    // expected-error@unknown {{nowhere}}"""
    met = [
        error(1, "own"), error(4, "next but one"), error(4, "it is below"), error(4, "one up"), error(4, "above!"),
        error(None, "nowhere"),
    ]  # fmt: skip
    assert wrong(text, *met) == []


def test_each_expectation_is_met_once() -> None:
    text = "// expected-error {{twice}}"
    assert wrong(text, error(1, "twice"), error(1, "twice")) == ["error: f:1:1: unexpected error: twice"]


def test_another_file_is_no_known_place() -> None:
    assert wrong("// expected-error {{x}}", error(1, "x", file="g")) != []
    assert wrong("// expected-error@unknown {{x}}", error(1, "x", file="g")) == []


def test_regular_expressions_stand_in_double_braces() -> None:
    text = "// expected-error-re {{got {{[0-9]+}} (axes)}}"
    assert wrong(text, error(1, "needed 1, got 12 (axes)")) == []
    assert wrong(text, error(1, "got no (axes)")) != []


def test_plain_text_is_no_regular_expression() -> None:
    assert wrong("// expected-error {{a.b [1]}}", error(1, "a.b [1]")) == []
    assert wrong("// expected-error {{a.b}}", error(1, "axb")) != []


def test_severities() -> None:
    text = "// expected-warning {{w}}\n// expected-remark@-1 {{r}}"
    assert wrong(text, error(1, "w", severity="warning"), error(1, "r", severity="remark")) == []
    assert wrong("", error(1, "n", severity="note")) == []
    assert wrong("", error(1, "w", severity="warning")) == ["error: f:1:1: unexpected warning: w"]


def test_pieces_count_lines_of_the_file() -> None:
    announced, _ = expectations("\n// expected-error@+1 {{x}}", first_line=10)
    assert [(e.line, e.comment_line) for e in announced] == [(12, 11)]


def test_a_misspelled_expectation_is_an_error() -> None:
    assert wrong("// expected-error@1 {{x}}") == [
        "error: this is no expectation that can be met: // expected-error@1 {{x}}"
    ]

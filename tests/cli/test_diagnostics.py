"""Messages about a place in a text: the line with a caret under the column, from files, pieces and standard input."""

import io
from pathlib import Path

import pytest
from xdsl.utils.lexer import Location

from qmlir.cli import opt
from qmlir.cli.diagnostics import SHOWN, Diagnostic, excerpt
from tests.cli.small import Small, is_one_paragraph, run

TEXT = """func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
\t%0 = nn.rely %x : tensor<1x2xf32> -> tensor<1x2xf32>
  func.return %0 : tensor<1x2xf32>
}
"""
WRONG = """\
:2:7: operation nn.rely is not registered; did you mean nn.relu or nn.prelu or nn.elu?
  %0 = nn.rely %x : tensor<1x2xf32> -> tensor<1x2xf32>
       ^
"""


@pytest.fixture
def wrong(tmp_path: Path) -> Path:
    path = tmp_path / "wrong.mlir"
    path.write_text(TEXT)
    return path


def test_both_programs_show_the_line(wrong: Path, small: Small, capsys: pytest.CaptureFixture[str]) -> None:
    assert opt.main([str(wrong)]) == 1
    assert capsys.readouterr().err == f"error: {wrong}{WRONG}"
    assert run("run", wrong, "--data", small.data) == 1
    assert capsys.readouterr().err == f"error: {wrong}{WRONG}"


def test_standard_input(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(TEXT))
    assert opt.main([]) == 1
    assert capsys.readouterr().err == f"error: <stdin>{WRONG}"


def test_pieces_have_lines_of_the_file(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong.write_text("builtin.module {}\n// -----\n" + TEXT)
    assert opt.main(["--split-input-file", str(wrong)]) == 1
    assert capsys.readouterr().err == f"error: {wrong}{WRONG.replace(':2:7', ':4:7')}"


def test_an_operation_that_does_not_verify(wrong: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong.write_text(TEXT.replace("nn.rely", "nn.relu").replace("-> tensor<1x2xf32>\n  ", "-> tensor<1x3xf32>\n  "))
    assert opt.main([str(wrong)]) == 1
    _, line, caret, *_ = capsys.readouterr().err.splitlines()
    assert line[caret.index("^") :].startswith(("nn.relu", "%0 : tensor<1x2xf32>"))


@pytest.mark.parametrize(
    ("name", "text", "command", "marked"),
    [
        (
            "p.yaml",
            "rules:\n- {name: conv1, precison: int16}\n",
            "quantize {m} --policy {f} --print-config",
            "precison",
        ),
        ("p.yaml", "rules:\n- {name: [int16\nx: }\n", "quantize {m} --policy {f} --print-config", ": }"),
        ("p.yaml", "samples: [1, }\n", "profile merge {f} -o {f}", "}"),
        ("d.toml", "schema = 1\nname = vta\n", "device check {f}", "vta"),
        ("d.toml", "schema = 1\nname = \n", "device check {f}", ""),
        ("l.json", "[{'a': 1}]", "ledger {f}", "'a'"),
    ],
)
def test_yaml_toml_and_json(
    name: str, text: str, command: str, marked: str, small: Small, capsys: pytest.CaptureFixture[str]
) -> None:
    path = small / name
    path.write_text(text)
    assert run(*command.format(m=small.onnx, f=path).split()) == 1
    error = capsys.readouterr().err
    assert is_one_paragraph(error)
    _, line, caret = error.splitlines()
    assert line[caret.index("^") :].startswith(marked)


def test_long_lines_are_cut(tmp_path: Path) -> None:
    path = tmp_path / "long.mlir"
    path.write_text("a" * 10_000 + "b" + "c" * 10_000)
    line, caret = excerpt(Location(str(path), 1, 10_001), {}).splitlines()
    assert line[caret.index("^")] == "b"
    assert len(line) == 2 + 1 + SHOWN + SHOWN + 1
    assert line.startswith("  …a")
    assert line.endswith("c…")


def test_characters_of_other_widths() -> None:
    line, caret = excerpt(Location("x", 1, 5), {"x": "\x1b字\t=b"}).splitlines()
    assert line == "  ?字 =b"
    assert caret == " " * (2 + 1 + 2 + 1 + 1) + "^"


def test_no_line_no_caret(tmp_path: Path) -> None:
    path = tmp_path / "short.mlir"
    path.write_text("one\n\n")
    assert excerpt(None, {}) == ""
    for location in (Location(str(path), 9, 1), Location(str(path), 2, 1), Location("nowhere", 1, 1)):
        assert excerpt(location, {}) == ""
    assert excerpt(Location(str(tmp_path), 1, 1), {}) == ""
    assert excerpt(Location("a\0b", 1, 1), {}) == ""


def test_the_place_of_a_message() -> None:
    assert Diagnostic("error", "a.yaml:3:14: is wrong").place == Location("a.yaml", 3, 14)
    assert Diagnostic("error", "conv1: must be 3:14").place is None
    assert Diagnostic("error", "a.yaml:3:14: is wrong", Location("b", 1, 1)).place == Location("b", 1, 1)

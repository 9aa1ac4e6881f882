"""What objects show of themselves: as text, as HTML, and in IPython."""

import re
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import qmlir
from qmlir.display import MOST_ROWS, Rows, Shown, Table, bytes_text


@pytest.fixture(scope="module")
def shown(root: Path) -> dict[str, Shown]:
    """Objects of every kind that show themselves, by kind."""
    model = root / "examples/digits/digits.onnx"
    samples = list(np.load(root / "examples/digits/digits.npz")["calibration_images"][:4, None])
    profile = qmlir.profile(model, samples)
    q, on_device = qmlir.quantize(model, profile), qmlir.quantize(model, profile, target="nmp")
    return {
        "profile": profile,
        "decisions": qmlir.decisions(q),
        "errors": qmlir.analyze(model, q, samples),
        "summary": qmlir.summary(q),
        "executable": qmlir.compile(q, cache=False),
        "reference": qmlir.reference(q),
        "simulated": qmlir.compile(on_device, target="nmp"),
    }


TEXTS = {
    "profile": r"profile of 8 tensors over 4 samples\ntensor +shape +least +greatest .*\nimage +\[1, 8, 8\] +0 +1 ",
    "decisions": r"9 operations, 9 quantized\nnode +operation +outcome .*\n(.*\n)*dense2 +nn.fully_connected +quant",
    "errors": r"errors of 8 tensors\ntensor +operation +SQNR \[dB\] .*\nimage +input +\d+\.\d",
    "summary": r"image: float32\[1, 1, 8, 8\] → scores: float32\[1, 10\]; 9 operations, 15.2 kB of weights\noperation",
    "executable": r"compiled network image: .* → scores: .*; [\d.]+ kB of code, [\d.]+ kB of weights, .* each call$",
    "reference": r"reference of image: .* → scores: float32\[1, 10\]; 28 operations in numpy$",
    "simulated": r"network on simulated nmp: image: .*; 49 commands, 0 operations on the host$",
}


@pytest.mark.slow
def test_texts(shown: dict[str, Shown]) -> None:
    assert shown.keys() == TEXTS.keys()
    for kind, text in TEXTS.items():
        assert re.match(text, repr(shown[kind])), repr(shown[kind])


def test_html_has_the_same_cells(shown: dict[str, Shown]) -> None:
    for each in shown.values():
        table = each.table()
        page = ElementTree.fromstring(f"<div>{each._repr_html_()}</div>")
        assert page.findtext("p") == table.title
        assert [cell.text for cell in page.iter("th")] == list(table.headings)
        assert len(list(page.iter("tr"))) == (1 + len(table.rows) if table.headings else 0)


def test_lists_stay_lists(shown: dict[str, Shown]) -> None:
    for kind in ("decisions", "errors"):
        rows = shown[kind]
        assert isinstance(rows, Rows)
        assert rows == list(rows)
        assert rows[:1] == list(rows)[:1]
        assert sorted(rows, key=str) == sorted(list(rows), key=str)


def test_names_are_escaped() -> None:
    table = Table("<title> & \x1b[1m", ("name", "x"), [("<b>\n\u202e", 1.0), ("a" * 500, None)])
    page = ElementTree.fromstring(f"<div>{table.html()}</div>")
    assert page.findtext("p") == "<title> & \\x1b[1m"
    assert [cell.text for cell in page.iter("td")][:2] == ["<b>\\n\\u202e", "1"]
    title, heading, first, second = table.text().splitlines()
    assert (title, first.split()[0]) == ("<title> & \\x1b[1m", "<b>\\n\\u202e")
    assert len(second) < 100
    assert heading.startswith("name")


def test_long_tables_say_how_much_is_left() -> None:
    table = Table("all", ("n",), [(i,) for i in range(MOST_ROWS + 7)])
    assert table.text().splitlines()[-2:] == [str(MOST_ROWS - 1).rjust(2), "… and 7 more"]
    assert table.html().endswith("<p>… and 7 more</p>")
    assert Table("none", ("n",)).text() == "none\nn"


@pytest.mark.parametrize(("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1 kB"), (4_560_000, "4.56 MB")])
def test_bytes(count: int, text: str) -> None:
    assert bytes_text(count) == text


IPYTHON = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell("import qmlir", silent=True)
from xdsl.dialects.builtin import ModuleOp
before = shell.display_formatter.format(ModuleOp([]))
shell.extension_manager.load_extension("qmlir")
module = shell.ev("qmlir.load('model.mlir')")
texts, _ = shell.display_formatter.format(module)
print(texts["text/plain"].splitlines()[0])
print(texts["text/html"].partition("</p>")[0])
print(shell.display_formatter.format(ModuleOp([]))[0])
"""


@pytest.mark.slow
def test_ipython_shows_modules(root: Path, tmp_path: Path) -> None:
    """As Jupyter does, whose kernel is IPython's shell."""
    pytest.importorskip("IPython")
    code = IPYTHON.replace("model.mlir", str(root / "examples/digits/model.mlir"))
    program = [sys.executable, "-c", code]
    home = {"HOME": str(tmp_path), "PYTHONPATH": str(root)}
    done = subprocess.run(program, capture_output=True, text=True, check=True, cwd=tmp_path, env=home)
    plain, html, other = done.stdout.strip().splitlines()[-3:]
    assert plain == "input0: float32[1, 8, 8, 1] → output0: float32[1, 2]; 5 operations, 144 B of weights"
    assert html == f"<p>{plain}"
    assert "text/html" not in other
    assert "builtin.module" in other


def test_plain_python_keeps_xdsls_repr(root: Path) -> None:
    assert repr(qmlir.load(root / "examples/digits/model.mlir")).startswith("<ModuleOp ")

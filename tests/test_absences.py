"""Pages say what is missing only where a refusal proves it.

A paragraph or list item that says something is missing, refused, or stays float names the tests that show it, in a
comment that readers do not see:

    * **Control flow.** Loops whose number of turns depends on data are refused.
      <!-- shown by: tests/frontends/onnx/test_control.py::test_a_loop_without_bound -->

When the thing is built, the test changes, and whoever changes it meets the sentence.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

GENERATED = ("errors.md", "json.md", "api.md", "command-line.md")
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in GENERATED),
]

ABSENCE = re.compile(
    r"\b(missing|refuse[sd]?|unsupported|stays? (on )?floats?|(is|are) not (yet|supported|imported|read|computed|"
    r"followed|written)|not imported|does not become|do not become|have no form|has no form)\b",
    re.IGNORECASE,
)
SHOWN = re.compile(r"<!-- shown by: (.+?) -->", re.DOTALL)
CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
REFUSAL = re.compile(r"raises|warns|reason|refus|error|float|Error|status")
"""What the source of a test that shows an absence has: it catches an error, or reads a reason."""


def paragraphs(text: str) -> list[str]:
    """The paragraphs, list items and table rows of a page, without code and headings; comments follow their part."""
    text = CODE.sub("", text)
    parts = re.split(r"\n\s*\n|\n(?=\s*(?:[*-]|\d+\.) )|\n(?=\|)", text)
    joined: list[str] = []
    for part in parts:
        if joined and re.match(r"\s*<!-- shown by", part):
            joined[-1] += "\n" + part
        elif not part.lstrip().startswith("#"):
            joined.append(part)
    return joined


def absent(page: Path) -> list[str]:
    return [part for part in paragraphs(page.read_text(encoding="utf-8")) if ABSENCE.search(SHOWN.sub("", part))]


@cache
def functions(file: str) -> dict[str, str]:
    """The source of each test function of a file."""
    source = (ROOT / file).read_text(encoding="utf-8")
    tree = ast.walk(ast.parse(source))
    return {node.name: ast.get_source_segment(source, node) or "" for node in tree if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_statements_of_absence_name_a_refusal(page: Path) -> None:
    for part in absent(page):
        assert SHOWN.search(part), f"name the test that shows it: {part}"


def test_refusals_exist() -> None:
    for page in PAGES:
        for found in SHOWN.finditer(page.read_text(encoding="utf-8")):
            for test in re.split(r",\s+", " ".join(found[1].split())):
                file, _, name = test.partition("::")
                assert (ROOT / file).is_file(), f"{page.name}: {file}"
                assert name in functions(file), f"{page.name}: {test}"
                assert REFUSAL.search(functions(file)[name]), (
                    f"{page.name}: {test} catches no error and reads no reason"
                )


def test_the_pattern_sees_absences() -> None:
    text = "# Limits, missing\n\nStrings are missing.\n\n* Loops are refused.\n  <!-- shown by: a::b -->\n* Fast.\n"
    found = [part for part in paragraphs(text) if ABSENCE.search(SHOWN.sub("", part))]
    assert [bool(SHOWN.search(part)) for part in found] == [False, True]

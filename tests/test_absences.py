"""Pages say what is missing only where a refusal proves it.

A paragraph or list item that says something is missing, refused, or stays float names the tests that show it, in a
comment that readers do not see:

    * **Control flow.** Loops whose number of turns depends on data are refused.
        <!-- shown by: tests/frontends/onnx/test_control.py::test_a_loop_without_bound -->

When the thing is built, the test changes, and whoever changes it meets the sentence. In a list the comment is indented
by four columns: less would end the item's paragraph for the site's parser.
"""

import ast
import re
from functools import cache
from pathlib import Path

import pytest

from tests.conftest import ROOT

GENERATED = ("errors.md", "json.md", "api.md", "command-line.md")
"""Pages that sources make: what they say of a refusal stands beside it."""
PAGES = [
    ROOT / "README.md",
    *(page for page in sorted((ROOT / "docs").rglob("*.md")) if page.name not in GENERATED),
]
LIMITS = ROOT / "docs" / "limits.md"

VERBS = "imported|read|computed|followed|written|exported|supported"
ABSENCE = re.compile(
    rf"\b(missing|refuse[sd]?|unsupported|stays? (on )?floats?|(is|are) (not|neither) (yet|{VERBS})|not imported|"
    rf"not ({VERBS}) (is|are)|(do|does) not become|(has|have) no (form|converter))\b",
    re.IGNORECASE,
)
REFERENCE = re.compile(
    rf"\b(what|[Ii]f|that) (((is|are|the device|it|operations) )?(missing|refuses|stays? floats?|not ({VERBS})))\b"
)
"""What is absent as a part of another sentence: "what the device refuses", "operations that stay float"."""
SHOWN = re.compile(r"<!-- shown by: (.+?)\s+-->", re.DOTALL)
CODE = re.compile(r"^ *```.*?^ *```$", re.MULTILINE | re.DOTALL)
ITEM = re.compile(r"\s*(?:[*-]|\d+\.) ")
REFUSAL = re.compile(r"raises|warns|reason|refus|opaque|Error|\.err\b|outcome|stays?_floats?")
"""What a test that shows an absence has: it catches an error, or reads a reason or what became of an operation."""


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


def states_absence(part: str) -> bool:
    """Whether a paragraph says that something is missing, rather than speaking of what is."""
    return ABSENCE.search(REFERENCE.sub("", " ".join(SHOWN.sub("", part).split()))) is not None


@cache
def functions(file: str) -> dict[str, str]:
    """The source of each test function of a file, with its name and its cases."""
    source = (ROOT / file).read_text(encoding="utf-8")
    lines = source.splitlines()
    found = [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef)]
    return {
        node.name: "\n".join(lines[min(d.lineno for d in (*node.decorator_list, node)) - 1 : node.end_lineno])
        for node in found
    }


def named(comment: str) -> list[str]:
    """The tests that a comment names."""
    return re.split(r",\s+", " ".join(comment.split()))


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_statements_of_absence_name_a_refusal(page: Path) -> None:
    for part in paragraphs(page.read_text(encoding="utf-8")):
        if states_absence(part) or (page == LIMITS and ITEM.match(part)):
            assert SHOWN.search(part), f"name the test that shows it: {part}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_the_tests_that_are_named_catch_a_refusal(page: Path) -> None:
    for comment in SHOWN.findall(page.read_text(encoding="utf-8")):
        sources: list[str] = []
        for test in named(comment):
            file, _, name = test.partition("::")
            assert (ROOT / file).is_file(), f"there is no file {file}"
            assert name in functions(file), f"there is no test {test}"
            sources.append("refused" if file.startswith("tests/remedies/") else functions(file)[name])
        assert any(map(REFUSAL.search, sources)), f"none of these catches an error or reads a reason: {comment}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_comments_in_lists_leave_items_whole(page: Path) -> None:
    for part in paragraphs(page.read_text(encoding="utf-8")):
        if ITEM.match(part) and SHOWN.search(part):
            assert re.search(r"\n {4,}<!-- shown by", part), f"indent the comment by four columns: {part}"


@pytest.mark.parametrize(
    ("text", "stated"),
    [
        ("Strings are missing.", True),
        ("Control flow\nis refused.", True),
        ("Grids are not imported.", True),
        ("Not imported are grids.", True),
        ("Grids are not yet computed.", True),
        ("A sum of this kind stays float.", True),
        ("In float64, which stays float.", True),
        ("Exporters have no form of it.", True),
        ("The host computes what the device refuses.", False),
        ("If operations stay float, a table says why.", False),
        ("The limits name what is missing.", False),
        ("Everything is fast.", False),
    ],
)
def test_the_pattern_sees_absences(text: str, stated: bool) -> None:
    assert states_absence(text) is stated


def test_parts_have_their_comments() -> None:
    text = (
        "# Missing\n\nStrings are missing.\n\n* Loops are refused.\n    <!-- shown by: a::b,\n    c::d -->\n* Fast.\n"
    )
    first, second, third = paragraphs(text)
    assert [named(comment) for comment in SHOWN.findall(second)] == [["a::b", "c::d"]]
    assert (states_absence(first), states_absence(second), states_absence(third)) == (True, True, False)

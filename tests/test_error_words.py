"""One word for each measure of error: SQNR where it is in dB, noise where it is a power; the glossary defines both."""

import ast
import re
from collections.abc import Callable, Iterator

import pytest

from tests.conftest import ROOT

OTHERS = re.compile(
    r"signal[- ]to[- ](quantization[- ])?noise|\bP?SNR\b|\b(own|whole|end[- ]to[- ]end) errors?\b|decibels? of error",
    re.I,
)
"""Words for SQNR or noise beside the glossary's."""

PACKAGE, PAGES = ROOT / "qmlir", ROOT / "docs"


def texts_of_python() -> Iterator[tuple[str, str]]:
    """Each string of the package's sources, docstrings too, with its place."""
    for path in sorted(PACKAGE.rglob("*.py")):
        source = path.read_text()
        if OTHERS.search(source):
            for node in ast.walk(ast.parse(source)):
                if isinstance(node, ast.Constant) and isinstance(node.value, str):
                    yield f"{path.relative_to(ROOT)}:{node.lineno}", node.value


def texts_of_files() -> Iterator[tuple[str, str]]:
    """Each line of what users read: the report's scripts and styles, the schema of documents, pages."""
    assets = [*PACKAGE.rglob("*.js"), *PACKAGE.rglob("*.html"), *PACKAGE.rglob("*.json")]
    for path in sorted([*assets, *PAGES.rglob("*.md"), ROOT / "README.md"]):
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            yield f"{path.relative_to(ROOT)}:{number}", line


@pytest.mark.parametrize("texts", [texts_of_python, texts_of_files])
def test_errors_have_one_word(texts: Callable[[], Iterator[tuple[str, str]]]) -> None:
    glossary = "docs/glossary.md"
    found = [f"{at}: {text[:80]!r}" for at, text in texts() if OTHERS.search(text) and "SQNR" not in text]
    found = [each for each in found if not each.startswith((glossary, *ELSEWHERE))]
    assert not found, "\n".join(found)


ELSEWHERE = ("qmlir/display.py", "qmlir/transforms/quantize/adjust/correct_bias.py")
"""Places that speak of errors that are no measure: exceptions, and the mean error that a bias corrects."""


def test_the_glossary_has_the_words() -> None:
    text = (PAGES / "glossary.md").read_text()
    assert re.search(r"^SQNR\n: ", text, re.MULTILINE)
    assert re.search(r"^noise\n: ", text, re.MULTILINE)


def test_the_words_are_found() -> None:
    for text in ("signal-to-noise ratio", "Signal to quantization noise", "own error", "end-to-end error", "PSNR"):
        assert OTHERS.search(text), text

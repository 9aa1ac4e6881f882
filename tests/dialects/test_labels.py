"""Each labelled constraint, `(C1)` in a docstring, has its check and a refused case that is called after it."""

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "qmlir"
CASES = ROOT / "filecheck_tests"
LABEL = re.compile(r"^\s*\(([A-Z][0-9])\) ", re.MULTILINE)

ELSEWHERE = {
    "dialects/interpolation.py": ("dialects/nn/resize",),
    "dialects/windows.py": (
        "dialects/nn/pooling", "dialects/nn/contraction", "dialects/qint/pooling", "dialects/qint/contraction",
    ),
    "dialects/nn/base.py": ("dialects/nn/contraction",),
    "dialects/nn/pointwise.py": ("dialects/nn/elementwise", "dialects/nn/comparison"),
    "dialects/qint/base.py": ("dialects/qint/contraction",),
}  # fmt: skip
"""Modules without operations of their own: the files of those that inherit their constraints."""

NARROWER = {("dialects/windows.py", "W3"): ("dialects/nn/contraction", "dialects/qint/contraction")}
"""Labels that only some of those inherit: convolutions have groups, pools have not."""

INHERITED = {
    ("dialects/qint/elementwise.py", "R1"),
    ("dialects/qint/elementwise.py", "Q2"),
    ("dialects/qint/normalization.py", "R1"),
}
"""Labels that a docstring repeats from a base class, where the check is."""


def labels(module: Path) -> set[str]:
    """The labels in the docstrings of a module's classes."""
    classes = [n for n in ast.walk(ast.parse(module.read_text(encoding="utf-8"))) if isinstance(n, ast.ClassDef)]
    return {label for c in classes for label in LABEL.findall(ast.get_docstring(c) or "")}


SOURCES = [
    *(PACKAGE / f"{name}.py" for name in ("ir/interfaces", *(f"dialects/{d}" for d in (
        "interpolation", "windows", "calib", "qmlir")))),
    *PACKAGE.glob("dialects/nn/*.py"),
    *PACKAGE.glob("dialects/qint/*.py"),
]  # fmt: skip
MODULES = {p.relative_to(PACKAGE).as_posix(): found for p in SOURCES if (found := labels(p))}


@pytest.mark.parametrize("module", MODULES)
def test_each_label_has_a_case(module: str) -> None:
    for cases in ELSEWHERE.get(module, (module.removesuffix(".py"),)):
        text = (CASES / f"{cases}_invalid.mlir").read_text(encoding="utf-8")
        tested = {label.upper() for label in re.findall(r"@([a-z][0-9])(?:_|\b)", text)}
        here = {label for label in MODULES[module] if cases in NARROWER.get((module, label), (cases,))}
        missing = sorted(here - tested)
        assert not missing, f"{cases}_invalid.mlir needs cases called @{', @'.join(missing).lower()}"


@pytest.mark.parametrize("module", MODULES)
def test_each_label_is_beside_its_check(module: str) -> None:
    beside = set(re.findall(r"# ([A-Z][0-9])\b", (PACKAGE / module).read_text(encoding="utf-8")))
    missing = sorted(label for label in MODULES[module] - beside if (module, label) not in INHERITED)
    assert not missing, f"no comment names the check of {', '.join(missing)}"

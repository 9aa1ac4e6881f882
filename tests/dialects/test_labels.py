"""Each labelled constraint, `(C1)` in a docstring, has its check and a refused case that is called after it."""

import ast
import re
from pathlib import Path

import pytest

from tests.conftest import ROOT

PACKAGE = ROOT / "qmlir"
CASES = ROOT / "filecheck_tests"
LABEL = re.compile(r"^\s*\(([A-Z][0-9])\) ", re.MULTILINE)

FILES = {
    "dialects/interpolation.py": ("nn/resize",),
    "dialects/windows.py": ("nn/pooling", "nn/contraction", "qint/pooling", "qint/contraction"),
    "dialects/nn/base.py": ("nn/contraction",),
    "dialects/nn/elementwise.py": ("nn/elementwise", "nn/comparison", "nn/logic"),
    "dialects/nn/functions.py": ("nn/activation", "nn/elementary"),
    "dialects/nn/movement.py": ("nn/shape", "nn/indexing"),
    "dialects/nn/reduction.py": ("nn/reduction", "nn/pooling"),
    "dialects/nn/resize.py": ("nn/resize", "nn/sampling"),
    "dialects/qint/elementwise.py": ("qint/elementwise", "qint/lookup"),
    "dialects/qint/local_response.py": ("qint/normalization",),
    "dialects/qint/root_normalization.py": ("qint/normalization",),
    "dialects/qint/pooling.py": ("qint/pooling", "qint/resize"),
    "dialects/qint/requantize.py": ("qint/requantize", "qint/contraction"),
}  # fmt: skip
"""Modules whose operations, or those that inherit their constraints, have their cases in files of other names."""

SHARED = {"dialects/interpolation.py", "dialects/windows.py"}
"""Modules without operations of their own: each of their files has all their labels."""

NARROWER = {("dialects/windows.py", "W3"): ("nn/contraction", "qint/contraction")}
"""Labels that only some of those inherit: convolutions have groups, pools have not."""

INHERITED = {
    ("dialects/qint/attention.py", "R1"),
    ("dialects/qint/attention.py", "S2"),
    ("dialects/qint/elementwise.py", "R1"),
    ("dialects/qint/elementwise.py", "Q2"),
    ("dialects/qint/normalization.py", "R1"),
    ("dialects/qint/local_response.py", "R1"),
    ("dialects/qint/root_normalization.py", "R1"),
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


def required(module: str, text: str) -> set[str]:
    """The labels of a module's operations that a file of refused cases is about."""
    found = set[str]()
    for node in ast.walk(ast.parse((PACKAGE / module).read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and (name := re.search(r"^ +name = '(.+)'$", ast.unparse(node), re.M)):
            if re.search(rf"\b{re.escape(name[1])}\b", text):
                found |= set(LABEL.findall(ast.get_docstring(node) or ""))
    return found


@pytest.mark.parametrize("module", MODULES)
def test_each_label_has_a_case(module: str) -> None:
    files = FILES.get(module, (module.removesuffix(".py").removeprefix("dialects/"),))
    tested: dict[str, set[str]] = {}
    for file in files:
        path = CASES / (f"{file}_invalid.mlir" if file.startswith("ir/") else f"dialects/{file}_invalid.mlir")
        text = path.read_text(encoding="utf-8")
        tested[file] = {label.upper() for label in re.findall(r"(?:@|^ *// )([a-z][0-9])(?:_|\b)", text, re.MULTILINE)}
        here = MODULES[module] if module in SHARED else required(module, text)
        here = {label for label in here if file in NARROWER.get((module, label), (file,))}
        missing = sorted(label for label in here - tested[file] if (module, label) not in INHERITED)
        assert not missing, f"{path.name} needs cases called @{', @'.join(missing).lower()}"
    missing = sorted(MODULES[module] - set[str]().union(*tested.values()))
    assert not missing, f"{', '.join(files)} need cases called @{', @'.join(missing).lower()}"


@pytest.mark.parametrize("module", MODULES)
def test_each_label_is_beside_its_check(module: str) -> None:
    beside = set(re.findall(r"# ([A-Z][0-9])\b", (PACKAGE / module).read_text(encoding="utf-8")))
    missing = sorted(label for label in MODULES[module] - beside if (module, label) not in INHERITED)
    assert not missing, f"no comment names the check of {', '.join(missing)}"

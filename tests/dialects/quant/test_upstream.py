"""Upstream's own tests of the quant dialect, where QMLIR_LLVM_TESTS names a folder with mlir/test/Dialect/Quant in it.

They are LLVM's files and none of them is kept here. Of each file every case counts by itself: one that announces an
error must be rejected on the announced line (the words are ours), any other must parse, verify and come back the
same from its own text, custom and generic. Where a RUN line pipes into FileCheck and we have its passes, the CHECK
lines must hold. `pytest -rP` shows the counts file by file.
"""

import os
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from xdsl.dialects.builtin import ModuleOp

from qmlir.cli.diagnostics import expectations
from qmlir.cli.flags import argument_parser
from qmlir.cli.pass_list import pass_list
from qmlir.ir.context import make_context
from qmlir.ir.source import SourceError, parse_text
from qmlir.ir.storage import TextForm, self_contained_text
from qmlir.ir.verify import verification_errors
from tests.test_filecheck import run

FILES = [
    "canonicalize.mlir",
    "inlining.mlir",
    "invalid.mlir",
    "lower-quant-ops.mlir",
    "normalize-quant-types.mlir",
    "ops.mlir",
    "parse-any-invalid.mlir",
    "parse-any.mlir",
    "parse-calibrated-invalid.mlir",
    "parse-calibrated.mlir",
    "parse-uniform-invalid.mlir",
    "parse-uniform.mlir",
    "strip-func-quant-types.mlir",
]

OURS = {"canonicalize{test-convergence}": "fold-quant-casts,canonicalize"}
"""What upstream's RUN lines say, and what says it here, where `canonicalize` keeps the casts of a quantized value."""


@dataclass
class Case:
    """A piece of a file between `// -----` lines; `lines` are those an error is announced for."""

    text: str
    first_line: int
    lines: set[int]


def upstream(name: str) -> Path:
    folder = os.environ.get("QMLIR_LLVM_TESTS")
    if not folder:
        pytest.skip("QMLIR_LLVM_TESTS does not name a folder with LLVM's tests")
    path = Path(folder) / name
    if not path.is_file():
        pytest.skip(f"QMLIR_LLVM_TESTS has no {name}")
    return path


def cases(text: str) -> list[Case]:
    """The cases of a file; a piece of comments alone is none."""
    found: list[Case] = []
    line = 1
    for piece in re.split(r"^// -----[ \t]*$", text, flags=re.MULTILINE):
        if re.search(r"^\s*[^/\s]", piece, re.MULTILINE):
            announced, malformed = expectations(piece, first_line=line)
            assert not malformed
            found.append(Case(piece, line, {e.line for e in announced if e.line is not None}))
        line += piece.count("\n")
    return found


def parsed(case: Case, name: str, *, unregistered: bool) -> ModuleOp:
    context = make_context()
    context.allow_unregistered = unregistered
    return parse_text(context, case.text, name, first_line=case.first_line)


def rejected_on(case: Case, name: str, *, unregistered: bool) -> int | None:
    """The line of the first error, or None if there is none."""
    try:
        errors = verification_errors(parsed(case, name, unregistered=unregistered))
    except SourceError as error:
        errors = [error]
    if not errors:
        return None
    location = errors[0].location
    assert location is not None
    return location.line


def check_round_trip(module: ModuleOp, name: str, *, unregistered: bool) -> None:
    assert not verification_errors(module)
    for generic in (False, True):
        text = self_contained_text([module], TextForm(generic=generic))
        again = parsed(Case(text, 1, set()), name, unregistered=unregistered)
        assert not verification_errors(again)
        assert module.is_structurally_equivalent(again)
        assert self_contained_text([again], TextForm(generic=generic)) == text


@pytest.mark.parametrize("name", FILES)
def test_cases(name: str) -> None:
    text = upstream(name).read_text(encoding="utf-8")
    # mlir-opt knows a dialect `test` that takes any operation.
    unregistered = "-allow-unregistered-dialect" in text or '"test.' in text
    wrong: list[str] = []
    positive = negative = 0
    for case in cases(text):
        if case.lines:
            negative += 1
            line = rejected_on(case, name, unregistered=unregistered)
            if line not in case.lines:
                wrong.append(f"{name}:{case.first_line}: want an error on {sorted(case.lines)}, got one on {line}")
        else:
            positive += 1
            try:
                check_round_trip(parsed(case, name, unregistered=unregistered), name, unregistered=unregistered)
            except (AssertionError, SourceError) as error:
                wrong.append(f"{name}:{case.first_line}: {error}")
    sys.stdout.write(f"{name:32} {positive:3} accepted {negative:3} rejected {len(wrong):3} wrong\n")
    assert not wrong, "\n".join(wrong)
    assert positive + negative, "a file without cases"


def test_counts_a_case_without_an_announced_error() -> None:
    text = "// RUN: x\n\n// -----\n// expected-error@+1 {{no}}\n!a = !quant.x\n\n// -----\n!a = !quant.any<i8>\n"
    assert [(c.first_line, c.lines) for c in cases(text)] == [(3, {5}), (7, set())]


@pytest.mark.parametrize("name", FILES)
def test_check_lines(name: str) -> None:
    path = upstream(name)
    lines = re.findall(r"^// RUN: (.*\| *FileCheck.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    if not lines:
        pytest.skip("no FileCheck in it")
    known = argument_parser().format_help() + pass_list(with_xdsl=True)
    for line in lines:
        command = re.sub(r"(?<=\s)--?(?=[a-z])", "--", line).replace("%s", str(path))
        command = command.replace("mlir-opt", "qmlir-opt --print-upstream").replace("FileCheck", "filecheck")
        for theirs, ours in OURS.items():
            command = command.replace(theirs, ours)
        if '"test.' in path.read_text(encoding="utf-8"):
            command = command.replace("qmlir-opt", "qmlir-opt --allow-unregistered-dialect")
        flags = set(re.findall(r"--([a-z-]+)", command.partition("|")[0]))
        missing = sorted(f for f in flags if not re.search(rf"(?<!\w){f}(?![\w-])", known))
        if missing:
            pytest.skip(f"qmlir-opt has no {', '.join(missing)}")
        outcome = run(command)
        assert outcome.status == 0, f"{command}\n{outcome.err}\n{outcome.out[:2000]}"

"""The house rules that no other tool checks: what mirrors what, what may not be there, what must be."""

import ast
import re
import subprocess
from functools import cache
from importlib import import_module
from pathlib import Path

import pytest
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect

from qmlir.cli.flags import argument_parser
from qmlir.cli.pass_list import pass_list
from qmlir.ir.context import DIALECTS
from qmlir.ir.pipeline import PASSES
from tests.conftest import ROOT

LONGEST_FILE = 400
LONGER_FILES: dict[str, str] = {}
"""Files that may be longer, each with the reason why it is one idea all the same."""

FORBIDDEN_NAMES = re.compile(r"(^|_)(utils?|helpers?|common|misc)($|_)")
MACHINE_PATHS = re.compile(r"(?<![\w.~%$}{-])/(work|home|root|Users|tmp/spec)/")

OUR_PASSES = {name: reference for name, reference in PASSES.items() if reference.startswith("qmlir.")}
SOURCES = sorted((ROOT / "qmlir").rglob("*.py"))
FILECHECKS = sorted(f for f in (ROOT / "filecheck_tests").rglob("*.mlir") if "Output" not in f.parts)


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


@cache
def filecheck_text() -> str:
    return "\n".join(f.read_text(encoding="utf-8") for f in FILECHECKS)


@cache
def committed_files() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.splitlines() if (ROOT / name).is_file()]


# ---------------------------------------------------------------------------------------------------------------
# Mirrors


@pytest.mark.parametrize("name", OUR_PASSES)
def test_each_pass_has_a_filecheck_file_of_its_name(name: str) -> None:
    """Or, as a lowering edge, a folder of its name; and lives in a module, or in an edge, of its name.

    A pass of a dialect has a name like `npu-place` and lives in a folder of the dialect.
    """
    module = OUR_PASSES[name].partition(":")[0].split(".")
    assert name.replace("-", "_") in (*module[-2:], "_".join(module[-2:]))
    assert name in {s.replace("_", "-") for f in FILECHECKS for s in (f.stem, f.parent.name)}


@pytest.mark.parametrize("dialect", DIALECTS)
def test_each_operation_is_in_a_filecheck_file(dialect: str) -> None:
    module, _, attribute = DIALECTS[dialect].partition(":")
    loaded = getattr(import_module(module), attribute)
    assert isinstance(loaded, Dialect)
    of_xdsl = get_all_dialects().get(dialect)
    ours = {op.name for op in loaded.operations} - ({op.name for op in of_xdsl().operations} if of_xdsl else set())
    missing = sorted(name for name in ours if not re.search(rf"\b{re.escape(name)}\b", filecheck_text()))
    assert not missing, f"no file in filecheck_tests/ mentions {', '.join(missing)}"


@pytest.mark.parametrize("folder", ["filecheck_tests", "tests"])
def test_test_folders_mirror_the_package(folder: str) -> None:
    own = {
        "models",
        "benchmarks",
        "conformance",
        "fuzz",
        "ops",
        "remedies",
        "examples",
        "interop",
        "Output",
        "Inputs",
        "__pycache__",
    }
    for path in (ROOT / folder).rglob("*"):
        inside = path.relative_to(ROOT / folder)
        if path.is_dir() and not own & set(inside.parts):
            assert (ROOT / "qmlir" / inside).is_dir() or (ROOT / "qmlir" / inside).with_suffix(".py").exists(), inside


# ---------------------------------------------------------------------------------------------------------------
# Files


@pytest.mark.parametrize("path", SOURCES, ids=relative)
def test_source_file(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert ast.get_docstring(ast.parse(text)), "a module says what enters, what leaves, and why"
    assert not FORBIDDEN_NAMES.search(path.stem), "name a file for its idea"
    assert not re.search(r"^\s*print\(", text, re.MULTILINE), "the library does not print"
    lines = text.count("\n")
    if relative(path) in LONGER_FILES:
        assert lines > LONGEST_FILE, "the file needs no exception any more"
    else:
        assert lines <= LONGEST_FILE, "one idea per file"


def test_llvmlite_is_imported_by_its_back_end_only() -> None:
    """Whatever the way: import-linter sees statements, not `import_module`."""
    imported = re.compile(r"""import_module\(["']llvmlite|^\s*(import|from) llvmlite""", re.MULTILINE)
    users = {relative(p.parent) for p in SOURCES if imported.search(p.read_text(encoding="utf-8"))}
    assert users == {"qmlir/backends/cpu"}


def test_nothing_names_a_machine() -> None:
    for name in committed_files():
        try:
            text = (ROOT / name).read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        found = MACHINE_PATHS.search(text) if name != relative(Path(__file__)) else None
        assert found is None, f"{name}: {found}"


def test_the_commands_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"^make ([a-z]+)", readme, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    help = argument_parser().format_help() + pass_list(with_xdsl=False)
    for command in re.findall(r"^qmlir-opt .*", readme, re.MULTILINE):
        for flag in re.findall(r"--[a-z][a-z-]+", command):
            assert re.search(rf"{flag}\b", help), flag

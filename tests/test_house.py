"""The house rules that no other tool checks: what mirrors what, what may not be there, what must be."""

import ast
import re
import subprocess
from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import cache
from graphlib import TopologicalSorter
from importlib import import_module
from pathlib import Path

import pytest
import xdsl
from xdsl.dialects import get_all_dialects
from xdsl.ir import Dialect

from qmlir import stages
from qmlir.cli.flags import argument_parser
from qmlir.cli.pass_list import pass_list
from qmlir.ir.context import DIALECTS
from qmlir.ir.passes import PASSES, PIPELINES, PassPipeline, pass_class, pipeline
from tests.conftest import ROOT

LONGEST_FILE = 600
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

    A pass of a dialect has a name like `npu-place` and lives in a folder of the dialect. A file may hold a few passes
    if its docstring names them.
    """
    module = OUR_PASSES[name].partition(":")[0].split(".")
    named = re.findall(r"`([a-z-]+)`", import_module(".".join(module)).__doc__ or "")
    module = module[:-1] if module[-1] == module[-2] else module  # a folder, with the pass in the file of its name
    assert name in (*named, *(part.replace("_", "-") for part in (*module[-2:], "_".join(module[-2:]))))
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
        "conformance",
        "fuzz",
        "ops",
        "proofs",
        "remedies",
        "examples",
        "interop",
        "Output",
        "Inputs",
        "__pycache__",
    }
    # tests/hardware is a command for whoever has the hardware; tests/backends/hardware mirrors the package.
    commands = ("hardware",)
    for path in (ROOT / folder).rglob("*"):
        inside = path.relative_to(ROOT / folder)
        if path.is_dir() and inside.parts[:1] != commands and not own & set(inside.parts):
            assert (ROOT / "qmlir" / inside).is_dir() or (ROOT / "qmlir" / inside).with_suffix(".py").exists(), inside


# ---------------------------------------------------------------------------------------------------------------
# The tree


def packages() -> list[str]:
    """Folders and modules directly in the package, as docs/architecture.md lists them."""
    root = ROOT / "qmlir"
    folders = [f"{p.name}/" for p in root.iterdir() if p.is_dir() and any(p.iterdir()) and p.name != "__pycache__"]
    return sorted([*folders, *(p.name for p in root.glob("*.py") if p.name != "__init__.py")])


def _pass_names(path: Path) -> Iterator[tuple[str, str]]:
    """Each pass that a file names as text: in a stage of stages.py, or as an argument of `Pipeline`."""
    text, stages = path.read_text(encoding="utf-8"), path.stem == "stages"
    for node in ast.walk(ast.parse(text)) if stages or "Pipeline" in text else ():
        match node:
            case ast.Call(func=ast.Name(id="Pipeline"), args=entries):
                where = "Pipeline"
            case ast.Assign(targets=[ast.Name(id=where)], value=ast.Tuple(elts=entries)) if stages:
                pass
            case ast.Return(value=ast.Tuple(elts=entries)) if stages:
                where = "a function"
            case _:
                continue
        for entry in entries:
            match entry:
                case ast.Constant(value=str(name)) | ast.Tuple(elts=[ast.Constant(value=str(name)), *_]):
                    yield where, name
                case _:
                    pass


def test_stages_name_passes() -> None:
    """Names in a stage of stages.py are of passes; nobody below compiler.py makes pipelines of names."""
    named = [(relative(p), stage, name) for p in SOURCES for stage, name in _pass_names(p)]
    assert [entry for entry in named if entry[2] not in PASSES] == []
    assert [entry for entry in named if not ABOVE.match(entry[0])] == []
    assert {name for _, stage, name in named if stage == "QUANTIZE"} == set(stages.QUANTIZE)
    assert "nn-to-loops" in {name for _, stage, name in named if stage == "a function"}
    for name, place in PIPELINES.items():
        assert issubclass(pass_class(name), PassPipeline)
        assert place.partition(":")[0] == "qmlir.stages"
        assert pipeline(name) == getattr(stages, place.partition(":")[2])


ABOVE = re.compile(r"qmlir/(cli/|analysis/|stages\.py)")
"""The stages, and the files of the layers above compiler.py, which runs no pass but theirs."""


def _imported(node: ast.AST, modules: Collection[str]) -> Iterator[str]:
    """The modules of the package that a file imports, in functions too, except for what only types need."""
    for child in ast.iter_child_nodes(node):
        match child:
            case ast.If(test=ast.Name(id="TYPE_CHECKING")):
                pass
            case ast.ImportFrom(module=str(module), names=names) if module.startswith("qmlir"):
                inner = {f"{module}.{alias.name}" for alias in names}
                yield from (inner & set(modules)) | ({module} if inner - set(modules) else set())
            case _:
                yield from _imported(child, modules)


def test_files_import_in_one_direction() -> None:
    """No file imports another, not even inside of a function, that needs it in turn."""
    files = {str(p.relative_to(ROOT).with_suffix("")).replace("/", ".").removesuffix(".__init__"): p for p in SOURCES}
    trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in files.items() if "qmlir." in name}
    needed = {name: set(_imported(tree, files)) - {name, "qmlir"} for name, tree in trees.items()}
    assert list(TopologicalSorter(needed).static_order())  # an error names the files of a circle


def test_the_architecture_page_draws_the_tree() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    drawn = page.partition("```plain\nqmlir/\n")[2].partition("filecheck_tests/")[0]
    listed = re.findall(r"^  ([a-z_]+(?:/|\.py))\s", drawn, re.MULTILINE)
    assert sorted(listed) == packages()
    for inner in re.findall(r"^    ([a-z_]+/)\s", drawn, re.MULTILINE):
        assert any((ROOT / "qmlir" / outer / inner).is_dir() for outer in listed), inner


@pytest.mark.parametrize("edge", sorted(p.name for p in (ROOT / "qmlir" / "lowering").iterdir() if p.is_dir()))
def test_lowerings_are_edges(edge: str) -> None:
    assert edge == "__pycache__" or "_to_" in edge


def test_transforms_are_passes_or_lie_in_the_folder_of_one() -> None:
    modules = {reference.partition(":")[0].replace(".", "/") + ".py" for reference in PASSES.values()}
    names = {name.removeprefix("npu-").replace("-", "_") for name in PASSES}
    files = [relative(p) for p in SOURCES if "transforms" in p.parts and p.stem != "__init__"]
    assert [f for f in files if f not in modules and not names & set(f.split("/")[:-1])] == []


def imported(path: Path, modules: Mapping[str, Path]) -> set[str]:
    """The modules of the package that a file needs to be imported: not those in functions or for type checking."""
    found, waiting = set[str](), list(ast.parse(path.read_text(encoding="utf-8")).body)
    for node in waiting:
        match node:
            case ast.ImportFrom(module=str(module), names=names):
                found |= {f"{module}.{a.name}" if f"{module}.{a.name}" in modules else module for a in names}
            case ast.Import(names=names):
                found |= {a.name for a in names}
            case ast.If(test=ast.Name(id="TYPE_CHECKING")) | ast.FunctionDef() | ast.ClassDef():
                pass
            case ast.If() | ast.Try() | ast.With():
                waiting += [n for n in ast.iter_child_nodes(node) if isinstance(n, ast.stmt)]
            case _:
                pass
    return found & modules.keys()


@pytest.mark.slow
def test_files_do_not_import_each_other() -> None:
    """Import-linter keeps folders apart; among files, too, there is an order in which each needs earlier ones only."""
    modules = {relative(p).removesuffix(".py").removesuffix("/__init__").replace("/", "."): p for p in SOURCES}
    needs = {name: imported(path, modules) - {name} for name, path in modules.items()}
    assert "qmlir.ir.types" in needs["qmlir.ir.weights"]
    while ready := {name for name, others in needs.items() if not others & needs.keys()}:
        needs = {name: others for name, others in needs.items() if name not in ready}
    assert sorted(needs) == []


def private_names(nodes: Iterable[ast.AST]) -> set[str]:
    """The private names that a module, of which these are all nodes, gives to attributes, functions and classes."""
    names = set[str]()
    for node in nodes:
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                names.add(name)
            case ast.Attribute(attr=name, ctx=ast.Store()) | ast.AnnAssign(target=ast.Name(id=name)):
                names.add(name)
            case ast.Assign(targets=[ast.Name(id="__slots__")], value=slots):
                names |= {str(c.value) for c in ast.walk(slots) if isinstance(c, ast.Constant)}
            case _:
                pass
    return {name for name in names if re.match("_[a-z]", name)}


@pytest.mark.slow
def test_only_upstream_touches_private_names_of_xdsl() -> None:
    """A private name of an attribute belongs to qmlir, or it is xDSL's and stands in ir/upstream."""
    modules = {p: list(ast.walk(ast.parse(p.read_text("utf-8")))) for p in SOURCES if "upstream" not in p.parts}
    own = {name for nodes in modules.values() for name in private_names(nodes)}
    used = {
        path: {n.attr for n in nodes if isinstance(n, ast.Attribute) and re.match("_[a-z]", n.attr)} - own
        for path, nodes in modules.items()
    }
    known = {"_current_token", "_loaded_ops"}
    mentioned = re.compile("|".join(known.union(*used.values())))
    texts = [p.read_text("utf-8") for p in Path(xdsl.__file__).parent.rglob("*.py")]
    theirs = {n for text in texts if mentioned.search(text) for n in private_names(ast.walk(ast.parse(text)))}
    assert known <= theirs
    for path, nodes in modules.items():
        assert not used[path] & theirs, relative(path)
        bases = {c.name: [ast.unparse(b) for b in c.bases] for c in nodes if isinstance(c, ast.ClassDef)}
        assert not [c for c, of in bases.items() if {"Parser", "MLIRLexer"} & set(of)], relative(path)


@pytest.mark.parametrize("path", sorted((ROOT / "qmlir" / "ir" / "upstream").glob("*.py")), ids=relative)
def test_what_stands_in_for_upstream_says_until_when(path: Path) -> None:
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    assert re.search(r"unnecessary|delete\s+(it|this\s+file)", text), (
        "say which change of xDSL makes the file unnecessary"
    )


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


AT_THE_ROOT = {
    *(".ci", ".gitignore", "LICENSE", "Makefile", "mkdocs.yml", "pyproject.toml"),
    *("ACCURACY.md", "CHANGELOG.md", "CONTRIBUTING.md", "DEVICES.md", "OPERATORS.md", "README.md"),
    *("docs", "examples", "filecheck_tests", "qmlir", "tests"),
}


def test_nothing_else_lies_at_the_root() -> None:
    """What a command leaves where it runs is not to be committed."""
    assert {name.split("/")[0] for name in committed_files()} <= AT_THE_ROOT


def test_the_commands_of_the_pages_exist() -> None:
    """Also those in running text, which tests/test_docs.py does not run."""
    pages = [*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target in re.findall(r"(?:^|`)make ([a-z]+(?:-[a-z]+)*)", text, re.MULTILINE):
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
    help = argument_parser().format_help() + pass_list(with_xdsl=False)
    for command in re.findall(r"(?:^ *|`)(qmlir-opt [^`\n]*)", text, re.MULTILINE):
        for flag in re.findall(r"--[a-z][a-z-]+", command):
            assert re.search(rf"{flag}\b", help), flag

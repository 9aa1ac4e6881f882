"""Lists the passes for `--help` and `--list-passes`: their summaries, and each option's type, default and meaning.

Importing every pass takes longer than a person waits for a help text (xDSL alone takes a third of a second, its llvm
dialect another eighth). So this module imports no pass and reads the source files: the table of passes, and each
class:

    class ApplyProfilePass(ModulePass):
        \"\"\"Writes the ranges of a profile on observers.\"\"\"
        file: str = option("", "the profile, in YAML")

A test compares the result with that of importing (`options.option_infos`) for every pass.
"""

import ast
import re
import textwrap
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import cast

_WIDTH = 118
_CONVERSIONS = "What goes from one level to another answers to --convert-<name>, too.\n\n"
_PLAIN_TYPES = {"str": "text", "None": "none"}


@dataclass(frozen=True)
class OptionInfo:
    """The facts that `--help` prints about an option; `default` is None if the user has to give a value."""

    name: str
    type: str
    default: str | None
    help: str


def pass_list(*, with_xdsl: bool) -> str:
    """Returns all passes as text, each with its options; with `with_xdsl`, also the names of xDSL's other passes."""
    passes = pass_table()
    entries = "".join(_entry(name, passes[name]) for name in sorted(passes))
    if not with_xdsl:
        return f"passes:\n{entries}\n{_CONVERSIONS}xDSL's passes can be used alike; --list-passes names them.\n"
    from xdsl.transforms import get_all_passes

    others = ", ".join(sorted(set(get_all_passes()) - set(passes)))
    others = textwrap.fill(others, _WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    return f"passes:\n{entries}\n{_CONVERSIONS}passes of xDSL, usable alike:\n{others}\n"


def pass_table() -> dict[str, str]:
    """Returns `pipeline.PASSES`, read from its source."""
    found = _alias("qmlir.ir.passes", "PASSES")
    assert found is not None
    return cast("dict[str, str]", ast.literal_eval(found[1]))


def _entry(name: str, reference: str) -> str:
    summary, options = read_pass(reference)
    lines = [f"  --{name}", *_wrapped(summary, 6)]
    for option in options:
        default = "required" if option.default is None else f"default: {option.default}"
        lines += [f"      {option.name}=<{option.type}> ({default})", *_wrapped(option.help, 10)]
    return "\n".join(lines) + "\n"


def _wrapped(text: str, indent: int) -> list[str]:
    margin = " " * indent
    return textwrap.wrap(text, _WIDTH, initial_indent=margin, subsequent_indent=margin, break_on_hyphens=False)


def read_pass(reference: str) -> tuple[str, list[OptionInfo]]:
    """Returns the summary and the options of the pass at `module:Class`, read from its source."""
    module, _, name = reference.partition(":")
    options: list[OptionInfo] = []
    for where, definition in reversed(_lineage(module, name)):
        for field in definition.body:
            if isinstance(field, ast.AnnAssign) and not ast.unparse(field.annotation).startswith("ClassVar"):
                options.append(_option(where, field))
    return first_sentence(ast.get_docstring(_lineage(module, name)[0][1]) or ""), options


@lru_cache
def _lineage(module: str, name: str) -> list[tuple[str, ast.ClassDef]]:
    """Returns a class and its bases within the package, each with its module, in the order of attribute lookup."""
    if (match := re.search(rf"^class {name}\b.*?(?=^\S|\Z)", _source(module), re.MULTILINE | re.DOTALL)) is None:
        found = re.search(rf"^from (qmlir[\w.]+) import (?:\([^)]*|.*)\b{name}\b", _source(module), re.MULTILINE)
        return _lineage(found[1], name) if found is not None else []
    (definition,) = ast.parse(match[0]).body
    assert isinstance(definition, ast.ClassDef)
    bases = [entry for base in definition.bases for entry in _lineage(module, ast.unparse(base))]
    return [(module, definition), *bases]


def first_sentence(docstring: str) -> str:
    """Returns the first sentence of a docstring as one line without its full stop."""
    paragraph = " ".join(docstring.split("\n\n")[0].split())
    return re.split(r"\.\s+(?=[A-Z])", paragraph)[0].rstrip(".")


def _option(module: str, field: ast.AnnAssign) -> OptionInfo:
    assert isinstance(field.target, ast.Name)
    name, type = field.target.id.replace("_", "-"), _type_text(module, field.annotation)
    match field.value:
        case None:
            return OptionInfo(name, type, None, "")
        case ast.Call(func=ast.Name(id="option"), args=[default, ast.Constant(value=str(help))]):
            return OptionInfo(name, type, value_text(ast.literal_eval(default)), help)
        case value:
            return OptionInfo(name, type, value_text(ast.literal_eval(value)), "")


def value_text(value: object) -> str:
    """Returns a value as the user would write it."""
    match value:
        case None:
            return "none"
        case bool():
            return str(value).lower()
        case "" | ():
            return '""'
        case tuple():
            return ",".join(value_text(v) for v in cast("tuple[object, ...]", value))
        case _:
            return str(value)


def _type_text(module: str, annotation: ast.expr) -> str:
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return f"{_type_text(module, left)} | {_type_text(module, right)}"
        case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
            return " | ".join(value_text(ast.literal_eval(v)) for v in _elements(values))
        case ast.Subscript(value=ast.Name(id="tuple"), slice=members):
            return ",".join(_type_text(module, m) for m in _elements(members))
        case ast.Constant(value=value):
            return "…" if value is ... else _PLAIN_TYPES.get(str(value), str(value))
        case ast.Name(id=name) if name[0].isupper() and (found := _alias(module, name)):
            return _type_text(*found)
        case _:
            text = ast.unparse(annotation)
            return _PLAIN_TYPES.get(text, text)


def _elements(slice: ast.expr) -> list[ast.expr]:
    return slice.elts if isinstance(slice, ast.Tuple) else [slice]


@lru_cache
def _alias(module: str, name: str) -> tuple[str, ast.expr] | None:
    """Returns the module that defines a type alias, and the definition: `Schema = Literal["asymmetric", …]`."""
    for statement in _statements(module):
        match statement:
            case ast.Assign(targets=[ast.Name(id=target)], value=value) if target == name:
                return module, value
            case ast.AnnAssign(target=ast.Name(id=target), value=ast.expr() as value) if target == name:
                return module, value
            case ast.ImportFrom(module=str(other), names=names) if any(n.name == name for n in names):
                return _alias(other, name)
            case _:
                pass
    return None


@lru_cache
def _statements(module: str) -> list[ast.stmt]:
    """The statements of a module, whose aliases several passes ask for."""
    return ast.parse(_source(module)).body


@lru_cache
def _source(module: str) -> str:
    package, *path = module.split(".")
    spec = find_spec(package)
    assert spec is not None
    assert spec.submodule_search_locations
    file = Path(spec.submodule_search_locations[0], *path)
    folder = file / "__init__.py"  # a folder without it is what an older version left, with Python's cache in it
    file = folder if folder.exists() else file.with_suffix(".py")
    return file.read_text(encoding="utf-8")

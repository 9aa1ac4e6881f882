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
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import cast

from qmlir.cli.flags import fitted, help_width
from qmlir.ir.option_text import OptionInfo, value_text
from qmlir.plugins import PASSES, Plugin, plugins_in, with_number

_CONVERSIONS = "What goes from one level to another answers to --convert-<name>, too.\n\n"
_OTHERS = "\npasses of other packages:\n"
_PLAIN_TYPES = {"str": "text", "None": "none"}


def pass_list(*, with_xdsl: bool) -> str:
    """Returns all passes as text, each with its options; with `with_xdsl`, also the names of xDSL's other passes."""
    passes = pass_table()
    entries = "".join(_entry(name, *read_pass(passes[name])) for name in sorted(passes))
    if plugins := _plugins():
        entries += _OTHERS + "".join(_entry(each.name, *_plugin_facts(each)) for each in plugins)
    if not with_xdsl:
        return f"passes:\n{entries}\n{_CONVERSIONS}xDSL's passes can be used alike; --list-passes names them.\n"
    from xdsl.transforms import get_all_passes

    others = ", ".join(sorted(set(get_all_passes()) - set(passes)))
    others = "\n".join(fitted(others, help_width(), 2))
    return f"passes:\n{entries}\n{_CONVERSIONS}passes of xDSL, usable alike:\n{others}\n"


def pass_table() -> dict[str, str]:
    """Returns `pipeline.PASSES`, read from its source."""
    found = _alias("qmlir.ir.passes", "PASSES")
    assert found is not None
    return cast("dict[str, str]", ast.literal_eval(found[1]))


def _plugins() -> list[Plugin]:
    """The passes of plugins, also those of names that are taken."""
    return [each for found in plugins_in(PASSES).values() for each in found]


def _plugin_facts(found: Plugin) -> tuple[str, list[OptionInfo]]:
    """Returns summary and options of a plugin's pass, whose package is imported; a fault takes the summary's place."""
    from qmlir.errors import QmlirError

    try:
        from qmlir.cli.options import option_infos
        from qmlir.ir.passes import pass_class, refuse_taken

        refuse_taken(found.name)
        cls = pass_class(found.name)
        return f"{first_sentence(cls.__doc__ or '')} ({found.origin})", option_infos(cls)
    except QmlirError as error:
        return f"cannot be used: {error}", []


def _entry(name: str, summary: str, options: list[OptionInfo]) -> str:
    width = help_width()
    lines = [f"  --{name}", *fitted(summary, width, 6)]
    for option in options:
        default = "required" if option.default is None else f"default: {option.default}"
        lines += fitted(f"{option.name}=<{option.type}> ({default})", width, 6, 8)
        lines += fitted(option.help, width, 10)
    return "\n".join(lines) + "\n"


def read_pass(reference: str) -> tuple[str, list[OptionInfo]]:
    """Returns the summary and the options of the pass at `module:Class`, read from its source."""
    module, _, name = reference.partition(":")
    options: list[OptionInfo] = []
    for where, definition in reversed(_lineage(module, name)):
        for field in definition.body:
            if isinstance(field, ast.AnnAssign) and not ast.unparse(field.annotation).startswith("ClassVar"):
                options.append(_option(where, field))
    return first_sentence(ast.get_docstring(_lineage(module, name)[0][1]) or ""), options


def pass_docstrings(reference: str) -> list[str]:
    """Returns the docstring of a pass's class, at `module:Class`, and of its module if that begins with its name."""
    module, _, name = reference.partition(":")
    text = ast.get_docstring(_lineage(module, name)[0][1]) or ""
    known = next((n for n, r in pass_table().items() if r == reference), "")
    about = ast.get_docstring(ast.parse(_source(module))) or ""
    return [text, about] if about.startswith(f"`{known}`") else [text]


def pass_lines() -> str:
    """Returns all passes as text, a line each."""
    passes, plugins = pass_table(), _plugins()
    width = max(len(name) for name in (*passes, *(each.name for each in plugins))) + 4
    ours = ((name, read_pass(passes[name])[0] or "a pass of xDSL") for name in sorted(passes))
    theirs = ((each.name, _plugin_facts(each)[0]) for each in plugins)
    lines, others = ([f"{_cut(f'  --{n:<{width - 2}}{text}')}\n" for n, text in some] for some in (ours, theirs))
    return "passes:\n" + "".join(lines) + (_OTHERS if others else "") + "".join(others)


def _cut(line: str) -> str:
    width = help_width()
    return line if len(line) <= width else f"{line[: width - 1].rstrip()}…"


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


def _type_text(module: str, annotation: ast.expr) -> str:
    match annotation:
        case ast.BinOp(left=left, op=ast.BitOr(), right=right):
            return f"{_type_text(module, left)} | {_type_text(module, right)}"
        case ast.Subscript(value=ast.Name(id="Literal"), slice=values):
            return " | ".join(value_text(ast.literal_eval(v)) for v in _elements(values))
        case ast.Subscript(
            value=ast.Name(id="Annotated"), slice=ast.Tuple(elts=[listed, ast.Call(args=[mark]) as call])
        ):
            known = _type_text(module, listed)
            added = [n for n in plugins_in(_group(module, mark)) if n not in known.split(" | ")]
            numbered = [n for each in call.keywords if each.arg == "numbered" for n in ast.literal_eval(each.value)]
            return " | ".join([known, *added, *map(with_number, numbered)])
        case ast.Subscript(value=ast.Name(id="tuple"), slice=members):
            return ",".join(_type_text(module, m) for m in _elements(members))
        case ast.Constant(value=value):
            return "…" if value is ... else _PLAIN_TYPES.get(str(value), str(value))
        case ast.Name(id=name) if name[0].isupper() and (found := _alias(module, name)):
            return _type_text(*found)
        case _:
            text = ast.unparse(annotation)
            return _PLAIN_TYPES.get(text, text)


def _group(module: str, mark: ast.expr) -> str:
    """Returns the group of plugins that an `Extensible` names: the value of a constant of plugins.py."""
    found = _alias(module, ast.unparse(mark))
    assert found is not None
    return str(ast.literal_eval(found[1]))


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
            case ast.ImportFrom(module=str(other), names=names):
                for imported in names:
                    if (imported.asname or imported.name) == name:
                        return _alias(other, imported.name)
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

"""Writes the pages of the command line and of the Python API: docs/command-line.md and docs/api.md.

Options come from the commands' own parsers, so that pages do not depend on how argparse lays out its help. Docstrings
are read by griffe, which imports nothing.
"""

import argparse
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

import griffe

import qmlir
from qmlir.cli.examples import EXAMPLES
from qmlir.cli.flags import ArgumentParser, argument_parser
from qmlir.cli.main import command_parsers
from qmlir.cli.pass_list import pass_table, read_pass
from qmlir.ir.option_text import OptionInfo

DOCS = Path(__file__).resolve().parents[1]
MARKER = "<!-- Below: written by `make tables`; CI fails where it is not fresh. -->\n"

API = {
    "Networks": ["load", "save", "register_op", "scoped_ops", "export", "to_integers"],
    "Quantization": [
        "read_samples", "profile", "data_free_profile", "profile_drift", "prefixed", "quantize", "choose_quantization",
        "register_calibration", "register_rounding", "settings.quant_config.QuantConfig", "Profile", "Policy", "Rule",
    ],
    "Running": [
        "compile", "bundle", "reference", "load_program", "load_device", "Device", "backends.cpu.jit.Executable",
        "backends.cpu.bound.BoundCall", "backends.reference.Reference", "backends.simulated.Simulated",
        "register_encoder", "devices.model.encoder.Encoder", "devices.model.encoder.Issued",
    ],
    "Looking inside": [
        "summary", "decisions", "policies.ledger.Entry", "report", "quality", "analysis.quality.Quality",
        "analysis.quality.OutputQuality", "score", "analyze", "analysis.tensors.TensorError",
        "error_budgets", "analysis.error_budget.ErrorBudget", "effects", "analysis.effects.EffectReport", "tune",
        "analysis.tune.result.Tuned", "explore", "Workload", "analysis.explore.result.Explored",
        "analysis.explore.result.Row", "compare", "analysis.differences.Agreement",
        "crosscheck", "analysis.crosscheck.Crosscheck", "analysis.crosscheck.CheckedTensor",
    ],
    "Passes and errors": ["Pipeline", "QmlirError"],
}  # fmt: skip
"""Heading of the API page → the public names below it, or paths of classes that public functions return."""

MEMBERS = {
    "QuantConfig": ["op_config", "options"],
    "Policy": ["of", "load", "with_rules", "with_default"],
    "Rule": ["selectors", "as_dict"],
    "Device": ["with_"],
    "Entry": ["remedy", "as_dict"],
    "Pipeline": ["apply", "__call__"],
}
"""Classes of which the page shows some members only; of other classes it shows all public ones."""


# ---------------------------------------------------------------------------------------------------------------
# Commands


def commands_page() -> Iterator[str]:
    """Yields the lines about each command: what it does, an example, its arguments by section."""
    parsers = command_parsers()
    yield from ("| command | does |", "|---|---|")
    for name, parser in parsers.items():
        yield f"| [`{name}`](#qmlir-{name.replace(' ', '-')}) | {_cell(parser.description)} |"
    for name, parser in parsers.items():
        yield from ("", f"## qmlir {name}", "", parser.description or "")
        if name in EXAMPLES:
            yield from ("", "```plain", EXAMPLES[name].strip("\n"), "```")
        yield from _sections(parser)
    yield from ("", "## qmlir-opt", "", "Runs passes over MLIR text.", *_sections(argument_parser()))
    yield from ("", "### Passes", "", "| pass | does | options |", "|---|---|---|")
    table = pass_table()
    for name in sorted(table):
        does, options = read_pass(table[name])
        yield f"| `{name}` | {_cell(does)} | {'<br>'.join(map(_option_of_pass, options))} |"


def _sections(parser: ArgumentParser) -> Iterator[str]:
    for title, actions in parser.sections().items():
        shown = [action for action in actions if action.help != argparse.SUPPRESS]
        if shown:
            yield from ("", f"| {title} | meaning |", "|---|---|", *map(_argument, shown))


def _argument(action: argparse.Action) -> str:
    value = action.metavar if isinstance(action.metavar, str) else action.dest.upper()
    takes = "" if action.nargs == 0 else f" {value}"
    names = ", ".join(f"`{flag}{takes}`" for flag in action.option_strings) or f"`{action.metavar or action.dest}`"
    return f"| {_cell(names)} | {_cell(action.help)} |"


def _option_of_pass(option: OptionInfo) -> str:
    default = "" if option.default is None else f", default `{option.default}`"
    return f"`{option.name}` ({_cell(option.type)}{_cell(default)}): {_cell(option.help)}"


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|").replace("<", "&lt;")


# ---------------------------------------------------------------------------------------------------------------
# Python


@cache
def _package() -> griffe.Object | griffe.Alias:
    return griffe.load("qmlir", search_paths=[DOCS.parent])


def python_page() -> Iterator[str]:
    """Yields the lines about each public name: its signature, its docstring, what it takes, gives and raises."""
    for heading, names in API.items():
        yield from ("", f"## {heading}")
        for name in names:
            yield from _entry(name)


def _entry(name: str) -> Iterator[str]:
    value = getattr(qmlir, name) if "." not in name else None
    path = name if value is None else f"{value.__module__}.{value.__qualname__}".removeprefix("qmlir.")
    found = _package()[path]
    shown = f"qmlir.{name}"
    yield from ("", f"### `{shown}`")
    if isinstance(found, griffe.Function):
        yield from ("", "```plain", _signature(shown, found), "```")
    yield from _docstring(found)
    if isinstance(found, griffe.Class):
        yield from _members(found)


def _members(found: griffe.Class) -> Iterator[str]:
    chosen = MEMBERS.get(found.name) or [name for name in found.members if not name.startswith("_")]
    for name in chosen:
        member = found.members[name]
        if member.has_docstring:
            if isinstance(member, griffe.Function):
                signature = _signature(f"{found.name}.{name}", member)
            else:
                signature = f"{found.name}.{name}: {getattr(member, 'annotation', None) or 'property'}"
            yield from ("", "```plain", signature, "```", *_docstring(member))


def _signature(shown: str, function: griffe.Function) -> str:
    """The name with its parameters; on a line each where one line does not hold them."""
    parts: list[str] = []
    keyword_only = False
    for parameter in function.parameters:
        kind = parameter.kind or griffe.ParameterKind.positional_or_keyword
        if parameter.name in ("self", "cls"):
            continue
        if kind is griffe.ParameterKind.keyword_only and not keyword_only:
            parts.append("*")
            keyword_only = True
        stars = {griffe.ParameterKind.var_positional: "*", griffe.ParameterKind.var_keyword: "**"}.get(kind, "")
        keyword_only |= stars == "*"
        default = "" if parameter.default is None or stars else f"={parameter.default}"
        parts.append(f"{stars}{parameter.name}{default}")
    returned = f" -> {function.returns}" if function.returns else ""
    line = f"{shown}({', '.join(parts)}){returned}"
    return line if len(line) <= 100 else f"{shown}(\n    " + ",\n    ".join(parts) + f",\n){returned}"


def _docstring(found: griffe.Object | griffe.Alias) -> Iterator[str]:
    if found.docstring is None:
        return
    text, _, session = found.docstring.value.partition("\n\n>>> ")
    for section in griffe.Docstring(text, parent=found.docstring.parent).parse("google", warnings=False):
        match section:
            case griffe.DocstringSectionText():
                yield from ("", section.value.strip())
            case griffe.DocstringSectionParameters() | griffe.DocstringSectionAttributes():
                yield from _items("takes" if section.kind.value == "parameters" else "holds", section.value)
            case griffe.DocstringSectionReturns():
                yield from ("", "Returns " + _inline(" ".join(each.description for each in section.value)))
            case griffe.DocstringSectionRaises():
                yield from _items("raises", [(each.annotation, each.description) for each in section.value])
            case _:
                raise TypeError(f"{found.path}: docstrings have no section {section.kind.value}")
    if session:
        yield from ("", "```plain", f">>> {session}".strip(), "```")


def _items(title: str, items: Iterable[griffe.DocstringNamedElement | tuple[object, str]]) -> Iterator[str]:
    yield from ("", f"| {title} | |", "|---|---|")
    for item in items:
        name, text = item if isinstance(item, tuple) else (item.name, item.description)
        yield f"| `{name}` | {_cell(text)} |"


def _inline(text: str) -> str:
    text = " ".join(text.split())
    return text[:1].lower() + text[1:] if text[1:2].islower() else text


# ---------------------------------------------------------------------------------------------------------------


PAGES = {"command-line.md": commands_page, "api.md": python_page}


def page(name: str) -> str:
    """A page of `PAGES`: what stands above its marker, and below it what the sources say now."""
    above = (DOCS / name).read_text(encoding="utf-8").partition(MARKER)[0]
    return above + MARKER + "\n" + "\n".join(PAGES[name]()).strip("\n") + "\n"

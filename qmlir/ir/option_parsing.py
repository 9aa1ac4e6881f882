"""Builds passes from options given as text: `--quantize="schema=symmetric per-channel=true"` → `QuantizePass(…)`.

A pass is a frozen dataclass; its fields are its options. The text of an option is read according to the field's
annotation, so `1e-3` is a float if the field is a float, and a path may hold `/`, `.`, `~` and `:` without quotes.
xDSL's own option syntax guesses the type from the text and refuses all of these.

    option   ::= name (`=` value)?          `-` and `_` are the same in names; no value means `true`
    options  ::= option (space option)*
    value    ::= anything without spaces | `"…"` | `'…'` | `{…}`;   elements of a tuple are separated by commas
    pipeline ::= element (`,` element)*
    element  ::= pass (`{` options `}`)? | anchor `(` pipeline `)`
"""

import dataclasses
import re
import types
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar, Union, get_args, get_origin

from xdsl.passes import ModulePass

from qmlir.errors import OptionError, near_misses
from qmlir.ir.option_text import value_text
from qmlir.ir.passes import option_help, option_types
from qmlir.plugins import admits, choices, is_numbered

T = TypeVar("T")

ANCHORS = ("builtin.module", "func.func", "any")
"""Operations in which a pipeline may be nested. Passes work on the whole module, so nesting changes nothing."""

_ELEMENT = re.compile(r"(?P<name>[\w.-]+)\s*(?:\{(?P<options>.*)\}|\((?P<nested>.*)\))?", re.DOTALL)
_OPTION = re.compile(r"""(?P<name>[\w-]+)(?:=(?P<value>"[^"]*"|'[^']*'|\{[^{}]*\}|[^\s"'{}]*))?(?=\s|$)""")


@dataclass(frozen=True)
class PassSpec:
    """A pass on the command line: its name, and its options as text in the order given."""

    name: str
    options: dict[str, str]


# ---------------------------------------------------------------------------------------------------------------
# Text → PassSpec


def parse_options(pass_name: str, text: str) -> PassSpec:
    """Parses the options of one pass, from `a=1 b="x y" c`."""
    options: dict[str, str] = {}
    position = 0
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        if (match := _OPTION.match(text, position)) is None:
            raise OptionError(
                f"--{pass_name}", "options are name=value, separated by spaces", got=text[position:].strip()
            )
        value = match["value"]
        if value is not None and value.endswith(","):
            raise OptionError(
                f"--{pass_name}", "options are separated by spaces, not commas", got=text.strip(), remedy="drop the ,"
            )
        name = match["name"].replace("-", "_")
        if name in options:
            raise OptionError(f"--{pass_name}", f"the option {spelled(name)} is given twice")
        options[name] = "true" if value is None else value[1:-1] if value[:1] in ("'", '"', "{") else value
        position = match.end()
    return PassSpec(pass_name, options)


def parse_pipeline(text: str) -> list[PassSpec]:
    """Returns the passes of `--pass-pipeline`, in order; anchors are dropped."""
    specs: list[PassSpec] = []
    for element in _split(text):
        match = _ELEMENT.fullmatch(element)
        if match is None:
            raise OptionError("--pass-pipeline", "needs passes with options in braces: a{x=1},b", got=element)
        name, nested = match["name"], match["nested"]
        if nested is not None:
            if name not in ANCHORS:
                raise OptionError("--pass-pipeline", f"can nest in {', '.join(ANCHORS)} only", got=name)
            specs += parse_pipeline(nested)
        else:
            specs.append(parse_options(name, match["options"] or ""))
    return specs


def _split(text: str) -> list[str]:
    """Splits text at the commas outside brackets and quotes."""
    elements, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'":
            quote = char
        depth += 0 if quote else (char in "({") - (char in ")}")
        if depth < 0:
            break
        if char == "," and depth == 0 and not quote:
            elements.append("")
        else:
            elements[-1] += char
    if depth or quote:
        raise OptionError("--pass-pipeline", "has brackets or quotes that do not match", got=text)
    return [e.strip() for e in elements if e.strip()]


# ---------------------------------------------------------------------------------------------------------------
# PassSpec → pass


def build_pass(spec: PassSpec, pass_type: type[ModulePass]) -> ModulePass:
    """Builds a pass from its name and options.

    Raises:
        OptionError: An option is unknown or missing, or its value is not of the field's type.
    """
    return build_options(spec, pass_type)


def build_options(spec: PassSpec, pass_type: type[T]) -> T:
    """Builds an object of a dataclass whose fields are options: a pass, or other settings in this syntax.

    Raises:
        OptionError: See `build_pass`.
    """
    hints = option_types(pass_type)
    declared: Any = pass_type
    fields = {f.name: f for f in dataclasses.fields(declared) if f.init}
    values: dict[str, object] = {}
    for name, text in spec.options.items():
        if name not in fields:
            known = [spelled(n) for n in fields]
            remedy = near_misses(spelled(name), known) if known else "it takes no options"
            raise OptionError(f"--{spec.name}", f'has no option "{spelled(name)}"', remedy=remedy)
        values[name] = _convert(f"--{spec.name}={spelled(name)}", text, hints[name])
    for name, field in fields.items():
        if name not in values and _has_no_default(field):
            help = option_help(pass_type, name)
            raise OptionError(f"--{spec.name}", f"needs the option {spelled(name)}", remedy=help or None)
    try:
        return pass_type(**values)
    except ValueError as error:
        raise OptionError(f"--{spec.name}", str(error)) from error


def _has_no_default(field: "dataclasses.Field[Any]") -> bool:
    return field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING


def spelled(name: str) -> str:
    """Returns the name of an option as users write it, of the name of a field."""
    return name.replace("_", "-")


def _convert(option: str, text: str, annotation: Any) -> object:
    """Converts text to a value of type `annotation`."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if (known := choices(annotation)) is not None:
        by_text = {value_text(a): a for a in known}
        if is_numbered(annotation, text):
            return text
        if text not in by_text or not admits(annotation, by_text[text]):
            raise OptionError(
                option, f"must be one of {', '.join(by_text)}", got=text or "nothing", remedy=_near(text, by_text)
            )
        return by_text[text]
    if origin in (Union, types.UnionType):
        return _convert_union(option, text, arguments)
    if origin is tuple:
        return _convert_tuple(option, text, arguments)
    read = _READERS.get(annotation)
    assert read is not None, f"{option}: no way to read {annotation} from text"
    try:
        return read(text)
    except ValueError:
        raise OptionError(option, f"must be {_NAMES[annotation]}", got=text or "nothing") from None


def _convert_union(option: str, text: str, members: tuple[Any, ...]) -> object:
    if type(None) in members and text in ("none", ""):
        return None
    members = tuple(m for m in members if m is not type(None))
    for member in members[:-1]:
        try:
            return _convert(option, text, member)
        except OptionError:
            pass
    return _convert(option, text, members[-1])


def _convert_tuple(option: str, text: str, members: tuple[Any, ...]) -> tuple[object, ...]:
    parts = [p.strip() for p in text.split(",")] if text else []
    if len(members) == 2 and members[1] is ...:
        return tuple(_convert(option, p, members[0]) for p in parts)
    if len(parts) != len(members):
        raise OptionError(option, f"needs {len(members)} values separated by commas", got=text or "nothing")
    return tuple(_convert(option, p, m) for p, m in zip(parts, members, strict=True))


def _near(text: str, known: dict[str, object]) -> str | None:
    remedy = near_misses(text, known)
    return remedy if remedy is not None and remedy.startswith("did") else None


def _read_bool(text: str) -> bool:
    if text not in ("true", "false", "1", "0"):
        raise ValueError
    return text in ("true", "1")


_READERS: dict[Any, Callable[[str], object]] = {
    bool: _read_bool,
    int: lambda text: int(text, 0),
    float: float,
    str: str,
}
_NAMES: dict[Any, str] = {bool: "true or false", int: "an integer", float: "a number", str: "text"}

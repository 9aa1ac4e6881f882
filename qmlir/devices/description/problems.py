"""Says what is wrong with a device's data: each broken rule with its key, its unit and the nearest name."""

import re
from collections.abc import Mapping
from typing import Any, cast

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from qmlir.devices.description.schema import Table, keys_of, table_of, unit_of
from qmlir.display import counted
from qmlir.errors import near_misses, printable


def problems(error: ValidationError, data: dict[str, Any], model: type[Table]) -> str:
    """The messages about all broken rules of a device's data, whose keys are those of a model."""
    return "; ".join(_problem(e, data, model) for e in _causes(error))


def _causes(error: ValidationError) -> list[ErrorDetails]:
    """The broken rules of a file; a list that is too short only because an entry is broken is left out."""
    found = error.errors(include_url=False)
    inner = {e["loc"][:-1] for e in found}
    return [e for e in found if e["type"] != "too_short" or e["loc"] not in inner]


def _problem(error: ErrorDetails, data: dict[str, Any], model: type[Table]) -> str:
    """The message about one broken rule, such as `memory "act" bytes: must be at least 1 bytes, got 0`."""
    where, context = _place(error["loc"], data), error.get("ctx", {})
    if error["type"] == "rule":
        return f"{where}: {error['msg']}" if where else error["msg"]
    field = _field(error["loc"], model)
    remedy = None
    match error["type"]:
        case "extra_forbidden":
            remedy = near_misses(str(error["loc"][-1]), _fields(error["loc"][:-1], model))
            return f"{where}: there is no such key" + (f"; {remedy}" if remedy else "")
        case "missing" if isinstance(error["loc"][-1], int):
            return f"{where}: is missing; {_place(error['loc'][:-1], data)} is a pair"
        case "missing":
            return f"{where}: is missing" + (f" ({field.description})" if field and field.description else "")
        case "literal_error":
            need = context["expected"]
            choices, got = re.findall("'([^']*)'", need), error["input"]
            remedy = near_misses(got, choices) if isinstance(got, str) else None
        case kind:
            need = _needed(kind, context, f" {unit}" if field is not None and (unit := unit_of(field)) else "")
    return f"{where}: must be {need}, got {_given(error['input'])}" + (f"; {remedy}" if remedy else "")


LISTED = {"too_short": ("at least", "min_length"), "too_long": ("at most", "max_length")}
"""Kind of an error about the length of a list → its words, and the key of the length in the error's context."""

BOUNDED = {
    "greater_than_equal": ("at least", "ge"),
    "less_than_equal": ("at most", "le"),
    "greater_than": ("more than", "gt"),
}
"""Kind of an error about a number's bounds → its words, and the key of the bound in the error's context."""

NUMBERS = {
    "int_type": "a whole number",
    "int_parsing_size": "a whole number of at most 64 bits",
    "float_type": "a number",
    "finite_number": "a finite number",
}
"""Kind of an error about what is no number → what is needed."""

KINDS = {
    "bool_type": "true or false",
    "string_type": "text",
    "model_type": "a table",
    "tuple_type": "a list",
    "string_too_long": "text of at most {max_length} characters",
}
"""Kind of an error about a value of another type → what is needed."""


def _needed(kind: str, context: Mapping[str, Any], unit: str) -> str:
    """What a value must be that pydantic refuses with an error of some kind, in the words of device files."""
    if kind in BOUNDED:
        words, bound = BOUNDED[kind]
        number = context[bound]
        return f"{words} {int(number) if number == int(number) else number}{unit}"
    if kind in LISTED:
        words, length = LISTED[kind]
        return f"a list of {words} {counted(context[length], 'value')}"
    if kind in NUMBERS:
        return f"{NUMBERS[kind]} of{unit}" if unit else NUMBERS[kind]
    if kind == "string_pattern_mismatch":
        return "a line of text" if unit == " text" else "a name of small letters, digits, - and _"
    return KINDS.get(kind, "a value of another kind").format(**context)


def _given(value: object) -> str:
    """A value of a file for a message, shortened."""
    if value in ([], (), {}):
        return "an empty table" if isinstance(value, dict) else "an empty list"
    return printable(repr(value), longest=60)


def _place(location: tuple[int | str, ...], data: Any) -> str:
    """The location of a key in the words of the file: `array.lanes.k`, `memory "act" bytes`."""
    words: list[str] = []
    for key in location:
        data = _below(data, key)
        if isinstance(key, int):
            name = cast(dict[str, Any], data).get("id") if isinstance(data, dict) else None
            words[-1] += f' "{name}"' if name is not None else f" {key + 1}"
        elif words and " " in words[-1]:
            words.append(str(key))
        else:
            words[-1:] = [".".join([*words[-1:], str(key)])]
    return " ".join(words)


def _below(data: Any, key: int | str) -> Any:
    try:
        return data[key]
    except (KeyError, IndexError, TypeError):
        return None


def _fields(location: tuple[int | str, ...], model: type[Table]) -> dict[str, FieldInfo]:
    """The fields of the table at a location of the file, by their keys; empty if there is no such table."""
    fields = keys_of(model)
    for key in location:
        if not isinstance(key, int):
            table = table_of(fields[key].annotation) if key in fields else None
            fields = {} if table is None else keys_of(table)
    return fields


def _field(location: tuple[int | str, ...], model: type[Table]) -> FieldInfo | None:
    """The field at a location of the file; None if there is no such field."""
    named = [i for i, key in enumerate(location) if isinstance(key, str)]
    return _fields(location[: named[-1]], model).get(str(location[named[-1]])) if named else None

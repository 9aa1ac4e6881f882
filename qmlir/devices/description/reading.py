"""Reads a device file (TOML); reports all its problems at once, each with its key, its unit and the nearest name.

A device is also written as text in one line, for modules that are compiled for a device which has no file.
"""

import json
import re
import tomllib
from collections.abc import Callable, Mapping
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from qmlir.devices.description.device import Device
from qmlir.devices.description.schema import keys_of, table_of, unit_of
from qmlir.display import counted
from qmlir.errors import FileError, OptionError, near_misses, printable
from qmlir.running.files import note_file, path_of
from qmlir.running.yaml_files import check_data

Accelerator = Device | str | Path
"""A device as functions accept it: the device, its name, or the path of its file."""

DEVICE_KEY = "schema"
"""The top-level key that distinguishes a device file from the file of another target."""


@cache
def shipped_devices() -> tuple[str, ...]:
    """The names of the devices that ship with qmlir."""
    files = (resources.files("qmlir") / "targets").iterdir()
    tables = {f.name.removesuffix(".toml"): tomllib.loads(f.read_text("utf-8")) for f in files if _is_toml(f.name)}
    return tuple(sorted(name for name, table in tables.items() if DEVICE_KEY in table))


def _is_toml(name: str) -> bool:
    return name.endswith(".toml")


def load_device(device: Accelerator) -> Device:
    """Loads a device by its name or its file.

    Args:
        device: The name of a device that ships with qmlir, or the path of a device file; a device is returned as it is.
            A module names a device that has neither by the text that `text_of` gives.

    Raises:
        OptionError: There is no such device.
        FileError: The file cannot be read or breaks the schema; the message names every key that does.

    >>> import qmlir
    >>> print(qmlir.load_device("nmp").array.lanes)  # products in a cycle: terms of a sum, output channels, rows
    k=32 n=16 m=1
    """
    if isinstance(device, Device):
        return device
    if isinstance(device, str) and device.startswith("{"):
        return _parse_line(device)
    if isinstance(device, str) and not _is_toml(device):
        known = shipped_devices()
        if device not in known:
            raise OptionError(
                "target", f"must be one of {', '.join(known)}, or the path of a .toml file", got=device,
                remedy=near_misses(device, known),
            )  # fmt: skip
        text = (resources.files("qmlir") / "targets" / f"{device}.toml").read_text("utf-8")
        return parse_device(text, f"{device}.toml")
    path = path_of(device, "target")
    note_file(path)
    try:
        return parse_device(path.read_text("utf-8"), str(path))
    except OSError as error:
        raise FileError(path, "must be a device file that can be read", got=error.strerror or str(error)) from None
    except UnicodeDecodeError:
        raise FileError(path, "must be a device file in UTF-8", got="bytes that are not text") from None


_LONG_KEY = re.compile(r"(?:^|[\[{,])[ \t]*+(?:[^\s.=\[\]{},#]++[ \t]*+\.[ \t]*+){64}", re.MULTILINE)
"""A key such as `a.b.c` with more than 64 words; tomllib takes memory quadratic in the number of words."""


@lru_cache(maxsize=16)
def parse_device(text: str, source: str) -> Device:
    """The device that a TOML text describes.

    A device is immutable, and a compilation asks for it many times: the same text gives the same object.

    Raises:
        FileError: The text is not TOML or breaks the schema; `source` names the file.
    """

    def read() -> object:
        if _LONG_KEY.search(text) is not None:
            raise ValueError("a key of more than 64 words")
        try:
            return tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            problem, line, column = _mistake(error, text)
            raise FileError(f"{source}:{line}:{column}", "must be TOML", got=f"a mistake ({problem})") from None

    return _read(read, source, "TOML")


def text_of(device: Accelerator) -> str:
    """Returns the text by which a module names a device, for `load_device`.

    Returns:
        The name or the path that was given; of a `Device`, its keys as JSON, or its name if it ships with qmlir as it
        is.
    """
    if not isinstance(device, Device):
        return str(device)
    if device.name in shipped_devices() and device == load_device(device.name):
        return device.name
    return json.dumps(data_of(device), separators=(",", ":"))


def data_of(device: Device) -> dict[str, Any]:
    """Returns the keys of a device file that were given, as plain data in the file's nesting."""
    return device.model_dump(mode="json", by_alias=True, exclude_unset=True)


@lru_cache(maxsize=16)
def _parse_line(text: str) -> Device:
    """The device that a text of `text_of` describes."""
    return _read(lambda: json.loads(text), "the device of the module", "JSON")


def _read(read: Callable[[], object], source: str, form: str) -> Device:
    """Reads the data of a device and checks it; `form` is how the text was to be written."""
    try:
        data = cast(dict[str, Any], read())
        check_data(data)
    except RecursionError:
        raise FileError(source, f"must be {form}", got="something nested too deep") from None
    except ValueError as error:  # raised by the parser, by Python for a number, or by check_data for data out of bounds
        raise FileError(source, f"must be {form}", got=str(error)) from None
    try:
        return Device.model_validate(data)
    except ValidationError as error:
        raise FileError(source, problems(error, data)) from None


def problems(error: ValidationError, data: dict[str, Any]) -> str:
    """The messages about all broken rules of a device's data."""
    return "; ".join(_problem(e, data) for e in _causes(error))


_AT = re.compile(r"(?P<problem>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL)


def _mistake(error: tomllib.TOMLDecodeError, text: str) -> tuple[str, int, int]:
    """Returns what tomllib reports, with line and column, which it has in its message only."""
    lines = text.rstrip().split("\n")
    end = len(lines), len(lines[-1]) + 1
    if (found := _AT.fullmatch(str(error))) is None:
        return str(error), *end
    problem = found["problem"][:1].lower() + found["problem"][1:]
    return problem, *((int(found["line"]), int(found["column"])) if found["line"] else end)


def _causes(error: ValidationError) -> list[ErrorDetails]:
    """The broken rules of a file; a list that is too short only because an entry is broken is left out."""
    found = error.errors(include_url=False)
    inner = {e["loc"][:-1] for e in found}
    return [e for e in found if e["type"] != "too_short" or e["loc"] not in inner]


def _problem(error: ErrorDetails, data: dict[str, Any]) -> str:
    """The message about one broken rule, such as `memory "act" bytes: must be at least 1 bytes, got 0`."""
    where, context = _place(error["loc"], data), error.get("ctx", {})
    if error["type"] == "rule":
        return f"{where}: {error['msg']}" if where else error["msg"]
    field = _field(error["loc"])
    remedy = None
    match error["type"]:
        case "extra_forbidden":
            remedy = near_misses(str(error["loc"][-1]), _fields(error["loc"][:-1]))
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


def _fields(location: tuple[int | str, ...]) -> dict[str, FieldInfo]:
    """The fields of the table at a location of the file, by their keys; empty if there is no such table."""
    fields = keys_of(Device)
    for key in location:
        if not isinstance(key, int):
            table = table_of(fields[key].annotation) if key in fields else None
            fields = {} if table is None else keys_of(table)
    return fields


def _field(location: tuple[int | str, ...]) -> FieldInfo | None:
    """The field at a location of the file; None if there is no such field."""
    named = [i for i, key in enumerate(location) if isinstance(key, str)]
    return _fields(location[: named[-1]]).get(str(location[named[-1]])) if named else None

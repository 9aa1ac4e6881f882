"""Reads a device file (TOML); reports all its problems at once, each with its key, its unit and the nearest name.

A device is also written as text in one line, for modules that are compiled for a device which has no file.
"""

import json
import re
import tomllib
from collections.abc import Callable
from functools import cache, lru_cache
from importlib import resources
from pathlib import Path
from typing import Any, cast

from pydantic import ValidationError

from qmlir.devices.description.changing import data_of
from qmlir.devices.description.device import Device
from qmlir.devices.description.problems import problems
from qmlir.errors import FileError, OptionError, near_misses
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
        raise FileError(source, problems(error, data, Device)) from None


_AT = re.compile(r"(?P<problem>.*) \(at (?:line (?P<line>\d+), column (?P<column>\d+)|end of document)\)", re.DOTALL)


def _mistake(error: tomllib.TOMLDecodeError, text: str) -> tuple[str, int, int]:
    """Returns what tomllib reports, with line and column, which it has in its message only."""
    lines = text.rstrip().split("\n")
    end = len(lines), len(lines[-1]) + 1
    if (found := _AT.fullmatch(str(error))) is None:
        return str(error), *end
    problem = found["problem"][:1].lower() + found["problem"][1:]
    return problem, *((int(found["line"]), int(found["column"])) if found["line"] else end)

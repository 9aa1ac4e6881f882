"""Changes keys of a device: a variant of it without a file of its own.

A key is written as in a program file, `array.lanes.k`. A memory or a queue is named by its id, `memory.act.bytes`; an
entry of another list by its number from 0 on, `array.modes.0.rate`.
"""

import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from qmlir.devices.description.problems import problems
from qmlir.devices.description.schema import Table, keys_of, table_of
from qmlir.display import bytes_of
from qmlir.errors import OptionError, near_misses

D = TypeVar("D", bound=Table)


@dataclass(frozen=True)
class Change:
    """A key of a device file with another value, as plain data of the file.

    key     the key, such as `ops.conv2d.stride_max`
    now     its value; None if the file leaves it out
    needed  its value instead
    """

    key: str
    now: object
    needed: object

    def __str__(self) -> str:
        now = "none" if self.now is None else toml_value(self.now)
        return f"{self.key}: {now} → {toml_value(self.needed)}"


def toml_value(value: object) -> str:
    """A value in TOML, in one line; numbers, truth values and quoted text look as in JSON."""
    if isinstance(value, dict):
        inner = ", ".join(f"{key} = {toml_value(each)}" for key, each in cast(dict[str, object], value).items())
        return f"{{ {inner} }}" if inner else "{}"
    if isinstance(value, list):
        return f"[{', '.join(map(toml_value, cast(list[object], value)))}]"
    return json.dumps(value, ensure_ascii=False)


def value_of(device: Table, key: str) -> object:
    """The value of a key, or its default, as plain data; None if it has neither."""
    found: Any = device.model_dump(mode="json", by_alias=True)
    for word in key.split("."):
        if isinstance(found, list):
            entries = cast(list[Any], found)
            named = [str(each.get("id", number)) for number, each in enumerate(entries)]
            found = entries[named.index(word)] if word in named else None
        else:
            found = cast(dict[str, Any], found).get(word) if isinstance(found, dict) else None
    return found


def changed(device: D, changes: Mapping[str, object]) -> D:
    """Returns a device with other values of some keys.

    Args:
        device: The device; it stays unchanged.
        changes: Key → its value, as plain data in the form of a device file. A table that the device does not have is
            made, as `ops.mul`; a memory or a queue is not.

    Raises:
        OptionError: There is no such key, or the changed device breaks the schema; the message names every key that
            does.
    """
    data, model = data_of(device), type(device)
    for key, value in changes.items():
        if not isinstance(cast(object, key), str):
            raise OptionError("a key of a device", "must be text, such as array.lanes.k", got=repr(key))
        _set(data, key, value, model)
    try:
        return model.model_validate(data)
    except ValidationError as error:
        settings = ", ".join(f"{key} = {value}" for key, value in changes.items())
        raise OptionError(f"{data['name']} with {settings}", problems(error, data, model)) from None


def data_of(device: Table) -> dict[str, Any]:
    """Returns the keys of a device file that were given, as plain data in the file's nesting."""
    return device.model_dump(mode="json", by_alias=True, exclude_unset=True)


def settings_of(texts: Iterable[str]) -> dict[str, object]:
    """Returns the changes that a command line names as `KEY=VALUE`; values are TOML, and words need no quotes.

    Raises:
        OptionError: A text has no key or no value.
    """
    found: dict[str, object] = {}
    for text in texts:
        key, equals, value = (part.strip() for part in text.partition("="))
        if not (key and equals and value):
            raise OptionError("--set", "must be a key of the device and its value: array.lanes.k=16", got=text)
        found[key] = _value(value)
    return found


def _value(text: str) -> object:
    """The value of a TOML text, or the bytes of a size such as 64KiB; the text itself if it is neither."""
    if not text.isdecimal() and (size := bytes_of(text)) is not None:
        return size
    try:
        found = tomllib.loads(f"value = {text}")
    except (ValueError, RecursionError):
        return text
    return found["value"] if len(found) == 1 else text


def _set(data: dict[str, Any], key: str, value: object, model: type[Table]) -> None:
    """Sets a key in a device's data."""
    fields: Mapping[str, FieldInfo] = keys_of(model)
    container: Any = data
    path = ""
    *outer, last = key.split(".")
    for word in outer:
        if isinstance(container, list):
            entries = cast(list[Any], container)
            container = entries[_number(entries, word, key, path)]
        else:
            table = table_of(_field(fields, word, key, path).annotation)
            if table is None:
                raise OptionError(key, f"{path}{word} has no keys below it")
            fields, container = keys_of(table), cast(dict[str, Any], container).setdefault(word, {})
        path += f"{word}."
    if isinstance(container, list):
        container[_number(cast(list[Any], container), last, key, path)] = value
    else:
        _field(fields, last, key, path)
        container[last] = value


def _field(fields: Mapping[str, FieldInfo], word: str, key: str, path: str) -> FieldInfo:
    """The field of a key in a table; `path` is what stands before it."""
    if word not in fields:
        raise OptionError(key, "there is no such key of a device", remedy=near_misses(word, fields, prefix=path))
    return fields[word]


def _number(entries: list[Any], word: str, key: str, path: str) -> int:
    """The number of an entry of a list, from its id or its number."""
    names = [str(entry.get("id", number)) for number, entry in enumerate(entries)]
    if word in names:
        return names.index(word)
    if word.isdecimal() and int(word) < len(entries):
        return int(word)
    near = near_misses(word, names, prefix=path) or f"there are {', '.join(names)}"
    raise OptionError(key, f"there is no {path}{word}", remedy=near)

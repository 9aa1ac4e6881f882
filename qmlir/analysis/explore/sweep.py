"""The variants of a device that a sweep names: every combination of the values of its keys.

A sweep is `KEY=VALUE,VALUE,…`. Keys and values are written as for `--set` (devices/description/changing.py); a size may
have a unit, such as 64KiB. Commas within brackets or quotes belong to a value.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, cast

from qmlir.devices import Device
from qmlir.devices.description.changing import data_of, settings_of
from qmlir.devices.description.schema import keys_of, table_of
from qmlir.errors import OptionError, QmlirError, near_misses

Sweeps = Mapping[str, Sequence[object]]
"""Key of the device → the values to try."""

MOST_VARIANTS = 10_000
"""The most variants of a device."""


@dataclass(frozen=True)
class Variant:
    """A device with other values of some keys.

    settings  key → value; empty for the device as it is
    device    the device; None if it breaks the schema
    refused   why there is no such device
    """

    settings: Mapping[str, object]
    device: Device | None
    refused: QmlirError | None = None

    @property
    def said(self) -> str:
        """The settings in words."""
        return " ".join(f"{key}={value}" for key, value in self.settings.items()) or "as it is"


def variants_of(device: Device, sweeps: Sweeps) -> list[Variant]:
    """Returns a variant for each combination of values, the values of the last key first.

    Raises:
        OptionError: A key does not exist, has no values, or there are too many variants.
    """
    known = list(keys_in(device))
    for key, values in sweeps.items():
        if key not in known:
            raise OptionError(f"sweep {key}", f"there is no such key of {device.name}", remedy=_known_at(key, known))
        if not values:
            raise OptionError(f"sweep {key}", "must have values", got="none")
    count = 1
    for values in sweeps.values():
        count *= len(values)
    if count > MOST_VARIANTS:
        raise OptionError("sweep", f"must have at most {MOST_VARIANTS} variants", got=str(count))
    return [_variant(device, dict(zip(sweeps, values, strict=True))) for values in product(*sweeps.values())]


def _known_at(key: str, known: Sequence[str]) -> str:
    """The keys that a key may have meant, and all that exist in its table: in the innermost table that exists."""
    words = key.split(".")
    tables = [".".join(words[:count]) + "." for count in range(len(words) - 1, 0, -1)] + [""]
    table = next(each for each in tables if any(name.startswith(each) for name in known))
    inner = dict.fromkeys(name.removeprefix(table).partition(".")[0] for name in known if name.startswith(table))
    near = near_misses(key, known)
    listed = f"{table.rstrip('.') or 'a device'} has {', '.join(inner)}"
    return f"{near} {listed}" if near is not None and near.startswith("did") else listed


def _variant(device: Device, settings: dict[str, object]) -> Variant:
    try:
        return Variant(settings, device.with_(settings) if settings else device)
    except QmlirError as error:
        return Variant(settings, None, error)


def sweeps_of(texts: Sequence[str]) -> dict[str, list[object]]:
    """Returns the sweeps that a command line names.

    Raises:
        OptionError: A text has no key or no value, or a key is there twice.
    """
    found: dict[str, list[object]] = {}
    for text in texts:
        key, _, values = (part.strip() for part in text.partition("="))
        if not (key and values):
            raise OptionError("--sweep", "must be a key and values: array.lanes.k=8,16,32", got=text)
        if key in found:
            raise OptionError("--sweep", f"must name {key} once", remedy="put all of its values behind one key")
        found[key] = [settings_of([f"{key}={value}"])[key] for value in _split(values)]
    return found


def _split(text: str) -> Iterator[str]:
    """Yields the values of a text, at commas outside of brackets and quotes."""
    value, depth, quote = "", 0, ""
    for letter in text:
        if letter == "," and not depth and not quote:
            yield value
            value = ""
            continue
        quote = ("" if quote == letter else quote or letter) if letter in "\"'" else quote
        depth += 0 if quote else (letter in "[{") - (letter in "]}")
        value += letter
    yield value


def keys_in(device: Device) -> Iterator[str]:
    """Yields the keys of a device that a sweep can name, those with a default, too, in the order of its file."""
    yield from _keys(Device, data_of(device), "")


def _keys(table: Any, data: Mapping[str, Any], before: str) -> Iterator[str]:
    for name, field in keys_of(table).items():
        inner = table_of(field.annotation)
        if inner is None:
            yield before + name
        elif isinstance(entries := data.get(name), list):
            for number, entry in enumerate(cast(list[dict[str, Any]], entries)):
                yield from _keys(inner, entry, f"{before}{name}.{entry.get('id', number)}.")
        elif name in data or not field.is_required():
            yield from _keys(inner, data.get(name) or {}, f"{before}{name}.")

"""The schema of certificates, and the comparison of a certificate with it: its keys, types and bounds.

`schema.json` beside this module is a JSON Schema that any validator reads. The keyword `trusted` is an annotation of
its own: the field cannot be derived from the artefact, and the text says why. Numbers are compared more strictly than
JSON Schema asks for: an integer is written without a point, and true is no number.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

Schema = Mapping[str, Any]


@cache
def schema() -> Schema:
    """The JSON Schema of certificates."""
    return json.loads((files("qmlir.checker") / "schema.json").read_text(encoding="utf-8"))


def definition(name: str) -> Schema:
    """One of the schema's definitions."""
    return schema()["$defs"][name]


def first_breach(value: Any, about: str) -> str | None:
    """Returns the first field of a certificate that is not as the schema of its kind says; None if all are."""
    return next(_breaches(value, definition(about), ""), None)


def at(path: str, key: str | int) -> str:
    """The path of a field or an element: `operations[2].range`."""
    if isinstance(key, int):
        return f"{path}[{key}]"
    return f"{path}.{key}" if path else key


# ---------------------------------------------------------------------------------------------------------------
# What is on trust


@dataclass(frozen=True)
class Trusted:
    """Something that is on trust.

    field   the path of a field, with [] for each element of a list; None for what no field states
    reason  why it cannot be derived
    """

    field: str | None
    reason: str

    def is_stated(self, certificate: Mapping[str, Any]) -> bool:
        """Whether a certificate has such a field that is not null."""
        found: list[Any] = [certificate]
        for part in (self.field or "").split("."):
            key, *elements = part.split("[]")
            found = [each[key] for each in found if isinstance(each, dict) and key in each]
            for _ in elements:
                found = [e for each in found if isinstance(each, list) for e in each]  # pyright: ignore[reportUnknownVariableType]
        return any(each is not None for each in found)


def assumptions(about: str) -> tuple[Trusted, ...]:
    """What the proof of a kind of certificates takes for granted beside its fields."""
    return tuple(Trusted(None, text) for text in definition(about).get("assumed", ()))


@cache
def trusted_fields(about: str) -> tuple[Trusted, ...]:
    """The fields of a kind of certificates that are on trust: `network`, `program` or `object`."""
    return tuple(_trusted(definition(about), ""))


def _trusted(rule: Schema, path: str) -> Iterator[Trusted]:
    if "$ref" in rule:
        yield from _trusted(_referred(rule), path)
    if "trusted" in rule:
        yield Trusted(path, rule["trusted"])
        return
    for key, each in rule.get("properties", {}).items():
        yield from _trusted(each, at(path, key))
    if "items" in rule:
        yield from _trusted(rule["items"], f"{path}[]")


# ---------------------------------------------------------------------------------------------------------------
# Validation


def _referred(rule: Schema) -> Schema:
    return definition(rule["$ref"].rpartition("/")[2])


_TYPES: Mapping[str, type | tuple[type, ...]] = {
    "object": dict,
    "array": list,
    "string": str,
    "integer": int,
    "number": (int, float),
    "boolean": bool,
    "null": type(None),
}


def _is_of(value: Any, names: str | Sequence[str]) -> bool:
    if isinstance(value, bool):
        return "boolean" in ([names] if isinstance(names, str) else names)
    return any(isinstance(value, _TYPES[name]) for name in ([names] if isinstance(names, str) else names))


def _breaches(value: Any, rule: Schema, path: str) -> Iterator[str]:
    """What a value breaks of a rule; each text begins with the path of the field."""
    where = path or "the certificate"
    if "$ref" in rule:
        yield from _breaches(value, _referred(rule), path)
    if "oneOf" in rule and all(any(_breaches(value, each, path)) for each in rule["oneOf"]):
        yield f"{where} has none of the forms that it may have"
    if "type" in rule and not _is_of(value, rule["type"]):
        yield f"{where} is not of type {rule['type']}"
        return
    if ("const" in rule and value != rule["const"]) or ("enum" in rule and value not in rule["enum"]):
        known = [rule["const"]] if "const" in rule else rule["enum"]
        yield f"{where} is none of {', '.join(map(str, known[:8]))}{', …' if len(known) > 8 else ''}"
    if isinstance(value, dict):
        yield from _in_object(value, rule, path)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, list):
        yield from _in_list(value, rule, path)  # pyright: ignore[reportUnknownArgumentType]
    elif isinstance(value, str):
        too_long = len(value) > rule.get("maxLength", len(value))
        if too_long or ("pattern" in rule and not _fits(rule["pattern"], value)) or not _is_unicode(value):
            yield f"{where} has characters that it may not have, or too many"
    elif isinstance(value, int | float) and not isinstance(value, bool) and not _is_within(value, rule):
        yield f"{where} is beyond its bounds"


def _fits(pattern: str, text: str) -> bool:
    """Whether a whole text fits an anchored pattern; in Python, `$` would also match in front of a line's end."""
    return re.fullmatch(pattern.removeprefix("^").removesuffix("$"), text) is not None


def _is_unicode(text: str) -> bool:
    """Whether a text has no half of a pair of surrogates, which JSON can state and no file can hold."""
    return not any("\ud800" <= letter <= "\udfff" for letter in text)


def _is_within(value: float, rule: Schema) -> bool:
    above = rule.get("minimum", value) <= value and ("exclusiveMinimum" not in rule or value > rule["exclusiveMinimum"])
    return above and value <= rule.get("maximum", value)


def _in_object(value: Mapping[str, Any], rule: Schema, path: str) -> Iterator[str]:
    properties, others = rule.get("properties", {}), rule.get("additionalProperties", True)
    for key in rule.get("required", ()):
        if key not in value:
            yield f"{at(path, key)} is missing"
    for key, each in value.items():
        if key in properties:
            yield from _breaches(each, properties[key], at(path, key))
        elif others is False:
            yield f"{at(path, key)} is no field of certificates"
        elif isinstance(others, dict):
            if not _is_unicode(key):
                yield f"{path} has a key that no file can hold"
            yield from _breaches(each, others, at(path, key))  # pyright: ignore[reportUnknownArgumentType]


def _in_list(value: Sequence[Any], rule: Schema, path: str) -> Iterator[str]:
    if not rule.get("minItems", 0) <= len(value) <= rule.get("maxItems", len(value)):
        yield f"{path} has {len(value)} elements"
    if "items" in rule:
        for index, each in enumerate(value):
            yield from _breaches(each, rule["items"], at(path, index))

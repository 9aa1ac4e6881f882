"""Generates the reference pages of device files from their schema: the keys, and what each shipped device computes."""

from collections.abc import Iterator
from typing import Any, cast, get_args

from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined

from qmlir.devices.description import Device
from qmlir.devices.judgement import RULES
from qmlir.devices.limits import EVERY, limits_of
from qmlir.devices.schema import Table, keys_of, table_of, unit_of


def keys_page() -> str:
    """Every key of a device file as a Markdown table: its unit, its default and its meaning."""
    lines = ["| key | value | default | meaning |", "|---|---|---|---|"]
    lines += [
        f"| `{key}` | {_value(field)} | {_default(field)} | {field.description} |" for key, field in _keys(Device)
    ]
    return "\n".join(lines) + "\n"


def _keys(table: type[Table], prefix: str = "") -> Iterator[tuple[str, FieldInfo]]:
    for name, field in keys_of(table).items():
        key = prefix + name
        inner = table_of(field.annotation)
        if inner is None:
            yield key, field
        else:
            many = "[]" if any(a is Ellipsis for a in get_args(field.annotation)) else ""
            yield from _keys(inner, f"{key}{many}.")


def _value(field: FieldInfo) -> str:
    return unit_of(field) or ", ".join(dict.fromkeys(_words(field.annotation)))


def _words(annotation: Any) -> Iterator[str]:
    """Yields the values that an annotation admits, in words."""
    names = {bool: "true or false", str: "a name"}
    if annotation in names:
        yield names[annotation]
    elif isinstance(annotation, str | int):
        yield f"`{annotation}`"
    else:
        for argument in get_args(annotation):
            yield from _words(argument)


def _default(field: FieldInfo) -> str:
    if field.default is PydanticUndefined:
        return "must be given"
    if field.default is None:
        return "none"
    default: object = field.default
    if isinstance(default, tuple):
        return ", ".join(map(str, cast(tuple[object, ...], default)))
    return str(default).lower() if isinstance(default, bool) else str(default)


def rules_page() -> str:
    """The rules that every device imposes on operations, as a Markdown list."""
    return "".join(f"* {sentence}\n" for sentence, _ in RULES)


def operations_page(device: Device) -> str:
    """The operations that a device computes and the limits on each, as Markdown."""
    lines = [f"## {device.name}", ""]
    for kind in EVERY:
        if getattr(device.ops, kind) is None:
            lines.append(f"* **{kind}**: not computed")
        else:
            asked = "; ".join(limit.text(wanted) for limit, wanted in limits_of(device, kind))
            lines.append(f"* **{kind}**: {asked or 'without limits'}")
    return "\n".join(lines) + "\n"

"""The schema of device files as data: the keys of each table, and the unit of each value."""

from typing import Any, cast, get_args

from pydantic.fields import FieldInfo

from qmlir.devices.values import Table


def keys_of(table: type[Table]) -> dict[str, FieldInfo]:
    """The fields of a table by their keys in the file."""
    return {field.alias or name: field for name, field in table.model_fields.items()}


def table_of(annotation: Any) -> type[Table] | None:
    """The table class that an annotation names, directly or inside an option or a tuple; None if it names no table."""
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return annotation
    return next((t for a in get_args(annotation) if (t := table_of(a)) is not None), None)


def unit_of(field: FieldInfo) -> str | None:
    """The unit of a field's value; None if the value has no unit."""
    return _unit(field) or _unit_within(field.annotation)


def _unit(field: FieldInfo) -> str | None:
    extra = cast(dict[str, Any] | None, field.json_schema_extra)
    return None if extra is None else extra.get("unit")


def _unit_within(annotation: Any) -> str | None:
    """The unit that one of the types in an annotation carries; None if no type carries a unit."""
    for part in (*getattr(annotation, "__metadata__", ()), *get_args(annotation)):
        unit = _unit(part) if isinstance(part, FieldInfo) else _unit_within(part)
        if unit is not None:
            return unit
    return None

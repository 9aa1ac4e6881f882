"""The schema of device files as data: the keys of each table, and the unit of each value."""

from typing import Any, cast, get_args

from pydantic.fields import FieldInfo

from qmlir.device.values import Table


def keys_of(table: type[Table]) -> dict[str, FieldInfo]:
    """The fields of a table by their keys in the file."""
    return {field.alias or name: field for name, field in table.model_fields.items()}


def table_of(annotation: Any) -> type[Table] | None:
    """The table that an annotation names: itself, an option's or a tuple's."""
    if isinstance(annotation, type) and issubclass(annotation, Table):
        return annotation
    return next((t for a in get_args(annotation) if (t := table_of(a)) is not None), None)


def unit_of(field: FieldInfo) -> str | None:
    """The unit of a field's value; None of what has none."""
    return _unit(field) or _unit_within(field.annotation)


def _unit(field: FieldInfo) -> str | None:
    extra = cast(dict[str, Any] | None, field.json_schema_extra)
    return None if extra is None else extra.get("unit")


def _unit_within(annotation: Any) -> str | None:
    """The unit that an annotation carries for one of the types it names."""
    for part in (*getattr(annotation, "__metadata__", ()), *get_args(annotation)):
        unit = _unit(part) if isinstance(part, FieldInfo) else _unit_within(part)
        if unit is not None:
            return unit
    return None

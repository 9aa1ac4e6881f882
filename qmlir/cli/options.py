"""The options of a pass as help texts show them: name, type, default and meaning."""

import dataclasses
import types
from typing import Any, Union, get_args, get_origin

from xdsl.passes import ModulePass

from qmlir.ir.option_parsing import spelled
from qmlir.ir.option_text import OptionInfo, value_text
from qmlir.ir.passes import option_help, option_types
from qmlir.plugins import choices, numbered, with_number


def option_infos(pass_type: type[ModulePass]) -> list[OptionInfo]:
    """Returns the name, type, default and help of each option of a pass."""
    hints = option_types(pass_type)
    infos: list[OptionInfo] = []
    for field in dataclasses.fields(pass_type):
        if not field.init:
            continue
        default = None
        if field.default is not dataclasses.MISSING:
            default = value_text(field.default)
        elif field.default_factory is not dataclasses.MISSING:
            default = value_text(field.default_factory())
        infos.append(
            OptionInfo(spelled(field.name), _type_text(hints[field.name]), default, option_help(pass_type, field.name))
        )
    return infos


def _type_text(annotation: Any) -> str:
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin in (Union, types.UnionType):
        return " | ".join("none" if a is type(None) else _type_text(a) for a in arguments)
    if (known := choices(annotation)) is not None:
        return " | ".join([*map(value_text, known), *map(with_number, numbered(annotation))])
    if origin is tuple:
        return ",".join("…" if a is ... else _type_text(a) for a in arguments)
    return {bool: "bool", int: "int", float: "float", str: "text"}.get(annotation, str(annotation))

"""Options of passes: a pass is an xDSL `ModulePass`, a frozen dataclass whose fields are its options.

Each option has a type, a default and a help line:

    @dataclass(frozen=True)
    class ChooseScalesPass(ModulePass):
        \"\"\"One sentence; then before and after as IR.\"\"\"
        name = "choose-scales"
        schema: Schema = option("asymmetric", "how a range becomes a scale and a zero point")

Drivers read the types to parse `--choose-scales=schema=symmetric`; `-` and `_` are the same in option names.
"""

import dataclasses
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from qmlir.errors import OptionError
from qmlir.errors.near_misses import near_misses

T = TypeVar("T")


def option(default: T, help: str) -> T:
    """Declares a pass option: a dataclass field with a help line.

    Args:
        default: The option's value if the user does not give one.
        help: One line for `--help`.
    """
    made: Any = dataclasses.field(default=default, metadata={"help": help})
    return made


def option_help(pass_type: type, name: str) -> str:
    """Returns the help line of option `name` of `pass_type`; empty if it has none."""
    fields = {f.name: f for f in dataclasses.fields(pass_type)}
    return str(fields[name].metadata.get("help", ""))


def check_option(pass_type: type, name: str, value: object) -> None:
    """Checks that a value has the type of the pass's option `name`.

    Raises:
        OptionError: The value has another type, or is not in the option's `Literal`; the error names similar values.
    """
    hint: Any = get_type_hints(pass_type)[name]
    where = f"{pass_type.__dict__.get('name', pass_type.__name__)} {name.replace('_', '-')}"
    if get_origin(hint) is Literal:
        known = [str(v) for v in get_args(hint)]
        if value not in get_args(hint):
            need = f"must be one of {', '.join(known)}"
            raise OptionError(where, need, got=str(value), remedy=near_misses(str(value), known))
    elif isinstance(hint, type) and not isinstance(value, hint):
        raise OptionError(where, f"must be of type {hint.__name__}", got=f"{value!r} of type {type(value).__name__}")

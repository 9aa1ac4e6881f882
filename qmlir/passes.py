"""What a pass is here: an xDSL `ModulePass`, a frozen dataclass whose fields are its options.

Each option has a type, a default and a help line:

    @dataclass(frozen=True)
    class ChooseScalesPass(ModulePass):
        \"\"\"One sentence; then before and after as IR.\"\"\"
        name = "choose-scales"
        schema: Schema = option("asymmetric", "how a range becomes a scale and a zero point")

Drivers read the types to parse `--choose-scales=schema=symmetric`; `-` and `_` are the same in option names.
"""

import dataclasses
from typing import Any, TypeVar

T = TypeVar("T")


def option(default: T, help: str) -> T:
    """A pass option: a dataclass field with a help line.

    Args:
        default: The option's value when the user does not give one.
        help: One line for `--help`.
    """
    made: Any = dataclasses.field(default=default, metadata={"help": help})
    return made


def option_help(pass_type: type, name: str) -> str:
    """The help line of option `name` of `pass_type`, or an empty string where it has none."""
    fields = {f.name: f for f in dataclasses.fields(pass_type)}
    return str(fields[name].metadata.get("help", ""))

"""What stands in for something that upstream MLIR has and xDSL lacks or does otherwise: dialects, parser, printer.

Each file says which change of xDSL would make it unnecessary. It may import the rest of `ir`; nothing here knows of
quantization except that element types may be quantized.
"""

from collections.abc import Sequence
from typing import TypeVar, cast

from xdsl.ir import Attribute, Dialect, Operation
from xdsl.irdl import IRDLOperation, irdl_op_definition

Kind = TypeVar("Kind", bound=IRDLOperation)

GEP_INBOUNDS = 3
"""`noWrapFlags` of an `inbounds` GEP; LLVM 19 has a unit property `inbounds` instead, so qmlir's GEPs carry both.

It stands here so that the parser of all modules does without the llvm dialect, a third of the time to import it.
"""


def named(name: str, base: type[Kind], meaning: str) -> type[Kind]:
    """Defines an operation that adds only a name and a meaning to its base class.

    Args:
        name: The operation's name with its dialect's, such as `arith.extsi`.
        base: The class that defines operands, results and rules.
        meaning: The docstring.
    """
    words = "".join(word.capitalize() for word in name.partition(".")[2].split("_"))
    made = irdl_op_definition(type(f"{words}Op", (base,), {"name": name, "__doc__": meaning}))
    return cast(type[Kind], made)


def completed(
    dialect: Dialect, operations: Sequence[type[Operation]], attributes: Sequence[type[Attribute]] = ()
) -> Dialect:
    """Returns a dialect with `operations` added, in place of its own of the same names, and with `attributes`."""
    names = {op.name for op in operations}
    kept = [op for op in dialect.operations if op.name not in names]
    return Dialect(dialect.name, [*kept, *operations], [*dialect.attributes, *attributes])

"""TOSA 0.80 in text, as LLVM up to 19 and `qint-to-tosa=version=0.80` print it: read, kept and printed, not understood.

The dialect registered here is 1.0. An operation that 0.80 writes in another way becomes one that is not registered,
with the same name, operands and attributes, as it is in the module that was printed. The file is not in the folder of
1.0, which is imported only for texts with tosa in them.
"""

from collections.abc import Mapping

from xdsl.dialects.builtin import TensorType, UnregisteredOp
from xdsl.ir import Attribute, Operation

QUANTIZATION = frozenset(f"tosa.{kind}_quant" for kind in ("conv", "matmul", "pad", "unary"))
"""Attributes that hold zero points, which are operands in 1.0."""

RENAMED = frozenset(("tosa.int_div", "tosa.fully_connected"))
"""Operations that 1.0 calls otherwise, or lacks."""

_ATTRIBUTES: Mapping[str, str] = {
    "tosa.const": "value",
    "tosa.rescale": "multiplier",
    "tosa.mul": "shift",
    "tosa.clamp": "min_int",
    "tosa.reshape": "new_shape",
    "tosa.slice": "start",
    "tosa.tile": "multiples",
}
"""An attribute that 0.80 has and 1.0 has not, by operation."""


def is_of_0_80(op: Operation) -> bool:
    """Whether an operation of tosa is written as in 0.80."""
    held = {**op.properties, **op.attributes}
    match op.name:
        case "tosa.transpose":
            return len(op.operands) == 2
        case "tosa.pad":
            return len(op.operands) > 1 and isinstance(op.operands[1].type, TensorType)
        case _:
            return "quantization_info" in held or _ATTRIBUTES.get(op.name) in held


def unregistered(op: Operation) -> Operation:
    """An operation that nobody uses yet as one that is not registered."""
    held: dict[str, Attribute] = {**op.properties, **op.attributes}
    made = UnregisteredOp.with_name(op.name).create(
        operands=op.operands, result_types=[r.type for r in op.results], attributes=held
    )
    op.erase()
    return made

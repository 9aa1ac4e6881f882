"""Recognizes text of TOSA 0.80, so that it can be parsed, kept and printed again, but not interpreted.

LLVM up to 19 and the pass option `qint-to-tosa=version=0.80` print TOSA 0.80; the registered tosa dialect is version
1.0. An operation whose 0.80 form differs from 1.0 becomes an unregistered operation with the same name, operands and
attributes. This file is not in the tosa folder, because that folder is imported only for texts that contain tosa.
It is unnecessary once no tool in use prints TOSA 0.80.
"""

from collections.abc import Mapping

from xdsl.dialects.builtin import TensorType, UnregisteredOp
from xdsl.ir import Attribute, Operation

QUANTIZATION = frozenset(f"tosa.{kind}_quant" for kind in ("conv", "matmul", "pad", "unary"))
"""Attributes of 0.80 that hold zero points; in 1.0 zero points are operands."""

RENAMED = frozenset(("tosa.int_div", "tosa.reduce_prod", "tosa.fully_connected"))
"""Operations of 0.80 that have another name in 1.0, or that 1.0 lacks."""

MISSING = frozenset(
    f"tosa.{name}"
    for name in (
        "add_shape", "apply_scale", "concat_shape", "custom", "dim", "div_shape", "fft2d", "mul_shape", "rfft2d",
        "slice_shape", "sub_shape", "variable", "variable.read", "variable.write", "variable_read", "variable_write",
        "while_loop",
    )
)  # fmt: skip
"""Operations of TOSA, of any version, that are not read."""

_OPERANDS: Mapping[str, int] = {
    **dict.fromkeys(("tosa.conv2d", "tosa.conv3d", "tosa.depthwise_conv2d", "tosa.transpose_conv2d"), 5),
    "tosa.matmul": 4,
    "tosa.avg_pool2d": 3,
    "tosa.negate": 3,
    "tosa.mul": 3,
    "tosa.resize": 4,
    "tosa.rescale": 5,
    "tosa.slice": 3,
    **dict.fromkeys(("tosa.reshape", "tosa.tile"), 2),
}
"""Operation → the operands that it has in 1.0, where it has fewer in 0.80."""

_ATTRIBUTES: Mapping[str, str] = {
    "tosa.const": "value",
    "tosa.rescale": "multiplier",
    "tosa.mul": "shift",
    "tosa.clamp": "min_int",
    "tosa.reshape": "new_shape",
    "tosa.slice": "start",
    "tosa.tile": "multiples",
}
"""Operation → an attribute that it has in 0.80 but not in 1.0."""


def is_of_0_80(op: Operation) -> bool:
    """Whether a tosa operation has the form of version 0.80."""
    held = {**op.properties, **op.attributes}
    match op.name:
        case "tosa.transpose":
            return len(op.operands) == 2
        case "tosa.pad":
            return len(op.operands) == 2 or (len(op.operands) > 1 and isinstance(op.operands[1].type, TensorType))
        case _:
            fewer = len(op.operands) < _OPERANDS.get(op.name, 0)
            return fewer or "quantization_info" in held or _ATTRIBUTES.get(op.name) in held


def is_tosa(op: Operation) -> bool:
    """Whether an operation is one of tosa, in either version."""
    return (op.op_name.data if isinstance(op, UnregisteredOp) else op.name).startswith("tosa.")


def unregistered(op: Operation) -> Operation:
    """Returns an operation without uses as an unregistered operation of the same name; erases the original."""
    held: dict[str, Attribute] = {**op.properties, **op.attributes}
    made = UnregisteredOp.with_name(op.name).create(
        operands=op.operands, result_types=[r.type for r in op.results], attributes=held
    )
    op.erase()
    return made

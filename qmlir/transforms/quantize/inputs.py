"""Finds the f32 value of a network input: the argument itself, or the cast of an argument in half precision."""

from xdsl.ir import BlockArgument, SSAValue

from qmlir.dialects.nn import CastOp
from qmlir.dialects.nn.base import is_float
from qmlir.transforms.nn.widen_halves import is_half


def float_input(argument: BlockArgument) -> SSAValue | None:
    """The f32 value of an argument: the argument itself, or its cast from half precision; None if there is neither."""
    if is_float(argument):
        return argument
    casts = (u.operation for u in argument.uses if is_half(argument))
    return next((op.y for op in casts if isinstance(op, CastOp) and is_float(op.y)), None)


def argument_of(value: SSAValue) -> BlockArgument | None:
    """The argument whose f32 value the given value is; None if the value is no input."""
    if isinstance(value, BlockArgument):
        return value
    op = value.owner
    if isinstance(op, CastOp) and isinstance(op.x, BlockArgument) and is_half(op.x) and is_float(value):
        return op.x
    return None

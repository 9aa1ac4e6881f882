"""Which value of a float network is an input: a function argument in f32, or one in halves made f32."""

from xdsl.ir import BlockArgument, SSAValue

from qmlir.dialects.nn import CastOp
from qmlir.dialects.nn.base import is_float
from qmlir.transforms.nn.widen_halves import is_half


def float_input(argument: BlockArgument) -> SSAValue | None:
    """The f32 value of an argument: itself, or the cast of one that is stored in halves; None where there is none."""
    if is_float(argument):
        return argument
    casts = (u.operation for u in argument.uses if is_half(argument))
    return next((op.y for op in casts if isinstance(op, CastOp) and is_float(op.y)), None)


def argument_of(value: SSAValue) -> BlockArgument | None:
    """The argument that a value is the f32 value of; None where it is none."""
    if isinstance(value, BlockArgument):
        return value
    op = value.owner
    if isinstance(op, CastOp) and isinstance(op.x, BlockArgument) and is_half(op.x) and is_float(value):
        return op.x
    return None

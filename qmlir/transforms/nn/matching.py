"""Queries that the nn patterns share: constants, single uses, and constants along channels.

Only constants of plain types count as constants here, never constants of a quantized type.
"""

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.base import is_float, is_quantized
from qmlir.dialects.nn.elementwise import BinaryOp
from qmlir.ir.interfaces import Array, Shape, shape_of
from qmlir.ir.names import NAME
from qmlir.ir.rewriting import merged_names


def constant_of(value: SSAValue) -> ConstantOp | None:
    """The constant that defines a value; None if the value is computed or quantized."""
    owner = value.owner
    return owner if isinstance(owner, ConstantOp) and not is_quantized(value) else None


def float_constant_of(value: SSAValue) -> ConstantOp | None:
    """The f32 constant that defines a value, or None."""
    return constant_of(value) if is_float(value) else None


def derived_constant(array: Array, *sources: ConstantOp, element: Attribute | None = None) -> ConstantOp:
    """A constant that is computed from other constants and carries all their names.

    Args:
        array: The values of the constant, or its stored integers if it is quantized.
        sources: The constants that it is computed from; at least one.
        element: The element type of a quantized constant; by default the array's type.
    """
    names = merged_names(sources)
    type = None if element is None else TensorType(element, array.shape)
    constant = ConstantOp(array, type, {NAME: names} if names.data else {})
    constant.y.name_hint = sources[0].y.name_hint
    return constant


def used_once(op: Operation) -> bool:
    """Whether an operation has one result with one use, so that a rewrite of the user may absorb the operation."""
    return len(op.results) == 1 and op.results[0].has_one_use()


def split_constant(op: BinaryOp) -> tuple[SSAValue, ConstantOp] | None:
    """The operands of a float operation as (computed value, constant), in whichever order; None for other operands."""
    for x, c in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if (constant := float_constant_of(c)) is not None and constant_of(x) is None:
            return x, constant
    return None


def keeps_shape(op: BinaryOp, x: SSAValue) -> bool:
    """Whether the result of `op` has the shape of its operand `x`, so that only the other operand is broadcast."""
    return shape_of(op.y) == shape_of(x)


def channel_vector(array: Array, shape: Shape) -> Array | None:
    """A constant that varies only along the last dimension of `shape`, as an array [channels]; else None.

    For the shape [N, H, W, C], constants of the shapes [], [1], [C], [1, C] and [1, 1, 1, C] qualify.
    """
    if array.ndim > len(shape) or any(n != 1 for n in array.shape[:-1]):
        return None
    return np.broadcast_to(array.reshape(-1), (shape[-1],))


def rounded(array: Array) -> Array | None:
    """Float64 values rounded once to f32; None if a finite array overflows f32."""
    with np.errstate(over="ignore"):
        result = array.astype(np.float32)
    return result if np.isfinite(result).all() or not np.isfinite(array).all() else None

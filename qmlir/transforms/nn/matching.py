"""What the patterns of this level ask of a graph: constants, single uses, and constants that lie along channels.

Only plain constants count here, never those that hold the stored integers of a quantized type.
"""

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects.interfaces import Array, Shape, shape_of
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.base import is_float, is_quantized
from qmlir.dialects.nn.elementwise import BinaryOp
from qmlir.dialects.qmlir import NAME
from qmlir.rewriting import merged_names


def constant_of(value: SSAValue) -> ConstantOp | None:
    """The constant that defines a value; None where it is computed or quantized."""
    owner = value.owner
    return owner if isinstance(owner, ConstantOp) and not is_quantized(value) else None


def float_constant_of(value: SSAValue) -> ConstantOp | None:
    """The f32 constant that defines a value, or None."""
    return constant_of(value) if is_float(value) else None


def derived_constant(array: Array, *sources: ConstantOp, element: Attribute | None = None) -> ConstantOp:
    """A constant computed from others, with all their names.

    Args:
        array: Its values, or its stored integers where it is quantized.
        sources: What it is computed from.
        element: Its element type where the array does not say it: a quantized type.
    """
    names = merged_names(sources)
    type = None if element is None else TensorType(element, array.shape)
    constant = ConstantOp(array, type, {NAME: names} if names.data else {})
    constant.y.name_hint = sources[0].y.name_hint
    return constant


def used_once(op: Operation) -> bool:
    """Whether the operation has one result and that one use, so that a rewrite may take it along."""
    return len(op.results) == 1 and op.results[0].has_one_use()


def split_constant(op: BinaryOp) -> tuple[SSAValue, ConstantOp] | None:
    """The operands of a float operation as (computed value, constant), on whichever side each is."""
    for x, c in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
        if (constant := float_constant_of(c)) is not None and constant_of(x) is None:
            return x, constant
    return None


def keeps_shape(op: BinaryOp, x: SSAValue) -> bool:
    """Whether the other operand only broadcasts to the shape of `x`, and does not widen it."""
    return shape_of(op.y) == shape_of(x)


def channel_vector(array: Array, shape: Shape) -> Array | None:
    """A constant that is the same wherever only the last dimension of `shape` is fixed, as [channels]; else None.

    Shapes [], [1], [C], [1, C], [1, 1, 1, C] all are, against [N, H, W, C].
    """
    if array.ndim > len(shape) or any(n != 1 for n in array.shape[:-1]):
        return None
    return np.broadcast_to(array.reshape(-1), (shape[-1],))


def rounded(array: Array) -> Array | None:
    """Float64 values rounded once to f32; None where one is not finite any more."""
    with np.errstate(over="ignore"):
        result = array.astype(np.float32)
    return result if np.isfinite(result).all() or not np.isfinite(array).all() else None

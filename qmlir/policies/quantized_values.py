"""Describes the operands and results of operations on quantized types, and how they are stored.

The functions here state facts and do not depend on a target; legality.py and runtime_kernels.py decide by these facts.
"""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerType, Signedness
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.base import NNOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.pointwise import FunctionOp
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of


def storage_name(storage: IntegerType) -> str:
    """Returns a storage type as targets and quantized types write it: i8, u8."""
    unsigned = storage.signedness.data == Signedness.UNSIGNED
    return f"{'u' if unsigned else 'i'}{storage.width.data}"


def data_operands(op: Operation) -> Sequence[SSAValue]:
    """The operands whose types a quantized operation needs: all but bias and indices; empty off the nn level."""
    return op.data_operands() if isinstance(op, NNOp | MovementOp) else ()


def data_values(op: Operation) -> Sequence[SSAValue]:
    """The data operands, including weights, and the results; empty if there are no data operands."""
    operands = data_operands(op)
    return (*operands, *op.results) if operands else ()


def computed_storage(storage: IntegerType) -> str:
    """Returns the type in which integers of a storage type are computed: the narrowest of i8, i16, i32 that fits."""
    return f"i{next(bits for bits in (8, 16, 32) if storage.width.data <= bits)}"


def is_weight(value: SSAValue, op: Operation) -> bool:
    """Whether `op` reads `value` as its weights."""
    return isinstance(op, WeightedOp) and value is op.w


def uniform(value: SSAValue) -> UniformType:
    """The quantized element type of a value known to have one."""
    element = element_of(value)
    assert isinstance(element, UniformType)
    return element


def widest(element: UniformType) -> int:
    """Returns the largest magnitude of a stored integer minus its zero point."""
    return max(abs(element.storage_min - element.zero_point), abs(element.storage_max - element.zero_point))


def chooses_integers(op: nn.MaximumOp | nn.MinimumOp) -> bool:
    """Whether stored integers can be compared directly, because operands and result have the same type."""
    return uniform(op.lhs) == uniform(op.rhs) == uniform(op.y)


def domain_bounds(op: FunctionOp, element: UniformType) -> tuple[float | None, float | None]:
    """Returns the ends of a function's domain; an end is None unless the type can represent numbers beyond it."""
    low, high = op.DOMAIN
    scales, points = np.array(element.scales), np.array(element.zero_points)
    least, most = ((q - points) * scales for q in (element.storage_min, element.storage_max))
    return low if least.min() < low else None, high if most.max() > high else None

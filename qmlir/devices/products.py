"""How much an operation computes: products of contractions, and operations on single elements."""

from collections.abc import Iterable
from math import prod

from xdsl.ir import Operation

from qmlir.devices.properties import area
from qmlir.dialects import nn, qint
from qmlir.dialects.nn.contraction import WeightedOp as FloatWeightedOp
from qmlir.dialects.nn.shape import MovementOp
from qmlir.dialects.qint.contraction import WeightedOp
from qmlir.dialects.quant.ops import CastOp, StorageCastOp
from qmlir.ir.interfaces import TensorOp, shape_of


def products(op: Operation) -> int:
    """How many products an operation computes, in integers or floats; 0 unless it is a contraction."""
    match op:
        case qint.DepthwiseConv2DOp() | nn.DepthwiseConv2DOp():
            return prod(shape_of(op.results[0])) * prod(shape_of(op.w)[1:3])
        case WeightedOp() | FloatWeightedOp():
            return prod(shape_of(op.results[0])) * prod(shape_of(op.w)[1:])
        case qint.MatMulOp() | nn.MatMulOp():
            return prod(shape_of(op.results[0])) * shape_of(op.operands[0])[-1]
        case _:
            return 0


def work_of(operations: Iterable[Operation]) -> int:
    """Products and other operations on single elements; data movement and renaming count 0."""
    return sum(products(op) or _steps(op) for op in operations)


def _steps(op: Operation) -> int:
    """How many elements are computed; a pool counts each element of each window."""
    if not isinstance(op, TensorOp | CastOp) or isinstance(op, MovementOp | StorageCastOp | nn.ConstantOp):
        return 0
    pools = isinstance(op, qint.MaxPool2DOp | qint.AveragePool2DOp | qint.GlobalSumPoolOp)
    return sum(prod(shape_of(result)) for result in op.results) * ((area(op) or 1) if pools else 1)

"""Lowering of attention behind its scores: exponentials, sums of products, and one quotient for each result."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.lowering.nn_to_qint.scales import narrowing
from qmlir.policies.runtimes import Rounding


def lower_attend(op: nn.AttendOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """Lowers e = table[m − x], acc = Σ e · (v − z_v), then y = z_y + acc / Σ e · s_v / s_y."""
    x, v = operands
    table = WeightsAttr(exponentials(uniform(op.x), op.weight()))
    e = qint.ExponentialsOp.make([x], {"axis": IntegerAttr(len(shape_of(x)) - 1, i64), "table": table})
    products = {"rhs_zero_point": int32(uniform(op.v).zero_point)}
    acc = qint.MatMulOp.make([e.y, v], products, element=i32 if op.fits_32_bits() else i64)
    numbers = {
        "unit": IntegerAttr(op.unit(), i64),
        "fraction": int32(op.fraction()),
        "offset": int32(op.offset()),
        **narrowing(op),
    }
    return [e, acc, qint.RowQuotientOp.make([acc.acc, e.y], numbers, element=uniform(op.y).storage_type)]


def exponentials(data: UniformType, weight: int) -> Array:
    """exp(−d · s) for differences d of stored integers, in steps of 1 / `weight`, up to the first that is 0."""
    table = np.rint(np.exp(-np.arange(1 << data.storage_width) * data.scale) * weight)
    return table[: np.count_nonzero(table) + 1].astype(np.int16)

"""Sums, differences and products of two tensors."""

import math
from collections.abc import Sequence

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.qint.base import int32
from qmlir.legality import factors, uniform
from qmlir.lowering.nn_to_qint.scales import limits, requantize


def lower_sum(op: nn.AddOp | nn.SubOp, operands: Sequence[SSAValue], contract: str) -> list[Operation]:
    """y = z_y + round((a − z_a)·s_a/s_y ± (b − z_b)·s_b/s_y), rounded once."""
    result, ratios = uniform(op.y), factors(op).tolist()
    # The larger multiplier gets 30 bits and a sign; 2^30 · 2 · 2^16 stays far below 2^62.
    shift = 30 - math.frexp(max(ratios))[1]
    if isinstance(op, nn.SubOp):
        ratios[1] = -ratios[1]
    low, high = limits(op)
    return [
        qint.AddOp.make(
            operands,
            {
                "lhs_zero_point": int32(uniform(op.lhs).zero_point),
                "rhs_zero_point": int32(uniform(op.rhs).zero_point),
                "multipliers": DenseArrayBase.from_list(i64, [round(math.ldexp(r, shift)) for r in ratios]),
                "shift": int32(shift),
                "zero_point": int32(result.zero_point),
                "min": int32(low),
                "max": int32(high),
            },
            element=result.storage_type,
        )
    ]


def lower_mul(op: nn.MulOp, operands: Sequence[SSAValue], contract: str) -> list[Operation]:
    """acc = (a − z_a)·(b − z_b), then y = z_y + acc · s_a·s_b / s_y."""
    lhs, rhs = uniform(op.lhs), uniform(op.rhs)
    product = qint.MulOp.make(
        operands, {"lhs_zero_point": int32(lhs.zero_point), "rhs_zero_point": int32(rhs.zero_point)}
    )
    return [product, requantize(product.acc, op, contract)]

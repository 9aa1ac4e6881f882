"""Sums and products of two tensors."""

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.qint.base import int32
from qmlir.lowering.nn_to_qint.scales import NoIntegerForm, limits, per_tensor, prove_accumulator, requantize, widest


def lower_add(op: nn.AddOp, operands: Sequence[SSAValue], contract: str) -> list[Operation]:
    """y = z_y + round((a − z_a)·s_a/s_y + (b − z_b)·s_b/s_y), rounded once."""
    lhs, rhs, result = per_tensor(op.lhs), per_tensor(op.rhs), per_tensor(op.y)
    ratios = (lhs.scale / result.scale, rhs.scale / result.scale)
    # The larger multiplier gets 30 bits and a sign; 2^30 · 2 · widest stays far below 2^62.
    shift = 30 - math.frexp(max(ratios))[1]
    if not 1 <= shift <= 62:
        raise NoIntegerForm("accumulator", "the scales of its operands and of its result differ too much")
    multipliers = [round(math.ldexp(r, shift)) for r in ratios]
    low, high = limits(op, result)
    return [
        qint.AddOp.make(
            operands,
            {
                "lhs_zero_point": int32(lhs.zero_point),
                "rhs_zero_point": int32(rhs.zero_point),
                "multipliers": DenseArrayBase.from_list(i64, multipliers),
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
    lhs, rhs, result = per_tensor(op.lhs), per_tensor(op.rhs), per_tensor(op.y)
    prove_accumulator(widest(lhs) * widest(rhs), "a product")
    acc = qint.MulOp.make(
        operands, {"lhs_zero_point": int32(lhs.zero_point), "rhs_zero_point": int32(rhs.zero_point)}
    )
    real = np.array([lhs.scale * rhs.scale / result.scale])
    return [acc, requantize(acc.acc, real, result, limits(op, result), contract)]

"""Sums, differences and products of two tensors."""

import math
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn, qint
from qmlir.dialects.qint.base import int32, int32s
from qmlir.dialects.qint.elementwise import float32_parts
from qmlir.legality import factors, uniform
from qmlir.lowering.nn_to_qint.scales import displaced, limits, requantize
from qmlir.runtimes import Rounding


def lower_sum(op: nn.AddOp | nn.SubOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """y = z_y + round((a − z_a)·s_a/s_y ± (b − z_b)·s_b/s_y), rounded once."""
    if rounding.float32 and isinstance(op, nn.AddOp):
        return [_float_add(op, operands)]
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


def _float_add(op: nn.AddOp, operands: Sequence[SSAValue]) -> qint.FloatAddOp:
    """y = rint(a·r_a + (b·r_b + c)), c = z_y − (r_a·z_a + r_b·z_b), a and b as stored in the source.

    Each bracket is rounded to float32, and r_b·z_b is, but no other product.
    """
    moved, result = displaced(op), uniform(op.y)
    left, right = factors(op, np.float32).astype(np.float32)
    z_left, z_right, z = (np.float32(uniform(v).zero_point + moved) for v in (op.lhs, op.rhs, op.y))
    low, high = limits(op)
    return qint.FloatAddOp.make(
        operands,
        {
            "ratios": int32s([*float32_parts(left), *float32_parts(right)]),
            "constant": int32s(float32_parts(z - np.float32(np.float64(left) * z_left + right * z_right))),
            "offset": int32(moved),
            "zero_point": int32(-moved),
            "min": int32(low),
            "max": int32(high),
        },
        element=result.storage_type,
    )


def lower_mul(op: nn.MulOp, operands: Sequence[SSAValue], rounding: Rounding) -> list[Operation]:
    """acc = (a − z_a)·(b − z_b), then y = z_y + acc · s_a·s_b / s_y."""
    lhs, rhs = uniform(op.lhs), uniform(op.rhs)
    product = qint.MulOp.make(
        operands, {"lhs_zero_point": int32(lhs.zero_point), "rhs_zero_point": int32(rhs.zero_point)}
    )
    return [product, requantize(product.acc, op, rounding)]

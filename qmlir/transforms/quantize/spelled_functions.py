"""Patterns that replace a function that a quantized model spells out as several operators by one operation.

ONNX lacks some operations of nn, so its exporter writes

    x · sigmoid(alpha · x)           nn.swish
    1 / sqrt(x)                      nn.rsqrt
    (a − b) · (a − b)                nn.squared_difference
    where(x < 0, x · slope, x)       nn.prelu, whose slopes are wider than x

Each form is exactly what the operation means on floats. Between casts the operation has an integer form, a table; the
operators within the form have no integer form, as their tensors have no ranges of their own. So a network that is
exported and read again gives the same bits.
"""

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects import nn
from qmlir.dialects.nn.base import bound, is_float
from qmlir.dialects.nn.elementwise import BinaryOp
from qmlir.ir.rewriting import replace
from qmlir.transforms.nn.matching import float_constant_of, keeps_shape, split_constant, used_once


class NameSwish(RewritePattern):
    """x · sigmoid(alpha · x) → nn.swish(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.MulOp, rewriter: PatternRewriter) -> None:
        for x, gate in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            sigmoid = gate.owner
            if not _is_plain(op) or not isinstance(sigmoid, nn.SigmoidOp) or not used_once(sigmoid):
                continue
            alpha, scaled = _multiple(sigmoid.x, x)
            if alpha is not None:
                swish = nn.SwishOp.make([x], {"alpha": bound(alpha)})
                replace(rewriter, op, swish, absorbing=[*scaled, sigmoid])
                return


def _multiple(value: SSAValue, x: SSAValue) -> tuple[float | None, list[Operation]]:
    """The factor in value = factor · x, and the operations that multiply; None if the value is no such multiple."""
    if value == x:
        return 1.0, []
    product = value.owner
    if not isinstance(product, nn.MulOp) or not _is_plain(product) or not used_once(product):
        return None, []
    split = split_constant(product)
    if split is None or split[0] != x or split[1].value.array.size != 1 or not keeps_shape(product, x):
        return None, []
    return float(split[1].value.array.reshape(())), [product]


class NameRsqrt(RewritePattern):
    """1 / sqrt(x) → nn.rsqrt(x)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.ReciprocalOp, rewriter: PatternRewriter) -> None:
        root = op.x.owner
        if isinstance(root, nn.SqrtOp) and used_once(root) and is_float(op.y):
            replace(rewriter, op, nn.RsqrtOp.make([root.x]), absorbing=[root])


class NameSquaredDifference(RewritePattern):
    """(a − b) · (a − b) → nn.squared_difference(a, b)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.MulOp, rewriter: PatternRewriter) -> None:
        difference = op.lhs.owner
        if not _is_plain(op) or op.lhs != op.rhs or not isinstance(difference, nn.SubOp) or not _is_plain(difference):
            return
        if all(use.operation is op for use in difference.y.uses):
            squared = nn.SquaredDifferenceOp.make([difference.lhs, difference.rhs])
            replace(rewriter, op, squared, absorbing=[difference])


class NamePRelu(RewritePattern):
    """where(x < 0, x · slope, x) → nn.prelu(x, slope)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.WhereOp, rewriter: PatternRewriter) -> None:
        x, negative, product = op.rhs, op.condition.owner, op.lhs.owner
        if not isinstance(negative, nn.LessOp) or negative.lhs != x or not used_once(negative):
            return
        zero = float_constant_of(negative.rhs)
        if zero is None or np.any(zero.value.array) or zero.value.array.size != 1:
            return
        if isinstance(product, nn.MulOp) and _is_plain(product) and used_once(product) and x in product.operands:
            slope = product.rhs if product.lhs == x else product.lhs
            replace(rewriter, op, nn.PReluOp.make([x, slope]), absorbing=[negative, product])


def _is_plain(op: BinaryOp) -> bool:
    """Whether an operation computes f32 and has no fused clamp."""
    return is_float(op.y) and op.bounds() == (None, None)


SPELLED = (NameSwish(), NameRsqrt(), NameSquaredDifference(), NamePRelu())
"""All patterns of this module."""

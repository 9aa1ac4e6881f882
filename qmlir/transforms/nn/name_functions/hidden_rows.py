"""Rows of a softmax that a mask hides entirely: models test for them, since their exponentials sum up to 0."""

import numpy as np
from xdsl.dialects.builtin import BoolAttr
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects import nn
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.queries import constant_of, derived_constant, split_constant, used_once
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.rewriting import replace


class NameInfinityTest(RewritePattern):
    """equal(x, ±∞) → is_inf(x): the body of ONNX's Attention looks for rows that a mask hides entirely so."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.EqualOp, rewriter: PatternRewriter) -> None:
        for x, other in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if not isinstance(other.owner, nn.ConstantOp) or isinstance(x.owner, nn.ConstantOp):
                continue
            values = other.owner.value.array
            if not is_float(x) or shape_of(x) != shape_of(op.y) or values.size == 0:
                continue
            if np.isinf(values).all() and (values == values.flat[0]).all():
                above = bool(values.flat[0] > 0)
                signs = {"positive": BoolAttr.from_bool(above), "negative": BoolAttr.from_bool(not above)}
                replace(rewriter, op, [nn.IsInfOp.make([x], signs)])
                return


class TestMaskForRows(RewritePattern):
    """is_nan(softmax(scores + mask)) → the rows in which a constant mask is −∞ everywhere, as scores are finite."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.IsNaNOp, rewriter: PatternRewriter) -> None:
        (x,) = op.operands
        if isinstance(x.owner, nn.SoftmaxOp) and (hidden := _hidden(x.owner)) is not None:
            replace(rewriter, op, nn.ConstantOp(np.broadcast_to(hidden, shape_of(x)).copy()))


class UnmaskHiddenRows(RewritePattern):
    """where(rows, c, softmax(scores + mask)) → the same with a mask that shows the rows that it hides entirely.

    Nothing reads these rows. Without a mask they are numbers, from which ranges can be learned.
    """

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.WhereOp, rewriter: PatternRewriter) -> None:
        softmax, rows = op.rhs.owner, constant_of(op.condition)
        if rows is None or not isinstance(softmax, nn.SoftmaxOp) or not used_once(softmax):
            return
        hidden = _hidden(softmax)
        if hidden is None or not hidden.any() or shape_of(softmax.y) != shape_of(op.y):
            return
        if (hidden & ~np.broadcast_to(rows.value.array, shape_of(op.y))).any():
            return
        new = _without(softmax.x, hidden)
        replace(rewriter, softmax, [*new, nn.SoftmaxOp.make([new[-1].results[0]], softmax.properties)])


def _hidden(softmax: nn.SoftmaxOp) -> Array | None:
    """The rows of a softmax that a constant mask hides entirely; None if no constant masks it."""
    if (mask := _mask(softmax.x)) is None:
        return None
    return np.asarray(np.broadcast_to(mask, shape_of(softmax.x)).all(axis=softmax.axis.value.data, keepdims=True))


def _mask(scores: SSAValue) -> Array | None:
    """Where a constant mask makes scores −∞; None if no constant masks them."""
    match op := scores.owner:
        case nn.AddOp() if (split := split_constant(op)) is not None:
            return np.isneginf(split[1].value.array)
        case nn.WhereOp() if (condition := constant_of(op.condition)) is not None:
            kept = condition.value.array
            least = [c is not None and np.isneginf(c.value.array).all() for c in map(constant_of, (op.lhs, op.rhs))]
            return (kept & bool(least[0])) | (~kept & bool(least[1]))
        case _:
            return None


def _without(scores: SSAValue, hidden: Array) -> list[Operation]:
    """Scores that a constant masks, but in no hidden row."""
    op = scores.owner
    if isinstance(op, nn.WhereOp):
        condition = constant_of(op.condition)
        assert condition is not None
        least = constant_of(op.lhs)
        kept = least is None or not np.isneginf(least.value.array).all()
        chosen = derived_constant(np.where(hidden, kept, condition.value.array), condition)
        return [chosen, nn.WhereOp.make([chosen.y, op.lhs, op.rhs])]
    assert isinstance(op, nn.AddOp)
    split = split_constant(op)
    assert split is not None
    mask = derived_constant(np.where(hidden, np.float32(0), split[1].value.array), split[1])
    return [mask, nn.AddOp.make([split[0], mask.y], op.properties)]


class ChooseBehindProduct(RewritePattern):
    """where(rows, 0, p) · v → where(rows, 0, p · v), for a softmax p and a constant choice of its rows."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.MatMulOp, rewriter: PatternRewriter) -> None:
        choice = op.lhs.owner
        if not isinstance(choice, nn.WhereOp) or not used_once(choice) or op.bounds() != (None, None):
            return
        rows, other = constant_of(choice.condition), constant_of(choice.lhs)
        if rows is None or other is None or other.value.array.any() or not isinstance(choice.rhs.owner, nn.SoftmaxOp):
            return
        array = rows.value.array
        if not array.ndim or shape_of(choice.rhs) != shape_of(op.lhs) or (array != array[..., :1]).any():
            return
        product = nn.MatMulOp.make([choice.rhs, op.rhs])
        chosen, zero = nn.ConstantOp(array[..., :1].copy()), nn.ConstantOp(np.zeros((), np.float32))
        result = nn.WhereOp.make([chosen.y, zero.y, product.y])
        replace(rewriter, op, [product, chosen, zero, result], absorbing=[choice], doing=product)

"""The pass `smooth-relu`: puts squareplus in the place of relu."""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.nn import ReluOp
from qmlir.ir.rewriting import PatternPass, replace
from qmlir_example.dialect import SquareplusOp


class SmoothRelu(RewritePattern):
    """relu → squareplus, under the same names."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReluOp, rewriter: PatternRewriter) -> None:
        replace(rewriter, op, SquareplusOp.make([op.x]))


class SmoothReluPass(PatternPass):
    """Replaces relu by squareplus. It runs before `simplify`, which fuses relu into the layer before it."""

    name = "smooth-relu"
    PATTERNS = (SmoothRelu(),)

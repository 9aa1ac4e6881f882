"""`fold-quant-casts`: upstream's canonicalization of casts between float and quantized values.

Upstream's `canonicalize` takes a `dcast` of a `qcast` for its input. That is a float network without what was said
about its quantization, so ours keeps such pairs (dialects/quant/ops.py); this pass is for those who want them gone.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.quant.ops import CastOp, DequantizeCastOp, QuantizeCastOp
from qmlir.rewriting import replace, rewrite


@dataclass(frozen=True)
class FoldQuantCastsPass(ModulePass):
    """Replaces a `dcast` of a `qcast`, and a `qcast` of a `dcast`, by what went in where the type is the same.

    ```mlir
    %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
    %1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
    // becomes
    %x
    ```

    The first takes a rounding out of the network, and with it the parameters: on a network in casts, what is left is
    the float one. The second keeps every value. Pairs of `scast` are for `canonicalize`.
    """

    name = "fold-quant-casts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        rewrite(op, [_FoldPair()])


_UNDONE_BY: dict[type[CastOp], type[CastOp]] = {DequantizeCastOp: QuantizeCastOp, QuantizeCastOp: DequantizeCastOp}


class _FoldPair(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DequantizeCastOp | QuantizeCastOp, rewriter: PatternRewriter) -> None:
        inner = op.input.owner
        if isinstance(inner, _UNDONE_BY[type(op)]) and inner.input.type == op.result.type:
            replace(rewriter, op, [], [inner.input])

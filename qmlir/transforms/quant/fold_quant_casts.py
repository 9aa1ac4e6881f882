"""`fold-quant-casts`: upstream's canonicalization of casts between float and quantized values.

Upstream's `canonicalize` replaces a `dcast` of a `qcast` by the input of the `qcast`. A float network then loses its
quantization parameters, so `canonicalize` keeps such pairs here (dialects/quant/ops.py); this pass removes them.
"""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.quant.ops import CastOp, DequantizeCastOp, QuantizeCastOp
from qmlir.ir.rewriting import PatternPass, replace

_UNDONE_BY: dict[type[CastOp], type[CastOp]] = {DequantizeCastOp: QuantizeCastOp, QuantizeCastOp: DequantizeCastOp}


class _FoldPair(RewritePattern):
    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DequantizeCastOp | QuantizeCastOp, rewriter: PatternRewriter) -> None:
        inner = op.input.owner
        if isinstance(inner, _UNDONE_BY[type(op)]) and inner.input.type == op.result.type:
            replace(rewriter, op, [], [inner.input])


class FoldQuantCastsPass(PatternPass):
    """Replaces a `dcast` of a `qcast`, and a `qcast` of a `dcast`, by the pair's input if that has the same type.

    ```mlir
    %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
    %1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
    // becomes
    %x
    ```

    Removing a `dcast` of a `qcast` removes a rounding and its parameters: a quantized network written in casts becomes
    the float network. Removing a `qcast` of a `dcast` keeps every value. `canonicalize` removes pairs of `scast`.
    """

    name = "fold-quant-casts"
    PATTERNS = (_FoldPair(),)

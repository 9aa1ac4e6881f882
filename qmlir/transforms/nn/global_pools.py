"""The pass `global-pools`: turns an average pool over whole images into `nn.global_average_pool`.

Enters and leaves: nn in float. The result of `nn.average_pool2d` has the scale of its operand, as in TFLite. A mean
over whole images has a much narrower range than the images, and the result of `nn.global_average_pool` has its own
scale. A pool between the quantize and dequantize casts of a model that was imported quantized is not changed, so that
it keeps the source model's scale rule.
"""

from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.nn import AveragePool2DOp, GlobalAveragePoolOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.ir.interfaces import shape_of
from qmlir.ir.rewriting import PatternPass, replace


class NameGlobalPool(RewritePattern):
    """average_pool2d with one window over the whole image → global_average_pool; the sums may round differently."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AveragePool2DOp, rewriter: PatternRewriter) -> None:
        image = shape_of(op.x)[1:3]
        is_whole = op.window_values() == image and not any(op.padding_values()) and shape_of(op.y)[1:3] == (1, 1)
        casts = any(isinstance(u.operation, QuantizeCastOp) for u in op.y.uses)
        if is_whole and is_float(op.x) and not casts and not isinstance(op.x.owner, DequantizeCastOp):
            replace(rewriter, op, GlobalAveragePoolOp.make([op.x]))


class GlobalPoolsPass(PatternPass):
    """Turns an average pool over whole images into a global average pool, whose result has its own scale.

    ```mlir
    %y = nn.average_pool2d %x {window = array<i64: 4, 4>} : tensor<1x4x4x8xf32> -> tensor<1x1x1x8xf32>
    // becomes
    %y = nn.global_average_pool %x : tensor<1x4x4x8xf32> -> tensor<1x1x1x8xf32>
    ```
    """

    name = "global-pools"
    PATTERNS = (NameGlobalPool(),)

"""The pass `global-pools`: an average over whole images is called so.

Enters and leaves: nn in float. `nn.average_pool2d` keeps the scale of its operand, as TFLite has it; a mean over whole
images is much narrower than they are, and `nn.global_average_pool` has a scale of its own. A pool between the casts of
a model that came quantized keeps the rule it came with.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn import AveragePool2DOp, GlobalAveragePoolOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.rewriting import replace, rewrite


class NameGlobalPool(RewritePattern):
    """average_pool2d with one window that is the image → global_average_pool; the sums may round otherwise."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AveragePool2DOp, rewriter: PatternRewriter) -> None:
        image = shape_of(op.x)[1:3]
        is_whole = op.window_values() == image and not any(op.padding_values()) and shape_of(op.y)[1:3] == (1, 1)
        casts = any(isinstance(u.operation, QuantizeCastOp) for u in op.y.uses)
        if is_whole and is_float(op.x) and not casts and not isinstance(op.x.owner, DequantizeCastOp):
            replace(rewriter, op, GlobalAveragePoolOp.make([op.x]))


def name_global_pools(module: ModuleOp) -> bool:
    """Names the global pools of a module; whether there were any."""
    return rewrite(module, [NameGlobalPool()])


@dataclass(frozen=True)
class GlobalPoolsPass(ModulePass):
    """Turns an average pool over whole images into a global one, whose result has a scale of its own.

    ```mlir
    %y = nn.average_pool2d %x {window = array<i64: 4, 4>} : tensor<1x4x4x8xf32> -> tensor<1x1x1x8xf32>
    // becomes
    %y = nn.global_average_pool %x : tensor<1x4x4x8xf32> -> tensor<1x1x1x8xf32>
    ```
    """

    name = "global-pools"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        name_global_pools(op)

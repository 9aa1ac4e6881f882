"""`cancel-casts`: removes casts that undo each other.

`qcast(dcast(q))` is q, or a requantization where the two types differ; `scast(scast(i))` is i.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from qmlir.dialects.nn import RequantizeOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.legality import target_of, uniform
from qmlir.rewriting import replace
from qmlir.target import Target
from qmlir.transforms.quantize.quantize_ops import decide_quantized


@dataclass(frozen=True)
class CancelCastsPass(ModulePass):
    """Removes pairs of casts that undo each other, and turns a change of scale into `nn.requantize`.

    ```mlir
    %1 = quant.dcast %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
    %2 = quant.qcast %1 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.25>>
    // becomes
    %2 = nn.requantize %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 0.25>>
    ```
    """

    name = "cancel-casts"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(ctx)
        for cast in [o for o in op.walk() if isinstance(o, QuantizeCastOp | StorageCastOp)]:
            _cancel(cast, target)
        for cast in reversed([o for o in op.walk() if isinstance(o, DequantizeCastOp | StorageCastOp)]):
            if not cast.result.uses:
                PatternRewriter(cast).erase(cast)


def _cancel(cast: QuantizeCastOp | StorageCastOp, target: Target) -> None:
    inner = cast.input.owner
    if not isinstance(inner, DequantizeCastOp if isinstance(cast, QuantizeCastOp) else StorageCastOp):
        return
    source = inner.input
    if source.type == cast.result.type:
        replace(PatternRewriter(cast), cast, [], [source])
    elif isinstance(cast, QuantizeCastOp) and not (cast.quantized.is_per_axis or inner.quantized.is_per_axis):
        requantize = RequantizeOp.make([source], element=uniform(cast.result))
        replace(PatternRewriter(cast), cast, requantize)
        decide_quantized(requantize, target)

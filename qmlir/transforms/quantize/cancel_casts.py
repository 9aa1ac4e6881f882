"""`cancel-casts`: removes casts that undo each other.

`qcast(dcast(q))` is q, or a requantization where the two types differ; `scast(scast(i))` is i.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from qmlir.dialects.interfaces import element_of
from qmlir.dialects.nn import RequantizeOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.rewriting import replace


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
        for cast in [o for o in op.walk() if isinstance(o, QuantizeCastOp | StorageCastOp)]:
            _cancel(cast)
        for cast in reversed([o for o in op.walk() if isinstance(o, DequantizeCastOp | StorageCastOp)]):
            if not any(r.uses for r in cast.results):
                PatternRewriter(cast).erase(cast)


def _cancel(cast: QuantizeCastOp | StorageCastOp) -> None:
    inner: Operation | object = cast.operands[0].owner
    undoes = DequantizeCastOp if isinstance(cast, QuantizeCastOp) else StorageCastOp
    if not isinstance(inner, undoes):
        return
    source, result = inner.operands[0], cast.results[0]
    if source.type == result.type:
        replace(PatternRewriter(cast), cast, [], [source])
    elif isinstance(cast, QuantizeCastOp):
        before, after = element_of(source), element_of(result)
        if isinstance(before, UniformType) and isinstance(after, UniformType) and not before.is_per_axis | after.is_per_axis:
            replace(PatternRewriter(cast), cast, RequantizeOp.make([source], element=after))

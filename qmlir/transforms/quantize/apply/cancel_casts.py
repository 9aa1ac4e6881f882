"""`cancel-casts`: removes casts that undo each other.

`qcast(dcast(q))` becomes q, or a requantization if the two types differ. If the followed runtime computes the casts on
floats, the requantization is a table. `scast(scast(i))` becomes i. A requantization to a finer type and back is
removed: it restores every integer under every rounding contract. The exception are requantizations that belong to an
integer operator of a model file, such as a concatenation, which may not be plain changes of scale.
"""

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from qmlir.dialects.nn import RequantizeOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.nn.quantizable import uniform
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.target import Target
from qmlir.ir.facts import INTEGER_OPERATOR
from qmlir.ir.rewriting import replace
from qmlir.policies.legality import target_of
from qmlir.transforms.quantize.apply.quantize_ops import change_of_scale, decide_quantized


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
        for change in [o for o in op.walk() if isinstance(o, RequantizeOp)]:
            if (source := _undone(change)) is not None:
                replace(PatternRewriter(change), change, [], [source])
        for unread in reversed(
            [o for o in op.walk() if isinstance(o, DequantizeCastOp | StorageCastOp | RequantizeOp)]
        ):
            if not unread.results[0].uses:
                PatternRewriter(unread).erase(unread)


def _cancel(cast: QuantizeCastOp | StorageCastOp, target: Target) -> None:
    inner = cast.input.owner
    if not isinstance(inner, DequantizeCastOp if isinstance(cast, QuantizeCastOp) else StorageCastOp):
        return
    source = inner.input
    if source.type == cast.result.type:
        replace(PatternRewriter(cast), cast, [], [source])
    elif isinstance(cast, QuantizeCastOp) and not (cast.quantized.is_per_axis or inner.quantized.is_per_axis):
        if isinstance(inner, DequantizeCastOp) and (requantize := change_of_scale(cast, inner)) is not None:
            replace(PatternRewriter(cast), cast, requantize)
            decide_quantized(requantize, target)


def _undone(change: RequantizeOp) -> SSAValue | None:
    """The value that a requantization restores behind another requantization; None if it restores no value."""
    inner = change.x.owner
    if not isinstance(inner, RequantizeOp) or inner.x.type != change.y.type or not is_quantized(inner.x):
        return None
    if INTEGER_OPERATOR.on(change) or INTEGER_OPERATOR.on(inner):
        return None
    return inner.x if _holds(uniform(inner.y), uniform(inner.x)) else None


def _holds(fine: UniformType, coarse: UniformType) -> bool:
    """Whether `fine` has at most half the step of `coarse` and covers its range, so that no integer is lost."""
    if fine.is_per_axis or coarse.is_per_axis or fine.scale > coarse.scale / 2:
        return False
    low, high = ((limit - coarse.zero_point) * coarse.scale for limit in (coarse.storage_min, coarse.storage_max))
    return (fine.storage_min - fine.zero_point) * fine.scale <= low and high <= (
        fine.storage_max - fine.zero_point
    ) * fine.scale

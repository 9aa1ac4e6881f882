"""`cancel-casts`: removes casts that undo each other.

`qcast(dcast(q))` is q, or a requantization where the two types differ (by a table, where the followed runtime does it
on floats); `scast(scast(i))` is i. A requantization to a finer type and back is none at all: it gives every integer
back, whatever contract rounds; but for those of a file's concatenation, which may not be changes of scale at all.
"""

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter

from qmlir.dialects.nn import RequantizeOp
from qmlir.dialects.nn.base import is_quantized
from qmlir.dialects.qmlir import INTEGER_OPERATOR
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.legality import target_of
from qmlir.quantized_values import uniform
from qmlir.rewriting import replace
from qmlir.target import Target
from qmlir.transforms.quantize.quantize_ops import change_of_scale, decide_quantized


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
    """The value that a requantization restores after another one; None if it restores none."""
    inner = change.x.owner
    if not isinstance(inner, RequantizeOp) or inner.x.type != change.y.type or not is_quantized(inner.x):
        return None
    if INTEGER_OPERATOR in change.attributes or INTEGER_OPERATOR in inner.attributes:
        return None
    return inner.x if _holds(uniform(inner.y), uniform(inner.x)) else None


def _holds(fine: UniformType, coarse: UniformType) -> bool:
    """Whether each value of a type has one of a finer type within half of its step, and back."""
    if fine.is_per_axis or coarse.is_per_axis or fine.scale > coarse.scale / 2:
        return False
    low, high = ((limit - coarse.zero_point) * coarse.scale for limit in (coarse.storage_min, coarse.storage_max))
    return (fine.storage_min - fine.zero_point) * fine.scale <= low and high <= (
        fine.storage_max - fine.zero_point
    ) * fine.scale

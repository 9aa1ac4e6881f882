"""The pass `fuse-activation`: fuses relu and clamp into the operation before them, as its `min` and `max`.

Enters and leaves: nn in float. Clamping is exact and commutes with maxima and with data movement, so every pattern
here keeps results bit for bit. An activation fuses only if it is the sole user of its operand, so that observed and
shared values remain.
"""

from collections.abc import Iterator
from math import inf

from xdsl.ir import Block, Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern

from qmlir.dialects.nn import ClampOp, ConcatOp, MaxPool2DOp, ReluOp, ReshapeOp, TransposeOp
from qmlir.dialects.nn.base import Clamped, is_float
from qmlir.dialects.nn.elementwise import UnaryOp
from qmlir.dialects.nn.queries import Bounds, bound_properties, used_once
from qmlir.ir.facts import NAME
from qmlir.ir.names import NameAttr
from qmlir.ir.rewriting import PatternPass, replace, tensor_name
from qmlir.ir.traversal import reached


def activation_bounds(op: object) -> Bounds | None:
    """The bounds of a relu or clamp on f32; None for any other operation."""
    if isinstance(op, ReluOp) and is_float(op.x):
        return 0.0, None
    return op.bounds() if isinstance(op, ClampOp) and is_float(op.x) else None


def composed(first: Bounds, then: Bounds) -> Bounds:
    """The bounds of the single clamp that equals the clamp `first` followed by the clamp `then`.

    `then` clamps both ends of the range of `first`; if the ranges are disjoint, both bounds are the nearer end of
    `then`.
    """
    (a, b), (low, high) = (
        (-inf if lower is None else lower, inf if upper is None else upper) for lower, upper in (first, then)
    )
    lower, upper = (min(max(end, low), high) for end in (a, b))
    return (None if lower == -inf else lower), (None if upper == inf else upper)


MOVERS = (MaxPool2DOp, ReshapeOp, TransposeOp, ConcatOp)
"""Operations that an activation moves above, since they only move and choose elements."""


class FuseActivationIntoProducer(RewritePattern):
    """relu(f(x)) → f(x) with min = 0, and clamp(f(x)) likewise, for every f with a fused clamp."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if (bounds := activation_bounds(op)) is None:
            return
        producer = op.operands[0].owner
        if not isinstance(producer, Clamped) or isinstance(producer, ClampOp) or not used_once(producer):
            return
        properties = {k: v for k, v in producer.properties.items() if k not in ("min", "max")}
        properties |= bound_properties(composed(producer.bounds(), bounds))
        fused = type(producer).create(
            operands=producer.operands, result_types=[op.results[0].type], properties=properties
        )
        replace(rewriter, op, fused, absorbing=[producer])


class MergeActivations(RewritePattern):
    """clamp(clamp(x)) → clamp(x), where either may be a relu; clamp to [0, ∞) → relu; clamp without bounds → x."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if (bounds := activation_bounds(op)) is None:
            return
        if bounds == (None, None):
            replace(rewriter, op, [], [op.operands[0]])
            return
        inner = op.operands[0].owner
        if isinstance(inner, Operation) and (before := activation_bounds(inner)) is not None and used_once(inner):
            replace(rewriter, op, _activation(inner.operands[0], composed(before, bounds)), absorbing=[inner])
        elif isinstance(op, ClampOp) and bounds == (0.0, None):
            replace(rewriter, op, ReluOp.make([op.x]))


def _activation(x: SSAValue, bounds: Bounds) -> UnaryOp:
    return ReluOp.make([x]) if bounds == (0.0, None) else ClampOp.make([x], bound_properties(bounds))


class MoveActivationBeforeMovement(RewritePattern):
    """relu(max_pool(x)) → max_pool(relu(x)), and likewise for reshape, transpose and concat, if the relu then fuses."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        bounds = activation_bounds(op)
        if bounds is None or bounds == (None, None) or not _takes_activation(op.operands[0]):
            return
        mover = op.operands[0].owner
        if not isinstance(mover, MOVERS):
            return
        before = [_activation(x, bounds) for x in mover.operands]
        moved = type(mover).create(
            operands=[b.y for b in before], result_types=[op.results[0].type], properties=mover.properties
        )
        same_elements = isinstance(mover, ReshapeOp | TransposeOp)
        if not same_elements:
            for activation in before:
                _name_after_operand(activation)
        doing = before[0] if same_elements else moved
        replace(rewriter, op, [*before, moved], absorbing=[mover], doing=doing)


def _name_after_operand(activation: UnaryOp) -> None:
    """Names the result of a moved activation, a tensor that the source model lacks: "conv1_out.relu"."""
    if name := tensor_name(activation.x):
        kind = "relu" if isinstance(activation, ReluOp) else "clamp"
        NAME.put(activation, NameAttr.of(tensors=[f"{name}.{kind}"]))


def _takes_activation(value: SSAValue) -> bool:
    """Whether an activation of a value can be fused, possibly after moving it above max pools and data movement."""

    def moved(op: Operation | Block) -> Iterator[Operation | Block]:
        return (x.owner for x in op.operands) if isinstance(op, MOVERS) else iter(())

    return all(
        isinstance(op, Operation) and used_once(op) and (isinstance(op, (Clamped, *MOVERS)) or activation_bounds(op))
        for op in reached([value.owner], moved)
    )


class FuseActivationPass(PatternPass):
    """Fuses relu and clamp into the contraction, sum, difference or product before them, as `min` and `max`.

    ```mlir
    %a = nn.conv2d %x, %w : tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32> -> tensor<1x6x6x4xf32>
    %y = nn.relu %a : tensor<1x6x6x4xf32> -> tensor<1x6x6x4xf32>
    ```
    becomes
    ```mlir
    %y = nn.conv2d %x, %w {min = 0.0 : f32} : tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32> -> tensor<1x6x6x4xf32>
    ```
    """

    name = "fuse-activation"
    PATTERNS = (FuseActivationIntoProducer(), MergeActivations(), MoveActivationBeforeMovement())

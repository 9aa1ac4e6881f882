"""The pass `fold-constants`: evaluates operations on constants at compile time and removes operations without effect.

Enters and leaves: nn on plain types. Data movement may have any element type; it moves the stored integers of quantized
constants. The `evaluate` method of an operation computes its constant result, so folding gives the same results as
running the operation.
"""

from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.nn import (
    AddOp,
    BroadcastOp,
    CastOp,
    ConcatOp,
    ConstantOp,
    MulOp,
    RequantizeOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
    WhereOp,
)
from qmlir.dialects.nn.base import NNOp, is_quantized
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.movement import FillingOp, MovementOp
from qmlir.dialects.nn.queries import constant_of, keeps_shape, split_constant
from qmlir.dialects.nn.reduction import ReductionOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.budget import Budget, budget_of
from qmlir.ir.interfaces import element_of, shape_of, tensor_type
from qmlir.ir.memory import within_memory
from qmlir.ir.rewriting import replace, rewrite
from qmlir.ir.types import dtype_of

GROWTH_LIMIT = 16 << 20
"""The most bytes by which the results of a folded operation may exceed its operands, unless they are weights."""


@dataclass(frozen=True)
class EvaluateOnConstants(RewritePattern):
    """f(constant, …) → constant, unless the result exceeds its operands by more than `GROWTH_LIMIT` bytes.

    Weights of layers may be larger: a layer has integer weights only if they are constants.

    budget  the bytes by which all folded results together may exceed their operands
    """

    budget: Budget

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, NNOp | MovementOp | CastOp):
            return
        moves = isinstance(op, MovementOp)  # how other operations round, the followed runtime says
        if any(map(is_quantized, (*op.operands, *op.results))) and not moves:
            return
        constants = [o.owner for o in op.operands if isinstance(o.owner, ConstantOp)]
        if not constants or len(constants) < len(op.operands):
            return
        arrays = [c.value.array for c in constants]
        growth = _result_bytes(op) - sum({id(a): a.nbytes for a in arrays}.values())
        if (growth > GROWTH_LIMIT and not _are_weights(op)) or not self.budget.take((max(growth, 0),), 1):
            return
        with within_memory(op), np.errstate(all="ignore"):  # infinities and NaNs are regular values
            results = op.evaluate(*arrays)
        types = [tensor_type(r) if is_quantized(r) else None for r in op.results]
        made = [ConstantOp(array, type) for array, type in zip(results, types, strict=True)]
        replace(rewriter, op, made, absorbing=constants)


def _are_weights(op: Operation) -> bool:
    """Whether all that reads an operation's results are layers whose weights they are."""
    uses = [use for result in op.results for use in result.uses]
    return bool(uses) and all(
        isinstance(u.operation, WeightedOp) and u.operation.operands[u.index] is u.operation.w for u in uses
    )


def _result_bytes(op: Operation) -> int:
    total = 0
    for result in op.results:
        element = element_of(result)
        dtype = element.numpy_dtype if isinstance(element, UniformType) else dtype_of(element)
        total += prod(shape_of(result)) * dtype.itemsize
    return total


class DropWhatChangesNothing(RewritePattern):
    """f(x) → x for operations without effect, such as reshapes to the same shape and reductions of single elements."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        match op:
            case ReshapeOp() | BroadcastOp() | RequantizeOp() | ReductionOp():
                idle = op.x.type == op.y.type
            case TransposeOp():
                idle = list(op.permutation.get_values()) == list(range(len(op.permutation)))
            case FillingOp():
                idle = op.x.type == op.y.type
            case ConcatOp():
                idle = len(op.inputs) == 1
            case SliceOp():
                idle = op.x.type == op.y.type and all(stride > 0 for stride in op.strides.get_values())
            case _:
                return
        if idle:
            replace(rewriter, op, [], [op.operands[0]])


class DropNeutralConstant(RewritePattern):
    """x + 0 → x and x · 1 → x, if the constant does not broadcast x to another shape."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, AddOp | MulOp) or op.bounds() != (None, None):
            return
        if (split := split_constant(op)) is None:
            return
        x, constant = split
        neutral = 0 if isinstance(op, AddOp) else 1
        if keeps_shape(op, x) and (constant.value.array == neutral).all():
            replace(rewriter, op, [], [x], absorbing=[constant])


class DropIdleChoice(RewritePattern):
    """where(c, x, y) → x or y, if a constant c says the same everywhere, as a mask that hides no row does."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: WhereOp, rewriter: PatternRewriter) -> None:
        if (condition := constant_of(op.condition)) is None or not (chosen := condition.value.array).size:
            return
        side = op.lhs if chosen.all() else op.rhs
        if side.type == op.y.type and (chosen == chosen.flat[0]).all():
            replace(rewriter, op, [], [side], absorbing=[condition])


class MergeReshapes(RewritePattern):
    """reshape(reshape(x)) → reshape(x)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        inner = op.x.owner
        if isinstance(inner, ReshapeOp):
            replace(rewriter, op, ReshapeOp.make([inner.x], {"shape": op.shape}), absorbing=[inner])


def fold_constants(module: ModuleOp, budget: Budget | None = None) -> bool:
    """Folds constants in a module; returns whether anything changed.

    Args:
        module: A network.
        budget: The bytes by which computed constants may grow; by default the module's own budget.
    """
    evaluate = EvaluateOnConstants(budget or budget_of(module))
    return rewrite(
        module, (evaluate, DropWhatChangesNothing(), DropNeutralConstant(), DropIdleChoice(), MergeReshapes())
    )


@dataclass(frozen=True)
class FoldConstantsPass(ModulePass):
    """Evaluates operations on constants, and removes operations that have no effect or whose results are unused.

    ```mlir
    %c = nn.constant #qmlir.weights<tensor<2x1xf32>, [1.0, 2.0]> : tensor<2x1xf32>
    %w = nn.reshape %c {shape = array<i64: 2>} : tensor<2x1xf32> -> tensor<2xf32>
    %y = nn.add %x, %w : tensor<4x2xf32>, tensor<2xf32> -> tensor<4x2xf32>
    ```
    becomes
    ```mlir
    %w = nn.constant #qmlir.weights<tensor<2xf32>, [1.0, 2.0]> : tensor<2xf32>
    %y = nn.add %x, %w : tensor<4x2xf32>, tensor<2xf32> -> tensor<4x2xf32>
    ```
    """

    name = "fold-constants"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fold_constants(op)

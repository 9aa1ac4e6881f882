"""The pass `fuse-bias`: an addition along the output channels becomes the bias of the contraction before it.

Enters and leaves: nn in float. A matrix product with constant weights has no bias operand; it becomes a fully
connected layer first, with the weights transposed once, here.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.interfaces import shape_of
from qmlir.dialects.nn import AddOp, FullyConnectedOp, MatMulOp, ReshapeOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.windows import ints
from qmlir.rewriting import replace, rewrite
from qmlir.transforms.nn.contraction import contraction_behind
from qmlir.transforms.nn.matching import (
    channel_vector,
    derived_constant,
    float_constant_of,
    keeps_shape,
    split_constant,
)


class TurnMatMulIntoFullyConnected(RewritePattern):
    """matmul(x [B…, M, K], constant [K, N]) → fully_connected(x as [B·M, K], constantᵀ) as [B…, M, N]; exact."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatMulOp, rewriter: PatternRewriter) -> None:
        constant = float_constant_of(op.rhs)
        if constant is None or not is_float(op.lhs) or len(shape_of(op.rhs)) != 2:
            return
        x, depth = shape_of(op.lhs), shape_of(op.lhs)[-1]
        weights = derived_constant(np.ascontiguousarray(constant.value.array.T), constant)
        before: list[Operation] = []
        after: list[Operation] = []
        rows = op.lhs
        if len(x) != 2:
            before = [ReshapeOp.make([rows], {"shape": ints([int(np.prod(x[:-1])), depth])})]
            rows = before[0].results[0]
        contraction = FullyConnectedOp.make([rows, weights.y, []], op.properties)
        if len(x) != 2:
            after = [ReshapeOp.make([contraction.y], {"shape": ints(shape_of(op.y))})]
        replace(rewriter, op, [weights, *before, contraction, *after], doing=contraction)


class FuseOffsetIntoBias(RewritePattern):
    """contraction(x, w, b) + c → contraction(x, w, b + c), for a constant c along the output channels."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter) -> None:
        if (split := split_constant(op)) is None:
            return
        x, constant = split
        behind = contraction_behind(x)
        if behind is None or not keeps_shape(op, x):
            return
        offset = channel_vector(constant.value.array, shape_of(x))
        if offset is None:
            return
        contraction = behind.contraction
        bias = contraction.with_bias(contraction.bias + offset, constant)
        if bias is None:
            return
        new = contraction.rebuilt(bias=bias, bounds=op.bounds())
        replace(rewriter, op, behind.moved(new), absorbing=behind.operations, doing=new[-1])


PATTERNS = (TurnMatMulIntoFullyConnected(), FuseOffsetIntoBias())


def fuse_bias(module: ModuleOp) -> bool:
    """Fuses biases in a module; whether anything changed."""
    return rewrite(module, PATTERNS)


@dataclass(frozen=True)
class FuseBiasPass(ModulePass):
    """Makes the addition of a constant along the output channels the bias of the contraction before it.

    ```mlir
    %a = nn.conv2d %x, %w : tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32> -> tensor<1x6x6x4xf32>
    %y = nn.add %a, %c : tensor<1x6x6x4xf32>, tensor<1x1x1x4xf32> -> tensor<1x6x6x4xf32>
    ```
    becomes
    ```mlir
    %y = nn.conv2d %x, %w, %b : tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32>, tensor<4xf32> -> tensor<1x6x6x4xf32>
    ```
    """

    name = "fuse-bias"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        fuse_bias(op)

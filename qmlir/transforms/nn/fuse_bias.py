"""The pass `fuse-bias`: turns the addition of a constant along the output channels into a contraction's bias.

Enters and leaves: nn in float. `nn.matmul` has no bias operand and does not mark which factor holds weights. Therefore
a matrix product with a constant matrix on either side first becomes a fully connected layer, whose weights are
transposed at compile time. A product with a batch of constant matrices does not change.
"""

import math

import numpy as np
from xdsl.ir import SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.nn import AddOp, ConstantOp, FullyConnectedOp, MatMulOp, MulOp, ReshapeOp, TransposeOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.queries import (
    ContractionBehind,
    contraction_behind,
    derived_constant,
    float_constant_of,
    keeps_shape,
    split_constant,
)
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import Array, Shape, shape_of
from qmlir.ir.rewriting import PatternPass, replace


class TurnMatMulIntoFullyConnected(RewritePattern):
    """matmul(x [B…, M, K], constant [1…, K, N]) → fully_connected(x as [B·M, K], constantᵀ) as [B…, M, N]; exact."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatMulOp, rewriter: PatternRewriter) -> None:
        constant = _constant_matrix(op.rhs)
        if constant is None or not is_float(op.lhs):
            return
        depth, columns = shape_of(op.rhs)[-2:]
        matrix = constant.value.array.reshape(depth, columns)
        weights = derived_constant(np.ascontiguousarray(matrix.T), constant)
        before = _reshaped(op.lhs, (math.prod(shape_of(op.lhs)[:-1]), depth))
        rows = before[0].results[0] if before else op.lhs
        contraction = FullyConnectedOp.make([rows, weights.y, []], op.properties)
        after = _reshaped(contraction.y, shape_of(op.y))
        replace(rewriter, op, [weights, *before, contraction, *after], doing=contraction)


class PutConstantFactorLast(RewritePattern):
    """matmul(constant [1…, M, K], x [B…, K, N]) → matmul(xᵀ, constantᵀ)ᵀ, of the last two dimensions; exact."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatMulOp, rewriter: PatternRewriter) -> None:
        constant = _constant_matrix(op.lhs)
        if constant is None or not is_float(op.rhs) or float_constant_of(op.rhs) is not None:
            return
        matrix = constant.value.array.reshape(shape_of(op.lhs)[-2:])
        factor = derived_constant(np.ascontiguousarray(matrix.T), constant)
        columns = _turned(op.rhs)
        product = MatMulOp.make([columns.y, factor.y], op.properties)
        result = _turned(product.y)
        replace(
            rewriter,
            op,
            [factor, columns, product, result, *_reshaped(result.y, shape_of(op.y))],
            doing=product,
        )


def _constant_matrix(value: SSAValue) -> ConstantOp | None:
    """The f32 constant that defines a factor, if it is a single matrix rather than a batch of matrices; else None."""
    constant = float_constant_of(value)
    return constant if constant is not None and math.prod(shape_of(value)[:-2]) == 1 else None


def _reshaped(value: SSAValue, shape: Shape) -> list[ReshapeOp]:
    """The reshape of a value to a shape as a list, which is empty if the value already has the shape."""
    return [] if shape_of(value) == shape else [ReshapeOp.make([value], {"shape": ints(shape)})]


def _turned(value: SSAValue) -> TransposeOp:
    """A transpose that exchanges the last two dimensions of a value."""
    *outer, rows, columns = range(len(shape_of(value)))
    return TransposeOp.make([value], {"permutation": ints([*outer, columns, rows])})


def channelwise(op: AddOp | MulOp) -> tuple[ContractionBehind, Array, ConstantOp] | None:
    """A sum or product of a contraction and a constant along the output channels; None for any other.

    Returns:
        The contraction, the constant as a vector with an element for each output channel, and the constant.
    """
    if (split := split_constant(op)) is None:
        return None
    x, constant = split
    behind = contraction_behind(x)
    if behind is None or not keeps_shape(op, x):
        return None
    vector = behind.channel_vector(constant.value.array, shape_of(x))
    return None if vector is None else (behind, vector, constant)


class FuseOffsetIntoBias(RewritePattern):
    """contraction(x, w, b) + c → contraction(x, w, b + c), for a constant c along the output channels."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter) -> None:
        if (found := channelwise(op)) is None:
            return
        behind, offset, constant = found
        contraction = behind.contraction
        bias = contraction.with_bias(contraction.bias + offset, constant)
        if bias is None:
            return
        new = contraction.rebuilt(bias=bias, bounds=op.bounds())
        replace(rewriter, op, behind.moved(new), absorbing=behind.operations, doing=new[-1])


class FuseBiasPass(PatternPass):
    """Turns the addition of a constant along the output channels into the bias of the contraction before it.

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
    PATTERNS = (TurnMatMulIntoFullyConnected(), PutConstantFactorLast(), FuseOffsetIntoBias())

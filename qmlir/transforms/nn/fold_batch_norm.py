"""The pass `fold-batch-norm`: folds per-channel scales and offsets into the weights and biases of contractions.

Enters and leaves: nn in float. A BatchNormalization enters as a multiplication and an addition with constants [C].
New weights and biases are computed in float64 and rounded once to f32, so the folded network differs from the original
only by rounding.

Padded elements are zero, and a scaled zero is zero. Therefore a scale before a padded convolution folds into it; an
offset before a padded convolution does not fold.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.nn import AddOp, ConstantOp, DepthwiseConv2DOp, FullyConnectedOp, MulOp, ReshapeOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.nn.elementwise import BinaryOp
from qmlir.dialects.nn.indexing import GatherOp
from qmlir.dialects.nn.queries import (
    FoldableContraction,
    channel_vector,
    derived_constant,
    foldable_contraction,
    keeps_shape,
    rounded,
    split_constant,
    used_once,
)
from qmlir.dialects.windows import WindowOp
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.levels import levels_of
from qmlir.ir.rewriting import PatternPass, replace
from qmlir.numerics.affine import Affine
from qmlir.transforms.nn.fuse_bias import FuseOffsetIntoBias, channelwise


class FoldScaleIntoPrecedingContraction(RewritePattern):
    """contraction(x, w, b) · s → contraction(x, w · s, b · s), for a constant s along the output channels."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MulOp, rewriter: PatternRewriter) -> None:
        if (found := channelwise(op)) is None:
            return
        behind, vector, constant = found
        contraction, scale = behind.contraction, vector.astype(np.float64)
        if not isinstance(contraction, FoldableContraction):
            return
        weights = contraction.with_weights(contraction.weights * contraction.along_outputs(scale), constant)
        has_bias = contraction.bias_constant is not None
        bias = contraction.with_bias(contraction.bias * scale) if has_bias else None
        if weights is None or (has_bias and bias is None):
            return
        new = contraction.rebuilt(weights=weights, bias=bias, bounds=op.bounds())
        replace(rewriter, op, behind.moved(new), absorbing=behind.operations, doing=new[-1])


class FoldScaleIntoFollowingContraction(RewritePattern):
    """contraction(x · s, w, b) → contraction(x, w · s, b), for a constant s along the input channels.

    Weights that are also a table of embeddings stay as they are: the table would be stored twice. So do weights that
    the model's file stores in few bits, which other floats would not be.
    """

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if (found := foldable_contraction(op)) is None or (before := _constant_before(found.op, MulOp)) is None:
            return
        stored = found.weight_constant
        if isinstance(levels_of(stored), Affine) or any(isinstance(u.operation, GatherOp) for u in stored.y.uses):
            return
        weights = found.with_weights(found.weights * found.along_inputs(before.vector), before.constant)
        if weights is None:
            return
        behind, x = before.around()
        replace(rewriter, op, [*behind, *found.rebuilt(x=x, weights=weights)], absorbing=before.operations)


class FoldOffsetIntoFollowingContraction(RewritePattern):
    """contraction(x + c, w, b) → contraction(x, w, b + Σ w · c), if c is per input channel and x unpadded."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if (found := foldable_contraction(op)) is None or (before := _constant_before(found.op, AddOp)) is None:
            return
        if isinstance(found.op, WindowOp) and any(found.op.padding_values()):
            return
        products = found.weights * found.along_inputs(before.vector)
        axes = (0, 1, 2) if isinstance(found.op, DepthwiseConv2DOp) else tuple(range(1, products.ndim))
        bias = found.with_bias(found.bias + products.sum(axis=axes), before.constant)
        if bias is None:
            return
        behind, x = before.around()
        replace(rewriter, op, [*behind, *found.rebuilt(x=x, bias=bias)], absorbing=before.operations)


@dataclass(frozen=True)
class _ConstantBefore:
    """An addition or multiplication by a constant whose only user is a contraction, possibly through a reshape.

    vector   the constant in float64, along the contraction's input channels
    """

    x: SSAValue
    constant: ConstantOp
    vector: Array
    binary: BinaryOp
    reshape: ReshapeOp | None

    @property
    def operations(self) -> list[Operation]:
        return [self.binary, *([] if self.reshape is None else [self.reshape])]

    def around(self) -> tuple[list[Operation], SSAValue]:
        """Returns the value that the contraction reads instead, preceded by the new operations that compute it."""
        if self.reshape is None:
            return [], self.x
        reshape = ReshapeOp.make([self.x], {"shape": self.reshape.shape})
        return [reshape], reshape.y


def _constant_before(op: WeightedOp, kind: type[AddOp | MulOp]) -> _ConstantBefore | None:
    owner = op.x.owner
    reshape = owner if isinstance(owner, ReshapeOp) and isinstance(op, FullyConnectedOp) else None
    if reshape is not None:
        if not used_once(reshape) or shape_of(reshape.x)[:1] != shape_of(reshape.y)[:1]:
            return None
        owner = reshape.x.owner
    if not isinstance(owner, kind) or not used_once(owner) or owner.bounds() != (None, None):
        return None
    if (split := split_constant(owner)) is None or not keeps_shape(owner, split[0]):
        return None
    x, constant = split
    vector = _feature_vector if isinstance(op, FullyConnectedOp) else channel_vector
    features = vector(constant.value.array, shape_of(x))
    return None if features is None else _ConstantBefore(x, constant, features.astype(np.float64), owner, reshape)


def _feature_vector(array: Array, shape: tuple[int, ...]) -> Array | None:
    """A constant that does not vary along the batch, broadcast to all other dimensions, as [D₁·D₂…]; else None."""
    if array.ndim == len(shape) and array.shape[0] != 1:
        return None
    return np.broadcast_to(array, (1, *shape[1:])).reshape(-1)


class MergeConstants(RewritePattern):
    """(x · c) · d → x · (c · d), and (x + c) + d → x + (c + d), for constants c and d."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, AddOp | MulOp) or (outer := split_constant(op)) is None:
            return
        inner = outer[0].owner
        if not isinstance(inner, type(op)) or not used_once(inner) or inner.bounds() != (None, None):
            return
        if (split := split_constant(inner)) is None:
            return
        x, constant = split
        c, d = (k.value.array.astype(np.float64) for k in (constant, outer[1]))
        with np.errstate(all="ignore"):
            merged = rounded(c + d if isinstance(op, AddOp) else c * d)
        if merged is None or merged.size > max(c.size, d.size):  # e.g. a row and a column would become a matrix
            return
        both = derived_constant(merged, constant, outer[1])
        new = type(op).make([x, both.y], op.properties)
        replace(rewriter, op, [both, new], absorbing=[inner])


class FoldBatchNormPass(PatternPass):
    """Folds per-channel scales and offsets into the weights and biases of neighbouring contractions.

    ```mlir
    %a = nn.conv2d %x, %w, %b : tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32>, tensor<4xf32> -> tensor<1x6x6x4xf32>
    %s = nn.mul %a, %scale : tensor<1x6x6x4xf32>, tensor<4xf32> -> tensor<1x6x6x4xf32>
    %y = nn.add %s, %offset : tensor<1x6x6x4xf32>, tensor<4xf32> -> tensor<1x6x6x4xf32>
    ```
    becomes
    ```mlir
    %y = nn.conv2d %x, %ws, %bs : tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32>, tensor<4xf32> -> tensor<1x6x6x4xf32>
    ```
    """

    name = "fold-batch-norm"
    PATTERNS = (
        FuseOffsetIntoBias(),
        FoldScaleIntoPrecedingContraction(),
        MergeConstants(),
        FoldScaleIntoFollowingContraction(),
        FoldOffsetIntoFollowingContraction(),
    )

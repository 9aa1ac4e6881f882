"""The pass `drop-bounds`: removes maxima and minima with numbers that no element passes.

Enters and leaves: nn. A maximum with −∞ is its operand bit for bit, NaN included, and so is one with the least integer
of the operand's type; a minimum likewise. JAX writes such a maximum into each softmax, PyTorch a clip to ∞. They have
to go before ranges are learned, because infinity has none. A bound at the largest finite float stays, since it changes
infinite elements.
"""

from math import inf

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.nn import BroadcastOp, ClampOp, ConstantOp, MaximumOp, MinimumOp
from qmlir.dialects.nn.queries import bound_properties
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.rewriting import PatternPass, replace
from qmlir.ir.types import dtype_of


class DropExtremum(RewritePattern):
    """maximum(x, c) → x if no element lies below c, and minimum(x, c) → x if none lies above; repeated to c's shape."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MaximumOp | MinimumOp, rewriter: PatternRewriter) -> None:
        for x, c in ((op.lhs, op.rhs), (op.rhs, op.lhs)):
            if element_of(x) == element_of(op.y) and _never_passed(op, x, c):
                shape = shape_of(op.y)
                repeated = (
                    []
                    if shape_of(x) == shape
                    else [BroadcastOp.make([x], {"shape": DenseArrayBase.from_list(i64, shape)})]
                )
                replace(rewriter, op, repeated, [repeated[-1].y] if repeated else [x])
                return


def _never_passed(op: MaximumOp | MinimumOp, x: SSAValue, c: SSAValue) -> bool:
    """Whether c is a constant of nothing but the least number of x's type, or the largest for a minimum."""
    owner, element = c.owner, element_of(x)
    if not isinstance(owner, ConstantOp) or isinstance(x.owner, ConstantOp) or element_of(c) != element:
        return False
    lowest, highest = _limits(element)
    array = owner.value.array
    return array.size > 0 and bool(np.all(array == (lowest if isinstance(op, MaximumOp) else highest)))


def _limits(element: Attribute) -> tuple[float, float]:
    """Returns the least and the largest number of a type, or the least and the largest stored integer."""
    if isinstance(element, UniformType):
        return element.storage_min, element.storage_max
    dtype = dtype_of(element)
    if dtype.kind not in "iu":
        return -inf, inf
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


class DropClampBounds(RewritePattern):
    """Drops infinite bounds of a clamp."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ClampOp, rewriter: PatternRewriter) -> None:
        low, high = op.bounds()
        kept = (None if low == -inf else low), (None if high == inf else high)
        if kept == (None, None):
            replace(rewriter, op, [], [op.x])
        elif kept != (low, high):
            replace(rewriter, op, ClampOp.make([op.x], bound_properties(kept)))


class DropBoundsPass(PatternPass):
    """Removes maxima and minima with numbers that no element passes, such as a maximum with −∞.

    ```mlir
    %c = nn.constant <tensor<f32>, [0xFF800000]> : tensor<f32>
    %y = nn.maximum %x, %c : tensor<1x8xf32>, tensor<f32> -> tensor<1x8xf32>
    func.return %y : tensor<1x8xf32>
    // becomes
    func.return %x : tensor<1x8xf32>
    ```
    """

    name = "drop-bounds"
    PATTERNS = (DropExtremum(), DropClampBounds())

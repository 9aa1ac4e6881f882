"""The pass `fold-slices`: makes a slice of a concatenation read only the operands that it takes elements from.

Enters and leaves: nn. A concatenation has one scale for all its operands. A slice that lies within one operand, such as
the state that a causal convolution passes on, would otherwise be rounded in steps of the operand with the widest range.
"""

from itertools import accumulate

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Operation
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.nn import ConcatOp, SliceOp
from qmlir.ir.interfaces import shape_of
from qmlir.ir.rewriting import PatternPass, replace


class NarrowConcat(RewritePattern):
    """slice(concat(a, b, c)) → slice(b), or slice(concat(b, c)), if the slice takes nothing from the other operands."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: SliceOp, rewriter: PatternRewriter) -> None:
        concat = op.x.owner
        if not isinstance(concat, ConcatOp) or 0 in op.sizes.get_values():
            return
        axis = concat.axis.value.data
        offset, size, stride = op.steps()[axis]
        first, last = sorted((offset, offset + (size - 1) * stride))
        ends = list(accumulate(shape_of(x)[axis] for x in concat.inputs))
        starts = [0, *ends[:-1]]
        read = [i for i, (start, end) in enumerate(zip(starts, ends, strict=True)) if start <= last and first < end]
        if len(read) == len(concat.inputs):
            return
        operands, new = [concat.inputs[i] for i in read], list[Operation]()
        if len(operands) > 1:
            new.append(ConcatOp.make([operands], {"axis": concat.axis}))
            operands = [new[-1].results[0]]
        offsets = list(op.offsets.get_values())
        offsets[axis] -= starts[read[0]]
        properties = op.properties | {"offsets": DenseArrayBase.from_list(i64, offsets)}
        replace(rewriter, op, [*new, SliceOp.make(operands, properties)])


class FoldSlicesPass(PatternPass):
    """Makes a slice of a concatenation read only the operands that it takes elements from.

    ```mlir
    %c = nn.concat %a, %b {axis = 1 : i64} : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x8xf32>
    %y = nn.slice %c {offsets = array<i64: 0, 5>, sizes = array<i64: 1, 3>, strides = array<i64: 1, 1>}
         : tensor<1x8xf32> -> tensor<1x3xf32>
    // becomes
    %y = nn.slice %b {offsets = array<i64: 0, 1>, sizes = array<i64: 1, 3>, strides = array<i64: 1, 1>}
         : tensor<1x4xf32> -> tensor<1x3xf32>
    ```
    """

    name = "fold-slices"
    PATTERNS = (NarrowConcat(),)

"""The pass `widen-halves`: computes a network in halves (f16, bf16) in f32, with casts at its inputs and outputs.

Halves are storage types: a frontend computes each operation on halves in f32 and rounds the result to halves. Between
two operations this rounding belongs to the storage format, not to the network. Without it, operations fuse and
quantize as in the f32 network from which the network in halves was converted.

    widen(narrow(x))      → x
    narrow(widen(x))      → x
    move(narrow(x), …)    → narrow(move(x, …))    and likewise widen(move(x, …)) → move(widen(x), …)

The names of a narrowing cast go to the operation whose result it rounds.
"""

from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Operation, OpResult
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.nn import CastOp
from qmlir.dialects.nn.base import is_float, is_half
from qmlir.dialects.nn.movement import MovementOp
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.names import NameAttr, names_of
from qmlir.ir.rewriting import PatternPass, replace, set_names, take_over


def _narrows(op: object) -> bool:
    return isinstance(op, CastOp) and is_float(op.x) and is_half(op.y)


def _widens(op: object) -> bool:
    return isinstance(op, CastOp) and is_half(op.x) and is_float(op.y)


class NameWhatIsRounded(RewritePattern):
    """Moves the names of a narrowing cast to the f32 operation whose result it rounds."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CastOp, rewriter: PatternRewriter) -> None:
        names = names_of(op)
        named = names.nodes or names.tensors
        if not _narrows(op) or not named or not isinstance(op.x, OpResult) or names_of(op.x.op).nodes:
            return
        take_over(op.x, [names])
        op.x.name_hint = op.y.name_hint
        set_names(op.y, NameAttr.of())
        rewriter.notify_op_modified(op)


class DropCastPair(RewritePattern):
    """widen(narrow(x)) → x, which drops a rounding, and narrow(widen(x)) → x, which is exact."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CastOp, rewriter: PatternRewriter) -> None:
        inner = op.x.owner
        if not isinstance(inner, CastOp) or inner.x.type != op.y.type:
            return
        if (_widens(op) and _narrows(inner)) or (_narrows(op) and _widens(inner)):
            replace(rewriter, op, [], [inner.x])


class MoveInFloats(RewritePattern):
    """Turns data movement of halves next to a cast into movement of f32, with casts before and after it."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if not isinstance(op, MovementOp) or not is_half(op.y):
            return
        data = op.data_operands()
        if not any(_narrows(v.owner) for v in data) and not any(_widens(u.operation) for u in op.y.uses):
            return
        wide = [CastOp.make([v], element=f32) for v in data]
        moved = op.create(
            operands=[*(cast.y for cast in wide), *op.operands[len(data) :]],
            result_types=[TensorType(f32, shape_of(op.y))],
            properties=dict(op.properties),
        )
        back = CastOp.make([moved.results[0]], element=element_of(op.y))
        replace(rewriter, op, [*wide, moved, back], doing=moved)


class WidenOnce(RewritePattern):
    """Replaces later widening casts of a value by the first widening cast."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: CastOp, rewriter: PatternRewriter) -> None:
        if not _widens(op):
            return
        others = [u.operation for u in op.x.uses if u.operation is not op and _widens(u.operation)]
        for other in others:
            if op.is_before_in_block(other):
                replace(rewriter, other, [], [op.y])


class WidenHalvesPass(PatternPass):
    """Computes networks in halves (f16, bf16) in f32, without rounding to halves between operations.

    ```mlir
    %1 = nn.cast %0 : tensor<2x2xf32> -> tensor<2x2xf16>
    %2 = nn.transpose %1 {permutation = array<i64: 1, 0>} : tensor<2x2xf16> -> tensor<2x2xf16>
    %3 = nn.cast %2 : tensor<2x2xf16> -> tensor<2x2xf32>
    // becomes
    %3 = nn.transpose %0 {permutation = array<i64: 1, 0>} : tensor<2x2xf32> -> tensor<2x2xf32>
    ```
    """

    name = "widen-halves"
    PATTERNS = (NameWhatIsRounded(), DropCastPair(), MoveInFloats(), WidenOnce())

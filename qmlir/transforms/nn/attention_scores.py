"""The pass `attention-scores`: leaves of attention's scores their products, and gives each factor of these its layer.

Enters and leaves: nn in float. Scores are the matrix product of a query and a key, on their way to a softmax. Models
compute query, key and value by one layer and slice its result, and multiply the query, the key, both or the scores by
numbers such as 1/√depth. Quantized, the slices would share one scale, and each factor would round once more. So

* a layer whose result is only sliced, along its output channels, becomes one layer for each slice;
* a factor of query, key or scores becomes part of the weights of the layer that computes the query or the key;
* where no layer does, the factor multiplies the scores: as one number behind their product, it only changes a scale.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import isfinite, prod

import numpy as np
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.nn import (
    AddOp,
    BroadcastOp,
    ConstantOp,
    Conv2DOp,
    DivOp,
    ExpOp,
    FullyConnectedOp,
    MatMulOp,
    MulOp,
    ReciprocalOp,
    ReduceSumOp,
    ReshapeOp,
    SliceOp,
    SoftmaxOp,
    TransposeOp,
    WhereOp,
)
from qmlir.dialects.nn.queries import (
    FoldableContraction,
    constant_of,
    derived_constant,
    foldable_contraction,
    split_constant,
    used_once,
)
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.names import NameAttr, names_of
from qmlir.ir.rewriting import PatternPass, replace, set_names

MOVED = (ReshapeOp, TransposeOp, SliceOp, BroadcastOp)
"""Operations that move the elements of a query or a key."""

# ---------------------------------------------------------------------------------------------------------------
# Scores, and factors of them.


def reaches(value: SSAValue, product: bool = False) -> bool:
    """Whether the only use of a value is on the way to scores' product, or from there (`product`) to a softmax."""
    while len(uses := list(value.uses)) == 1:
        user = uses[0].operation
        if isinstance(user, SoftmaxOp):
            return product
        if isinstance(user, MatMulOp):
            if product or not all(constant_of(v) is None for v in user.operands):
                return False
            product = True
        elif not isinstance(user, (*MOVED, MulOp, DivOp)) and not (product and isinstance(user, AddOp | WhereOp)):
            return False
        value = user.results[0]
    return False


def is_weighted(value: SSAValue) -> bool:
    """Whether the only use of a value is the product with a softmax."""
    while len(uses := list(value.uses)) == 1:
        user = uses[0].operation
        if isinstance(user, MatMulOp):
            return any(isinstance(_source(v).owner, SoftmaxOp) for v in user.operands)
        if not isinstance(user, MOVED):
            return False
        value = user.results[0]
    return False


def _source(value: SSAValue) -> SSAValue:
    """The value whose elements a value moves."""
    while isinstance(op := value.owner, MOVED):
        value = op.operands[0]
    return value


def is_scores(op: MatMulOp) -> bool:
    """Whether a product of two computed tensors is that of a query and a key."""
    computed = all(constant_of(v) is None for v in (op.lhs, op.rhs))
    return computed and op.bounds() == (None, None) and reaches(op.y, product=True)


@dataclass(frozen=True)
class _Factor:
    """A tensor that is multiplied by one number."""

    x: SSAValue
    number: float
    constant: ConstantOp


def _factor(op: Operation) -> _Factor | None:
    """The operation as a product with one number, which may be the inverse of a divisor; None if it is none."""
    if isinstance(op, MulOp):
        split = split_constant(op) if op.bounds() == (None, None) else None
    elif isinstance(op, DivOp):
        divisor = constant_of(op.rhs)
        split = None if divisor is None else (op.lhs, divisor)
    else:
        return None
    if split is None or split[1].value.array.size != 1 or shape_of(split[0]) != shape_of(op.y):
        return None
    number = float(split[1].value.array.reshape(-1)[0])
    if not number or not isfinite(number) or not isfinite(1 / number):
        return None
    return _Factor(split[0], 1 / number if isinstance(op, DivOp) else number, split[1])


def _movements(value: SSAValue) -> list[Operation]:
    """The operations that move a value's elements, the first of them first; nothing else reads their results."""
    found: list[Operation] = []
    while isinstance(op := value.owner, MOVED) and used_once(op):
        found.append(op)
        value = op.operands[0]
    return found[::-1]


def _again(movements: Sequence[Operation], value: SSAValue) -> list[Operation]:
    """The same movements of another value."""
    new: list[Operation] = []
    for op in movements:
        new.append(type(op).make([value], op.properties))  # type: ignore[attr-defined]
        value = new[-1].results[0]
    return new


def _layer_of(value: SSAValue) -> tuple[FoldableContraction, list[Operation]] | None:
    """The layer that computes a tensor and nothing else, and the movements behind it."""
    movements = _movements(value)
    made = movements[0].operands[0] if movements else value
    layer = foldable_contraction(made.owner)
    if layer is None or not used_once(layer.op) or layer.op.bounds() != (None, None):
        return None
    return layer, movements


def _multiplied(layer: FoldableContraction, factor: _Factor) -> list[Operation] | None:
    """The layer with a factor in its weights and its bias, behind its constants; None if a weight overflows f32."""
    weights = layer.with_weights(layer.weights * factor.number, factor.constant)
    bias = None if layer.bias_constant is None else layer.with_bias(layer.bias * factor.number)
    if weights is None or (layer.bias_constant is not None and bias is None):
        return None
    return layer.rebuilt(weights=weights, bias=bias)


class FoldFactorIntoLayer(RewritePattern):
    """layer(x, w, b) · c → layer(x, w · c, b · c) for a query or a key, also with movements in between."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MulOp | DivOp, rewriter: PatternRewriter) -> None:
        if (factor := _factor(op)) is None or not reaches(op.y) or (found := _layer_of(factor.x)) is None:
            return
        layer, movements = found
        if (new := _multiplied(layer, factor)) is None:
            return
        moved = _again(movements, new[-1].results[0])
        replace(rewriter, op, [*new, *moved], absorbing=[layer.op, *movements], doing=new[-1])


class FoldFactorOfScores(RewritePattern):
    """(q · k) · c → (q · c) · k, where a layer computes the query or the key."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MulOp | DivOp, rewriter: PatternRewriter) -> None:
        if (factor := _factor(op)) is None or not reaches(op.y, product=True):
            return
        behind = _movements(factor.x)
        product = (behind[0].operands[0] if behind else factor.x).owner
        if not isinstance(product, MatMulOp) or not used_once(product) or not is_scores(product):
            return
        for place, operand in enumerate(product.operands):
            if (found := _layer_of(operand)) is None or (new := _multiplied(found[0], factor)) is None:
                continue
            layer, movements = found
            _name_as_inner(new[-1], layer.op)
            moved = _again(movements, new[-1].results[0])
            operands = list(product.operands)
            operands[place] = (moved or new)[-1].results[0]
            scores = MatMulOp.make(operands, product.properties)
            after = _again(behind, scores.y)
            replace(rewriter, op, [*new, *moved, scores, *after], absorbing=[product, *behind], doing=scores)
            for unread in (*reversed(movements), layer.op):
                rewriter.erase(unread)
            return


def _name_as_inner(new: Operation, old: Operation) -> None:
    """Gives a layer with other results than the model's the nodes of its source, and no tensor."""
    names = names_of(old)
    set_names(new.results[0], NameAttr.of([names.nodes], (), [names.data.inside, *names.tensors]))


class MoveFactorToScores(RewritePattern):
    """(q · c) · k → (q · k) · c, where no layer computes what the factor multiplies."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatMulOp, rewriter: PatternRewriter) -> None:
        if not is_scores(op):
            return
        for place, operand in enumerate(op.operands):
            movements = _movements(operand)
            multiple = (movements[0].operands[0] if movements else operand).owner
            if not isinstance(multiple, MulOp | DivOp) or not used_once(multiple):
                continue
            if (factor := _factor(multiple)) is None or _layer_of(factor.x) is not None:
                continue
            moved = _again(movements, factor.x)
            operands = list(op.operands)
            operands[place] = moved[-1].results[0] if moved else factor.x
            scores = MatMulOp.make(operands, op.properties)
            number = derived_constant(np.array(factor.number, np.float32), factor.constant)
            product = MulOp.make([scores.y, number.y])
            replace(rewriter, op, [*moved, scores, number, product], absorbing=[multiple, *movements])
            return


# ---------------------------------------------------------------------------------------------------------------
# The product of a softmax and a value.


def _turned(value: SSAValue) -> TransposeOp:
    """The matrices of a tensor, transposed."""
    rank = len(shape_of(value))
    return TransposeOp.make([value], {"permutation": ints([*range(rank - 2), rank - 1, rank - 2])})


class TurnProduct(RewritePattern):
    """v · p → (pᵀ · vᵀ)ᵀ, where a softmax computes the columns of p."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: MatMulOp, rewriter: PatternRewriter) -> None:
        softmax, axis = op.rhs.owner, len(shape_of(op.rhs)) - 2
        if isinstance(softmax, TransposeOp):
            axis, softmax = softmax.permutation.get_values()[axis], softmax.x.owner
        if not isinstance(softmax, SoftmaxOp) or softmax.axis.value.data != axis:
            return
        if constant_of(op.lhs) is not None or isinstance(_source(op.lhs).owner, SoftmaxOp):
            return
        rows, columns = _turned(op.rhs), _turned(op.lhs)
        product = MatMulOp.make([rows.y, columns.y], op.properties)
        replace(rewriter, op, [rows, columns, product, _turned(product.y)], doing=product)


class DivideFirst(RewritePattern):
    """(e · v) / Σ e → (e / Σ e) · v for exponentials e, which is the product of a softmax."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: DivOp | MulOp, rewriter: PatternRewriter) -> None:
        for product, total in ((op.lhs.owner, op.rhs), (op.rhs.owner, op.lhs)):
            if isinstance(op, MulOp):
                total = total.owner.operands[0] if isinstance(total.owner, ReciprocalOp) else op.y
            elif product is not op.lhs.owner:
                return
            summed = _source(total).owner
            if not isinstance(product, MatMulOp) or not isinstance(summed, ReduceSumOp) or not used_once(product):
                continue
            e = product.lhs
            last = len(shape_of(e)) - 1
            rows = (*shape_of(e)[:-1], 1)
            plain = tuple(summed.axes.get_values()) == (last,) and isinstance(e.owner, ExpOp) and summed.x is e
            if not plain or shape_of(op.y) != shape_of(product.y) or product.bounds() != (None, None):
                continue
            if shape_of(total)[-len(rows) :] != rows or (isinstance(op, MulOp) and op.bounds() != (None, None)):
                continue
            shares = DivOp.make([e, total])
            replace(rewriter, op, [shares, MatMulOp.make([shares.y, product.rhs])], absorbing=[product])
            return


# ---------------------------------------------------------------------------------------------------------------
# Layers that compute query, key and value at once.


@dataclass(frozen=True)
class _Part:
    """A slice of a layer's result, and the way to it.

    slice      the slice
    movements  the reshapes and transposes between the layer and the slice, in order
    channels   the output channels that the slice takes; where the layer's result has heads outside of query, key and
               value, those of each head
    shapes     the shapes behind the movements of a result with these channels only
    """

    slice: SliceOp
    movements: Sequence[Operation]
    channels: Array
    shapes: Sequence[Sequence[int]]

    def moved(self, value: SSAValue) -> list[Operation]:
        """The movements of the result of a layer with these channels only."""
        new: list[Operation] = []
        for op, shape in zip(self.movements, self.shapes, strict=True):
            properties = {"shape": ints(tuple(shape))} if isinstance(op, ReshapeOp) else op.properties
            new.append(type(op).make([value], properties))  # type: ignore[attr-defined]
            value = new[-1].results[0]
        return new


def _parts(value: SSAValue, movements: Sequence[Operation] = ()) -> Iterator[_Part | None]:
    """The slices of a layer's result; None for a use that is no slice along the output channels."""
    for use in value.uses:
        match op := use.operation:
            case ReshapeOp() | TransposeOp():
                yield from _parts(op.y, [*movements, op])
            case SliceOp():
                yield _part(op, movements)
            case _:
                yield None


def _part(op: SliceOp, movements: Sequence[Operation]) -> _Part | None:
    """A slice as a part of a layer's result; None if it takes other elements than those of some output channels."""
    partial = [i for i, step in enumerate(op.steps()) if step != (0, shape_of(op.x)[i], 1)]
    if len(partial) != 1:
        return None
    (axis,) = partial
    first, count, stride = op.steps()[axis]
    if stride != 1:
        return None
    shapes, channels = list[Sequence[int]](), np.arange(first, first + count)
    for movement in reversed(movements):
        shape = shape_of(movement.results[0])
        shapes.append([count if i == axis else n for i, n in enumerate(shape)])
        if isinstance(movement, TransposeOp):
            axis = movement.permutation.get_values()[axis]
            continue
        before, behind = shape_of(movement.operands[0]), prod(shape[axis + 1 :])
        found = [j for j in range(len(before)) if before[j] > 1 and prod(before[j + 1 :]) <= behind]
        inner, rest = divmod(behind, prod(before[found[0] + 1 :])) if found else (0, 1)
        if rest or before[found[0]] % (shape[axis] * inner):
            return None
        place, outer = found[0], before[found[0]] // (shape[axis] * inner)
        blocks = np.arange(outer)[:, None, None] * shape[axis] + channels[:, None]
        axis, channels = place, (blocks * inner + np.arange(inner)).reshape(-1)
        count = len(channels)
    source = movements[0].operands[0] if movements else op.x
    return _Part(op, movements, channels, shapes[::-1]) if axis == len(shape_of(source)) - 1 else None


class SeparateLayers(RewritePattern):
    """slices of layer(x, w, b) along its output channels → layer(x, w₁, b₁), layer(x, w₂, b₂), …, for attention."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: FullyConnectedOp | Conv2DOp, rewriter: PatternRewriter) -> None:
        layer = foldable_contraction(op)
        if layer is None or (isinstance(op, Conv2DOp) and op.group_count() != 1):
            return
        found = list(_parts(op.y))
        parts = [p for p in found if p is not None]
        if (
            len(parts) < 2
            or len(parts) < len(found)
            or not any(reaches(p.slice.y) or is_weighted(p.slice.y) for p in parts)
        ):
            return
        for part in parts:
            new = self._layer(layer, part)
            names = names_of(op)
            set_names(new[-1].results[0], NameAttr.of([names.nodes], (), [names.data.inside, *names.tensors]))
            replace(rewriter, part.slice, [*new, *part.moved(new[-1].results[0])], doing=new[-1])
        for unread in dict.fromkeys(m for p in parts for m in reversed(p.movements)):
            rewriter.erase(unread)
        rewriter.erase(op)

    @staticmethod
    def _layer(layer: FoldableContraction, part: _Part) -> list[Operation]:
        """The layer with the output channels of a part, behind its constants."""
        own = [c for c in (layer.weight_constant, layer.bias_constant) if c is not None]
        constants = [derived_constant(c.value.array[part.channels], c) for c in own]
        bias: list[SSAValue] = [c.y for c in constants[1:]]
        operands = [layer.op.x, constants[0].y, bias]
        return [*constants, type(layer.op).make(operands, layer.op.properties)]


class AttentionScoresPass(PatternPass):
    """Gives query, key and value a layer each, and folds factors of scores into the layers' weights.

    ```mlir
    %q = nn.fully_connected %x, %w : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %s = nn.matmul %q, %k : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    %t = nn.mul %s, %c : tensor<4x4xf32>, tensor<f32> -> tensor<4x4xf32>
    %p = nn.softmax %t {axis = 1 : i64} : tensor<4x4xf32> -> tensor<4x4xf32>
    // becomes
    %q = nn.fully_connected %x, %wc : tensor<4x8xf32>, tensor<8x8xf32> -> tensor<4x8xf32>
    %t = nn.matmul %q, %k : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<4x4xf32>
    %p = nn.softmax %t {axis = 1 : i64} : tensor<4x4xf32> -> tensor<4x4xf32>
    ```
    """

    name = "attention-scores"
    PATTERNS = (
        DivideFirst(),
        TurnProduct(),
        SeparateLayers(),
        FoldFactorIntoLayer(),
        MoveFactorToScores(),
        FoldFactorOfScores(),
    )

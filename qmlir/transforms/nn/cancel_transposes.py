"""The pass `cancel-transposes`: moves transposes until they meet their inverse, a reshape, or the network's edge.

The pass `settle-transposes` makes reshapes of those that move nothing else than dimensions of size 1.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import prod

import numpy as np
from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, TensorType, i64
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.nn import (
    BroadcastOp,
    ConcatOp,
    ConstantOp,
    FullyConnectedOp,
    GatherOp,
    PadOp,
    ReshapeOp,
    ResizeOp,
    SliceOp,
    TransposeOp,
)
from qmlir.dialects.nn.elementwise import PointwiseOp
from qmlir.dialects.nn.normalization import ExponentialsOp
from qmlir.dialects.nn.queries import derived_constant, float_constant_of, used_once
from qmlir.dialects.quant.ops import CastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.dialects.several_samples import rewritten
from qmlir.dialects.windows import ints
from qmlir.ir.budget import Budget, budget_of
from qmlir.ir.interfaces import Shape, element_of, shape_of
from qmlir.ir.rewriting import PatternPass, replace, rewrite
from qmlir.transforms.nn.fold_constants import DropWhatChangesNothing, EvaluateOnConstants, MergeReshapes

# ---------------------------------------------------------------------------------------------------------------
# Permutations of dimensions in the convention of `nn.transpose`: dimension i of the result is p[i] of the operand.


Permutation = tuple[int, ...]


def inverse(p: Permutation) -> Permutation:
    """The permutation that undoes p."""
    return tuple(p.index(i) for i in range(len(p)))


def composed(first: Permutation, then: Permutation) -> Permutation:
    """The permutation that equals transposing by `first` and then by `then`."""
    return tuple(first[i] for i in then)


def transposed(shape: Sequence[int], p: Permutation) -> Shape:
    """The shape of a tensor of the given shape after a transpose by p."""
    return tuple(shape[i] for i in p)


def is_identity(p: Permutation) -> bool:
    """Whether a permutation moves no dimension."""
    return p == tuple(range(len(p)))


def moves_no_data(shape: Sequence[int], p: Permutation) -> bool:
    """Whether a transpose moves only dimensions of size 1, so that a reshape has the same effect."""
    kept = [i for i in p if shape[i] != 1]
    return kept == sorted(kept)


def to_channels_last(p: Permutation) -> bool:
    """Whether a permutation is [N, C, …] → [N, …, C] with rank 3 or more."""
    return len(p) > 2 and p == (0, *range(2, len(p)), 1)


def reshape_first(shape: Shape, p: Permutation, target: Shape) -> tuple[Shape, Permutation] | None:
    """(other, q) with reshape(transpose(a, p), target) = transpose(reshape(a, other), q), or None if there is none.

    The equation has a solution if each dimension of the target, or each group of them, comes from dimensions that are
    adjacent and in order in `a`:

        a [N, H, W, C] → [N, C, H, W] → [N, C, H·W]   is   a → [N, H·W, C] → [N, C, H·W]
        a [N, H, W, C] → [N, C, H, W] → [N, C·H·W]    is not

    Args:
        shape: The shape of `a`.
        p: The permutation.
        target: The shape of the result of the reshape.
    """
    if 0 in shape:
        return None
    if (groups := _groups(shape, p, target)) is None:
        return None
    order = sorted(range(len(groups)), key=lambda g: groups[g][0])
    other: list[int] = []
    place: dict[int, int] = {}  # dimension of the target → dimension of the reshaped `a`
    for g in order:
        for dimension in groups[g][1]:
            place[dimension] = len(other)
            other.append(target[dimension])
    return tuple(other), tuple(place[i] for i in range(len(target)))


def _groups(shape: Shape, p: Permutation, target: Shape) -> list[tuple[int, list[int]]] | None:
    """The target's dimensions in groups, each as (first dimension in `a`, target's dimensions), or None.

    None means that the dimensions of a group are not adjacent and in order in `a`.
    """
    groups: list[tuple[int, list[int]]] = []
    # Leading dimensions that neither operation changes, such as the batch, each form a group.
    lead = 0
    while lead < min(len(p), len(target)) and p[lead] == lead and shape[lead] == target[lead]:
        groups.append((lead, [lead]))
        lead += 1
    sources = [i for i in p[lead:] if shape[i] != 1]  # dimensions of `a` in the transpose's order
    rank = {dimension: position for position, dimension in enumerate(sorted(sources))}
    waiting = list(range(lead, len(target)))
    while sources:
        taken, made = [sources.pop(0)], [waiting.pop(0)]
        while prod(shape[i] for i in taken) != prod(target[i] for i in made):
            if prod(shape[i] for i in taken) < prod(target[i] for i in made):
                taken.append(sources.pop(0))
            else:
                made.append(waiting.pop(0))
        if any(rank[b] != rank[a] + 1 for a, b in pairwise(taken)):
            return None
        if not sources:
            made += waiting  # trailing dimensions of size 1
            waiting = []
        groups.append((taken[0], made))
    if waiting:  # `a` has only dimensions of size 1 left
        groups.append((len(shape), waiting))
    return groups


# ---------------------------------------------------------------------------------------------------------------
# The pass: moves of transposes, and why they end
#
# Enters and leaves: nn, and casts of `quant`; element types do not matter unless they are per axis. Frontends for
# channels-first models emit transpose, spatial operation, inverse transpose. Between two such operations, the inverse
# transpose of the first and the transpose of the second cancel once they are adjacent.
#
# Moves. A transpose sinks below an operation that is indifferent to the order of dimensions. The operation's other
# operands must be untransposed as well: an operand with the same transpose loses it, a constant is permuted, an operand
# in which only dimensions of size 1 move is reshaped, and an input-side operand (see below) may get a transpose to
# channels last. Two adjacent transposes compose. On the input side, transposes move in the other direction: a transpose
# to channels last rises through elementwise operations towards the function's arguments, so that a normalization in the
# model's layout can fold into the weights of the first convolution.
#
# Termination. A value is *input-side* if it is an argument or computed from arguments and constants by elementwise
# operations. A transpose of an input-side value to channels last only rises, every other transpose only sinks, and a
# rewrite replaces a transpose by transposes of the same class. So each transpose moves in one direction through a
# finite graph. Composing and sharing reduce the number of transposes. A sinking transpose may create new transposes,
# but only of input-side values to channels last, which rise. When nothing moves any more, each transpose that moves
# only dimensions of size 1, and not that of the samples (several_samples.py), becomes a reshape, and no pattern turns a
# reshape into a transpose. A rewrite inspects an operation, its operands and their users, so the work is proportional
# to the number of moves: about n for a chain of n operations.
#
# A transpose with several users sinks only if each user lets it sink or cancels it; each user then gets a copy.


INPUT_SIDE_REACH = 16
"""The greatest number of elementwise operations in the computation of an input-side value."""


def permutation_of(op: TransposeOp) -> Permutation:
    """The permutation of a transpose as a tuple."""
    return tuple(op.permutation.get_values())


def transpose(x: SSAValue, p: Permutation) -> TransposeOp:
    """A new transpose of x by p."""
    return TransposeOp.make([x], {"permutation": ints(p)})


def reshape(x: SSAValue, shape: tuple[int, ...]) -> ReshapeOp:
    """A new reshape of x to a shape."""
    return ReshapeOp.make([x], {"shape": ints(shape)})


# ---------------------------------------------------------------------------------------------------------------
# Legality of moves


def permuted_properties(op: Operation, p: Permutation) -> Mapping[str, Attribute] | None:
    """The properties that `op` needs if a transpose by p moves from its operands to its result.

    None if the operation depends on the order of its dimensions.
    """
    if any(_is_per_axis(v) for v in (*op.operands, *op.results)):
        return None
    match op:
        case PointwiseOp() | CastOp():
            return op.properties
        case ExponentialsOp() | ConcatOp():
            return {**op.properties, "axis": IntegerAttr(p[op.axis.value.data], i64)}
        case PadOp():
            low, high = (transposed(side.get_values(), inverse(p)) for side in (op.low, op.high))
            return {**op.properties, "low": ints(low), "high": ints(high)}
        case SliceOp():
            sides = {"offsets": op.offsets, "sizes": op.sizes, "strides": op.strides}
            return {name: ints(transposed(side.get_values(), inverse(p))) for name, side in sides.items()}
        case BroadcastOp():
            return {"shape": ints(transposed(op.shape.get_values(), inverse(p)))}
        case GatherOp() if len(shape_of(op.indices)) == 1:
            return {"axis": IntegerAttr(p[op.axis.value.data], i64)}
        case ResizeOp():
            return {**op.properties, "axes": ints([p[a] for a in op.axes.get_values()])}
        case _:
            return None


def _is_per_axis(value: SSAValue) -> bool:
    element = element_of(value) if isinstance(value.type, TensorType) else None
    return isinstance(element, UniformType) and element.is_per_axis


def is_input_side(value: SSAValue) -> bool:
    """Whether a value is an argument, a constant, or computed from these by a few elementwise operations."""
    waiting, seen = [value], set[Operation]()
    while waiting:
        value = waiting.pop()
        owner = value.owner
        if isinstance(value, BlockArgument) or isinstance(owner, ConstantOp) or owner in seen:
            continue
        if not isinstance(owner, PointwiseOp) or len(seen) == INPUT_SIDE_REACH:
            return False
        seen.add(owner)
        waiting += owner.operands
    return True


def rises(op: TransposeOp) -> bool:
    """Whether a transpose makes an input-side value channels-last: it moves towards the arguments, and never down."""
    return to_channels_last(permutation_of(op)) and is_input_side(op.x)


def sinking_transpose(op: Operation) -> TransposeOp | None:
    """A sinking transpose among the operands of `op` whose other users let it sink; None if there is none."""
    for operand in op.operands:
        above = operand.owner
        if isinstance(above, TransposeOp) and not rises(above):
            others = {use.operation for use in above.y.uses} - {op}
            if all(_lets_pass(user, above) for user in others):
                return above
    return None


def _rank(value: SSAValue) -> int | None:
    """The rank of a tensor; None if the value is no tensor, as results of unregistered operations may be."""
    return len(shape_of(value)) if isinstance(value.type, TensorType) else None


def _lets_pass(user: Operation, above: TransposeOp) -> bool:
    """Whether a user of the transpose `above` cancels it or lets it sink."""
    p = permutation_of(above)
    if isinstance(user, ReshapeOp):
        flattened = used_once(user) and all(isinstance(use.operation, FullyConnectedOp) for use in user.y.uses)
        return flattened or reshape_first(shape_of(above.x), p, shape_of(user.y)) is not None
    if len(user.results) != 1 or _rank(user.results[0]) != len(p):
        return False
    return isinstance(user, TransposeOp) or permuted_properties(user, p) is not None


@dataclass
class Untransposed:
    """Finds the values whose transposes by p are given operands; `new` collects new operations that compute them."""

    p: Permutation
    new: list[Operation]

    def operand(self, value: SSAValue) -> SSAValue | None:
        """A value whose transpose by p is `value`, padded to p's rank; None if that needs a new sinking transpose."""
        shape, owner = shape_of(value), value.owner
        full = (*[1] * (len(self.p) - len(shape)), *shape)
        back = inverse(self.p)
        if isinstance(owner, TransposeOp) and len(full) == len(shape):
            left = composed(permutation_of(owner), back)
            if is_identity(left):
                return owner.x
            if moves_no_data(shape_of(owner.x), left):
                return self._made(reshape(owner.x, transposed(full, back)))
        if all(n == 1 for n in shape):
            return value  # a transpose does not change it, and it broadcasts the same way
        if isinstance(owner, ConstantOp):
            array = np.ascontiguousarray(owner.value.array.reshape(full).transpose(back))
            return self._made(derived_constant(array, owner, element=element_of(value)))
        if moves_no_data(full, back):
            return self._made(reshape(value, transposed(full, back)))
        if is_input_side(value) and to_channels_last(back) and len(full) == len(shape):
            return self._made(transpose(value, back))
        return None

    def _made(self, op: Operation) -> SSAValue:
        self.new.append(op)
        return op.results[0]


def untransposed(op: Operation, p: Permutation) -> list[Operation] | None:
    """New operations such that the last one's result, transposed by p, is the result of `op`; None if impossible."""
    properties = permuted_properties(op, p) if _rank(op.results[0]) == len(p) else None
    if properties is None:
        return None
    before = Untransposed(p, [])
    follow = 1 if isinstance(op, GatherOp) else len(op.operands)  # the dimensions of indices are not transposed
    operands = [before.operand(o) if n < follow else o for n, o in enumerate(op.operands)]
    found = [o for o in operands if o is not None]
    if len(found) < len(operands):
        for unused in reversed(before.new):
            unused.erase()
        return None
    result = TensorType(element_of(op.results[0]), transposed(shape_of(op.results[0]), inverse(p)))
    return [*before.new, type(op).create(operands=found, result_types=[result], properties=dict(properties))]


# ---------------------------------------------------------------------------------------------------------------
# Patterns


class SinkTransposeBelowIndifferentOperation(RewritePattern):
    """f(transpose(x), …) → transpose(f(x, …)), for every f that is indifferent to the order of dimensions."""

    def match_and_rewrite(self, op: Operation, rewriter: PatternRewriter) -> None:
        if len(op.results) != 1 or (above := sinking_transpose(op)) is None:
            return
        p = permutation_of(above)
        if (new := untransposed(op, p)) is None:
            return
        replace(rewriter, op, [*new, transpose(new[-1].results[0], p)], doing=new[-1])


class SinkTransposeBelowReshape(RewritePattern):
    """reshape(transpose(x)) → transpose(reshape(x)), if `reshape_first` finds such a reshape."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ReshapeOp, rewriter: PatternRewriter) -> None:
        above = op.x.owner
        if not isinstance(above, TransposeOp):
            return
        moved = reshape_first(shape_of(above.x), permutation_of(above), shape_of(op.y))
        if moved is None:
            return
        shape, p = moved
        work = reshape(above.x, shape)
        if is_identity(p):
            replace(rewriter, op, work)
        elif sinking_transpose(op) is not None:
            replace(rewriter, op, [work, transpose(work.y, p)], doing=work)
        else:
            work.erase()


class ComposeTransposes(RewritePattern):
    """transpose(transpose(x)) → transpose(x), or → x if the second transpose is the inverse of the first."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        above = op.x.owner
        if not isinstance(above, TransposeOp):
            return
        p = composed(permutation_of(above), permutation_of(op))
        if is_identity(p):
            replace(rewriter, op, [], [above.x])
        else:
            replace(rewriter, op, transpose(above.x, p))


class ShareTranspose(RewritePattern):
    """Replaces two equal transposes of a value in the same block by the first of them."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        for use in op.x.uses:
            twin = use.operation
            if twin is op or not isinstance(twin, TransposeOp) or twin.permutation != op.permutation:
                continue
            if twin.parent is op.parent:
                first, second = (twin, op) if twin.is_before_in_block(op) else (op, twin)
                replace(rewriter, second, [], [first.y])
                return


class RaiseTransposeTowardsInput(RewritePattern):
    """to_channels_last(f(x, …)) → f(to_channels_last(x), …), where x, … are input-side."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        above = op.x.owner
        if not isinstance(above, PointwiseOp) or not used_once(above) or not rises(op):
            return
        new = untransposed(above, inverse(permutation_of(op)))
        if new is not None:
            replace(rewriter, op, new, absorbing=[above])


class FoldTransposeIntoFullyConnected(RewritePattern):
    """fully_connected(reshape(transpose(x)), w) → fully_connected(reshape(x), w with its columns permuted)."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: FullyConnectedOp, rewriter: PatternRewriter) -> None:
        flat = op.x.owner
        above = flat.x.owner if isinstance(flat, ReshapeOp) else None
        weights = float_constant_of(op.w)
        if not isinstance(flat, ReshapeOp) or not isinstance(above, TransposeOp) or weights is None:
            return
        p, shape = permutation_of(above), shape_of(above.y)
        (rows, columns), outputs = shape_of(op.x), op.output_channels()
        if rows != 1 and (p[0] != 0 or shape[0] != rows or prod(shape[1:]) != columns):
            return  # the rows are not the elements of the batch; no elements have any shape
        # The transpose may move a batch dimension of size 1 like any other dimension.
        spread = weights.value.array.reshape(outputs, *([] if rows == 1 else [1]), *(shape if rows == 1 else shape[1:]))
        back = spread.transpose(0, *(i + 1 for i in inverse(p))).reshape(outputs, columns)
        permuted = derived_constant(np.ascontiguousarray(back), weights)
        flattened = reshape(above.x, (rows, columns))
        operands = [flattened.y, permuted.y, *([] if op.b is None else [op.b])]
        new = FullyConnectedOp.create(operands=operands, result_types=[op.y.type], properties=op.properties)
        replace(rewriter, op, [flattened, permuted, new])


class TurnTransposeIntoReshape(RewritePattern):
    """transpose(x) → reshape(x), if only dimensions of size 1 move."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: TransposeOp, rewriter: PatternRewriter) -> None:
        if moves_no_data(shape_of(op.x), permutation_of(op)):
            replace(rewriter, op, reshape(op.x, shape_of(op.y)))


MOVING = (
    ComposeTransposes(),
    DropWhatChangesNothing(),
    SinkTransposeBelowReshape(),
    FoldTransposeIntoFullyConnected(),
    RaiseTransposeTowardsInput(),
    ShareTranspose(),
    SinkTransposeBelowIndifferentOperation(),
)

SETTLING = (TurnTransposeIntoReshape(), MergeReshapes(), DropWhatChangesNothing())


def cancel_transposes(module: ModuleOp, budget: Budget | None = None) -> bool:
    """Moves and cancels the transposes of a module; returns whether anything changed.

    Args:
        module: A network.
        budget: The bytes by which computed constants may grow; by default the module's own budget.
    """
    evaluate = EvaluateOnConstants(budget or budget_of(module))

    def move(network: ModuleOp) -> bool:
        moved = rewrite(network, (evaluate, *MOVING))
        return rewrite(network, SETTLING) or moved

    return rewritten(module, move, moves_no_data, prepare=lambda network: rewrite(network, (evaluate,)))


class SettleTransposesPass(PatternPass):
    """Turns each transpose that moves only dimensions of size 1 into a reshape, whether or not it moves the samples.

    A network that takes one sample a call, as on a device, needs no order of samples.

    ```mlir
    %y = nn.transpose %x {permutation = array<i64: 1, 0, 2>} : tensor<1x6x16xf32> -> tensor<6x1x16xf32>
    // becomes
    %y = nn.reshape %x {shape = array<i64: 6, 1, 16>} : tensor<1x6x16xf32> -> tensor<6x1x16xf32>
    ```
    """

    name = "settle-transposes"
    PATTERNS = SETTLING


class CancelTransposesPass(ModulePass):
    """Moves transposes until they cancel against their inverse or fold into a reshape or into weights.

    ```mlir
    %a = nn.transpose %x {permutation = array<i64: 0, 3, 1, 2>} : tensor<1x4x4x3xf32> -> tensor<1x3x4x4xf32>
    %b = nn.relu %a : tensor<1x3x4x4xf32> -> tensor<1x3x4x4xf32>
    %y = nn.transpose %b {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x3x4x4xf32> -> tensor<1x4x4x3xf32>
    ```
    becomes
    ```mlir
    %y = nn.relu %x : tensor<1x4x4x3xf32> -> tensor<1x4x4x3xf32>
    ```
    """

    name = "cancel-transposes"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        cancel_transposes(op)

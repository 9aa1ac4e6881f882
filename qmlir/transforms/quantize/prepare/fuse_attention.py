"""`fuse-attention`: divides a softmax behind the matrix product that it weights.

The probabilities of a softmax over n scores are about 1/n. Stored in steps of 1/256, those of a long row are a step or
two, or 0. The sums of products need no probabilities: the exponentials of a row lie in [0, 1] whatever its length, and
the product of each row is divided by the row's sum once (`nn.attend`). A softmax that something else than the product
reads stays as it is, and so does one whose product the policy quantizes in another way.

Tensors around the products get 16 bits where the rest of the network has 8, if the policy says nothing of them:

* the scores, from the sums of products that they are to the exponentials. They are requantized from sums of 32 bits,
  which costs nothing, and a step of 8 bits is a large part of an exponential where masked and large scores are far
  apart;
* query and key, if rounding them to 8 bits moves the exponentials by so much that it leaves an SQNR below `LEAST` dB;
  the value likewise;
* the results, if rounding them to 8 bits would leave an SQNR below `LEAST` dB. Under a causal mask the first rows are
  one value, the last the mean of all, and a scale that holds the first is coarse for the last. The layer that reads
  them then multiplies its weights by data of 16 bits, and keeps its own result in 16 bits if the network returns it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.dialects.func import ReturnOp
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import ObserveOp
from qmlir.dialects.nn import (
    AddOp,
    AttendOp,
    ConstantOp,
    DivOp,
    IsInfOp,
    IsNaNOp,
    LpNormalizationOp,
    MatMulOp,
    MulOp,
    ReduceMaxOp,
    SoftmaxOp,
    WhereOp,
)
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.contraction import ContractionOp, WeightedOp
from qmlir.dialects.nn.movement import BroadcastOp, MovementOp, ReshapeOp, SliceOp, TransposeOp
from qmlir.dialects.nn.normalization import OverTrailingOp
from qmlir.dialects.nn.quantizable import data_operands
from qmlir.dialects.target import Target
from qmlir.ir.facts import POLICY
from qmlir.ir.interfaces import shape_of
from qmlir.ir.names import names_of
from qmlir.ir.rewriting import take_over
from qmlir.ir.signature import defined_functions
from qmlir.numerics.schemas import weight_bits
from qmlir.policies.legality import target_of
from qmlir.policies.runtimes import runtime_of
from qmlir.settings.quant_config import OpConfig, add_settings, config_of, op_config_of
from qmlir.transforms.quantize.prepare.widen_residuals import noise_of, uses_of, widen
from qmlir.transforms.quantize.reasons import names_format

LEAST = 42.0
"""The SQNR in dB that rounding a tensor to 8 bits must leave of the results, for it to stay in 8 bits."""

MADE = (WeightedOp, OverTrailingOp, LpNormalizationOp)
"""Operations whose results, as query, key or value, may be of 16 bits."""


@dataclass(frozen=True)
class FuseAttentionPass(ModulePass):
    """Makes one operation of a softmax and the matrix product that reads it, and nothing else does.

    ```mlir
    %p = nn.softmax %x {axis = 1 : i64} : tensor<8x8xf32> -> tensor<8x8xf32>
    %y = nn.matmul %p, %v : tensor<8x8xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
    // becomes
    %y = nn.attend %x, %v : tensor<8x8xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
    ```
    """

    name = "fuse-attention"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        target = target_of(ctx)
        if not target.attends or runtime_of(op) != "default":
            return
        for function in defined_functions(op):
            fuse_attention(function.body.block, config_of(op).op_config(), target)


def fuse_attention(block: Block, default: OpConfig, target: Target) -> None:
    """Fuses the softmaxes of a float network with observers, in place.

    Args:
        block: The operations.
        default: The options in effect; an operation's own policy overrides them.
        target: The target that the network is compiled for.
    """
    for softmax in [o for o in block.ops if isinstance(o, SoftmaxOp)]:
        if (path := _path(softmax)) is None or not _alike(softmax, path[-1], default):
            continue
        attend = _fuse(softmax, path)
        op_config = op_config_of(attend, default)
        if weight_bits(op_config.integers) == 8:
            observers = {o.value: o for o in block.ops if isinstance(o, ObserveOp)}
            _widen_scores(attend.x, observers, default, target)
            _widen_result(attend, observers, default, target)
            _widen_operands(attend, observers, default, target)


# ---------------------------------------------------------------------------------------------------------------
# The operations that are fused


def _path(softmax: SoftmaxOp) -> list[Operation] | None:
    """What reads a softmax: operations that move whole rows, and a matrix product last; None for other readers."""
    if not is_float(softmax.x):
        return None
    path, value, axis = list[Operation](), softmax.y, softmax.axis.value.data
    while True:
        observers = [u.operation for u in value.uses if isinstance(u.operation, ObserveOp)]
        readers = [u.operation for u in value.uses if not isinstance(u.operation, ObserveOp)]
        if (guard := _guard(value, readers)) is not None:
            path.append(guard)
            value = guard.y
            continue
        if len(readers) != 1 or any(POLICY.on(o) for o in observers):
            return None
        (reader,) = readers
        path.append(reader)
        if isinstance(reader, MatMulOp):
            along = reader.lhs is value and axis == len(shape_of(value)) - 1
            return path if along and reader.bounds() == (None, None) else None
        if (moved := _moved_to(reader, axis)) is None:
            return None
        value, axis = reader.results[0], moved


def _guard(value: SSAValue, readers: Sequence[Operation]) -> WhereOp | None:
    """The choice of a constant for the rows of a softmax that a mask hides entirely; None without such.

    Models find them by numbers that are none, or are infinite. Those of a quantized network are neither.
    """
    choice = next((o for o in readers if isinstance(o, WhereOp)), None)
    if choice is None or choice.rhs is not value or not isinstance(choice.lhs.owner, ConstantOp):
        return None
    test = choice.condition.owner
    while isinstance(test, MovementOp):
        test = test.operands[0].owner
    return choice if isinstance(test, IsNaNOp | IsInfOp) and {*readers} <= {choice, test} else None


def _moved_to(op: Operation, axis: int) -> int | None:
    """The axis along which the rows of an operand lie in the result; None if they are not moved as wholes."""
    match op:
        case TransposeOp():
            return list(op.permutation.get_values()).index(axis)
        case BroadcastOp() | SliceOp():
            behind = axis - len(shape_of(op.x))
            return len(shape_of(op.y)) + behind if shape_of(op.x)[behind:] == shape_of(op.y)[behind:] else None
        case ReshapeOp():
            before, (*outer, size) = shape_of(op.y), shape_of(op.x)[: axis + 1]
            places = (i for i, n in enumerate(before) if n == size and prod(before[:i]) == prod(outer))
            return next(places, None)
        case _:
            return None


def _alike(softmax: SoftmaxOp, product: Operation, default: OpConfig) -> bool:
    """Whether the policy lets both be computed as one operation, and in integers."""
    one, other = (op_config_of(o, default) for o in (softmax, product))
    free = not any(c.keep_float or c.glow_exact or c.half or c.attention == "stored" for c in (one, other))
    return free and one == other


def _fuse(softmax: SoftmaxOp, path: list[Operation]) -> AttendOp:
    """Replaces a softmax and its product by one operation on moved scores."""
    *movements, product = path
    assert isinstance(product, MatMulOp)
    scores, new = softmax.x, list[Operation]()
    for op in movements:
        if isinstance(op, WhereOp):
            continue
        moved = op.clone({op.operands[0]: scores})
        new.append(moved)
        scores = moved.results[0]
    attend = AttendOp.make([scores, product.rhs])
    if (policy := POLICY.of(product)) is not None:
        POLICY.set(attend, policy)
    attend.location = product.location
    Rewriter.insert_op([*new, attend], InsertPoint.before(product))
    names = [names_of(o) for o in (softmax, product)]
    product.y.replace_all_uses_with(attend.y)
    take_over(attend.y, names)
    for op in reversed((softmax, *path)):
        _erase(op)
    return attend


def _erase(op: Operation) -> None:
    """Erases an operation whose result only observers read, and the test for a choice with it."""
    for observer in [u.operation for u in op.results[0].uses if isinstance(u.operation, ObserveOp)]:
        Rewriter.erase_op(observer)
    if op.results[0].uses:
        return  # the test for a choice reads it, and goes with the choice
    tests = [op.condition.owner] if isinstance(op, WhereOp) else []
    tests += [v.owner for v in op.operands] if isinstance(op, IsNaNOp | IsInfOp | MovementOp) else []
    Rewriter.erase_op(op)
    for test in tests:
        if isinstance(test, IsNaNOp | IsInfOp | MovementOp | ReduceMaxOp) and not uses_of(test.results[0]):
            _erase(test)


# ---------------------------------------------------------------------------------------------------------------
# The tensors that get 16 bits


def _widen_scores(scores: SSAValue, observers: Mapping[SSAValue, ObserveOp], default: OpConfig, target: Target) -> None:
    """Gives scores 16 bits, from the sums of products that they are on."""
    steps: list[Operation] = []
    value = scores
    while isinstance(op := value.owner, Operation) and not isinstance(op, ContractionOp):
        if len(uses_of(value)) != 1 or (source := _scores_of(op)) is None:
            return
        steps.append(op)
        value = source
    if not isinstance(op, ContractionOp) or value not in observers or len(uses_of(value)) != 1:
        return
    why = "in 16 bits for the exponentials of attention"
    if widen(observers[value], op_config_of(op, default), op, target, why):
        for step in reversed(steps):
            if not isinstance(step, MovementOp) or isinstance(step, WhereOp):
                widen(step, op_config_of(step, default), step, target, why)


def _widen_operands(
    attend: AttendOp, observers: Mapping[SSAValue, ObserveOp], default: OpConfig, target: Target
) -> None:
    """Gives query, key and value 16 bits where rounding them to 8 bits is too coarse.

    A score that is off by d makes its probability off by the share d.
    """
    product = attend.x
    while isinstance(op := product.owner, Operation) and (source := _scores_of(op)) is not None:
        product = source
    readers: list[tuple[Operation, Sequence[SSAValue], float]] = [(attend, [attend.v], 1.0)]
    if isinstance(op, MatMulOp) and (size := _mean_square(observers.get(op.y))) is not None:
        readers.append((op, [op.lhs, op.rhs], size))
    for reader, operands, weight in readers:
        values = [_source_of(v) for v in operands]
        noises = [noise_of(v, observers.get(v), default, bulk=False) or 0.0 for v in values]
        why = "reads 16 bits, as 8 bits would move the results of attention"
        if sum(noises) * weight < 10 ** (-LEAST / 10) or not all(isinstance(v.owner, MADE) for v in values):
            continue
        if widen(reader, op_config_of(reader, default), reader, target, why):
            for value in values:
                made = value.owner
                assert isinstance(made, Operation)
                widened = observers[value] if isinstance(made, WeightedOp) else made
                widen(widened, op_config_of(made, default), made, target, "in 16 bits for attention")


def _source_of(value: SSAValue) -> SSAValue:
    """The value whose elements a value moves, up to one that several operations read."""
    while len(uses_of(value)) == 1 and isinstance(op := value.owner, MovementOp) and len(data_operands(op)) == 1:
        value = data_operands(op)[0]
    return value


def _mean_square(observer: ObserveOp | None) -> float | None:
    """The mean square of an observed tensor; None without a histogram."""
    seen = None if observer is None else observer.observation
    if seen is None or seen.histogram is None:
        return None
    held = seen.histogram
    return float((held.counts * held.centers**2).sum() / max(held.counts.sum(), 1))


def _scores_of(op: Operation) -> SSAValue | None:
    """The scores that an operation moves, scales or masks."""
    if isinstance(op, WhereOp):
        others = [v for v in (op.lhs, op.rhs) if not isinstance(v.owner, ConstantOp)]
        return others[0] if len(others) == 1 else None
    if isinstance(op, MovementOp):
        return data_operands(op)[0] if len(data_operands(op)) == 1 else None
    if isinstance(op, DivOp):
        return op.lhs if isinstance(op.rhs.owner, ConstantOp) else None
    if isinstance(op, AddOp | MulOp):
        computed = [v for v in (op.lhs, op.rhs) if _is_computed(v)]
        return computed[0] if len(computed) == 1 else None
    return None


def _is_computed(value: SSAValue) -> bool:
    """Whether a value is scores: it comes from sums of products by steps that move, scale or mask it."""
    while isinstance(op := value.owner, Operation) and not isinstance(op, ContractionOp):
        if isinstance(op, ConstantOp) or (source := _scores_of(op)) is None:
            return False
        value = source
    return isinstance(op, ContractionOp)


def _widen_result(attend: AttendOp, observers: Mapping[SSAValue, ObserveOp], default: OpConfig, target: Target) -> None:
    """Gives the result 16 bits, and the layer that reads it data of 16 bits, where 8 are too coarse."""
    observer = observers.get(attend.y)
    noise = noise_of(attend.y, observer, default, bulk=False)
    if observer is None or noise is None or noise < 10 ** (-LEAST / 10):
        return
    readers = [u.operation for u in uses_of(attend.y)]
    layers = [o for o in readers if isinstance(o, WeightedOp)]
    if any(names_format(o) for o in layers):
        return
    why = "in 16 bits, as rows of attention differ in size"
    if not widen(observer, op_config_of(attend, default), attend, target, why):
        return
    for layer in layers:
        op_config = op_config_of(layer, default)
        add_settings(layer, {"weight_precision": op_config.stored_weights})
        result = observers.get(layer.y)
        widened = widen(layer, op_config, layer, target, why)
        returned = all(isinstance(u.operation, ReturnOp) for u in uses_of(layer.y))
        if widened and not returned and result is not None and not names_format(result):
            add_settings(result, {"precision": op_config.precision, "schema": op_config.schema})

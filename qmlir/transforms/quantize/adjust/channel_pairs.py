"""Pairs of contractions whose channels in between can be scaled: up in the writer, down in the reader.

A contraction is a convolution or a fully connected layer. If only relu, leaky relu and pools lie between two
contractions, each channel can be multiplied before and divided after: relu(s·x) = s·relu(x) for s > 0. A clamp with
other bounds admits this if all channels have the same factor, as its bounds are multiplied too. The network's function
stays the same but for rounding. The tensors in between have new values, so they are observed anew.

Several contractions whose results are added admit it as well if all channels of all of them have the same factor:
they form a sum (ContractionSum).

Works on a float network with observers that hold ranges.
"""

import math
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import TensorType, f32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.calib import HistogramAttr, ObserveOp, bounds_attribute
from qmlir.dialects.nn import (
    AddOp,
    AveragePool2DOp,
    ConcatOp,
    ConstantOp,
    Conv2DOp,
    DepthwiseConv2DOp,
    FullyConnectedOp,
    GlobalAveragePoolOp,
    LeakyReluOp,
    MaxPool2DOp,
    PReluOp,
    ReluOp,
    ReshapeOp,
    TransposeOp,
)
from qmlir.dialects.nn.base import Clamped, bound, is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.ir.facts import FACTORS, POLICY
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.levels import with_other_values
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics.halves import HALVES
from qmlir.profiles.tensor_profile import TensorProfile, require_finite
from qmlir.settings.quant_config import settings_of
from qmlir.transforms.quantize.adjust.nominal import Meaning, for_all_samples, nominal_meaning
from qmlir.transforms.quantize.adjust.side_by_side import linear_part

LARGEST_FACTOR = 8.0
"""The largest factor of a channel: a channel that is nearly dead on the data may be alive on other data."""


@dataclass(frozen=True)
class ChannelPair:
    """A contraction, the pools and reshapes behind it, and the contraction that reads them."""

    writer: WeightedOp
    between: tuple[Operation, ...]
    reader: WeightedOp

    @property
    def channels(self) -> int:
        """The number of channels in between."""
        return self.writer.output_channels()

    @property
    def scales_singly(self) -> bool:
        """Whether each channel may have a factor of its own."""
        return self.writer.bounds() in ((None, None), (0.0, None))

    @property
    def tensors(self) -> tuple[SSAValue, ...]:
        """The tensors in between, in order."""
        return self.writer.y, *(o.results[0] for o in self.between)

    def scale(self, factors: Array) -> None:
        """Multiplies the channels in between by factors above 0, [channels]; all the same unless `scales_singly`."""
        writer, reader = self.writer, self.reader
        for op in (writer, *self.between):
            note_factors(op, factors)
        scale_result(writer, factors)
        _scale_bounds(writer, float(factors[0]))
        scale_reader(reader, factors)

    def scale_evenly(self, factor: float) -> None:
        """Multiplies all channels in between by a factor above 0."""
        self.scale(np.full(self.channels, factor))


@dataclass(frozen=True)
class ContractionSum:
    """Contractions whose results are added, or joined, before a single contraction reads them, as in a residual block.

    Only adds, relus, pools and data movement lie in between, so a common factor above 0 passes through.
    """

    writers: tuple[WeightedOp, ...]
    between: tuple[Operation, ...]
    reader: WeightedOp

    @property
    def tensors(self) -> tuple[SSAValue, ...]:
        """The values in between."""
        return *(w.y for w in self.writers), *(o.results[0] for o in self.between)

    def scale_evenly(self, factor: float) -> None:
        """Multiplies all values in between by a factor above 0."""
        for op in (*self.writers, *self.between):
            note_factors(op, np.full((1, *shape_of(op.results[0]))[-1], factor))
            if isinstance(op, Clamped):
                _scale_bounds(op, factor)
        for writer in self.writers:
            scale_result(writer, np.full(writer.output_channels(), factor))
        set_constant(self.reader, 1, scaled_along(constant_array(self.reader.w), np.array([1 / factor]), 0))


def channel_pairs(block: Block) -> list[ChannelPair]:
    """The pairs of a network, in order."""
    return [pair for op in block.ops if isinstance(op, WeightedOp) and (pair := _pair(op)) is not None]


def _pair(writer: WeightedOp) -> ChannelPair | None:
    """The pair that begins with a contraction; None if the operations behind it cannot be scaled channel by channel."""
    if not is_scalable(writer):
        return None
    between: list[Operation] = []
    value: SSAValue = writer.y
    while (reader := _only_reader(value)) is not None and keeps_channels(reader):
        between.append(reader)
        value = reader.results[0]
    if not isinstance(reader, WeightedOp) or not is_scalable(reader) or reader.x is not value:
        return None
    if not reads_all_channels(reader) or any(map(has_own_range, between)):
        return None
    pair = ChannelPair(writer, tuple(between), reader)
    return None if any(map(is_spoken_for, pair.tensors)) else pair


def contraction_sums(block: Block) -> list[ContractionSum]:
    """The contractions of a network whose results meet in an addition or a concatenation, in program order."""
    found = map(_sum, connected_results(block, lambda op: isinstance(op, _HOMOGENEOUS)))
    return [each for each in found if each is not None]


def connected_results(block: Block, connects: Callable[[Operation], bool]) -> Iterator[dict[SSAValue, None]]:
    """Yields sets of values, in order: each with all that some operations connect the result of a contraction with.

    Args:
        block: The network; its contractions are taken in program order.
        connects: Whether an operation connects its operands and its result.
    """
    met: set[SSAValue] = set()
    for op in block.ops:
        if isinstance(op, WeightedOp) and op.y not in met:
            values = _connected(op.y, connects)
            met.update(values)
            yield values


def _connected(value: SSAValue, connects: Callable[[Operation], bool]) -> dict[SSAValue, None]:
    """The values that operations connect with a value."""
    found: dict[SSAValue, None] = {}  # a set in order
    left = [value]
    while left:
        value = left.pop()
        if value not in found:
            found[value] = None
            if isinstance(value.owner, Operation) and connects(value.owner):
                left += moved_operands(value.owner)
            left += [r.results[0] for r in readers_of(value) if connects(r)]
    return found


def moved_operands(op: Operation) -> Sequence[SSAValue]:
    """The operands of an operation whose channels are in its result: all but slopes."""
    return op.operands[:1] if isinstance(op, PReluOp) else op.operands


def _sum(values: Collection[SSAValue]) -> ContractionSum | None:
    """The sum that tied values form; None if other operations make or read them, or several contractions read them."""
    makers = [v.owner for v in values]
    writers = tuple(o for o in makers if isinstance(o, WeightedOp))
    between = tuple(o for o in makers if isinstance(o, _HOMOGENEOUS))
    others = [(v, r) for v in values for r in readers_of(v) if not isinstance(r, _HOMOGENEOUS)]
    if len(writers) < 2 or len(writers) + len(between) < len(makers) or len(others) != 1:
        return None
    ((value, reader),) = others
    if not isinstance(reader, WeightedOp) or reader.x is not value or not all(map(is_scalable, (*writers, reader))):
        return None
    said = any(map(is_spoken_for, values)) or any(map(has_own_range, between))
    return None if said else ContractionSum(writers, between, reader)


_HOMOGENEOUS = (
    AddOp,
    AveragePool2DOp,
    ConcatOp,
    GlobalAveragePoolOp,
    MaxPool2DOp,
    ReluOp,
    ReshapeOp,
    TransposeOp,
)
"""Homogeneous operations: f(g·x, g·y) = g·f(x, y) for g > 0, if bounds of clamps are multiplied by g too."""


def is_scalable(op: WeightedOp) -> bool:
    """Whether a contraction is float, has no empty tensor, no range of its own, and a constant weight and bias."""
    known = constant_array(op.w) is not None and (op.b is None or constant_array(op.b) is not None)
    known = known and not any(0 in shape_of(v) for v in (op.x, op.w, op.y))
    return known and is_float(op.x) and is_float(op.w) and not has_own_range(op)


def reads_all_channels(op: WeightedOp) -> bool:
    """Whether the last axis of a contraction's weights is its operand's channels, all of them."""
    return isinstance(op, DepthwiseConv2DOp | FullyConnectedOp) or (isinstance(op, Conv2DOp) and op.group_count() == 1)


def keeps_channels(op: Operation) -> bool:
    """Whether scaling a channel of an operation's operand scales the same channel of its result."""
    if isinstance(op, ReshapeOp):
        before, after = shape_of(op.operands[0]), shape_of(op.results[0])
        return before[-1:] == after[-1:] == (int(np.prod(before)),)
    if isinstance(op, Clamped) and op.bounds() not in ((None, None), (0.0, None)):
        return False
    if isinstance(op, PReluOp):
        return constant_array(op.rhs) is not None and shape_of(op.y) == shape_of(op.lhs)
    return isinstance(op, MaxPool2DOp | AveragePool2DOp | GlobalAveragePoolOp | ReluOp | LeakyReluOp)


def _only_reader(value: SSAValue) -> Operation | None:
    readers = readers_of(value)
    return readers[0] if len(readers) == 1 else None


def readers_of(value: SSAValue) -> list[Operation]:
    """The operations that read a value, observers left out."""
    return [u.operation for u in value.uses if not isinstance(u.operation, ObserveOp)]


def has_own_range(op: Operation) -> bool:
    """Whether the policy says more of an operation than the integers of its weights and data.

    What else it can say is about the range of the result as it is, or about weights with one scale for all channels.
    """
    policy = POLICY.of(op)
    if policy is None:
        return False
    settings = settings_of(policy)
    return not _OF_INTEGERS.issuperset(settings) or settings.get("precision") in HALVES


_OF_INTEGERS = {
    "schema",
    "precision",
    "weight_precision",
    "granularity",
    "bias",
    "rounding",
    "weight_range",
    "weight_levels",
}
"""The settings of a policy that stay right when the channels of a tensor are scaled."""


def is_spoken_for(value: SSAValue) -> bool:
    """Whether the policy has settings for a tensor."""
    return any(isinstance(u.operation, ObserveOp) and POLICY.on(u.operation) for u in value.uses)


def constant_array(value: SSAValue) -> Array | None:
    """The real values of a constant, which may be stored in integers; None for other values."""
    owner = value.owner
    if isinstance(owner, ConstantOp):
        return owner.value.array
    if isinstance(owner, DequantizeCastOp) and isinstance(owner.input.owner, ConstantOp):
        return owner.evaluate(owner.input.owner.value.array)[0]
    return None


def note_factors(op: Operation, factors: Array) -> None:
    """Multiplies the factors noted on an operation, of the channels of its result, by further factors.

    Where neighbours have the same, it is noted once for all of them.
    """
    before = FACTORS.of(op)
    held = factors if before is None else factors * np.repeat(before.array, len(factors) // before.array.size)
    changes = np.flatnonzero(np.diff(held)) + 1
    FACTORS.put(op, WeightsAttr(held[:: math.gcd(len(held), *changes.tolist())].astype(np.float32)))


def scale_result(op: WeightedOp, factors: Array) -> None:
    """Multiplies the weights and the bias of each output channel."""
    set_constant(op, 1, scaled_along(constant_array(op.w), factors, op.CHANNEL_AXIS))
    if op.b is not None:
        set_constant(op, 2, scaled_along(constant_array(op.b), factors, 0))


def scale_reader(op: WeightedOp, factors: Array) -> None:
    """Divides the weights of each input channel."""
    if isinstance(op, DepthwiseConv2DOp):
        factors = np.repeat(factors, op.multiplier())
    set_constant(op, 1, scaled_along(constant_array(op.w), 1 / factors, len(shape_of(op.w)) - 1))


def _scale_bounds(op: Clamped, factor: float) -> None:
    op.lower, op.upper = (bound(None if b is None else b * factor) for b in op.bounds())


def scaled_along(array: Array | None, factors: Array, axis: int) -> Array:
    """Multiplies an array by a factor for each index of an axis, in f32."""
    assert array is not None
    shape = [1] * array.ndim
    shape[axis] = -1
    return np.ascontiguousarray((array * factors.reshape(shape)).astype(np.float32))


def set_constant(op: Operation, index: int, array: Array) -> None:
    """Gives an operation a new constant as operand `index`; erases the old constant if nothing else reads it."""
    old = op.operands[index]
    attributes = with_other_values(old.owner) if isinstance(old.owner, ConstantOp) else {}
    constant = ConstantOp(array, TensorType(f32, array.shape), attributes)
    constant.y.name_hint = old.name_hint
    Rewriter.insert_op(constant, InsertPoint.before(op))
    op.operands[index] = constant.y
    while isinstance(old.owner, ConstantOp | DequantizeCastOp) and not old.uses:
        unused = old.owner
        old = unused.operands[0] if unused.operands else constant.y
        Rewriter.erase_op(unused)


def observe_anew(block: Block, tensors: Iterable[SSAValue], inputs: Sequence[Sequence[Array]]) -> None:
    """Observes tensors anew: writes ranges, histograms and average ranges on their observers.

    Raises:
        ProfileError: A tensor has a value that is not finite.
    """
    changed = set(tensors)
    observers = {o.value: o for o in block.ops if isinstance(o, ObserveOp) and o.value in changed}
    seen = {v: TensorProfile(shape_of(v)[1:]) for v in observers}
    for values in evaluations(block, inputs, set(seen)):
        for value, array in values.items():
            require_finite(observers[value].tensor.data, array)
            seen[value].update(array)
    for value, profile in seen.items():
        observe_as(observers[value], profile)


def observe_as(observer: ObserveOp, profile: TensorProfile) -> None:
    """Writes the range, the histogram and the average range of a profile on an observer."""
    observer.range = bounds_attribute(profile.lo, profile.hi)
    observer.histogram = HistogramAttr.of(profile.exponent, profile.first, profile.counts)
    observer.average = bounds_attribute(*profile.average_range)


def evaluations(
    block: Block, inputs: Sequence[Sequence[Array]], wanted: set[SSAValue]
) -> Iterator[Mapping[SSAValue, Array]]:
    """Evaluates a float block on each sample; yields the values of the wanted tensors, sample by sample."""
    if not wanted:
        return
    operations = [o for o in block.ops if o.results]
    last = max(i for i, o in enumerate(operations) if any(r in wanted for r in o.results))
    operations = operations[: last + 1]
    meanings = {o: _meaning(o) for o in operations if not isinstance(o, ConstantOp)}
    size = sum(math.prod(shape_of(r)) for o in meanings for r in o.results)
    read_last = {v: o for o in operations for v in o.operands if v not in wanted}
    at_once = max(1, AT_ONCE // max(1, size))
    for start in range(0, len(inputs), at_once):
        some = inputs[start : start + at_once]
        values: dict[SSAValue, list[Array]] = dict(zip(block.args, map(list, zip(*some, strict=True)), strict=True))
        with np.errstate(over="ignore", invalid="ignore"):  # observe_anew refuses values that are not finite
            for op in operations:
                if isinstance(op, ConstantOp):
                    values[op.y] = [op.value.array] * len(some)
                else:
                    results = for_all_samples(op, meanings[op], [values[v] for v in op.operands])
                    values.update(zip(op.results, results, strict=True))
                for value in {v for v in op.operands if read_last.get(v) is op}:
                    del values[value]
        yield from ({v: values[v][i] for v in wanted} for i in range(len(some)))
    for op in operations:
        if isinstance(op, ConstantOp):
            op.value.data.release()


AT_ONCE = 1 << 25
"""The elements that the tensors of some samples may have together while a block is evaluated on these samples."""


def _meaning(op: Operation) -> Meaning:
    """The meaning of an operation of a float block; a contraction of floats multiplies matrices."""
    if not isinstance(op, WeightedOp) or not is_float(op.x):
        return nominal_meaning(op)
    product = linear_part(op)

    def evaluate(x: Array, w: Array, *bias: Array) -> tuple[Array, ...]:
        y = product(x, w)
        return (op.clamp(y + bias[0] if bias else y),)

    return evaluate

"""`equalize-channels`: brings the channels of a tensor nearer to one magnitude, so that one scale serves all."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.dialects.builtin import DenseArrayBase, StringAttr, TensorType, f32, f64
from xdsl.ir import Block, Operation, SSAValue, Use
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
    GatherOp,
    GlobalAveragePoolOp,
    MaxPool2DOp,
    MulOp,
    ReluOp,
    ReshapeOp,
    SliceOp,
    TransposeOp,
)
from qmlir.dialects.nn.base import Clamped, bound, is_float
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.qmlir import RESIDUAL
from qmlir.dialects.quant.ops import DequantizeCastOp
from qmlir.dialects.target import Target
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.rewriting import tensor_name
from qmlir.numerics.schemas import Schema, weight_bits
from qmlir.policies.legality import target_of
from qmlir.policies.quant_config import POLICY, QuantConfig, policy_attribute
from qmlir.profiles.profile import TensorProfile, require_finite
from qmlir.transforms.quantize.recipes import Recipes
from qmlir.transforms.quantize.scale_groups import leaves_room
from qmlir.transforms.quantize.side_by_side import SampledPass, linear_part

# ---------------------------------------------------------------------------------------------------------------
# Finds pairs of contractions whose channels in between can be scaled: up in the writer, down in the reader.
#
# A contraction is a convolution or a fully connected layer. If only relu and pools lie between two contractions, each
# channel can be multiplied before and divided after: relu(s·x) = s·relu(x) for s > 0. A clamp with other bounds admits
# this if all channels have the same factor, as its bounds are multiplied too. The network's function stays the same but
# for rounding. The tensors in between have new values, so they are observed anew.
#
# Several contractions whose results are added admit it as well if all channels of all of them have the same factor:
# they form a sum (ContractionSum).
#
# Works on a float network with observers that hold ranges.


FACTORS = "qmlir.channel_factors"
"""The attribute key, on an operation, of the factors that the channels of its result were multiplied with."""


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
            _note(op, factors)
        _scale_result(writer, factors)
        _scale_bounds(writer, float(factors[0]))
        if isinstance(reader, DepthwiseConv2DOp):
            factors = np.repeat(factors, reader.multiplier())
        _set(reader, 1, _along(_constant(reader.w), 1 / factors, len(shape_of(reader.w)) - 1))

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
            _note(op, np.full((1, *shape_of(op.results[0]))[-1], factor))
            if isinstance(op, Clamped):
                _scale_bounds(op, factor)
        for writer in self.writers:
            _scale_result(writer, np.full(writer.output_channels(), factor))
        _set(self.reader, 1, _along(_constant(self.reader.w), np.array([1 / factor]), 0))


def channel_pairs(block: Block) -> list[ChannelPair]:
    """The pairs of a network, in order."""
    return [pair for op in block.ops if isinstance(op, WeightedOp) and (pair := _pair(op)) is not None]


def _pair(writer: WeightedOp) -> ChannelPair | None:
    """The pair that begins with a contraction; None if the operations behind it cannot be scaled channel by channel."""
    if not _is_scalable(writer):
        return None
    between: list[Operation] = []
    value: SSAValue = writer.y
    while (reader := _only_reader(value)) is not None and _keeps_channels(reader):
        between.append(reader)
        value = reader.results[0]
    if not isinstance(reader, WeightedOp) or not _is_scalable(reader) or reader.x is not value:
        return None
    whole = isinstance(reader, DepthwiseConv2DOp | FullyConnectedOp) or (
        isinstance(reader, Conv2DOp) and reader.group_count() == 1
    )
    pair = ChannelPair(writer, tuple(between), reader) if whole else None
    return None if pair is None or any(map(_is_spoken_for, pair.tensors)) else pair


def contraction_sums(block: Block) -> list[ContractionSum]:
    """The contractions of a network whose results meet in an addition or a concatenation, in program order."""
    met: set[SSAValue] = set()
    sums: list[ContractionSum] = []
    for op in block.ops:
        if isinstance(op, WeightedOp) and op.y not in met:
            values = _tied(op.y)
            met.update(values)
            if (found := _sum(values)) is not None:
                sums.append(found)
    return sums


def _tied(value: SSAValue) -> dict[SSAValue, None]:
    """The values that must have the same factor as a value: homogeneous operations connect them with it."""
    tied: dict[SSAValue, None] = {}  # a set in order
    left = [value]
    while left:
        value = left.pop()
        if value not in tied:
            tied[value] = None
            left += value.owner.operands if isinstance(value.owner, _HOMOGENEOUS) else ()
            left += [r.results[0] for r in _readers(value) if isinstance(r, _HOMOGENEOUS)]
    return tied


def _sum(values: Collection[SSAValue]) -> ContractionSum | None:
    """The sum that tied values form; None if other operations make or read them, or several contractions read them."""
    makers = [v.owner for v in values]
    writers = tuple(o for o in makers if isinstance(o, WeightedOp))
    between = tuple(o for o in makers if isinstance(o, _HOMOGENEOUS))
    others = [(v, r) for v in values for r in _readers(v) if not isinstance(r, _HOMOGENEOUS)]
    if len(writers) < 2 or len(writers) + len(between) < len(makers) or len(others) != 1:
        return None
    ((value, reader),) = others
    if not isinstance(reader, WeightedOp) or reader.x is not value or not all(map(_is_scalable, (*writers, reader))):
        return None
    return None if any(map(_is_spoken_for, values)) else ContractionSum(writers, between, reader)


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


def _is_scalable(op: WeightedOp) -> bool:
    """Whether a contraction is float, has no empty tensor and no policy, and its weights and bias are constant."""
    known = _constant(op.w) is not None and (op.b is None or _constant(op.b) is not None)
    known = known and not any(0 in shape_of(v) for v in (op.x, op.w, op.y))
    return known and is_float(op.x) and is_float(op.w) and POLICY not in op.attributes


def _keeps_channels(op: Operation) -> bool:
    """Whether scaling a channel of an operation's operand scales the same channel of its result."""
    if isinstance(op, ReshapeOp):
        before, after = shape_of(op.operands[0]), shape_of(op.results[0])
        return before[-1:] == after[-1:] == (int(np.prod(before)),)
    return isinstance(op, MaxPool2DOp | AveragePool2DOp | GlobalAveragePoolOp)


def _only_reader(value: SSAValue) -> Operation | None:
    readers = _readers(value)
    return readers[0] if len(readers) == 1 else None


def _readers(value: SSAValue) -> list[Operation]:
    return [u.operation for u in value.uses if not isinstance(u.operation, ObserveOp)]


def _is_spoken_for(value: SSAValue) -> bool:
    """Whether the policy has settings for a tensor."""
    return any(isinstance(u.operation, ObserveOp) and POLICY in u.operation.attributes for u in value.uses)


def _constant(value: SSAValue) -> Array | None:
    """The real values of a constant, which may be stored in integers; None for other values."""
    owner = value.owner
    if isinstance(owner, ConstantOp):
        return owner.value.array
    if isinstance(owner, DequantizeCastOp) and isinstance(owner.input.owner, ConstantOp):
        return owner.evaluate(owner.input.owner.value.array)[0]
    return None


def _note(op: Operation, factors: Array) -> None:
    """Multiplies the factors noted on an operation, of the channels of its result, by further factors."""
    before = op.attributes.get(FACTORS)
    held = factors if not isinstance(before, DenseArrayBase) else factors * np.array(before.get_values())
    op.attributes[FACTORS] = DenseArrayBase.from_list(f64, held.tolist())


def _scale_result(op: WeightedOp, factors: Array) -> None:
    """Multiplies the weights and the bias of each output channel."""
    _set(op, 1, _along(_constant(op.w), factors, op.CHANNEL_AXIS))
    if op.b is not None:
        _set(op, 2, _along(_constant(op.b), factors, 0))


def _scale_bounds(op: Clamped, factor: float) -> None:
    op.lower, op.upper = (bound(None if b is None else b * factor) for b in op.bounds())


def _along(array: Array | None, factors: Array, axis: int) -> Array:
    assert array is not None
    shape = [1] * array.ndim
    shape[axis] = -1
    return np.ascontiguousarray((array * factors.reshape(shape)).astype(np.float32))


def _set(op: Operation, index: int, array: Array) -> None:
    """Gives an operation a new constant as operand `index`; erases the old constant if nothing else reads it."""
    old = op.operands[index]
    attributes = dict(old.owner.attributes) if isinstance(old.owner, ConstantOp) else {}
    constant = ConstantOp(array, TensorType(f32, array.shape), attributes)
    constant.y.name_hint = old.name_hint
    Rewriter.insert_op(constant, InsertPoint.before(op))
    op.operands[index] = constant.y
    while isinstance(old.owner, ConstantOp | DequantizeCastOp) and not old.uses:
        unused = old.owner
        old = unused.operands[0] if unused.operands else constant.y
        Rewriter.erase_op(unused)


def observe_anew(
    block: Block, pairs: "Sequence[ChannelPair | ContractionSum | GainedChannels]", inputs: Sequence[Sequence[Array]]
) -> None:
    """Observes the tensors within pairs or sums anew: writes ranges, histograms and average ranges on their observers.

    Raises:
        ProfileError: A tensor has a value that is not finite.
    """
    changed = {v for p in pairs for v in p.tensors}
    observers = {o.value: o for o in block.ops if isinstance(o, ObserveOp) and o.value in changed}
    seen = {v: TensorProfile(shape_of(v)[1:]) for v in observers}
    for values in evaluations(block, inputs, set(seen)):
        for value, array in values.items():
            require_finite(observers[value].tensor.data, array)
            seen[value].update(array)
    for value, profile in seen.items():
        observer = observers[value]
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
    products = {o: linear_part(o) for o in operations if isinstance(o, WeightedOp)}
    constants = {o.y: o.value.array for o in operations if isinstance(o, ConstantOp)}
    for sample in inputs:
        values: dict[SSAValue, Array] = {**constants, **dict(zip(block.args, sample, strict=True))}
        with np.errstate(over="ignore", invalid="ignore"):  # observe_anew refuses values that are not finite
            for op in operations[: last + 1]:
                if isinstance(op, WeightedOp):
                    y = products[op](values[op.x], values[op.w])
                    values[op.y] = op.clamp(y if op.b is None else y + values[op.b])
                elif not isinstance(op, ConstantOp):
                    results = cast(Any, op).evaluate(*(values[v] for v in op.operands))
                    values.update(zip(op.results, results, strict=True))
        yield {v: values[v] for v in wanted}


# ---------------------------------------------------------------------------------------------------------------
# Brings the channels of a tensor nearer to one magnitude (cross-layer equalization), so that one scale serves all.
#
# A channel between two contractions (convolutions, fully connected layers) can be scaled up before and down after
# (channel_pairs.py). With a scale for each output channel, the first contraction's weights lose nothing by that. The
# second contraction's weights differ more between input channels, which costs some precision. So channels go less than
# half of the way:
#
#     s[c] = (max_k r[k] / r[c])^0.4,   r[c] the largest magnitude of channel c on calibration data
#
# A channel of small values then fills a larger part of the tensor's integers. The exponent matters little: calibrated
# on one half of the calibration data of six networks and scored on the other, exponents of 0, 0.2, 0.4 and 0.5 reach
# 28.7, 28.9, 28.8 and 28.9 dB in the mean.
#
# Data of 16 bits lose so little by rounding that the costs count:
#
# * A channel that reaches the end of the range saturates on data that exceed the calibration data. So channels stay as
# they are where the calibration leaves no range margin (headroom.py). * If weights have fewer bits than the data, they
# lose more by the differences between input channels than the data gain.
#
# Enters and leaves: a float network with observers that hold ranges.


SHARE = 0.4
"""The exponent of s: 1 would bring all channels to one magnitude, but cost the reader's weights more."""

LARGEST_FACTOR = 8.0
"""The largest factor of a channel: a channel that is nearly dead on the data may be alive on other data."""


@dataclass(frozen=True)
class EqualizeChannelsPass(QuantConfig, SampledPass):
    """Equalizes the channels between contractions, unless weights have one scale a tensor or parameters are Glow's.

    ```mlir
    %0 = nn.conv2d %x, %w0, %b0 {min = 0.0 : f32} : …
    %1 = nn.conv2d %0, %w1 : …
    // becomes, with %w0a = s · %w0, %b0a = s · %b0 and %w1a = %w1 / s, a factor s for each channel in between
    %0 = nn.conv2d %x, %w0a, %b0a {min = 0.0 : f32} : …
    %1 = nn.conv2d %0, %w1a : …
    ```

    In the same way the gains and shifts of normalizations are divided, and the weights of the fully connected layers
    that read them multiplied.
    """

    name = "equalize-channels"

    def adjust(self, function: func.FuncOp, samples: Sequence[Sequence[Array]], ctx: Context) -> None:
        if self.per_channel and not self.glow_exact:
            recipes = Recipes(function.body.block, self.recipe(), target_of(ctx))
            equalize_channels(function, samples, recipes)
            equalize_gains(function, samples, recipes, target_of(ctx))


def equalize_channels(function: func.FuncOp, inputs: Sequence[Sequence[Array]], recipes: Recipes) -> int:
    """Equalizes the channels between contractions of a float network.

    Args:
        function: The network; its weights, biases and observers change.
        inputs: Samples, each an array for each input.
        recipes: The recipes (quantization configs) of its operations and tensors.

    Returns:
        The number of pairs of contractions that were equalized.
    """
    block = function.body.block
    pairs = [pair for pair in channel_pairs(block) if pair.scales_singly and _gains(pair, recipes)]
    if not pairs:
        return 0
    highest: dict[SSAValue, Array] = {}
    for values in evaluations(block, inputs, {p.writer.y for p in pairs}):
        for value, array in values.items():
            largest: Array = np.abs(array).reshape(-1, array.shape[-1]).max(axis=0)
            highest[value] = np.maximum(highest[value], largest) if value in highest else largest
    for pair in pairs:
        pair.scale(_factors(highest[pair.writer.y]))
    observe_anew(block, pairs, inputs)
    return len(pairs)


def _gains(pair: ChannelPair, recipes: Recipes) -> bool:
    """Whether equalizing gains more precision for the data between a pair than it costs the reader's weights."""
    data, reader = recipes.of_value(pair.writer.y), recipes.of(pair.reader)
    if reader.half is not None:
        return False  # floats have their own exponents
    if data.integers != "int16":
        return True
    return leaves_room(data) and weight_bits(reader.stored_weights) >= weight_bits(data.integers)


def _factors(highest: Array) -> Array:
    """The factor s of each channel, from the largest magnitudes of the channels."""
    top = float(highest.max(initial=0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.where(highest > 0, (top / highest.astype(np.float64)) ** SHARE, 1.0)
    return np.minimum(factors, LARGEST_FACTOR)


# ---------------------------------------------------------------------------------------------------------------
# Brings the channels that fully connected layers read nearer to one magnitude, where no layer writes them.
#
# A normalization's result is multiplied by a gain and shifted for each channel, and in transformers a few of these
# channels are an order of magnitude larger than the others. Gain and shift can be divided by a factor, and the layers'
# weights multiplied, as in SmoothQuant:
#
#     s[c] = r[c]^a / w[c]^(1−a),   r[c] the largest magnitude of channel c, w[c] its largest weight
#
# A large share a costs the weights, a small share the data. The share is the multiple of 1/10 that leaves the least
# noise in the layers' sums, if each rounding errs by a twelfth of its squared step, independently of the others:
#
#     noise(s) = max_c (r[c] / s[c])² · Σ (w[m,c] · s[c])² + Σ_m max_c (w[m,c] · s[c])² · Σ_c e[c] / s[c]²
#
# where e[c] is the mean square of channel c in the rows that the layers read, and both terms are divided by the squared
# number of steps on a side of zero, 127.5 for data of 8 bits. Layers may read some rows of the tensor only, as the
# classifier of a vision transformer reads the class token's: the operations in between move whole rows.
#
# If a residual stream of 16 bits is read by other operations too, layers read it through a product with 1/s, which
# takes the place of the requantization to 8 bits.


@dataclass(frozen=True)
class GainedChannels:
    """A tensor whose channels, along its last axis, fully connected layers read.

    y            the tensor
    gains        products and sums with constants that compute it and whose constants can be divided; empty otherwise
    between      operations before the layers that move whole rows of channels, such as a reshape or a token's slice
    readers      the layers
    schema       the schema of the tensor
    weight_bits  the bits of the layers' weights
    """

    y: SSAValue
    gains: tuple[MulOp | AddOp, ...]
    between: tuple[Operation, ...]
    readers: tuple[FullyConnectedOp, ...]
    schema: Schema
    weight_bits: int

    @property
    def tensors(self) -> tuple[SSAValue, ...]:
        """The tensors that change."""
        return *(o.y for o in self.gains), *(o.results[0] for o in self.between)

    def factors(self, highest: Array, squares: Array) -> Array:
        """The factor s of each channel, of the share that leaves the least noise, with a mean logarithm of 0.

        Args:
            highest: The largest magnitude of each channel of the tensor.
            squares: The mean square of each channel in the rows that the first of the layers reads.
        """
        weights = [w for r in self.readers if (w := _constant(r.w)) is not None]
        rows = np.abs(np.concatenate(weights).astype(np.float64))
        known = (highest > 0) & (rows.max(axis=0) > 0)
        found = [self._factors(share / 10, highest, rows.max(axis=0), known) for share in range(11)]
        return min(found, key=lambda factors: self._noise(factors, highest, squares, rows))

    @staticmethod
    def _factors(share: float, highest: Array, weight: Array, known: Array) -> Array:
        """The factors of one share; 1 for channels without data or weights."""
        factors = np.where(known, highest, 1.0) ** share / np.where(known, weight, 1.0) ** (1 - share)
        factors /= np.exp(np.log(factors[known]).mean()) if known.any() else 1.0
        return np.where(known, np.clip(factors, 1 / LARGEST_FACTOR, LARGEST_FACTOR), 1.0)

    def _noise(self, factors: Array, highest: Array, squares: Array, rows: Array) -> float:
        """The noise that rounding data and weights leaves in the layers' sums, but for a common factor."""
        scaled = rows * factors
        data, weights = (highest / factors).max() ** 2, (scaled.max(axis=1) ** 2).sum()
        sides = (2**8 - 1) / 2, 2 ** (self.weight_bits - 1) - 1
        return data / sides[0] ** 2 * (scaled**2).sum() + weights / sides[1] ** 2 * (squares / factors**2).sum()

    def divide(self, factors: Array) -> "GainedChannels":
        """Divides the channels by factors above 0, and multiplies the weights; returns what reads the channels now."""
        for reader in self.readers:
            _set(reader, 1, _along(_constant(reader.w), factors, 1))
        if not self.gains:
            return self._through_product(1 / factors)
        for op in (*self.gains, *self.between):
            _note(op, 1 / factors)
        for op in self.gains:
            place = 0 if isinstance(op.lhs.owner, ConstantOp) else 1
            constant = _constant(op.operands[place])
            assert constant is not None
            wide: Array = np.broadcast_to(constant.reshape(-1), (len(factors),))
            _set(op, place, _along(wide, 1 / factors, 0))
        return self

    def _through_product(self, factors: Array) -> "GainedChannels":
        constant = ConstantOp(factors.astype(np.float32))
        product = MulOp.make([self.y, constant.y])
        observer = ObserveOp(product.y, f"{tensor_name(self.y) or self.y.name_hint or 'stream'}.equalized")
        product.attributes[POLICY] = policy_attribute({"precision": "int16", "schema": self.schema})
        product.attributes[RESIDUAL] = StringAttr("the channels of a residual stream, equalized for layers of 8 bits")
        Rewriter.insert_op([constant, product, observer], InsertPoint.after(cast(Operation, self.y.owner)))
        for reader in (*self.between, *self.readers):
            if reader.operands[0] is self.y:
                reader.operands[0] = product.y
        return GainedChannels(product.y, (product,), self.between, self.readers, self.schema, self.weight_bits)


def equalize_gains(function: func.FuncOp, inputs: Sequence[Sequence[Array]], recipes: Recipes, target: Target) -> int:
    """Equalizes the channels that fully connected layers read behind normalizations and of wide residual streams.

    Args:
        function: The network; its weights, constants and observers change.
        inputs: Samples, each an array for each input.
        recipes: The recipes (quantization configs) of its operations and tensors.
        target: The target; where it multiplies no data of 16 bits, layers read residual streams as they are.

    Returns:
        The number of tensors whose channels were equalized.
    """
    block = function.body.block
    gained = [g for op in block.ops if isinstance(op, AddOp | MulOp) and (g := _gained(op, recipes)) is not None]
    if target.refusal("nn.mul", "i16") is not None:
        gained = [g for g in gained if g.gains]
    read = {g.y: g.readers[0].x for g in gained}
    highest: dict[SSAValue, Array] = {}
    squares: dict[SSAValue, Array] = {}
    for values in evaluations(block, inputs, {*read, *read.values()}):
        magnitudes = {v: np.abs(a, dtype=np.float64).reshape(-1, a.shape[-1]) for v, a in values.items()}
        for value, array in magnitudes.items():
            highest[value] = np.maximum(highest.get(value, 0.0), array.max(axis=0))
            squares[value] = squares.get(value, 0.0) + (array**2).mean(axis=0) / len(inputs)
    divided = [g.divide(g.factors(highest[g.y], squares[read[g.y]])) for g in gained]
    observe_anew(block, divided, inputs)
    return len(gained)


def _gained(op: AddOp | MulOp, recipes: Recipes) -> GainedChannels | None:
    """The channels that an operation writes and layers of 8 bits read; None if they cannot be divided."""
    between: list[Operation] = []
    readers: list[FullyConnectedOp] = []
    others = False
    for use in op.y.uses:
        if isinstance(use.operation, ObserveOp):
            continue
        found = _layers_behind(use)
        if found is None:
            others = True
        else:
            between += found[0]
            readers += found[1]
    if not readers or not is_float(op.y) or any(recipes.of(r).integers == "int16" for r in readers):
        return None
    if any(recipes.of(r).half is not None or recipes.of(r).keep_float for r in readers):
        return None
    gains = () if others else _gains_of(op)
    if not gains and (recipes.of_value(op.y).integers != "int16" or op.bounds() != (None, None)):
        return None
    bits = weight_bits(recipes.of(readers[0]).stored_weights)
    return GainedChannels(op.y, gains, tuple(between), tuple(readers), recipes.of_value(op.y).schema, bits)


def _layers_behind(use: Use) -> tuple[list[Operation], list[FullyConnectedOp]] | None:
    """The operations that move whole rows of channels to fully connected layers, and these; None if others read them.

    Args:
        use: An operand of a layer, or of an operation that may move a tensor's rows to layers.
    """
    op = use.operation
    if isinstance(op, FullyConnectedOp):
        return ([], [op]) if use.index == 0 and _is_scalable(op) else None
    if use.index > 0 or not _moves_rows(op):
        return None
    between, readers = [op], list[FullyConnectedOp]()
    for behind in op.results[0].uses:
        if isinstance(behind.operation, ObserveOp):
            continue
        if (found := _layers_behind(behind)) is None:
            return None
        between += found[0]
        readers += found[1]
    return (between, readers) if readers else None


def _moves_rows(op: Operation) -> bool:
    """Whether an operation moves whole rows of its first operand, along the last axis, and changes none."""
    if not isinstance(op, ReshapeOp | SliceOp | TransposeOp | GatherOp):
        return False
    before, after = shape_of(op.operands[0]), shape_of(op.results[0])
    if before[-1:] != after[-1:] or 0 in before:
        return False
    if isinstance(op, SliceOp):
        return op.steps()[-1] == (0, before[-1], 1)
    if isinstance(op, TransposeOp):
        return tuple(op.permutation.get_values())[-1] == len(before) - 1
    return not isinstance(op, GatherOp) or op.axis.value.data != len(before) - 1


def _gains_of(op: AddOp | MulOp) -> tuple[MulOp | AddOp, ...]:
    """The product with a constant for each channel, and the sum behind it, that an operation computes; else empty."""
    if isinstance(op, MulOp):
        return (op,) if _has_gain(op) else ()
    data = op.rhs if isinstance(op.lhs.owner, ConstantOp) else op.lhs
    product = data.owner
    alone = isinstance(product, MulOp) and _has_gain(product) and len(_readers(data)) == 1
    return (product, op) if isinstance(product, MulOp) and alone and _has_gain(op) else ()


def _has_gain(op: AddOp | MulOp) -> bool:
    """Whether an operand is a constant that differs along the last axis only, and there is no clamp and no policy."""
    constants = [v for v in (op.lhs, op.rhs) if isinstance(v.owner, ConstantOp)]
    data = [v for v in (op.lhs, op.rhs) if not isinstance(v.owner, ConstantOp)]
    if len(constants) != 1 or op.bounds() != (None, None) or shape_of(data[0]) != shape_of(op.y):
        return False
    shape = shape_of(constants[0])
    return int(np.prod(shape)) in (1, shape[-1] if shape else 1)

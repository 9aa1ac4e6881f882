"""`round-weights`: rounds weights together, so that their errors cancel on the data that a layer reads.

`adjust-layers` does this and corrects the bias, layer by layer.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.ir import Operation
from xdsl.rewriter import InsertPoint, Rewriter

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp
from qmlir.ir.facts import IMPORTED, UNROUNDED
from qmlir.ir.interfaces import Array, shape_of, tensor_type
from qmlir.ir.levels import levels_of, stating, with_other_values
from qmlir.ir.rewriting import node_name
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import codebooks
from qmlir.numerics.blocks import blocks_of_rows
from qmlir.numerics.levels import Choices, Entries, Levels, Multiples
from qmlir.numerics.roundings import WeightsToRound, rounded_by, rounding_called
from qmlir.numerics.schemas import QuantizationError
from qmlir.plugins import Plugin
from qmlir.policies.ledger import ROUNDING, note_method
from qmlir.settings.quant_config import OpConfig, config_of, op_config_of
from qmlir.transforms.quantize.adjust.correct_bias import correct
from qmlir.transforms.quantize.adjust.covariances import Moments, mean_of
from qmlir.transforms.quantize.adjust.enough_samples import enough_of
from qmlir.transforms.quantize.adjust.learned_rounding import Reconstruction, learned_integers
from qmlir.transforms.quantize.adjust.matrix_terms import Terms
from qmlir.transforms.quantize.adjust.near_integers import cost, near_integers, rounded_in_turn
from qmlir.transforms.quantize.adjust.side_by_side import Layer, SampledPass, SideBySide, cast_of_weights, gives_words
from qmlir.transforms.quantize.adjust.weight_scales import (
    LEAST_REFITTED,
    factors_of_scales,
    searches_scales,
    set_scales,
)

# ---------------------------------------------------------------------------------------------------------------
# The nearest integer is the best choice for a single weight. But the inputs of a sum vary together, so other weights
# can make up for the error of a weight. What counts is the error of the sums over calibration data,
#
#     E |W·x − Ŵ·x̂|²,   x the data of the float network, x̂ the data of the quantized network
#
# less its mean, which bias correction removes (correct_bias.py); where it does not, as behind rows with scales of their
# own, the mean counts too, and moments around 0 take the place of covariances. With H the covariance of x̂ that is, up
# to a constant,
#
#     Σ_m (ŵ_m − t_m)ᵀ H (ŵ_m − t_m),   t_m = w_m + α · H⁻¹ · cov(x̂, w_m·(x − x̂))
#
# for each output m. The targets t differ from the float weights by a shift that makes up for the error of the layers
# before, as far as x̂ predicts that error: α is the share of the shift, found on one half of the samples, that holds on
# the other. H is estimated from few samples and therefore shrunk. Successive rounding and coordinate
# descent find integers of small cost. An output keeps the nearest integers if these cost less. Scales stay
# as they were chosen.
#
# The cast of the weights then reads the real values of these integers, and the constant keeps the float weights:
#
#     %w = nn.constant <…, [0.25, 0.5]> {qmlir.unrounded = #qmlir.weights<…, [0.3, 0.5]>} : …
#
# Layers are rounded in order: the layers before have rounded weights and, in `quantize`, corrected biases already. All
# is computed in float64 from integers; positions are drawn with a fixed seed.
#
# Enters and leaves: a float network with the casts of `choose-scales` (side_by_side.py).


POSITIONS = 16384
"""The largest number of positions, over all samples, at which the data of a layer are taken. A quarter as many change
the SQNR of kws and resnet8 at 8 bits, calibrated on one half of their calibration data and scored on the other, by at
most 0.2 dB, and the decisions on a few samples of a thousand."""

VALUES = 1 << 24
"""The largest number of values that are kept of a layer's data: layers with long sums get fewer positions."""


@dataclass(frozen=True)
class RoundWeightsPass(SampledPass):
    """Rounds weights on calibration data, between `choose-scales` and `quantize-ops`.

    ```mlir
    %w = nn.constant <tensor<1x2xf32>, [0.4, 0.4]> : tensor<1x2xf32>
    %wq = quant.qcast %w : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 1.0>>
    // becomes
    %w = nn.constant <tensor<1x2xf32>, [1.0, 0.0]> {qmlir.unrounded = #qmlir.weights<…, [0.4, 0.4]>} : tensor<1x2xf32>
    %wq = quant.qcast %w : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 1.0>>
    ```
    """

    name = "round-weights"

    def adjust(self, function: func.FuncOp, samples: Sequence[Sequence[Array]], ctx: Context) -> int:
        return SideBySide(function.body.block, enough_of(function, samples)).run(
            WeightRounding(config_of(function).op_config())
        )


@dataclass(frozen=True)
class AdjustLayersPass(SampledPass):
    """Rounds the weights of a layer and corrects its bias on calibration data, before the next layer is adjusted.

    The result differs from that of round-weights followed by correct-bias: here, the weights of a layer are rounded for
    the data of layers with corrected biases.

    ```mlir
    %w = nn.constant <tensor<1x2xf32>, [0.4, 0.4]> : tensor<1x2xf32>
    // becomes
    %w = nn.constant <tensor<1x2xf32>, [1.0, 0.0]> {qmlir.unrounded = #qmlir.weights<…, [0.4, 0.4]>} : tensor<1x2xf32>
    %corrected = nn.constant <tensor<1xf32>, …> : tensor<1xf32>
    ```
    """

    name = "adjust-layers"

    def adjust(self, function: func.FuncOp, samples: Sequence[Sequence[Array]], ctx: Context) -> int:
        return SideBySide(function.body.block, enough_of(function, samples)).run(
            WeightRounding(config_of(function).op_config()), correct
        )


@dataclass(frozen=True)
class WeightRounding:
    """Rounds the weights of contractions (convolutions, fully connected layers), one layer after another.

    default  the quantization config of operations without a policy of their own
    """

    default: OpConfig = OpConfig()

    def __call__(self, layer: Layer) -> bool:
        """Rounds the weights of a contraction; returns whether they differ from the nearest integers."""
        cast, terms = self._cast(layer.op), Terms.of(layer.op)
        if cast is None or terms is None or not _is_finite(layer):
            return False
        old = cast.input.owner
        assert isinstance(old, ConstantOp)
        stated = levels_of(old)
        stated = None if stated is not None and stated.OF_FLOATS else stated
        (nearest,) = cast.evaluate(layer.weights if stated is None else old.value.array)
        choices, op_config = _choices(cast, terms, stated), op_config_of(layer.op, self.default)
        method = rounding_called(op_config.rounding)
        _check_method(layer.op, op_config.rounding, stated, is_plugin=method is not None)
        if method is not None:
            integers = _rounded_by(method, layer, cast, terms, nearest)
            note_method(layer.op, ROUNDING, method.called)
        else:
            searches = searches_scales(layer, cast, op_config, _data_step(layer.op), choices)
            if op_config.rounding == "gptq":
                integers = _rounded_in_turn(layer, cast, terms, choices)
            elif isinstance(choices, Multiples) and op_config.rounding == "adaround":
                integers = _learned(layer, cast, terms, choices, searches=searches)
            else:
                choices, integers = _rounded(layer, cast, terms, nearest, choices, searches=searches)
        stored = terms.as_stored(integers).astype(nearest.dtype)
        back = layer.op.w.owner
        assert isinstance(back, DequantizeCastOp)
        levels = None if stated is None else stated.refitted(choices)
        attributes = with_other_values(old) | UNROUNDED.entry(WeightsAttr(layer.weights)) | stating(levels)
        if (stored == nearest).all() and (back.evaluate(stored)[0] == layer.stored).all():
            return False
        (layer.stored,) = back.evaluate(stored)
        constant = ConstantOp(layer.stored, tensor_type(old.y), attributes)
        constant.y.name_hint = old.y.name_hint
        Rewriter.insert_op(constant, InsertPoint.before(cast))
        cast.operands[0] = constant.y
        if not old.y.uses:
            Rewriter.erase_op(old)
        return True

    def _cast(self, op: WeightedOp) -> QuantizeCastOp | None:
        """The cast that rounds the weights of an operation; None if its rounding is not ours to change."""
        op_config = op_config_of(op, self.default)
        cast, back = cast_of_weights(op), op.w.owner
        if op_config.rounds_to_nearest or op_config.glow_exact or cast is None or IMPORTED.on(cast):
            return None
        assert isinstance(back, DequantizeCastOp)
        return cast if _is_read_by(back, op) and _is_read_by(cast, back) and _data_step(op) is not None else None


def _is_read_by(op: Operation, reader: Operation) -> bool:
    """Whether `reader` alone reads an operation's result."""
    return [u.operation for u in op.results[0].uses] == [reader]


def _data_step(op: WeightedOp) -> float | None:
    """The scale of the data that an operation reads; None if they are floats or have several scales."""
    back = op.x.owner
    scales = back.quantized.scales if isinstance(back, DequantizeCastOp) else ()
    return scales[0] if len(scales) == 1 else None


def _is_finite(layer: Layer) -> bool:
    """Whether a layer's weights and data are finite."""
    return all(np.isfinite(a).all() for a in (layer.weights, *layer.x, *layer.read))


def _rounded_by(method: Plugin, layer: Layer, cast: QuantizeCastOp, terms: Terms, nearest: Array) -> Array:
    """The stored integers that a plugin chooses for the weights of a layer, [g, m, k]."""
    weights = _unrounded(layer, cast, terms)[0]
    data = np.concatenate([x for x, _ in _seen(layer, terms, np.zeros_like(weights[:, :1]))], axis=1)
    limits = cast.quantized.storage_min, cast.quantized.storage_max
    held = terms.weights(nearest).astype(np.float64)
    return rounded_by(method, WeightsToRound(node_name(layer.op), weights, held, data, *limits))


def _unrounded(layer: Layer, cast: QuantizeCastOp, terms: Terms) -> tuple[Array, Array]:
    """What integers approximate, with the zero point and without: the weights in units of their scale, [g, m, k]."""
    scales, zero_points = cast.quantized.parameters_along(layer.weights.ndim)
    weights = terms.weights(layer.weights / scales)
    return weights + terms.weights(np.broadcast_to(zero_points, layer.weights.shape)), weights


def _rounded(
    layer: Layer, cast: QuantizeCastOp, terms: Terms, nearest: Array, choices: Choices, *, searches: bool = False
) -> tuple[Choices, Array]:
    """The choices for the weights of a layer, and the stored integers, [g, m, k].

    If it `searches`, the cast's scales, and the table of a codebook, are changed to those that cost least.
    """
    targets, weights = _unrounded(layer, cast, terms)
    pairs = _seen(layer, terms, weights)
    del weights  # each array of a large vocabulary takes hundreds of megabytes
    integers = terms.weights(nearest)
    centre = mean_of([x for x, _ in pairs]), mean_of([y for _, y in pairs])
    if gives_words(layer.op):  # no bias takes the mean of the error away
        centre = np.zeros_like(centre[0]), np.zeros_like(centre[1])
    halves = [Moments.of(pairs[i::2], centre) for i in range(min(2, len(pairs)))]
    del pairs
    share = _share(*halves) if len(halves) > 1 else 0.0
    whole = halves[0] if len(halves) == 1 else halves[0] + halves[1]
    del halves
    form = whole.covariance()
    if share:
        for rows in blocks_of_rows(targets.shape[1]):
            targets[:, rows] += share * _shift(whole, form, rows)
    del whole
    if searches:
        if isinstance(choices, Entries):
            choices, factors = _refitted(cast, terms, targets, form, choices)
        else:
            factors = _search_scales(cast, terms, targets, form, choices)
        targets = targets / _of_rows(factors, terms)
        integers = _nearest(layer, cast, terms, choices)
    chosen = np.empty_like(targets)
    for rows in blocks_of_rows(targets.shape[1]):
        wanted, old = targets[:, rows], integers[:, rows]
        found = near_integers(wanted, form, choices.in_rows(rows))
        better = cost(found, wanted, form) < cost(old, wanted, form)
        chosen[:, rows] = np.where(better[:, :, None], found, old)
    return choices, chosen


def _rounded_in_turn(layer: Layer, cast: QuantizeCastOp, terms: Terms, choices: Choices) -> Array:
    """The stored integers of GPTQ, [g, m, k]: successive rounding alone, by second moments of the data."""
    targets, weights = _unrounded(layer, cast, terms)
    pairs = _seen(layer, terms, np.zeros_like(weights[:, :1]))
    origin = np.zeros((len(weights), 1, weights.shape[2])), np.zeros((len(weights), 1, 1))
    form = Moments.of(pairs, origin).mean_xx
    diagonal = np.einsum("gii->gi", form)
    diagonal += DAMPING * diagonal.mean(axis=1, keepdims=True) + np.finfo(np.float32).tiny
    return rounded_in_turn(targets, form, choices)


def _learned(layer: Layer, cast: QuantizeCastOp, terms: Terms, choices: Multiples, *, searches: bool = False) -> Array:
    """The stored integers of AdaRound, [g, m, k]; other arguments are those of `_rounded`."""
    targets, weights = _unrounded(layer, cast, terms)
    pairs = _seen(layer, terms, np.zeros_like(weights[:, :1]))
    moments = Moments.of(pairs, (mean_of([x for x, _ in pairs]), mean_of([y for _, y in pairs])))
    if searches:
        _search_scales(cast, terms, targets, moments.covariance(), choices)
    scales = terms.joined(terms.weights(np.broadcast_to(_along_axis(cast), layer.weights.shape)))[:, None, :, 0]
    units = scales * _step_of(layer)  # a padded term is no first term
    held = terms.joined(_unrounded(layer, cast, terms)[1])
    sums = [terms.joined(x) @ held.swapaxes(1, 2) for x in _exact_terms(layer, terms)]
    low, high = layer.op.bounds()
    biases = np.asarray(layer.bias, np.float64).reshape(units.shape)
    problem = Reconstruction(
        held,
        np.concatenate([terms.joined(x) for x, _ in pairs], axis=1),
        (np.concatenate(sums, axis=1) + biases / units).astype(np.float32),
        (np.full(units.shape, -np.inf) if low is None else low / units).astype(np.float32),
        (np.full(units.shape, np.inf) if high is None else high / units).astype(np.float32),
        moments.noise.reshape(terms.channel_groups, terms.blocks).mean(axis=1),
    )
    start, steps = terms.joined(_nearest(layer, cast, terms, choices)), choices.steps
    joined = None if steps is None else terms.joined(steps)
    return terms.divided(learned_integers(problem, start, choices.limits, joined))


DAMPING = 0.01
"""Added to each second moment by GPTQ, as a share of their mean."""


def _search_scales(cast: QuantizeCastOp, terms: Terms, targets: Array, form: Array, choices: Choices) -> Array:
    """Changes the scales of a cast to those that cost least; returns the factors, [channel groups, m]."""
    shape = terms.channel_groups, terms.blocks
    per_channel = len(cast.quantized.scales) > 1
    return set_scales(cast, factors_of_scales(targets, form, choices, shape, per_channel=per_channel))


def _refitted(
    cast: QuantizeCastOp, terms: Terms, targets: Array, form: Array, choices: Entries
) -> tuple[Entries, Array]:
    """A codebook for targets [g, m, k] whose errors count as much as the data of their term vary.

    Changes the scales of the cast; returns the new codebook, and the factors of the scales, [channel groups, m].
    """
    scales = np.asarray(cast.quantized.scales)
    joined = terms.joined(targets)
    shape, per_channel = joined.shape, len(scales) > 1
    importance = np.broadcast_to(terms.joined(np.diagonal(form, axis1=1, axis2=2)[:, None]), shape)
    real = joined * scales.reshape(*shape[:2], 1) if per_channel else joined * scales[0]
    rows, counts = (each.reshape(len(scales), -1) for each in (real, importance))
    bits, zero = (len(choices.table) - 1).bit_length(), bool((choices.table == 0).any())
    found, table = codebooks.fitted(rows, bits, counts, zero=zero)
    wanted = np.maximum(found / scales, LEAST_REFITTED)  # no smaller: `searches_scales` made sure of room for the bias
    factors = set_scales(cast, np.broadcast_to(wanted.reshape(shape[:2] if per_channel else (1, 1)), shape[:2]))
    return Entries(table), factors


def _nearest(layer: Layer, cast: QuantizeCastOp, terms: Terms, choices: Choices) -> Array:
    """The nearest choices for a layer's weights, [g, m, k], by the scales that the cast has now."""
    return choices.nearest(terms.weights(layer.weights / _along_axis(cast)))


def _check_method(op: WeightedOp, name: str, stated: Levels | None, *, is_plugin: bool) -> None:
    """Checks that a rounding knows the levels of an operation's weights.

    Raises:
        QuantizationError: It does not.
    """
    if stated is None or not stated.UNKNOWN or not (is_plugin or (name == "adaround" and not stated.LEARNED)):
        return
    what, remedy = stated.UNKNOWN, stated.UNKNOWN_REMEDY
    raise QuantizationError(f"rounding={name} knows no {what}", where=node_name(op), remedy=remedy)


def _choices(cast: QuantizeCastOp, terms: Terms, stated: Levels | None) -> Choices:
    """The integers that a layer's weights may become, for numbers [g, m, k]."""
    limits = cast.quantized.storage_min, cast.quantized.storage_max
    return Multiples(limits) if stated is None else stated.choices(limits, shape_of(cast.result), terms.weights)


def _of_rows(factors: Array, terms: Terms) -> Array:
    """Factors [channel groups, m] for the rows [g, m, 1] of a matrix product."""
    return np.repeat(factors, terms.blocks, axis=0)[:, :, None]


def _along_axis(cast: QuantizeCastOp) -> Array:
    """The scales of a cast, in a shape that divides its weights."""
    return cast.quantized.parameters_along(len(shape_of(cast.result)))[0]


def _seen(layer: Layer, terms: Terms, weights: Array) -> list[tuple[Array, Array]]:
    """The data of a layer, [g, p, k], and the errors of its sums, [g, p, m], for each sample, at some positions.

    The error of a sum is the amount by which quantized data change it under float weights. Data and errors are in units
    of the data's scale; weights are in units of their own.
    """
    step = _step_of(layer)
    found: list[tuple[Array, Array]] = []
    for positions, exact, read in _positions(layer, terms):
        x = np.rint(terms.data(read, positions).astype(np.float64) / step)
        if terms.blocks == 1:
            lacking = (terms.data(exact, positions).astype(np.float64) / step - x) @ weights.swapaxes(1, 2)
        else:  # other blocks of terms may have made up for the error of a block, so no error is given
            lacking = np.zeros((*x.shape[:2], weights.shape[1]))
        found.append((x.astype(np.float32), lacking))  # whole numbers of steps: exact
    return found


def _exact_terms(layer: Layer, terms: Terms) -> Iterator[Array]:
    """The data of the float network, [g, p, k], for each sample, at the positions of `_seen` and in its units."""
    for positions, exact, _ in _positions(layer, terms):
        yield terms.data(exact, positions).astype(np.float64) / _step_of(layer)


def _positions(layer: Layer, terms: Terms) -> Iterator[tuple[Array, Array, Array]]:
    """Some positions of each sample, drawn with a fixed seed, and the layer's data without casts and with casts."""
    most = min(POSITIONS, VALUES // terms.count)
    each = max(1, min(terms.positions, most // len(layer.x)))
    draw = np.random.default_rng(0)
    for exact, read in zip(layer.x, layer.read, strict=True):
        yield np.sort(draw.choice(terms.positions, each, replace=False)), exact, read


def _step_of(layer: Layer) -> float:
    """The scale of the data that a layer reads, which it has if its weights are rounded here."""
    step = _data_step(layer.op)
    assert step is not None
    return step


def _share(one: Moments, other: Moments) -> float:
    """α: the share of the shift found on one half of the samples that reduces the error of the other half most."""
    if not (one.xy.any() or other.xy.any()):
        return 0.0  # no error is given of a block of terms
    gain, size = 0.0, 0.0
    for here, there in ((one, other), (other, one)):
        form = here.covariance()
        for rows in blocks_of_rows(here.xy.shape[2]):
            shift = _shift(here, form, rows)
            gain += float(np.einsum("gmk,gkm->", shift, there.xy[:, :, rows] / there.samples))
            size += float(np.einsum("gmk,gmk->", shift, shift @ there.mean_xx))
    return min(max(gain / size, 0.0), 1.0) if size > 0 else 0.0


def _shift(moments: Moments, form: Array, rows: slice) -> Array:
    """H⁻¹·cov(x̂, error) of some rows, [g, m, k]: the change of weights that makes up for the error of the sums."""
    return np.linalg.solve(form, moments.xy[:, :, rows] / moments.samples).swapaxes(1, 2)

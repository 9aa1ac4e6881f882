"""Searches the scales of weights of few bits on data, together with successive rounding.

With few bits, the scale matters as much as the rounding. `choose-scales` takes the scale of the least square error of
the weights. Here, the scale with the least cost on data is taken, after successive rounding, of some around it.
Scales of 8 bits or more stay, as their cost is flat there; so do powers of two, and scales that a bias or a factor
between scales may have widened.
"""

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.rewriter import Rewriter

from qmlir.dialects.quant.ops import QuantizeCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.ir.facts import WIDENED
from qmlir.ir.interfaces import Array, shape_of
from qmlir.numerics.levels import Choices, Entries
from qmlir.numerics.schemas import weight_bits
from qmlir.settings.quant_config import OpConfig
from qmlir.transforms.quantize.adjust.near_integers import cost, rounded_in_turn
from qmlir.transforms.quantize.adjust.side_by_side import Layer

FACTORS = (0.8, 0.87, 0.94, 1.0, 1.07, 1.15, 1.25)
"""What scales are multiplied by."""

LEAST_REFITTED = 0.5
"""The least factor of a scale of a codebook, which is fitted anew on data, with scales of its own."""

FEW_BITS = 8
"""Scales are searched for weights of fewer bits."""

MOST_BIAS = 1 << 28
"""The largest bias, in steps of the sums, beside which a scale may become smaller."""

LEAST_FACTOR = 2.0**-12
"""The least factor from sums to results beside which a scale may become smaller."""


def searches_scales(
    layer: Layer, cast: QuantizeCastOp, op_config: OpConfig, data: float | None, choices: Choices
) -> bool:
    """Whether the scales of a layer's weights are searched on data."""
    few = weight_bits(op_config.stored_weights) < FEW_BITS and cast.quantized.storage_width <= FEW_BITS
    searched = op_config.calibration in ("auto", "mse") and op_config.schema != "symmetric_with_power2_scale"
    results = [u.operation.quantized for u in layer.op.y.uses if isinstance(u.operation, QuantizeCastOp)]
    if not (few and searched and results and data) or WIDENED.on(layer.op):
        return False
    least = LEAST_REFITTED if isinstance(choices, Entries) else min(FACTORS)
    steps = np.asarray(cast.quantized.scales) * data * least
    apart = steps / max(results[0].scales)
    return float(np.abs(layer.bias).max(initial=0.0) / steps.min()) < MOST_BIAS and float(apart.min()) > LEAST_FACTOR


def factors_of_scales(
    targets: Array,
    form: Array,
    choices: Choices,
    shape: tuple[int, int],
    *,
    per_channel: bool,
) -> Array:
    """The factor of each channel's scale that costs least, [channel groups, m].

    Args:
        targets: The weights that the integers approximate, in steps of their scale, [channel groups · blocks, m, k].
        form: How their errors cost, [channel groups · blocks, k, k].
        choices: The integers that weights may become.
        shape: The number of channel groups, and of blocks of a sum, which share a channel's scale.
        per_channel: Whether channels have scales of their own; else the factor is the same for all.
    """
    costs: list[Array] = []
    for factor in FACTORS:
        found = rounded_in_turn(targets / factor, form, choices)
        own = factor**2 * cost(found, targets / factor, form)
        costs.append(own.reshape(*shape, -1).sum(axis=1))
    total = np.array(costs)
    if not per_channel:
        total = np.broadcast_to(total.sum(axis=(1, 2), keepdims=True), total.shape)
    return np.array(FACTORS)[np.argmin(total, axis=0)]


def set_scales(cast: QuantizeCastOp, factors: Array) -> Array:
    """Multiplies the scales of a cast by factors [channel groups, m], which are all the same if it has one scale.

    Returns:
        The factors to which float32 rounds them, in the shape of `factors`.
    """
    type = cast.quantized
    assert isinstance(type, UniformType)
    old = np.asarray(type.scales)
    wanted = old * (factors.reshape(-1) if len(old) > 1 else factors.flat[0])
    scales = wanted.astype(np.float32).astype(np.float64)
    if type.axis is None:
        new = UniformType.per_tensor(type.storage, float(scales[0]), 0, type.storage_min, type.storage_max)
    else:
        new = UniformType.per_axis(type.storage, type.axis, scales.tolist(), None, type.storage_min, type.storage_max)
    Rewriter.replace_value_with_new_type(cast.result, TensorType(new, shape_of(cast.result)))
    return np.broadcast_to((scales / old).reshape(factors.shape if len(old) > 1 else (1, 1)), factors.shape)

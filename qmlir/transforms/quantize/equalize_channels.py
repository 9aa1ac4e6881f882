"""Brings the channels of a tensor nearer to one height, so that one scale serves them all.

A channel between two contractions can be scaled up before and down after (channel_pairs.py). Weights with a scale for
each output channel do not mind the first; the second spreads the weights of the reader's input channels, which costs it
some precision, so channels go less than half of the way:

    s[c] = (max_k r[k] / r[c])^0.4,   r[c] the largest magnitude of channel c on calibration data

A channel of small values then fills a larger part of the tensor's integers. How far they go matters little: calibrated
on one half of the calibration data of six networks and scored on the other, shares of 0, 0.2, 0.4 and 0.5 reach 28.7,
28.9, 28.8 and 28.9 dB in the mean.

Data of 16 bits are rounded to so little that the price counts:

* a channel that reaches the end of the range saturates on data that go further than what was seen, so it stays as it
  is where a calibration leaves no room beyond that (headroom.py);
* weights of fewer bits, spread over the reader's input channels, lose more than the data gain.

Enters and leaves: a float network with observers that hold ranges.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from xdsl.dialects import func
from xdsl.ir import SSAValue

from qmlir.dialects.quant.schemas import weight_bits
from qmlir.transforms.quantize.channel_pairs import ChannelPair, channel_pairs, evaluations, observe_anew
from qmlir.transforms.quantize.headroom import leaves_room
from qmlir.transforms.quantize.recipes import Recipes

Array = npt.NDArray[Any]

SHARE = 0.4
"""How much of the way to one height the channels go; the rest of it would cost the reader's weights more."""

LARGEST_FACTOR = 8.0
"""A channel is scaled up by no more: one that is nearly dead on the data may be alive on other data."""


def equalize_channels(function: func.FuncOp, inputs: Sequence[Sequence[Array]], recipes: Recipes) -> int:
    """Equalizes the channels between contractions of a float network.

    Args:
        function: The network; its weights, biases and observers change.
        inputs: Samples, each an array for each input.
        recipes: Those of its operations and tensors.

    Returns:
        Between how many pairs of contractions.
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
    """Whether rounding the data in between costs more than channels of one height do."""
    data, reader = recipes.of_value(pair.writer.y), recipes.of(pair.reader)
    if data.precision != "int16":
        return True
    return leaves_room(data) and weight_bits(reader.stored_weights) >= weight_bits(data.precision)


def _factors(highest: Array) -> Array:
    """s of the largest magnitudes of each channel."""
    top = float(highest.max(initial=0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.where(highest > 0, (top / highest.astype(np.float64)) ** SHARE, 1.0)
    return np.minimum(factors, LARGEST_FACTOR)

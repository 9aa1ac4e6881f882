"""`equalize-channels`: brings the channels of a tensor nearer to one magnitude, so that one scale serves all.

A channel between two contractions (convolutions, fully connected layers) can be scaled up before and down after
(channel_pairs.py). With a scale for each output channel, the first contraction's weights lose nothing by that. The
second contraction's weights differ more between input channels, which costs some precision. So channels go less than
half of the way:

    s[c] = (max_k r[k] / r[c])^0.4,   r[c] the largest magnitude of channel c on calibration data

A channel of small values then fills a larger part of the tensor's integers. The exponent matters little: calibrated
on one half of the calibration data of six networks and scored on the other, exponents of 0, 0.2, 0.4 and 0.5 reach
28.7, 28.9, 28.8 and 28.9 dB in the mean.

Data of 16 bits lose so little by rounding that the costs count:

* A channel that reaches the end of the range saturates on data that exceed the calibration data. So channels stay as
they are where the calibration leaves no range margin (margins.py).
* If weights have fewer bits than the data, they
lose more by the differences between input channels than the data gain.

Channels that concatenations join, or that several contractions read, are equalized together (channel_joins.py), as in
the fire modules of a SqueezeNet. Three such networks, trained for minutes on digits, MNIST and CIFAR-10, gain 1.6, 1.6
and 1.1 dB. So are the channels of residual streams: ResNet-8 gains 0.3 dB, at 16 bits 0.8, MediaPipe's iris network 1.
Joined channels stay as they are where the calibration in use would lose more of their tensors (stored_noise.py), as
under the Kullback-Leibler divergence. Those of streams also stay where a power of two is searched for each scale of 8
bits: ResNet-8 loses 0.4 dB there.

The channels behind normalizations follow (gained_channels.py), and small branches of concatenations
(scale_branches.py). Enters and leaves: a float network with observers that
hold ranges.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import numpy as np
from xdsl.context import Context
from xdsl.dialects import func
from xdsl.ir import Block, SSAValue

from qmlir.dialects.nn import AddOp
from qmlir.dialects.nn.contraction import WeightedOp
from qmlir.ir.interfaces import Array
from qmlir.numerics.schemas import weight_bits
from qmlir.policies.legality import target_of
from qmlir.settings.quant_config import config_of
from qmlir.transforms.quantize.adjust.channel_joins import ChannelJoin, channel_joins
from qmlir.transforms.quantize.adjust.channel_pairs import (
    LARGEST_FACTOR,
    channel_pairs,
    evaluations,
    observe_anew,
)
from qmlir.transforms.quantize.adjust.gained_channels import equalize_gains
from qmlir.transforms.quantize.adjust.scale_branches import scale_branches
from qmlir.transforms.quantize.adjust.side_by_side import SampledPass
from qmlir.transforms.quantize.adjust.stored_noise import stored_noise
from qmlir.transforms.quantize.op_configs import OpConfigs
from qmlir.transforms.quantize.ranges.margins import leaves_room

Scaled: TypeAlias = tuple[ChannelJoin, Array]
"""A join, and the factor of each of its channels."""

SHARE = 0.4
"""The exponent of s: 1 would bring all channels to one magnitude, but cost the reader's weights more."""


@dataclass(frozen=True)
class EqualizeChannelsPass(SampledPass):
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
        config = config_of(function)
        if config.per_channel and not config.glow_exact:
            op_configs = OpConfigs(function.body.block, config.op_config(), target_of(ctx))
            equalize_channels(function, samples, op_configs)
            equalize_gains(function, samples, op_configs, target_of(ctx))
            scale_branches(function.body.block, samples, partial(_gains, op_configs=op_configs), target_of(ctx))


def equalize_channels(function: func.FuncOp, inputs: Sequence[Sequence[Array]], op_configs: OpConfigs) -> int:
    """Equalizes the channels between contractions of a float network.

    Args:
        function: The network; its weights, biases and observers change.
        inputs: Samples, each an array for each input.
        op_configs: The quantization configs of its operations and tensors.

    Returns:
        The number of pairs and joins of contractions that were equalized.
    """
    block = function.body.block
    pairs = [p for p in channel_pairs(block) if p.scales_singly and _gains(p.writer.y, p.reader, op_configs)]
    joins = [j for j in channel_joins(block) if _join_gains(j, op_configs)]
    if not pairs and not joins:
        return 0
    wanted = {*(p.writer.y for p in pairs), *(v for j in joins for v in j.tensors)}
    highest: dict[SSAValue, Array] = {}
    for values in evaluations(block, inputs, wanted):
        for value, array in values.items():
            largest: Array = np.abs(array).reshape(-1, array.shape[-1]).max(axis=0)
            highest[value] = np.maximum(highest[value], largest) if value in highest else largest
    for pair in pairs:
        pair.scale(_factors(highest[pair.writer.y]))
    scaled = _keeping_more(block, [(j, _factors(j.highest(highest))) for j in joins], inputs, op_configs)
    for join, factors in scaled:
        join.scale(factors)
    joins = [join for join, _ in scaled]
    observe_anew(block, [v for each in (*pairs, *joins) for v in each.tensors], inputs)
    return len(pairs) + len(joins)


def _join_gains(join: ChannelJoin, op_configs: OpConfigs) -> bool:
    """Whether equalizing the channels of a join may gain more precision than it costs."""
    sums = any(isinstance(value.owner, AddOp) for value in join.tensors)
    configs = [op_configs.of_value(w.y) for w in join.writers]
    if sums and any(c.searches_exponents and c.integers != "int16" for c in configs):
        return False
    return all(_gains(w.y, r, op_configs) for w in join.writers for r in join.readers)


def _keeping_more(
    block: Block, joins: Sequence[Scaled], inputs: Sequence[Sequence[Array]], op_configs: OpConfigs
) -> list[Scaled]:
    """Those of some joins whose tensors lose less in storage if their channels are multiplied by the factors."""
    factors = {value: own[places] for join, own in joins for value, places in join.places.items()}
    noises = stored_noise(block, factors, inputs, op_configs)
    found: list[Scaled] = []
    for join, own in joins:
        seen = [noises[value] for value in join.tensors if value in noises]
        if sum(behind for _, behind in seen) <= sum(before for before, _ in seen):
            found.append((join, own))
    return found


def _gains(value: SSAValue, reader: WeightedOp, op_configs: OpConfigs) -> bool:
    """Whether equalizing gains more precision for the data between contractions than it costs the reader's weights."""
    data, weights = op_configs.of_value(value), op_configs.of(reader)
    if weights.half is not None:
        return False  # floats have their own exponents
    if data.integers != "int16":
        return True
    return leaves_room(data) and weight_bits(weights.stored_weights) >= weight_bits(data.integers)


def _factors(highest: Array) -> Array:
    """The factor s of each channel, from the largest magnitudes of the channels."""
    top = float(highest.max(initial=0.0))
    with np.errstate(divide="ignore", invalid="ignore"):
        factors = np.where(highest > 0, (top / highest.astype(np.float64)) ** SHARE, 1.0)
    return np.minimum(factors, LARGEST_FACTOR)

"""`align-scales`: scales tensors between contractions so that the best scale of each tensor is a power of two.

A scale that must be a power of two is up to √2 off the best scale: the step is too wide, or values saturate. Between
two contractions (convolutions, fully connected layers) the whole tensor can be multiplied before and divided after
(equalize_channels.py). So where the scale cannot fit the tensor, the tensor is made to fit the scale:

    g = 2^e / s,   s the scale of least error, 2^e the power of two nearest to s

The writer's weights grow by g and the reader's weights shrink by g; on average, their own scales are as near to powers
of two as before. Clamps at 6, whose range no power of two ends at, gain most.

The tensors of a residual block can be scaled in the same way if a single contraction reads their sum. Sums that several
contractions read stay: profiled on one half of resnet8's calibration data and scored on the other, the sum with a
single reader gains 0.9 dB in the mean, and either of the two sums with several readers loses, whatever its factor.

Enters and leaves: a float network with observers that hold ranges.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import func
from xdsl.ir import SSAValue

from qmlir.dialects.calib import ObserveOp
from qmlir.numerics import Array
from qmlir.numerics.calibration import choose_quantization
from qmlir.settings.quant_config import OpConfig, config_of
from qmlir.transforms.quantize.adjust.channel_pairs import (
    ChannelPair,
    ContractionSum,
    channel_pairs,
    contraction_sums,
    observe_anew,
)
from qmlir.transforms.quantize.adjust.side_by_side import SampledPass
from qmlir.transforms.quantize.ranges.margins import expected


@dataclass(frozen=True)
class AlignScalesPass(SampledPass):
    """Multiplies tensors between contractions so that powers of two are good scales, where the schema asks for these.

    ```mlir
    %0 = nn.conv2d %x, %w0, %b0 {max = 6.0 : f32, min = 0.0 : f32} : …
    %1 = nn.conv2d %0, %w1 : …
    // becomes, with %w0a = g · %w0, %b0a = g · %b0 and %w1a = %w1 / g
    %0 = nn.conv2d %x, %w0a, %b0a {max = 7.96875 : f32, min = 0.0 : f32} : …
    %1 = nn.conv2d %0, %w1a : …
    ```
    """

    name = "align-scales"

    def adjust(self, function: func.FuncOp, samples: Sequence[Sequence[Array]], ctx: Context) -> None:
        if (op_config := config_of(function).op_config()).searches_exponents:
            align_scales(function, samples, op_config)


def align_scales(function: func.FuncOp, inputs: Sequence[Sequence[Array]], op_config: OpConfig) -> int:
    """Aligns the tensors between contractions of a float network with powers of two.

    Args:
        function: The network; its weights, biases, clamps and observers change.
        inputs: Samples, each an array for each input.
        op_config: The quantization options in effect.

    Returns:
        The number of pairs and sums of contractions that were scaled.
    """
    block = function.body.block
    observers = {o.value: o for o in block.ops if isinstance(o, ObserveOp)}
    aligned: list[ChannelPair | ContractionSum] = []
    for tied in (*channel_pairs(block), *contraction_sums(block)):
        scales = [s for v in tied.tensors if (s := _best_scale(v, observers.get(v), op_config)) is not None]
        if scales:
            # All tensors in between get one factor, as pools keep scales: that of the largest scale.
            tied.scale_evenly(_towards_power_of_two(max(scales)))
            aligned.append(tied)
    if aligned:
        observe_anew(block, [v for each in aligned for v in each.tensors], inputs)
    return len(aligned)


def _best_scale(value: SSAValue, observer: ObserveOp | None, op_config: OpConfig) -> float | None:
    """The scale of least error for zero point 0, whether a power of two or not; None if the tensor has no range."""
    if observer is None or (seen := observer.observation) is None or seen.bounds[0] == seen.bounds[1]:
        return None
    seen = expected(value, seen, op_config)
    scale, _ = choose_quantization(*seen.bounds, "symmetric", op_config.integers, seen.histogram, op_config.calibration)
    return scale


def _towards_power_of_two(scale: float) -> float:
    """The factor 2^e / scale, between 1/√2 and √2, where 2^e is the power of two nearest to the scale."""
    exponent = math.log2(scale)
    return 2.0 ** (round(exponent) - exponent)

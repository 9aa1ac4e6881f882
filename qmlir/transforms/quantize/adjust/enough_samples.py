"""How many samples are enough to round weights and correct biases on, by the setting `effort`.

A picture has thousands of positions, each of which tells how the terms of a layer's sums vary together. So the layers
of a large convolutional network are adjusted on fewer samples than its ranges are learned from and its channels
equalized on: as many as a budget of products allows, and no fewer than a least number. Other networks, whose samples
are rows of a table or tokens of a text, need all samples.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation

from qmlir.devices.model.properties import products
from qmlir.dialects.nn import Conv2DOp, DepthwiseConv2DOp
from qmlir.ir.interfaces import Array
from qmlir.settings.quant_config import Effort, config_of


@dataclass(frozen=True)
class Enough:
    """What an effort spends on samples.

    least     so many samples are used, whatever they cost
    products  products of the network on all samples together, from which on no more than the least are used
    """

    least: int
    products: float


ENOUGH: dict[Effort, Enough] = {
    "fast": Enough(8, 2.0**30),
    "default": Enough(16, 2.0**32),
    "best": Enough(1, math.inf),
}
"""Offset-free SQNR in dB on 8, 16, 32 and all samples: ResNet-8 30.4, 30.6, 30.6 and 30.8; keyword spotting 31.4, 31.8,
31.8 and 31.8; visual wake words 24.2, 24.4, 24.7 and 24.6; MobileNetV1 of a quarter of the channels 22.0, 22.5 and, on
its 25 samples, 23.0. `default` takes all of their samples. Ranges that are learned anew from 8 samples lose far more,
12 dB of visual wake words, so that equalization takes all."""


def enough_of(network: Operation, samples: Sequence[Sequence[Array]]) -> Sequence[Sequence[Array]]:
    """Returns the first of some samples, as many as are enough for the network by its setting `effort`."""
    most = enough_samples(network, config_of(network).effort)
    return samples if most >= len(samples) else samples[: int(most)]


def enough_samples(network: Operation, effort: Effort) -> float:
    """Returns how many samples of a network are enough; infinity for all of them.

    Args:
        network: A function, or a module, on floats.
        effort: The time that decisions may take.
    """
    of_all = {op: products(op) for op in network.walk()}
    total = sum(of_all.values())
    of_windows = sum(n for op, n in of_all.items() if isinstance(op, Conv2DOp | DepthwiseConv2DOp))
    budget = ENOUGH[effort]
    if math.isinf(budget.products) or 2 * of_windows <= total:
        return math.inf
    return max(budget.least, budget.products // total)

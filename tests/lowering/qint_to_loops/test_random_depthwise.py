"""2,000 random depthwise convolutions of integers: machine code gives the reference's bits (random_layers.py)."""

from functools import partial

import numpy as np
from xdsl.ir import SSAValue

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import DepthwiseConv2DOp
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.windows import ints
from tests.lowering.qint_to_loops.random_layers import (
    Form,
    Layer,
    Sums,
    batches,
    computes,
    largest,
    requantization,
    requantized,
    up_to,
    weighted_data,
)


def draw(rng: np.random.Generator, *, slides: bool = False) -> Layer:
    """Kernels of 1 to 7 a side, strides and dilations of 1 to 3, up to 300 channels, one to three times the inputs.

    If `slides`, bytes with one output channel for each input, most of which a window that slides along rows computes.
    """
    bits, weight_bits = (8 if slides else int(rng.choice([8, 16], p=[0.8, 0.2])) for _ in range(2))
    extent = rng.integers(1, 8, 2)
    strides, dilations = rng.integers(1, 4, 2), np.where(rng.random(2) < 0.6, 1, rng.integers(1, 4, 2))
    if slides:
        strides, dilations[1] = np.minimum(strides, extent), 1
    padding = rng.integers(0, 1 + rng.choice([0, 1, 3, 9]), 4)
    needed = (extent - 1) * dilations + 1 - padding.reshape(2, 2).sum(1)
    size = np.maximum(needed, 1) + rng.integers(0, 12, 2) + [0, int(rng.choice([0, 50], p=[0.8, 0.2]))]
    multiplier = 1 if slides else int(rng.choice([1, 2, 3], p=[0.8, 0.1, 0.1]))
    channels = max(16 if slides else 1, up_to(rng, 300) // multiplier)
    image = (int(rng.integers(1, 3)), int(size[0]), int(size[1]), channels)
    kernel = (1, int(extent[0]), int(extent[1]), channels * multiplier)
    x, zero_point, w = weighted_data(rng, (bits, image), (weight_bits, kernel), 0 if slides else 0.05)
    products = int(np.abs(w.astype(np.int64)).sum((0, 1, 2)).max()) * largest(x, zero_point)
    sums = Sums.drawn(rng, products, w.shape[3])
    properties = {
        "strides": ints(strides.tolist()),
        "dilations": ints(dilations.tolist()),
        "padding": ints(padding.tolist()),
        "zero_point": int32(zero_point),
    }
    then = None if rng.random() < 0.2 else requantization(rng, sums.most, w.shape[3], sums.wide)

    def graph(v: SSAValue) -> SSAValue:
        operands = [v, ConstantOp(w).y, sums.bias_operand()]
        return requantized(DepthwiseConv2DOp.make(operands, properties, element=sums.element).acc, then)

    return Layer((x,), graph, f"{x.shape} {x.dtype}, {w.shape} {w.dtype}, {properties}, {then}")


@batches
def test_depthwise_convolutions(batch: int, form: Form) -> None:
    computes(draw, batch, form)


draw_sliding = partial(draw, slides=True)


@batches
def test_windows_that_slide(batch: int, form: Form) -> None:
    computes(draw_sliding, batch, form, ["sliding_row"] if form.kernels else [])

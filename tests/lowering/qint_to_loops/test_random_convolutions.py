"""2,000 random convolutions of integers: machine code gives the reference's bits (random_layers.py).

A third of them are of the kind that Winograd kernels may compute: 3x3 windows of stride 1 over bytes.
"""

from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import Conv2DOp
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

MOST_WEIGHTS = 200_000
MOST_PRODUCTS = 4_000_000
"""Bounds of a layer's size, so that the reference computes it in some milliseconds."""


@dataclass(frozen=True)
class Geometry:
    """The shapes of a convolution: data [N, H, W, C], weights [O, KH, KW, C / groups]; how the window moves."""

    image: tuple[int, int, int, int]
    weights: tuple[int, int, int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    padding: tuple[int, int, int, int] = (1, 1, 1, 1)
    groups: int = 1


def winograd(rng: np.random.Generator) -> Geometry:
    """A 3x3 window of stride 1 over images of 6 to 23 pixels a side; channels are multiples of 16, up to 304."""
    channels = 16 * up_to(rng, 19)
    outputs = 16 * up_to(rng, max(1, min(19, MOST_WEIGHTS // (9 * 16 * channels))))
    most = max(6, min(23, int((MOST_PRODUCTS / (9 * channels * outputs)) ** 0.5)))
    height, width = (int(n) for n in rng.integers(6, most, 2, endpoint=True))
    top, bottom, left, right = (int(n) for n in rng.integers(0, 4, 4))
    batch = int(rng.integers(1, 3))
    return Geometry((batch, height, width, channels), (outputs, 3, 3, channels), padding=(top, bottom, left, right))


def any_window(rng: np.random.Generator) -> Geometry:
    """Windows of 1 to 7 a side, strides and dilations of 1 to 3, groups of any size, up to 300 channels."""
    rows, columns = (int(n) for n in (rng.integers(1, 8, 2) if rng.random() < 0.75 else (1, 1)))
    extent = np.array([rows, columns])
    strides = rng.integers(1, 4, 2)
    dilations = np.where(rng.random(2) < 0.6, 1, rng.integers(1, 4, 2))
    padding = rng.integers(0, 1 + rng.choice([0, 1, 3, 9]), 4)
    groups = 1 if rng.random() < 0.7 else up_to(rng, 40)
    inside = up_to(rng, 300 // groups)
    outputs = groups * up_to(rng, max(1, min(300 // groups, MOST_WEIGHTS // (rows * columns * inside * groups))))
    each = MOST_PRODUCTS / (rows * columns * inside * outputs)
    most = max(1, min(12, int(each**0.5)))
    output = rng.integers(1, most, 2, endpoint=True)
    output[1] += int(rng.choice([0, min(50, max(0, int(each) // int(output[0]) - most))], p=[0.8, 0.2]))
    span = (extent - 1) * dilations + 1 + (output - 1) * strides + rng.integers(0, strides)
    height, width = (int(n) for n in np.maximum(span - padding.reshape(2, 2).sum(1), 1))
    return Geometry(
        (int(rng.integers(1, 3)), height, width, groups * inside),
        (outputs, rows, columns, inside),
        (int(strides[0]), int(strides[1])),
        (int(dilations[0]), int(dilations[1])),
        (int(padding[0]), int(padding[1]), int(padding[2]), int(padding[3])),
        groups,
    )


def draw(rng: np.random.Generator) -> Layer:
    """A convolution of 8 or 16 bits, of a third of the geometries that Winograd kernels compute."""
    if rng.random() < 1 / 3:
        shapes, bits, weight_bits, beyond = winograd(rng), 8, 8, 0.0
    else:
        shapes, beyond = any_window(rng), 0.05
        bits, weight_bits = (int(rng.choice([8, 16], p=[0.8, 0.2])) for _ in range(2))
    x, zero_point, w = weighted_data(rng, (bits, shapes.image), (weight_bits, shapes.weights), beyond)
    products = int(np.abs(w.astype(np.int64)).sum((1, 2, 3)).max()) * largest(x, zero_point)
    sums = Sums.drawn(rng, products, w.shape[0])
    properties = {
        "strides": ints(shapes.strides),
        "dilations": ints(shapes.dilations),
        "padding": ints(shapes.padding),
        "groups": IntegerAttr(shapes.groups, i64),
        "zero_point": int32(zero_point),
    }
    then = None if rng.random() < 0.2 else requantization(rng, sums.most, w.shape[0], sums.wide)

    def graph(v: SSAValue) -> SSAValue:
        operands = [v, ConstantOp(w).y, sums.bias_operand()]
        return requantized(Conv2DOp.make(operands, properties, element=sums.element).acc, then)

    return Layer((x,), graph, f"{shapes}, {x.dtype}, {w.dtype}, zero point {zero_point}, {sums}, {then}")


@batches
def test_convolutions(batch: int, form: Form) -> None:
    computes(draw, batch, form, ["qint_conv2d", "qint_winograd"])

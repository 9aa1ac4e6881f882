"""2,000 random products of bytes whose weights look like those of trained layers: few channels without a partner.

As many convolutions, whose windows are gathered side by side where that pays.
"""

import numpy as np
from xdsl.ir import SSAValue

from qmlir.backends.cpu import Machine, enabled
from qmlir.codegen.machine import capabilities
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import Conv2DOp, FullyConnectedOp
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.windows import ints
from tests.lowering.qint_to_loops.random_layers import (
    Array,
    Form,
    Layer,
    Sums,
    batches,
    computes,
    ends,
    extreme,
    largest,
    requantization,
    requantized,
    up_to,
    zero_point_of,
)


def weights(rng: np.random.Generator, outputs: int, channels: int) -> Array:
    """Bell-shaped weights, the largest of each output ±127, or small weights of which a few are at an end."""
    bell = rng.standard_normal((outputs, channels))
    if rng.random() < 0.7:
        return np.rint(127 * bell / np.abs(bell).max(1, keepdims=True)).astype(np.int8)
    w = np.clip(np.rint(20 * bell), -64, 64).astype(np.int8)
    few = rng.random(w.shape) < 1 / 200
    return np.where(few, rng.choice(np.array([-128, 127], np.int8), w.shape), w)


def draw(rng: np.random.Generator) -> Layer:
    """Up to 300 channels, a multiple of 16 most often; pixels for one tile or for many."""
    channels = 16 * int(rng.integers(2, 20)) + (int(rng.integers(1, 16)) if rng.random() < 0.1 else 0)
    pixels = up_to(rng, 1200 if rng.random() < 0.2 else 60)
    outputs = up_to(rng, 300)
    x, w = extreme(rng, 8, pixels, channels), weights(rng, outputs, channels)
    zero_point = int(np.clip(zero_point_of(rng, 8), *ends(8)))
    products = int(np.abs(w.astype(np.int64)).sum(1).max()) * largest(x, zero_point)
    sums = Sums.drawn(rng, products, outputs)
    then = None if rng.random() < 0.2 else requantization(rng, sums.most, outputs, sums.wide)

    def graph(v: SSAValue) -> SSAValue:
        operands = [v, ConstantOp(w).y, sums.bias_operand()]
        properties = {"zero_point": int32(zero_point)}
        return requantized(FullyConnectedOp.make(operands, properties, element=sums.element).acc, then)

    return Layer((x,), graph, f"{x.shape}, {w.shape}, zero point {zero_point}, {sums}, {then}")


@batches
def test_products_of_bytes(batch: int, form: Form) -> None:
    machine = capabilities(enabled(Machine.of(form.cpu)))
    paired = machine.byte_pairs and not machine.quads and form.kernels is None
    computes(draw, batch, form, ["reordered_pixels"] if paired else ["qint_fully_connected"])


def draw_windows(rng: np.random.Generator) -> Layer:
    """Windows of 1 to 5 a side, stride 2 most often, some dilated or padded, over 16 to 96 channels; few of 3x3."""
    rows, columns = (int(n) for n in rng.integers(1, 6, 2))
    strides = (2, 2) if rng.random() < 0.7 else (1, int(rng.integers(1, 4)))
    dilations = (int(rng.integers(1, 3)), 2 if rng.random() < 0.1 else 1)
    padding = tuple(int(n) for n in rng.integers(0, 3, 4)) if rng.random() < 0.7 else (0, 0, 0, 0)
    channels, outputs = 16 * int(rng.integers(1, 7)), int(rng.choice([40, 64, 72, 96]))
    height, width = (int(n) for n in rng.integers(11, 18, 2))
    x = extreme(rng, 8, int(rng.integers(1, 3)), height, width, channels)
    w = weights(rng, outputs, rows * columns * channels).reshape(outputs, rows, columns, channels)
    zero_point = int(np.clip(zero_point_of(rng, 8), *ends(8)))
    products = int(np.abs(w.astype(np.int64)).sum((1, 2, 3)).max()) * largest(x, zero_point)
    sums = Sums.drawn(rng, products, outputs)
    then = None if rng.random() < 0.2 else requantization(rng, sums.most, outputs, sums.wide)
    properties = {
        "strides": ints(strides),
        "dilations": ints(dilations),
        "padding": ints(padding),
        "zero_point": int32(zero_point),
    }

    def graph(v: SSAValue) -> SSAValue:
        operands = [v, ConstantOp(w).y, sums.bias_operand()]
        return requantized(Conv2DOp.make(operands, properties, element=sums.element).acc, then)

    said = f"{strides}, {dilations}, {padding}"
    return Layer((x,), graph, f"{x.shape}, {w.shape}, {said}, zero point {zero_point}, {sums}, {then}")


@batches
def test_windows_of_bytes(batch: int, form: Form) -> None:
    machine = capabilities(enabled(Machine.of(form.cpu)))
    paired = machine.byte_pairs and not machine.quads and form.kernels is None
    computes(draw_windows, batch, form, ["conv2d_windows", "conv2d_input", "reordered_pixels"] if paired else [])

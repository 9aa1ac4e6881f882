"""Contractions on a matrix unit: how windows become strips of places and weights become registers, and their bits."""

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import SSAValue

from qmlir.backends.cpu import Machine, enabled
from qmlir.codegen.kernels.matrix_unit import DEPTH, FAR, SIDE, STRIP, UNIT, Depth, Strips
from qmlir.codegen.kernels.packing import Window
from qmlir.codegen.machine import capabilities
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import Conv2DOp, FullyConnectedOp
from qmlir.dialects.qint.requantize import int32
from qmlir.dialects.windows import ints
from qmlir.numerics import Array
from tests.conftest import crossed
from tests.lowering.both import check
from tests.lowering.qint_to_loops.random_layers import requantization, requantized

HAS_UNIT = pytest.mark.skipif(
    not capabilities(enabled(Machine.host())).matrices,
    reason="this processor has no matrix unit, or no leave to use it",
)


def plain(x: Array, w: Array, window: Window) -> Array:
    """The sums of a convolution of x [N, H, W, C] that no window leaves, by [O, KH, KW, C]: [N, OH, OW, O]."""
    rows, columns = window.output
    y = np.zeros((window.batch, rows, columns, len(w)), np.int64)
    for i, j in np.ndindex(*window.extent):
        top, left = i * window.dilations[0], j * window.dilations[1]
        seen = x[:, top :: window.strides[0], left :: window.strides[1]][:, :rows, :columns]
        y += seen.astype(np.int64) @ w[:, i, j].astype(np.int64).T
    return y


def by_registers(x: Array, w: Array, window: Window, lanes: int) -> Array:
    """The same from places, runs and packed weights, as a kernel computes it; what is no output is left out."""
    strips, depth = Strips.of(window), Depth.of(window)
    packed = depth.pack(w, window.channels, lanes)
    packed = packed.reshape(-1, depth.rows, depth.runs, len(depth.begins), lanes // SIDE, depth.width // 4, SIDE, 4)
    flat, line = np.append(x.reshape(-1), np.zeros(3, x.dtype)), window.width * window.channels
    outputs = np.zeros((strips.count, strips.outputs, len(w)), np.int64)
    for strip in range(strips.count):
        if strips.columns:
            first = strip * window.height * line
        else:
            image, row = divmod(strip, window.output[0])
            first = (image * window.height + row * window.strides[0]) * line
        for place in range(strips.places):
            output = place
            if strips.columns:
                row, column = divmod(place, strips.columns)
                if column >= window.output[1]:
                    continue
                output = row * window.output[1] + column
            sums = np.zeros(len(packed) * lanes, np.int64)
            for i, j, r in np.ndindex(depth.rows, depth.runs, len(depth.begins)):
                begin = first + place * strips.distance + i * window.dilations[0] * line
                begin += j * window.dilations[1] * window.channels + depth.begins[r]
                data = flat[begin : begin + depth.width].reshape(-1, 4)
                sums += np.einsum("qt,bnqlt->bnl", data, packed[:, i, j, r].astype(np.int64)).reshape(-1)
            outputs[strip, output] = sums[: len(w)]
    return outputs.reshape(window.batch, *window.output, len(w))


@pytest.mark.parametrize("seed", range(40))
def test_strips_and_registers_are_the_convolution(seed: int) -> None:
    rng = np.random.default_rng(seed)
    batch, channels, outputs = (int(n) for n in (rng.integers(1, 3), rng.integers(1, 40), rng.integers(1, 40)))
    extent, strides, dilations = ((int(a), int(b)) for a, b in rng.integers(1, (4, 3, 3), (2, 3)).T)
    if channels % 4 and (extent[1] == 1 or dilations[1] > 1):
        channels += -channels % 4  # what the lowering pads
    output = (int(rng.integers(1, 6)), int(rng.integers(1, 20)))
    height, width = (
        (o - 1) * s + (k - 1) * d + 1 + int(rng.integers(0, 2))
        for o, s, k, d in zip(output, strides, extent, dilations, strict=True)
    )
    window = Window(batch, height, width, channels, extent, output, strides, dilations)
    x = rng.integers(-128, 128, (batch, height, width, channels)).astype(np.int8)
    w = rng.integers(-128, 128, (outputs, *extent, channels)).astype(np.int8)
    for lanes in (SIDE, 2 * SIDE, 4 * SIDE):
        np.testing.assert_array_equal(by_registers(x, w, window, lanes), plain(x, w, window))


@pytest.mark.parametrize("places", [1, 15, 16, 17, 31, 32, 33, 48, 64, 95, STRIP, STRIP + 15, 12544])
def test_units_cover_a_strip_and_fill_registers(places: int) -> None:
    strips = Strips(Window(1, 1, places, 4, (1, 1), (1, places)), 1, places)
    last = places - (strips.units - 1) * UNIT
    assert min(places, UNIT) <= last < 2 * UNIT


@pytest.mark.parametrize("run", [4, 60, 64, 68, 100, 128, 132, 576])
def test_registers_of_a_run_end_with_it(run: int) -> None:
    depth = Depth(1, 1, run)
    assert {e for begin in depth.begins for e in range(begin, begin + depth.width)} == set(range(run))
    assert depth.width == min(run, DEPTH)
    assert len(depth.begins) == depth.full + depth.overlaps


CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, tuple[int, ...]]]] = {
    "two registers of channels": ((1, 5, 7, 64), (32, 1, 1, 64), {}),
    "four registers of channels": ((1, 7, 7, 192), (128, 1, 1, 192), {}),
    "an overlapping register": ((2, 4, 9, 100), (48, 1, 1, 100), {}),
    "few channels": ((1, 9, 9, 12), (24, 3, 3, 12), {"padding": (1, 1, 1, 1)}),
    "three channels": ((1, 20, 23, 3), (16, 7, 7, 3), {"padding": (3, 3, 2, 2), "strides": (2, 2)}),
    "odd channels of one column": ((1, 8, 8, 11), (16, 3, 1, 11), {}),
    "rows that do not end": ((2, 14, 14, 64), (64, 3, 3, 64), {"padding": (1, 1, 1, 1)}),
    "strides": ((1, 33, 65, 64), (64, 3, 3, 64), {"strides": (2, 2)}),
    "gathered windows": ((2, 9, 9, 64), (40, 3, 3, 64), {"strides": (2, 2), "padding": (1, 1, 1, 1)}),
    "gathered pixels": ((1, 15, 15, 68), (33, 1, 1, 68), {"strides": (3, 2)}),
    "dilations": ((1, 12, 15, 20), (17, 3, 3, 20), {"dilations": (2, 3), "padding": (2, 2, 3, 3)}),
    "parts of a strip": ((1, 40, 53, 36), (144, 1, 1, 36), {}),
    "weights from far": ((1, 6, 6, 512), (64, 3, 3, 512), {"padding": (1, 1, 1, 1)}),
}  # fmt: skip
"""Name → shapes of image and weights, and properties of the convolution: each way through the kernel."""


@crossed({"zero_point": [-128, 3], "name": CASES})
@HAS_UNIT
def test_convolutions(name: str, zero_point: int) -> None:
    image, shape, geometry = CASES[name]
    rng = np.random.default_rng(len(name))
    x, w = (rng.integers(-128, 128, s).astype(np.int8) for s in (image, shape))
    b = rng.integers(-(1 << 20), 1 << 20, len(w)).astype(np.int32)
    properties = {k: ints(v) for k, v in geometry.items()} | {
        "zero_point": int32(zero_point),
        "groups": IntegerAttr(1, i64),
    }
    then = requantization(rng, 1 << 24, len(w), False)

    def graph(v: SSAValue) -> SSAValue:
        return requantized(Conv2DOp.make([v, ConstantOp(w).y, ConstantOp(b).y], properties).acc, then)

    check(graph, x)


@HAS_UNIT
@pytest.mark.parametrize("rows", [6, 15, 16, 20, 49])
def test_sums_of_the_largest_products(rows: int) -> None:
    """Data and weights at one end everywhere, beyond 2^24 for each sum."""
    x, w = np.full((rows, 1500), -128, np.int8), np.full((70, 1500), -128, np.int8)
    check(lambda v: FullyConnectedOp.make([v, ConstantOp(w).y, []], {"zero_point": int32(127)}).acc, x)


def test_the_weights_from_far_are_many() -> None:
    _, shape, _ = CASES["weights from far"]
    assert np.prod(shape) > FAR

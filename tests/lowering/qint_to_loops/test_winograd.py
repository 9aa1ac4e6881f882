"""Winograd kernels against the convolution's numpy meaning, on random layers and on the ends of every range."""

import numpy as np
import pytest
from xdsl.dialects.builtin import StringAttr, TensorType, i8
from xdsl.ir import SSAValue

from qmlir.backends.cpu import Machine
from qmlir.codegen.kernels.winograd import LIMIT, SCALED_G, SCALES, blocks_of_tiles
from qmlir.dialects.nn import ConstantOp
from qmlir.dialects.qint import Conv2DOp, RequantizeOp
from qmlir.dialects.qint.requantize import int32, int32s
from qmlir.dialects.windows import ints
from qmlir.numerics import Array
from tests.conftest import THOROUGH
from tests.lowering.both import check, features_of, network, to_loops

QUADS = ("avx512vnni", "avxvnni", "i8mm", "dotprod")

WITHOUT_QUADS = ",".join(
    name for name in features_of(Machine.host(), matrices=False).split(",") if name.strip("+") not in QUADS
)
"""The features of this processor but those that let it sum quads of bytes, beside which Winograd may be slower."""

LAYERS = 2000 if THOROUGH else 6
"""How many random layers to compute."""


def convolution(x: SSAValue, w: Array, b: Array | None, zero_point: int, padding: tuple[int, ...]) -> SSAValue:
    """A 3x3 convolution of i8 data, requantized channel by channel."""
    properties = {"padding": ints(padding), "zero_point": int32(zero_point)}
    acc = Conv2DOp.make([x, ConstantOp(w).y, [] if b is None else ConstantOp(b).y], properties).acc
    rng = np.random.default_rng(len(w))
    requantize = {
        "multiplier": int32s(rng.integers(1 << 30, (1 << 31) - 1, len(w)).tolist()),
        "shift": int32s(rng.integers(-14, -3, len(w)).tolist()),
        "contract": StringAttr("single"),
        "zero_point": int32(7),
        "min": int32(-128),
        "max": int32(127),
    }
    return RequantizeOp.make([acc], requantize).y


def uses_winograd(x: Array, w: Array, zero_point: int, *, bias: Array | None = None) -> bool:
    module = network(lambda v: convolution(v, w, bias, zero_point, (1, 1, 1, 1)), TensorType(i8, x.shape))
    return "winograd" in str(to_loops(module, features=WITHOUT_QUADS))


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(LAYERS))
def test_random_layers(seed: int) -> None:
    """Images of 3 to 23 pixels a side; zero points at the ends; data and weights everywhere, or at their ends."""
    rng = np.random.default_rng(seed)
    batch, channels, outputs = (int(n) for n in (rng.integers(1, 3), 16 * rng.integers(1, 5), 16 * rng.integers(1, 5)))
    height, width = (int(n) for n in rng.integers(3, 24, 2))
    padding = tuple(int(n) for n in rng.integers(0, 4, 4))
    extreme = rng.random() < 0.3
    x = rng.choice(np.array([-128, 127], np.int8), (batch, height, width, channels))
    w = rng.choice(np.array([-128, 127], np.int8), (outputs, 3, 3, channels))
    if not extreme:
        x = rng.integers(-128, 128, x.shape).astype(np.int8)
        w = rng.integers(-128, 128, w.shape).astype(np.int8)
    b = rng.integers(-(1 << 20), 1 << 20, outputs).astype(np.int32) if rng.random() < 0.8 else None
    zero_point = int(rng.choice([-128, 127, 0, -5]))
    check(lambda v: convolution(v, w, b, zero_point, padding), x, features=WITHOUT_QUADS)


@pytest.mark.slow
def test_largest_sums() -> None:
    """Each product at its end: the sums of 592 channels are below the bound, those of 640 are not."""
    for channels, fits in ((592, True), (640, False)):
        x = np.full((1, 20, 20, channels), 127, np.int8)
        w = np.full((16, 3, 3, channels), -24, np.int8)
        assert (9 * channels * 24 * 255 < LIMIT) == fits
        assert uses_winograd(x, w, -128) == fits
        check(lambda v, w=w: convolution(v, w, None, -128, (1, 1, 1, 1)), x, features=WITHOUT_QUADS)


@pytest.mark.slow
def test_behind_a_relu_weights_of_two_signs_do_not_add() -> None:
    """Where the zero point is the least datum, or the greatest, the weights of one sign reach the largest sum alone."""
    w = np.full((16, 3, 3, 640), 24, np.int8)
    x = np.where(np.random.default_rng(0).random((1, 20, 20, 640)) < 0.9, 127, -128).astype(np.int8)
    assert 9 * 640 * 24 * 255 >= LIMIT
    assert not uses_winograd(x, w, -128)
    w[:, 1] = -24
    for zero_point in (-128, 127):
        assert uses_winograd(x, w, zero_point)
        check(lambda v, z=zero_point: convolution(v, w, None, z, (1, 1, 1, 1)), x, features=WITHOUT_QUADS)


@pytest.mark.slow
def test_what_is_summed_over_the_window() -> None:
    x = np.zeros((1, 20, 20, 32), np.int8)
    assert uses_winograd(x, np.ones((16, 3, 3, 32), np.int8), 0)
    assert not uses_winograd(x, np.ones((16, 3, 3, 32), np.int8), 200)  # data minus zero point leave [-255, 255]
    assert not uses_winograd(x, np.ones((15, 3, 3, 32), np.int8), 0)
    assert not uses_winograd(x, np.ones((16, 5, 5, 32), np.int8), 0)
    assert not uses_winograd(x[:, :3, :3], np.ones((16, 3, 3, 32), np.int8), 0)  # four pixels less than a tile


def test_scales_make_the_weight_transform_integer() -> None:
    g = np.array(
        [
            [1 / 4, 0, 0],
            [-1 / 6] * 3,
            [-1 / 6, 1 / 6, -1 / 6],
            [1 / 24, 1 / 12, 1 / 6],
            [1 / 24, -1 / 12, 1 / 6],
            [0, 0, 1],
        ]
    )
    np.testing.assert_allclose(np.array(SCALES)[:, None] * g, SCALED_G, atol=1e-12)


@pytest.mark.slow
def test_a_bias_that_leaves_the_bound() -> None:
    """The bias is a term of the transformed sums."""
    x, w = np.full((1, 20, 20, 32), 127, np.int8), np.full((32, 3, 3, 32), 12, np.int8)
    most = LIMIT - 1 - 9 * 32 * 12 * 255
    for bias, fits in ((most, True), (-most, True), (most + 1, False)):
        b = np.full(32, bias, np.int32)
        assert uses_winograd(x, w, -128, bias=b) == fits
        check(lambda v, b=b: convolution(v, w, b, -128, (1, 1, 1, 1)), x, features=WITHOUT_QUADS)


@pytest.mark.slow
@pytest.mark.parametrize("outputs", [16, 32, 48, 64])
@pytest.mark.parametrize(("height", "width"), [(8, 8), (4, 8), (13, 14), (28, 25)])
def test_both_orders_and_blocks_of_one_and_two_vectors(outputs: int, height: int, width: int) -> None:
    """With more outputs than tiles, all tiles are computed for a block of outputs; 2 to 49 tiles leave some over."""
    rng = np.random.default_rng(outputs + height)
    x = rng.integers(-128, 128, (1, height, width, 48)).astype(np.int8)
    w = rng.integers(-128, 128, (outputs, 3, 3, 48)).astype(np.int8)
    b = rng.integers(-(1 << 20), 1 << 20, outputs).astype(np.int32)
    assert uses_winograd(x, w, 3)
    check(lambda v: convolution(v, w, b, 3, (1, 1, 1, 1)), x, features=WITHOUT_QUADS)


def test_blocks_of_tiles_are_even() -> None:
    assert [blocks_of_tiles(n, 16) for n in (1, 4, 16, 49, 196)] == [(1, 1), (4, 4), (16, 4), (10, 5), (18, 6)]
    assert [blocks_of_tiles(n, 32) for n in (1, 4, 16, 49, 196)] == [(1, 1), (4, 4), (8, 8), (10, 10), (10, 10)]

"""Float contractions as machine code against their numpy meaning, bit for bit."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects.builtin import IntegerAttr, i64

from qmlir.dialects.nn import ConstantOp, Conv2DOp, DepthwiseConv2DOp, FullyConnectedOp, MatMulOp
from qmlir.dialects.nn.base import bound
from qmlir.dialects.windows import ints
from qmlir.errors import UnsupportedError
from tests.conftest import crossed
from tests.lowering.both import check, network, to_loops

Array = npt.NDArray[Any]


def floats(seed: int, *shape: int) -> Array:
    """Normal values with a zero, a minus zero and a denormal among them."""
    x = np.random.default_rng(seed).standard_normal(shape).astype(np.float32)
    x.reshape(-1)[:: max(3, x.size // 7)] = 0.0
    x.reshape(-1)[1 :: max(5, x.size // 5)] = -0.0
    x.reshape(-1)[-1:] = 1e-40
    return x


# x shape, weights (O, KH, KW), strides, padding, dilations
CONVOLUTIONS = {
    "pointwise": ((1, 5, 7, 12), (16, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "pointwise many": ((2, 9, 33, 3), (33, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "pointwise strided": ((2, 5, 7, 4), (5, 1, 1), (2, 3), (0, 0, 0, 0), (1, 1)),
    "same": ((1, 7, 9, 5), (10, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "valid": ((2, 7, 9, 5), (8, 3, 2), (1, 1), (0, 0, 0, 0), (1, 1)),
    "strided": ((1, 11, 13, 3), (16, 3, 3), (2, 2), (0, 1, 0, 1), (1, 1)),
    "dilated": ((1, 9, 10, 4), (17, 3, 3), (1, 1), (2, 2, 2, 2), (2, 2)),
    "dilated valid": ((1, 9, 10, 4), (7, 2, 3), (2, 1), (0, 0, 0, 0), (3, 2)),
    "all padding": ((1, 2, 2, 3), (4, 3, 3), (1, 1), (5, 4, 4, 6), (1, 1)),
    "one pixel": ((3, 1, 1, 6), (9, 1, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "one channel": ((1, 28, 28, 1), (8, 5, 5), (1, 1), (2, 2, 2, 2), (1, 1)),
    "wide": ((1, 2, 200, 64), (20, 3, 3), (1, 1), (1, 1, 1, 1), (1, 1)),
    "column": ((2, 40, 1, 6), (20, 4, 1), (1, 1), (0, 0, 0, 0), (1, 1)),
    "column strided": ((1, 41, 1, 5), (7, 3, 1), (2, 1), (3, 1, 0, 0), (2, 1)),
    "column padded": ((1, 9, 1, 5), (7, 3, 1), (1, 1), (1, 1, 1, 0), (1, 1)),
    "whole image": ((2, 4, 5, 6), (24, 4, 5), (1, 1), (0, 0, 0, 0), (1, 1)),
}


@crossed({"case": CONVOLUTIONS, "with_bias": [True, False]})
def test_conv2d(case: str, with_bias: bool) -> None:
    shape, (outputs, rows, columns), strides, padding, dilations = CONVOLUTIONS[case]
    w, b = floats(1, outputs, rows, columns, shape[3]), floats(2, outputs)
    properties = {"strides": ints(strides), "padding": ints(padding), "dilations": ints(dilations)}
    bias = [ConstantOp(b).y] if with_bias else []
    check(lambda x: Conv2DOp.make([x, ConstantOp(w).y, bias], properties).y, floats(3, *shape))


@pytest.mark.parametrize(("low", "high"), [(0.0, None), (None, 0.5), (-0.25, 0.5)])
def test_clamp(low: float | None, high: float | None) -> None:
    w = floats(1, 9, 1, 1, 3)
    properties = {"min": bound(low), "max": bound(high)}
    check(lambda x: Conv2DOp.make([x, ConstantOp(w).y, []], properties).y, floats(2, 1, 3, 3, 3))


def test_not_finite() -> None:
    x, w = floats(1, 1, 5, 6, 4), floats(2, 8, 3, 3, 4)
    x[0, 1, 2] = np.nan, np.inf, -np.inf, 0.0
    x[0, 4, 0, 1] = 3e38
    w[2, 0, 1, 3], w[3] = np.inf, 1e30
    check(lambda x: Conv2DOp.make([x, ConstantOp(w).y, []], {"padding": ints([1, 1, 1, 1])}).y, x)


# x shape, weights (KH, KW, O), strides, padding, dilations
DEPTHWISE = {
    "same": ((1, 7, 9, 5), (3, 3, 5), (1, 1), (1, 1, 1, 1), (1, 1)),
    "channels 24": ((2, 6, 5, 24), (3, 3, 24), (2, 2), (0, 1, 0, 1), (1, 1)),
    "multiplier": ((1, 6, 5, 3), (3, 3, 12), (1, 1), (1, 1, 1, 1), (1, 1)),
    "dilated": ((1, 9, 9, 16), (2, 3, 16), (1, 2), (1, 0, 2, 2), (3, 2)),
    "many channels": ((1, 4, 30, 1000), (5, 5, 1000), (1, 1), (2, 2, 2, 2), (1, 1)),
    "whole image": ((2, 3, 4, 33), (3, 4, 33), (1, 1), (0, 0, 0, 0), (1, 1)),
}


@pytest.mark.parametrize("case", DEPTHWISE)
def test_depthwise(case: str) -> None:
    shape, extent, strides, padding, dilations = DEPTHWISE[case]
    w, b = floats(1, 1, *extent), floats(2, extent[2])
    properties = {
        "strides": ints(strides),
        "padding": ints(padding),
        "dilations": ints(dilations),
        "max": bound(0.75),
    }
    check(lambda x: DepthwiseConv2DOp.make([x, ConstantOp(w).y, ConstantOp(b).y], properties).y, floats(3, *shape))


@pytest.mark.parametrize(
    ("rows", "inputs", "outputs"), [(1, 7, 10), (1, 2000, 33), (6, 40, 16), (65, 3, 100), (4, 1, 1)]
)
def test_fully_connected(rows: int, inputs: int, outputs: int) -> None:
    w, b = floats(1, outputs, inputs), floats(2, outputs)
    check(lambda x: FullyConnectedOp.make([x, ConstantOp(w).y, ConstantOp(b).y]).y, floats(3, rows, inputs))


MATRICES = [
    ((3, 5), (5, 7)),
    ((2, 9, 6), (2, 6, 33)),
    ((2, 3, 9, 6), (6, 8)),
    ((9, 6), (2, 3, 6, 4)),
    ((2, 1, 5, 6), (3, 6, 17)),
    ((4, 1, 300), (4, 300, 16)),
]


@pytest.mark.parametrize(("lhs", "rhs"), MATRICES)
def test_matmul(lhs: tuple[int, ...], rhs: tuple[int, ...]) -> None:
    check(lambda a, b: MatMulOp.make([a, b], {"min": bound(-1.0)}).y, floats(1, *lhs), floats(2, *rhs))


# x shape, weights (O, KH, KW), groups, dilations
GROUPED = {
    "pairs": ((1, 5, 7, 12), (12, 3, 3), 6, (1, 1)),
    "one output each": ((1, 5, 7, 12), (6, 1, 1), 6, (1, 1)),
    "one input each": ((1, 5, 6, 3), (15, 3, 2), 3, (1, 2)),
    "more than a block each": ((2, 4, 9, 8), (42, 3, 3), 2, (1, 1)),
    "whole blocks": ((2, 4, 9, 8), (64, 1, 1), 2, (1, 1)),
}


@crossed({"case": GROUPED, "computed": [False, True]})
def test_groups(case: str, computed: bool) -> None:
    shape, (outputs, *window), count, dilations = GROUPED[case]
    w, b = floats(1, outputs, *window, shape[3] // count), floats(2, outputs)
    properties = {"dilations": ints(dilations), "padding": ints([1, 1, 0, 1]), "groups": IntegerAttr(count, i64)}
    if computed:
        check(lambda x, w, b: Conv2DOp.make([x, w, b], properties).y, floats(3, *shape), w, b)
    else:
        check(lambda x: Conv2DOp.make([x, ConstantOp(w).y, ConstantOp(b).y], properties).y, floats(3, *shape))


@pytest.mark.slow
def test_computed_weights() -> None:
    check(lambda x, w, b: FullyConnectedOp.make([x, w, b]).y, floats(1, 3, 9), floats(2, 21, 9), floats(3, 21))
    check(lambda x, w: Conv2DOp.make([x, w, []]).y, floats(1, 2, 5, 6, 3), floats(2, 17, 3, 2, 3))
    properties = {"padding": ints([1, 1, 1, 1])}
    arrays = floats(1, 1, 5, 6, 3), floats(2, 1, 3, 3, 6), floats(3, 6)
    check(lambda x, w, b: DepthwiseConv2DOp.make([x, w, b], properties).y, *arrays)


def test_an_input_too_large_for_the_stack_is_prepared_in_the_arena() -> None:
    w = floats(1, 3, 3, 3, 1500)
    properties = {"padding": ints([1, 0, 2, 1]), "strides": ints([2, 1])}
    check(lambda x: Conv2DOp.make([x, ConstantOp(w).y, []], properties).y, floats(2, 2, 3, 4, 1500))


@pytest.mark.parametrize("extent", [26, 39, 54])
def test_large_depthwise_windows(extent: int) -> None:
    """A ring of 16, 8 or 4 channels."""
    x, w = floats(1, 1, extent, extent + 1, 20), floats(2, 1, extent, extent, 20)
    check(lambda x: DepthwiseConv2DOp.make([x, ConstantOp(w).y, []]).y, x)


def test_refuses_a_depthwise_window_too_large_for_the_stack() -> None:
    w = np.zeros((1, 60, 60, 16), np.float32)
    module = network(
        lambda x: DepthwiseConv2DOp.make([x, ConstantOp(w).y, []]).y,
        ConstantOp(np.zeros((1, 60, 60, 16), np.float32)).y.type,
    )
    with pytest.raises(UnsupportedError, match="needs the input of one output within"):
        to_loops(module)

"""Float sums run in a fixed order in f32, products are added by fused multiply-adds; one rounding ends a function."""

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from xdsl.dialects import test
from xdsl.dialects.builtin import BoolAttr, IntegerAttr, TensorType, f32, i64
from xdsl.ir import SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.base import bound
from qmlir.dialects.windows import ints
from qmlir.numerics.elementary.exponential import exp_by_four
from qmlir.numerics.elementary.lanes import Lanes

Array = npt.NDArray[np.float32]
f = np.float32
RNG = np.random.default_rng(5)


def random(*shape: int) -> Array:
    """Values of very different magnitude, for which each order of summation gives another result."""
    return (RNG.standard_normal(shape) * 10.0 ** RNG.integers(-4, 4, shape)).astype(f)


def value(x: Array) -> SSAValue:
    return test.TestOp(result_types=[TensorType(f32, x.shape)]).res[0]


def sequential(start: Any, terms: Iterable[Any]) -> f:
    """start + t0 + t1 + …, rounded to f32 after each sum."""
    total = f(start)
    for term in terms:
        total = f(total + f(term))
    return total


def fused(start: Any, factors: Iterable[tuple[Any, Any]]) -> f:
    """start + x0·w0 + x1·w1 + …, rounded to f32 after each sum only: the nearest f32 of an exact fraction."""
    total = f(start)
    for x, w in factors:
        exact = Fraction(float(x)) * Fraction(float(w)) + Fraction(float(total))
        near = f(float(exact))
        beside = (np.nextafter(near, f(-np.inf)), near, np.nextafter(near, f(np.inf)))
        total = min(beside, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.uint32)) & 1))
    return total


def test_conv2d_sums_rows_columns_channels_from_the_bias_on() -> None:
    x, w, b = random(1, 4, 5, 3), random(2, 3, 2, 3), random(2)
    (y,) = nn.Conv2DOp.make([value(x), value(w), [value(b)]]).evaluate(x, w, b)
    for row, column, o in np.ndindex(*y.shape[1:]):
        factors = ((x[0, row + i, column + j, c], w[o, i, j, c]) for i, j, c in np.ndindex(3, 2, 3))
        assert y[0, row, column, o] == fused(b[o], factors)


def test_depthwise_conv2d_sums_rows_then_columns() -> None:
    x, w, b = random(1, 4, 5, 2), random(1, 3, 2, 4), random(4)
    (y,) = nn.DepthwiseConv2DOp.make([value(x), value(w), [value(b)]]).evaluate(x, w, b)
    for row, column, o in np.ndindex(*y.shape[1:]):
        factors = ((x[0, row + i, column + j, o // 2], w[0, i, j, o]) for i, j in np.ndindex(3, 2))
        assert y[0, row, column, o] == fused(b[o], factors)


def test_fully_connected_and_matmul_sum_along_the_inner_axis() -> None:
    x, w, b = random(2, 40), random(3, 40), random(3)
    (y,) = nn.FullyConnectedOp.make([value(x), value(w), [value(b)]]).evaluate(x, w, b)
    (z,) = nn.MatMulOp.make([value(x), value(w.T)]).evaluate(x, w.T)
    for n, o in np.ndindex(2, 3):
        assert y[n, o] == fused(b[o], zip(x[n], w[o], strict=True))
        assert z[n, o] == fused(f(0), zip(x[n], w[o], strict=True))


@pytest.mark.parametrize("include", [False, True])
def test_average_pools_sum_in_order_and_divide(include: bool) -> None:
    x = random(1, 5, 4, 2)
    properties = {
        "window": ints([3, 3]),
        "padding": ints([1, 1, 1, 1]),
        "count_include_pad": BoolAttr.from_bool(include),
    }
    (y,) = nn.AveragePool2DOp.make([value(x)], properties).evaluate(x)
    padded = np.pad(x, ((0, 0), (1, 1), (1, 1), (0, 0)))
    for row, column, c in np.ndindex(*y.shape[1:]):
        rows, columns = min(row + 2, 5) - max(row - 1, 0), min(column + 2, 4) - max(column - 1, 0)
        terms = (padded[0, row + i, column + j, c] for i, j in np.ndindex(3, 3))
        assert y[0, row, column, c] == f(sequential(f(0), terms) / f(9 if include else rows * columns))
    (mean,) = nn.GlobalAveragePoolOp.make([value(x)]).evaluate(x)
    assert mean[0, 0, 0, 1] == f(sequential(f(0), x[0, :, :, 1].reshape(-1)) / f(20))


def test_softmax_sums_in_order_in_f64() -> None:
    x = random(1, 30)
    (y,) = nn.SoftmaxOp.make([value(x)], {"axis": IntegerAttr(1, i64)}).evaluate(x)
    e = exp_by_four(Lanes(x.astype(np.float64) - x.astype(np.float64).max())).array
    total = 0.0
    for term in e[0]:
        total += term
    np.testing.assert_array_equal(y, (e / total).astype(f))


def test_nan_and_infinities_go_through() -> None:
    x = np.array([np.nan, np.inf, -np.inf, -0.0, 2.0], f)
    operand = value(x)
    (relu,) = nn.ReluOp.make([operand]).evaluate(x)
    np.testing.assert_array_equal(relu, [np.nan, np.inf, 0, 0, 2])
    (clamped,) = nn.ClampOp.make([operand], {"min": bound(-1), "max": bound(1)}).evaluate(x)
    np.testing.assert_array_equal(clamped, [np.nan, 1, -1, 0, 1])
    (fused,) = nn.AddOp.make([operand, operand], {"max": bound(1)}).evaluate(x, x)
    np.testing.assert_array_equal(fused, [np.nan, 1, -np.inf, 0, 1])
    image = x.reshape(1, 1, 5, 1)
    (most,) = nn.MaxPool2DOp.make([value(image)], {"window": ints([1, 2])}).evaluate(image)
    np.testing.assert_array_equal(most.reshape(-1), [np.nan, np.inf, 0, 2])


@pytest.mark.parametrize("low", [0.0, -0.0])
def test_a_clamp_at_zero_orders_zeros(low: float) -> None:
    """0 of 0 and −0, whichever is the bound; −0 of two of these."""
    x = np.array([0.0, -0.0, -1.0, 1.0], f)
    (clamped,) = nn.ClampOp.make([value(x)], {"min": bound(low)}).evaluate(x)
    negative = bool(np.signbit(low))
    np.testing.assert_array_equal(np.signbit(clamped), [False, negative, negative, False])


def test_windows_beside_the_image() -> None:
    """A dilated window may step over the image: the maximum of nothing is −∞, the mean NaN."""
    x = np.ones((1, 1, 1, 1), f)
    properties = {"window": ints([2, 1]), "padding": ints([1, 1, 0, 0]), "dilations": ints([2, 1])}
    assert nn.MaxPool2DOp.make([value(x)], properties).evaluate(x)[0].item() == -np.inf
    assert np.isnan(nn.AveragePool2DOp.make([value(x)], properties).evaluate(x)[0].item())

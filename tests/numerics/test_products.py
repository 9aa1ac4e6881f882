"""Sums of products in float32 are rounded once for each product: against exact fractions, in any shape and order.

tests/lowering/loops_to_llvm/test_fused_multiply_add.py compares millions of them with the processor's instruction.
"""

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from qmlir.numerics import products
from qmlir.numerics.products import add_products
from tests.numerics.multiply_adds import KINDS, MOST, operands, same


def nearest(exact: Fraction, sign_of_zero: float) -> np.float32:
    """The float32 nearest a fraction, ties to even."""
    if exact == 0:
        return np.float32(sign_of_zero)
    sign = 1.0 if exact > 0 else -1.0
    if abs(exact) >= Fraction(MOST) + Fraction(2) ** 103:
        return np.float32(np.copysign(np.inf, sign))
    exponent = max(-149, math.frexp(float(exact))[1] - 25)
    while abs(exact) >= Fraction(2) ** (exponent + 24):
        exponent += 1
    steps = round(exact / Fraction(2) ** exponent)
    return np.float32(np.copysign(np.ldexp(float(abs(steps)), exponent), sign))


@pytest.mark.parametrize("kind", KINDS)
def test_each_sum_is_the_nearest_number(kind: Callable[[np.random.Generator, int], Any]) -> None:
    x, w, s = operands(kind, 1000)
    got = s.copy()
    add_products(got, x[None], w[None])
    finite = np.isfinite(x) & np.isfinite(w) & np.isfinite(s)
    with np.errstate(all="ignore"):
        plain = x.astype(np.float64) * w + s  # its sign of zero, and its infinities and NaN, are right
    for i in np.flatnonzero(finite):
        exact = Fraction(float(x[i])) * Fraction(float(w[i])) + Fraction(float(s[i]))
        want = nearest(exact, float(plain[i]))
        assert got[i].tobytes() == want.tobytes(), (x[i], w[i], s[i])
    assert same(got[~finite], plain[~finite].astype(np.float32))


def test_rounding_twice_would_differ() -> None:
    """The operands beside ties do tell the two apart."""
    x, w, s = operands(KINDS[3], 3000)
    got = s.copy()
    add_products(got, x[None], w[None])
    assert not same(got, (x.astype(np.float64) * w + s).astype(np.float32))


@pytest.mark.parametrize("shape", [(5,), (3, 70), (70, 3), (2, 9, 30)])
def test_blocks_and_order(shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """Broadcast factors, and sums in several blocks, are those of one sum after another."""
    rng = np.random.default_rng(2)
    x = rng.standard_normal((6, *shape[:-1], 1)).astype(np.float32)
    w = rng.standard_normal((6, *(1 for _ in shape[:-1]), shape[-1])).astype(np.float32)
    start = rng.standard_normal(shape).astype(np.float32)
    want = start.copy()
    for k in range(6):
        add_products(want, *(np.broadcast_to(v[k], shape)[None] for v in (x, w)))
    monkeypatch.setattr(products, "BLOCK", 16)
    got = start.copy()
    add_products(got, x, w)
    assert same(got, want)


def test_other_types_round_products_too() -> None:
    """Float64 sums, and integers, which wrap around."""
    x, w = np.array([[0.1]]), np.array([[0.1]])
    total = np.array([-0.01])
    add_products(total, x, w)
    assert total[0] == 0.1 * 0.1 - 0.01
    count = np.array([100], np.int8)
    add_products(count, np.array([[10]], np.int8), np.array([[10]], np.int8))
    assert count[0] == -56


def test_nothing_to_add() -> None:
    total = np.ones((2, 3), np.float32)
    add_products(total, np.ones((0, 2, 1), np.float32), np.ones((0, 1, 3), np.float32))
    assert (total == 1).all()
    add_products(total[:0], np.ones((4, 0, 1), np.float32), np.ones((4, 1, 3), np.float32))


@pytest.mark.parametrize("other", [np.int8, np.float64])
def test_factors_of_other_types_are_numpys(other: type) -> None:
    """Stored integers as weights come to a float kernel from passes that round weights by themselves."""
    x, w = np.array([[0.1, 3.0], [1e8, -2.5]], np.float32), np.array([[3, -7], [5, 9]], other)
    total = np.zeros(2, np.float32)
    add_products(total, x, w)
    expected = np.zeros(2, np.float32)
    for a, b in zip(x, w, strict=True):
        expected += a * b
    np.testing.assert_array_equal(total, expected)

"""Sums of float32 products in machine code have the bits of numpy's, in any shape, order and range of numbers."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from qmlir.backends.cpu import products
from qmlir.numerics.products import add_products, added_by
from tests.numerics.multiply_adds import KINDS, same

Case = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]

SHAPES: dict[str, Case] = {
    "rows and columns": ((16, 40), (33, 16, 1), (33, 1, 40)),
    "fewer than a tile": ((3, 5), (7, 3, 1), (7, 1, 5)),
    "one row": ((1, 50), (9, 1, 1), (9, 1, 50)),
    "one column": ((50, 1), (9, 50, 1), (9, 1, 1)),
    "groups of a convolution": ((30, 3, 20), (9, 30, 3, 1), (9, 1, 3, 20)),
    "depthwise": ((37, 18), (9, 37, 18), (9, 1, 18)),
    "depthwise of few channels": ((37, 5), (9, 37, 5), (9, 1, 5)),
    "depthwise of pictures": ((2, 3, 7, 32), (4, 2, 3, 7, 32), (4, 1, 1, 1, 32)),
    "heads": ((2, 3, 5, 20), (8, 2, 3, 5, 1), (8, 1, 3, 1, 20)),
}


@pytest.fixture(autouse=True)
def _at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(products, "LEAST", 0)
    monkeypatch.setattr(products, "FEW", 0)


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("turned", [False, True])
def test_shapes(name: str, turned: bool) -> None:
    rng = np.random.default_rng(5)
    total, x, w = (rng.standard_normal(shape).astype(np.float32) for shape in SHAPES[name])
    if turned:  # no array lies in order in memory
        total, x, w = (np.asfortranarray(v) for v in (total, x, w))
    want = total.copy()
    add_products(want, x, w)
    assert products.add_in_machine_code(total, x, w)
    assert total.tobytes() == want.tobytes()


def test_elements_side_by_side() -> None:
    total, x, w = np.random.default_rng(6).standard_normal((3, 4, 37)).astype(np.float32)
    want = total[0].copy()
    add_products(want, x, w)
    got = total[0].copy()
    assert products.add_in_machine_code(got, x, w)
    assert got.tobytes() == want.tobytes()


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_side_by_side(kind: Callable[[np.random.Generator, int], Any]) -> None:
    from tests.numerics.multiply_adds import operands

    x, w, s = operands(kind, 300)
    want, got = s.copy(), s.copy()
    add_products(want, x[None], w[None])
    assert products.add_in_machine_code(got, x[None], w[None])
    assert same(got, want)


@pytest.mark.parametrize("kind", KINDS)
def test_numbers(kind: Callable[[np.random.Generator, int], Any]) -> None:
    """Ties, numbers beside ties, subnormal numbers, infinities and NaN among them."""
    x, w, s = operands_of(kind)
    want, got = s.copy(), s.copy()
    add_products(want, x, w)
    with added_by(products.add_in_machine_code):
        add_products(got, x, w)
    assert same(got, want)


def operands_of(kind: Callable[[np.random.Generator, int], Any]) -> tuple[Any, Any, Any]:
    """Each x with its own w on the diagonal, and with all others beside it."""
    from tests.numerics.multiply_adds import operands

    x, w, s = operands(kind, 300)
    return x[None, :, None], w[None, None], np.ascontiguousarray(np.broadcast_to(s, (300, 300)))


def test_others_stay_with_numpy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Products of single elements apart in memory, and fewer products than compiling takes the time of."""
    one = np.ones((4, 30), np.float32)
    assert not products.add_in_machine_code(one[0, ::2].copy(), one[:, ::2], one[:, ::2])
    monkeypatch.setattr(products, "LEAST", 1 << 22)
    monkeypatch.setattr(products, "_met", [0])
    monkeypatch.setattr(products, "FEW", 1 << 22)
    assert not products.add_in_machine_code(np.ones((4, 5), np.float32), one[:, :4, None], one[:, None, :5])

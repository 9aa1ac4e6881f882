"""The ways to add floats, on numbers whose sums depend on the order."""

import numpy as np

from qmlir.numerics.additions import NINE, added_nine, added_runs
from qmlir.numerics.elementary.lanes import Lanes

BIG, HALF = np.float32(2.0**24), np.float32(1)
"""BIG + 1 is BIG in float32, and BIG + 2 is more."""


def total(*places: int) -> float:
    """The sum of nine elements: BIG at the first place, ones at the others, zeros elsewhere."""
    elements = np.zeros((NINE, 1), np.float32)
    elements[list(places)] = HALF
    elements[places[0]] = BIG
    return float(added_nine(Lanes(np.zeros(1, np.float32)), [Lanes(e) for e in elements]).array[0])


def test_nine_elements_are_added_in_xnnpack_s_order() -> None:
    assert total(0, 2, 4) == total(2, 6, 8) == BIG + 2  # the ones meet before they meet the big number
    assert total(0, 1, 8) == total(6, 7) == total(4, 5, 2) == BIG  # each one meets the big number alone


def test_runs_are_scaled_before_their_sums_are_added() -> None:
    rows = np.array([[2.0**24], [1], [1], [-(2.0**24)]], np.float32)
    assert added_runs(rows, 4).tolist() == [0]
    assert added_runs(rows, 2).tolist() == [1]
    third = float(np.float32(1) / np.float32(3))
    numbers = np.array([[1], [2], [4], [8]], np.float32)
    parts = [np.float32(3) * np.float32(third), np.float32(12) * np.float32(third)]
    assert added_runs(numbers, 2, third)[0] == parts[0] + parts[1]
    assert not np.signbit(added_runs(np.array([[-0.0], [-0.0]], np.float32), 1)).any()

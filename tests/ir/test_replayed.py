"""Calls that hold once what stays as it was: the same arrays, in little memory."""

import tracemalloc
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from qmlir.ir.replayed import BLOCK, Replayed

Array = npt.NDArray[Any]


def calls() -> list[dict[str, Array]]:
    """A cache of which a call writes a row, a state that changes as a whole, and two that have few bytes or none."""
    rng, cache = np.random.default_rng(0), np.zeros((32, 200), np.float32)
    found: list[dict[str, Array]] = []
    for i in range(8):
        whole, few = rng.standard_normal((3, 500)), np.array([i, 7], np.int16)
        found.append({"cache": cache, "whole": whole, "few": few, "none": np.zeros((0, 3), np.float32)})
        cache = cache.copy()
        cache[4 * i : 4 * i + 4] = rng.standard_normal((4, 200))
    return [*found, found[0]]


def test_arrays_are_as_they_were_given() -> None:
    given = calls()
    held = Replayed(given)
    assert len(held) == len(given)
    for own, call in zip(held, given, strict=True):
        assert set(own) == set(call)
        for name, array in call.items():
            assert own[name].dtype == array.dtype
            np.testing.assert_array_equal(own[name], array)
        np.testing.assert_array_equal(own.in_order(["few", "whole"])[1], call["whole"])
        assert len(own.in_order(["few", "whole", "none"])[1:]) == 2


def test_arrays_that_change_later_stay_as_they_were() -> None:
    array = np.zeros(2 * BLOCK, np.uint8)
    held = Replayed()
    for i in range(3):
        array[BLOCK + 5] = i
        held.append({"x": array})
    assert [int(call["x"].sum()) for call in held] == [0, 1, 2]


def test_some_calls_and_arrays_made_of_others() -> None:
    held = Replayed(calls())
    some = held[2:7:2]
    assert [int(call["few"][0]) for call in some] == [2, 4, 6]
    assert int(held[-2]["few"][0]) == 7
    twice = some.computed("few", {"few": lambda a: 2 * a, "more": lambda a: a + 1})
    assert [(int(c["few"][0]), int(c["more"][0])) for c in twice] == [(4, 3), (8, 5), (12, 7)]
    assert some.computed("other", {}) is some
    with pytest.raises(IndexError):
        held[9]


def test_what_stays_is_held_once() -> None:
    """100 calls on a cache of 1 MB, each of which writes a hundredth of it; the first is met again."""
    cache = np.zeros((100, 2600), np.float32)
    tracemalloc.start()
    try:
        held = Replayed()
        for i in range(100):
            held.append({"cache": cache})
            cache = cache.copy()
            cache[i] = i + 1
        held.append({"cache": np.zeros_like(cache)})
        assert tracemalloc.get_traced_memory()[0] < 6 * cache.nbytes
    finally:
        tracemalloc.stop()
    assert held[100]["cache"].max() == 0
    assert held[99]["cache"].max() == 99

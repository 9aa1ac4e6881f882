"""Rings: tiles one behind the other, apart while they live, or an account of what does not fit."""

import hypothesis.strategies as st
from hypothesis import given

from qmlir.transforms.npu.place.arena import Full, Item, around
from qmlir.transforms.npu.tile.engines import Region
from tests.transforms.npu.test_arena import items, overlap


def test_tiles_follow_each_other_around_the_region() -> None:
    tiles = [Item(str(n), 40, n, n) for n in range(5)]
    assert around(tiles, Region(1000, 100)) == [1000, 1040, 1000, 1040, 1000]


def test_a_tile_goes_around_one_that_lives_on() -> None:
    tiles = [Item("weights", 30, 0, 9), *(Item(str(n), 30, n, n) for n in range(1, 5))]
    assert around(tiles, Region(0, 100)) == [0, 30, 60, 30, 60]


def test_where_the_ring_leaves_no_room_in_one_piece_tiles_lie_tight() -> None:
    """Next fit puts b behind a, so that c finds 40 bytes twice; a tighter placement has them in one piece."""
    tiles = [Item("a", 40, 0, 1), Item("b", 20, 1, 4), Item("c", 80, 3, 4)]
    found = around(tiles, Region(0, 100))
    assert not isinstance(found, Full)
    assert not overlap(tiles, found)


def test_what_does_not_fit_is_named() -> None:
    tiles = [Item("a", 60, 0, 1), Item("b", 60, 1, 2), Item("c", 5, 2, 2)]
    assert around(tiles, Region(0, 100)) == Full(tiles[:2])


@given(items(), st.integers(50, 400))
def test_tiles_lie_apart_in_their_region(given: list[Item], size: int) -> None:
    found = around(given, Region(7, size))
    if isinstance(found, Full):
        assert sum(item.size for item in found.live) > size * 0.6
    else:
        assert not overlap(given, found)
        assert all(7 <= at and at + item.size <= 7 + size for at, item in zip(found, given, strict=True))

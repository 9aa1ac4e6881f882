"""Arenas: what lives at once lies apart, and the bound is a bound."""

from collections.abc import Sequence
from itertools import combinations, permutations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from qmlir.ir.arena import Full, Item, Leads, around, live_at_most, place


@st.composite
def items(draw: st.DrawFn, most: int = 12) -> list[Item]:
    """Some items whose lives cross."""
    found: list[Item] = []
    for n in range(draw(st.integers(0, most))):
        first = draw(st.integers(0, 20))
        found.append(Item(f"t{n}", draw(st.integers(1, 50)), first, first + draw(st.integers(0, 10))))
    return found


def live_together(a: Item, b: Item) -> bool:
    return a.first <= b.last and b.first <= a.last


def overlap(given: Sequence[Item], offsets: Sequence[int]) -> bool:
    """Whether two items that live at once share bytes."""
    placed = zip(given, offsets, strict=True)
    return any(
        live_together(a, b) and at < to + b.size and to < at + a.size for (a, at), (b, to) in combinations(placed, 2)
    )


@given(items())
def test_what_lives_at_once_lies_apart(given: list[Item]) -> None:
    arena = place(given)
    assert not overlap(given, arena.offsets)
    assert arena.size == max((o + item.size for o, item in zip(arena.offsets, given, strict=True)), default=0)
    steps = range(32)
    assert arena.bound == max(sum(i.size for i in given if i.first <= step <= i.last) for step in steps)
    assert arena.bound <= arena.size


@pytest.mark.slow
@given(items(), st.data())
def test_items_of_a_pair_overlap_behind_the_lead(given: list[Item], data: st.DataObject) -> None:
    pairs = [
        (low, high)
        for (low, a), (high, b) in permutations(enumerate(given), 2)
        if a.first == b.last and (b.first, high) < (a.first, low)
    ]
    leads: Leads = {pair: data.draw(st.integers(0, 60)) for pair in pairs}
    arena = place(given, leads=leads)
    for (a, one), (b, other) in combinations(enumerate(given), 2):
        if not live_together(one, other):
            continue
        first, then = (a, b) if arena.offsets[a] <= arena.offsets[b] else (b, a)
        if arena.offsets[a] == arena.offsets[b] and (b, a) in leads:
            first, then = b, a
        distance = min(given[first].size, leads.get((first, then), given[first].size))
        assert arena.offsets[then] - arena.offsets[first] >= distance
    assert arena.bound <= arena.size
    assert arena.size <= place(given).size or leads


def test_a_chain_with_leads_takes_its_largest_item_and_the_leads() -> None:
    chain = [Item(str(n), 100, n, n + 1) for n in range(5)]
    leads: Leads = {(n + 1, n): 10 for n in range(4)}
    arena = place(chain, leads=leads)
    assert arena.size == 140
    assert arena.bound == 100
    assert place(chain).size == 200


def test_the_step_at_which_most_lives() -> None:
    assert live_at_most([Item("a", 3, 0, 5), Item("b", 4, 2, 3), last := Item("c", 9, 7, 7)]) == (9, [last])


def test_climbing_reaches_what_no_greedy_order_does() -> None:
    """By size, by start and by size · duration leave a gap of one byte, another order leaves none."""
    given = [Item("a", 4, 3, 3), Item("b", 1, 2, 5), Item("c", 2, 4, 7), Item("d", 3, 4, 4), Item("e", 2, 3, 4)]
    assert place(given, enough=9).size == 9
    assert place(given).size == place(given).bound == 8


def test_a_chain_takes_its_two_largest_neighbours() -> None:
    sizes = [100, 300, 50, 200, 10]
    chain = [Item(str(n), size, n, n + 1) for n, size in enumerate(sizes)]
    assert place(chain).size == place(chain).bound == 400


# ---------------------------------------------------------------------------------------------------------------
# Rings: tiles one behind the other, apart while they live, or an account of what does not fit


def test_tiles_follow_each_other_around_the_region() -> None:
    tiles = [Item(str(n), 40, n, n) for n in range(5)]
    assert around(tiles, 100) == [0, 40, 0, 40, 0]


def test_a_tile_goes_around_one_that_lives_on() -> None:
    tiles = [Item("weights", 30, 0, 9), *(Item(str(n), 30, n, n) for n in range(1, 5))]
    assert around(tiles, 100) == [0, 30, 60, 30, 60]


def test_where_the_ring_leaves_no_room_in_one_piece_tiles_lie_tight() -> None:
    """Next fit puts b behind a, so that c finds 40 bytes twice; a tighter placement has them in one piece."""
    tiles = [Item("a", 40, 0, 1), Item("b", 20, 1, 4), Item("c", 80, 3, 4)]
    found = around(tiles, 100)
    assert not isinstance(found, Full)
    assert not overlap(tiles, found)


def test_what_does_not_fit_is_named() -> None:
    tiles = [Item("a", 60, 0, 1), Item("b", 60, 1, 2), Item("c", 5, 2, 2)]
    assert around(tiles, 100) == Full(tiles[:2])


@given(items(), st.integers(50, 400))
def test_tiles_lie_apart_in_their_region(given: list[Item], size: int) -> None:
    found = around(given, size)
    if isinstance(found, Full):
        assert sum(item.size for item in found.live) > size * 0.6
    else:
        assert not overlap(given, found)
        assert all(0 <= at and at + item.size <= size for at, item in zip(found, given, strict=True))

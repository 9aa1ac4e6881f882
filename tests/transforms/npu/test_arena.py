"""Arenas: what lives at once lies apart, and the bound is a bound."""

from collections.abc import Sequence
from itertools import combinations

import hypothesis.strategies as st
from hypothesis import given

from qmlir.transforms.npu.place.arena import Item, live_at_most, place


@st.composite
def items(draw: st.DrawFn, most: int = 12) -> list[Item]:
    """Some items whose lives cross."""
    found: list[Item] = []
    for n in range(draw(st.integers(0, most))):
        first = draw(st.integers(0, 20))
        found.append(Item(f"t{n}", draw(st.integers(1, 50)), first, first + draw(st.integers(0, 10))))
    return found


def overlap(given: Sequence[Item], offsets: Sequence[int]) -> bool:
    """Whether two items that live at once share bytes."""
    placed = zip(given, offsets, strict=True)
    return any(
        a.lives_with(b) and at < to + b.size and to < at + a.size for (a, at), (b, to) in combinations(placed, 2)
    )


@given(items())
def test_what_lives_at_once_lies_apart(given: list[Item]) -> None:
    arena = place(given)
    assert not overlap(given, arena.offsets)
    assert arena.size == max((o + item.size for o, item in zip(arena.offsets, given, strict=True)), default=0)
    steps = range(32)
    assert arena.bound == max(sum(i.size for i in given if i.first <= step <= i.last) for step in steps)
    assert arena.bound <= arena.size


def test_the_step_at_which_most_lives() -> None:
    assert live_at_most([Item("a", 3, 0, 5), Item("b", 4, 2, 3), Item("c", 9, 7, 7)]) == (9, 7)


def test_climbing_reaches_what_no_greedy_order_does() -> None:
    """By size, by start and by size · duration leave a gap of one byte, another order leaves none."""
    given = [Item("a", 4, 3, 3), Item("b", 1, 2, 5), Item("c", 2, 4, 7), Item("d", 3, 4, 4), Item("e", 2, 3, 4)]
    assert place(given, enough=9).size == 9
    assert place(given).size == place(given).bound == 8


def test_a_chain_takes_its_two_largest_neighbours() -> None:
    sizes = [100, 300, 50, 200, 10]
    chain = [Item(str(n), size, n, n + 1) for n, size in enumerate(sizes)]
    assert place(chain).size == place(chain).bound == 400

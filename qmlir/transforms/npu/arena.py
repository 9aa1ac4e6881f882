"""Where things lie that share bytes over time: no two that live at once may overlap, and as few bytes as can be.

The most bytes that live at once are a lower bound, which most networks reach by one of three greedy orders. Where none
does, orders are changed, a pair of items at a time, while that makes the arena no larger (hill climbing).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

SWAPS = 2000
"""How many changes of the order are tried before an arena above the lower bound is taken as it is."""


@dataclass(frozen=True)
class Item:
    """`size` bytes that live from step `first` to step `last`, both included."""

    name: str
    size: int
    first: int
    last: int

    def lives_with(self, other: "Item") -> bool:
        """Whether there is a step at which both live."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """A placement.

    offsets   of each item, in bytes
    size      bytes of all
    bound     the most bytes that live at once: no placement has fewer
    """

    offsets: Sequence[int]
    size: int
    bound: int


ORDERS: Sequence[Callable[[Item], tuple[int, ...]]] = (
    lambda item: (-item.size, item.first),
    lambda item: (item.first, -item.size),
    lambda item: (-item.size * (item.last - item.first + 1), item.first),
)
"""Largest first, first come first, and the most bytes · steps first."""


def live_at_most(items: Sequence[Item]) -> tuple[int, int]:
    """The most bytes that live at once, and the first step at which they do."""
    changes: dict[int, int] = {}
    for item in items:
        changes[item.first] = changes.get(item.first, 0) + item.size
        changes[item.last + 1] = changes.get(item.last + 1, 0) - item.size
    live = most = when = 0
    for step in sorted(changes):
        live += changes[step]
        if live > most:
            most, when = live, step
    return most, when


def place(items: Sequence[Item], enough: int = 0) -> Arena:
    """Gives items offsets.

    Args:
        items: Their sizes are multiples of what offsets are to be multiples of.
        enough: An arena of so many bytes is as good as a smaller one.
    """
    bound, _ = live_at_most(items)
    goal = max(bound, enough)
    neighbours = _neighbours(items)
    best = _Trial((), (), -1)
    for order in ORDERS:
        trial = _first_fit(items, neighbours, sorted(range(len(items)), key=lambda n: order(items[n])))
        best = trial if best.size < 0 or trial.size < best.size else best
        if best.size <= goal:
            break
    if best.size > goal:
        best = _climbed(items, neighbours, best, goal)
    return Arena(best.offsets, best.size, bound)


@dataclass(frozen=True)
class _Trial:
    """What first fit makes of an order."""

    order: Sequence[int]
    offsets: Sequence[int]
    size: int


def _neighbours(items: Sequence[Item]) -> list[list[int]]:
    """For each item those that live at some step with it."""
    starting = sorted(range(len(items)), key=lambda n: items[n].first)
    found: list[list[int]] = [[] for _ in items]
    live: list[int] = []
    for n in starting:
        live = [other for other in live if items[other].last >= items[n].first]
        for other in live:
            found[n].append(other)
            found[other].append(n)
        live.append(n)
    return found


def _first_fit(items: Sequence[Item], neighbours: Sequence[Sequence[int]], order: Sequence[int]) -> _Trial:
    """Places items in an order, each at the lowest offset that is free while it lives."""
    offsets = [-1] * len(items)
    for n in order:
        taken = sorted((offsets[other], items[other].size) for other in neighbours[n] if offsets[other] >= 0)
        at = 0
        for offset, size in taken:
            if offset >= at + items[n].size:
                break
            at = max(at, offset + size)
        offsets[n] = at
    return _Trial(order, offsets, max((o + item.size for o, item in zip(offsets, items, strict=True)), default=0))


def _climbed(items: Sequence[Item], neighbours: Sequence[Sequence[int]], best: _Trial, goal: int) -> _Trial:
    """Changes places in the order between an item at the top of the arena, or a neighbour of it, and another."""
    rng = np.random.default_rng(0)
    for _ in range(SWAPS):
        top = max(range(len(items)), key=lambda n: best.offsets[n] + items[n].size)
        near = [top, *neighbours[top]]
        one, other = int(rng.choice(near)), int(rng.integers(len(items)))
        order = list(best.order)
        i, j = order.index(one), order.index(other)
        order[i], order[j] = order[j], order[i]
        trial = _first_fit(items, neighbours, order)
        best = trial if trial.size <= best.size else best
        if best.size <= goal:
            break
    return best

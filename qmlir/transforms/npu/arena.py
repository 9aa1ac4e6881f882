"""Memory planning: packs buffers with known lifetimes into an arena of as few bytes as possible.

Buffers that are live at the same time do not overlap. The most bytes that are live at once are a lower bound, which
one of three greedy orders reaches for most networks. If none of the orders reaches it, pairs of buffers in the order
are swapped as long as the arena does not grow (hill climbing).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

SWAPS = 2000
"""How many swaps in the order are tried before an arena above the lower bound is accepted."""


@dataclass(frozen=True)
class Item:
    """A buffer of `size` bytes that is live from step `first` to step `last`, both included."""

    name: str
    size: int
    first: int
    last: int

    def lives_with(self, other: "Item") -> bool:
        """Whether both buffers are live at some step."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True)
class Arena:
    """A placement of buffers.

    offsets   offset of each buffer, in bytes
    size      bytes of the whole arena
    bound     the most bytes that are live at once: no placement is smaller
    """

    offsets: Sequence[int]
    size: int
    bound: int


ORDERS: Sequence[Callable[[Item], tuple[int, ...]]] = (
    lambda item: (-item.size, item.first),
    lambda item: (item.first, -item.size),
    lambda item: (-item.size * (item.last - item.first + 1), item.first),
)
"""The greedy orders: largest first, earliest first, and the largest product of bytes and steps first."""


def live_at_most(items: Sequence[Item]) -> tuple[int, int]:
    """The most bytes that are live at once, and the first step at which they are."""
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
    """Assigns an offset to each buffer.

    Args:
        items: The buffers; each size is a multiple of the alignment.
        enough: Stop the search at an arena of this many bytes; a smaller arena is no better.
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
    """The result of first fit for an order."""

    order: Sequence[int]
    offsets: Sequence[int]
    size: int


def _neighbours(items: Sequence[Item]) -> list[list[int]]:
    """For each item, the items that are live with it at some step."""
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
    """Places items in the given order, each at the lowest offset that is free during its lifetime."""
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
    """Improves an order by swapping an item at the top of the arena, or a neighbour of it, with a random item."""
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

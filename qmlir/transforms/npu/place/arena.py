"""Memory planning: packs buffers with known lifetimes into an arena, or in a ring around their region."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qmlir.transforms.npu.tile.engines import Region

# ---------------------------------------------------------------------------------------------------------------
# Memory planning: packs buffers with known lifetimes into an arena of as few bytes as possible.
#
# Buffers that are live at the same time do not overlap. The most bytes that are live at once are a lower bound, which
# one of three greedy orders reaches for most networks. If none of the orders reaches it, pairs of buffers in the order
# are swapped as long as the arena does not grow (hill climbing).


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


# ---------------------------------------------------------------------------------------------------------------
# Circular (ring) buffers: places the tiles of a role one behind the other around their region.
#
# Each tile lives for a few commands only. A queue that loads the next tiles can run ahead as long as it does not reach
# bytes that are still in use. A tile is therefore placed behind the tile before it (next fit), not in the first free
# room, so that bytes are reused as late as possible.


@dataclass(frozen=True)
class Full:
    """Reports tiles that do not fit a region: the tiles that are live at the fullest step."""

    live: Sequence[Item]


def around(items: Sequence[Item], region: Region) -> list[int] | Full:
    """The address of each tile in its region; Full if the tiles do not fit.

    Tiles between two moments at which no tile is live are placed independently. If going around leaves too little
    contiguous room, they are placed from the start of the region, and if need be as tightly as possible.

    Args:
        items: The tiles; each size is a multiple of the alignment.
        region: The region of their role.
    """
    addresses = [0] * len(items)
    at = 0
    for group in _groups(items):
        here = [items[n] for n in group]
        found = _next_fit(here, region.size, at) or _next_fit(here, region.size, 0) or _tight(here, region.size)
        if found is None:
            return Full(_live_at_peak(here))
        for n, offset in zip(group, found, strict=True):
            addresses[n] = region.base + offset
        at = found[-1] + here[-1].size
    return addresses


def _groups(items: Sequence[Item]) -> Iterator[list[int]]:
    """Yields the tiles in order of their first use, in groups between which no tile is live."""
    group: list[int] = []
    until = -1
    for n in sorted(range(len(items)), key=lambda n: items[n].first):
        if group and items[n].first > until:
            yield group
            group = []
        group.append(n)
        until = max(until, items[n].last)
    if group:
        yield group


def _next_fit(items: Sequence[Item], size: int, at: int) -> list[int] | None:
    """Offsets by next fit: each item lies behind the item before it, or in the next room that is large enough."""
    found: list[int] = []
    live: list[tuple[int, Item]] = []
    for item in items:
        live = [(offset, other) for offset, other in live if other.last >= item.first]
        place = _next_room(sorted((o, o + other.size) for o, other in live), item.size, size, at)
        if place is None:
            return None
        found.append(place)
        live.append((place, item))
        at = place + item.size
    return found


def _next_room(taken: Sequence[tuple[int, int]], wanted: int, size: int, at: int) -> int | None:
    """The first free offset from `at` on, around the region; `taken` lists occupied (start, end) in order."""
    for start in (at, 0):
        for low, high in taken:
            if low >= start + wanted:
                break
            start = max(start, high)
        if start + wanted <= size:
            return start
    return None


def _tight(items: Sequence[Item], size: int) -> list[int] | None:
    arena = place(items, size)
    return list(arena.offsets) if arena.size <= size else None


def _live_at_peak(items: Sequence[Item]) -> list[Item]:
    _, step = live_at_most(items)
    return [item for item in items if item.first <= step <= item.last]

"""Memory planning: gives buffers with known lifetimes offsets in one memory.

The problem is the same for every memory: items of some bytes, live from one step to another, must lie apart while they
are live together. It is solved greedily: items in some order, each in one of the gaps that the items before it leave
free during its life (`plan`, `gaps`). The callers differ in the order and in the gap that they take, because they want
different things of the result:

* The arena of a program for the CPU (transforms/loops/plan_memory.py) takes the largest item first, and the smallest
  gap that is large enough (best fit). One pass over thousands of buffers is enough: a few bytes more cost nothing.
* A memory that a device shares among tensors (`place`) is short, and so is the arena of a program for a
  microcontroller. Three orders are tried, each with first fit and with best fit, and the best of them is improved until
  the arena is as small as the bytes that are live at once.
* The region of a device's tiles is used as a circular buffer (`around`). A tile lives for a few commands, and a queue
  that loads the next tiles runs ahead until it reaches bytes that are still in use. A tile is therefore placed behind
  the tile before it (next fit), so that bytes are reused as late as possible.
* Tensors that stay inside a device (transforms/npu/cascade/residency.py) are chosen one after the other. Each is placed
  at that end of a gap which leaves the tiles around it the most contiguous bytes.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

CACHE_LINE = 64
"""The size of a cache line in bytes, to which a program's arena, its weights and every buffer in them are aligned."""

# ---------------------------------------------------------------------------------------------------------------
# Items, gaps, and the greedy plan


@dataclass(frozen=True)
class Item:
    """A buffer of `size` bytes that is live from step `first` to step `last`, both included."""

    name: str
    size: int
    first: int
    last: int


Interval = tuple[int, int]
"""Bytes from the first number to before the second."""

Fit = Callable[[Sequence[Interval], int], int | None]
"""Chooses the offset of an item from its size and the bytes that are taken while it is live; None if none fits."""

ENDLESS = 1 << 62
"""The size of a memory without an end."""


def gaps(taken: Iterable[Interval], end: int = ENDLESS, start: int = 0) -> Iterator[Interval]:
    """Yields what is free from `start` to `end`, in order; between two intervals that touch, a gap without bytes."""
    for low, high in sorted(taken):
        if low >= start:
            yield start, low
        start = max(start, high)
    if start <= end:
        yield start, end


def first_fit(taken: Sequence[Interval], size: int) -> int:
    """The lowest offset at which the item fits."""
    return next(low for low, high in gaps(taken) if high - low >= size)


def best_fit(taken: Sequence[Interval], size: int) -> int:
    """The start of the smallest gap into which the item fits."""
    return min((gap for gap in gaps(taken) if gap[1] - gap[0] >= size), key=lambda gap: gap[1] - gap[0])[0]


@dataclass
class NextFit:
    """The first offset from the end of the item before on at which the item fits, around a memory of `size` bytes."""

    size: int
    at: int = 0

    def __call__(self, taken: Sequence[Interval], size: int) -> int | None:
        around = (*gaps(taken, self.size, self.at), *gaps(taken, self.size))
        found = next((low for low, high in around if high - low >= size), None)
        self.at = self.at if found is None else found + size
        return found


Leads = Mapping[tuple[int, int], int]
"""Pairs of items that may overlap although they are live together: numbers of the item that begins first and of the
other item → the least bytes from the start of the first to the start of the other (codegen/leads.py)."""


def plan(
    items: Sequence[Item],
    order: Iterable[int],
    fit: Fit,
    neighbours: Sequence[Sequence[int]] | None = None,
    leads: Leads | None = None,
) -> list[int] | None:
    """Offsets at which items lie apart while they are live together; None if an item does not fit.

    Args:
        items: The items; each size is a multiple of the alignment.
        order: The numbers of the items, in the order in which they are placed.
        fit: Chooses the offset of an item.
        neighbours: For each item, the items that are live with it; computed unless given.
        leads: Items that may overlap, each lead at most the first item's size; the fit must be first fit or best fit.
    """
    offsets, sizes = [-1] * len(items), [item.size for item in items]
    neighbours = neighbours or live_together(items)
    distance = (leads or {}).get
    for n in order:
        placed = [other for other in neighbours[n] if offsets[other] >= 0]
        if leads:  # the offsets that n must not have, which leave gaps for an item without bytes
            size = sizes[n]
            found = fit(
                [(offsets[o] - distance((n, o), size), offsets[o] + distance((o, n), sizes[o])) for o in placed], 0
            )
        else:
            found = fit([(offsets[o], offsets[o] + sizes[o]) for o in placed], sizes[n])
        if found is None:
            return None
        offsets[n] = found
    return offsets


def live_together(items: Sequence[Item]) -> list[list[int]]:
    """For each item, the items that are live with it at some step."""
    found: list[list[int]] = [[] for _ in items]
    live: list[int] = []
    for n in sorted(range(len(items)), key=lambda n: items[n].first):
        live = [other for other in live if items[other].last >= items[n].first]
        for other in live:
            found[n].append(other)
            found[other].append(n)
        live.append(n)
    return found


def size_of(items: Sequence[Item], offsets: Sequence[int]) -> int:
    """The bytes that a plan takes."""
    return max((offset + item.size for offset, item in zip(offsets, items, strict=True)), default=0)


def live_at_most(items: Sequence[Item]) -> tuple[int, list[Item]]:
    """The most bytes that are live at once, which no plan undercuts, and the items that are live then."""
    changes: dict[int, int] = {}
    for item in items:
        changes[item.first] = changes.get(item.first, 0) + item.size
        changes[item.last + 1] = changes.get(item.last + 1, 0) - item.size
    live = most = when = 0
    for step in sorted(changes):
        live += changes[step]
        if live > most:
            most, when = live, step
    return most, [item for item in items if item.first <= when <= item.last]


# ---------------------------------------------------------------------------------------------------------------
# Arenas as small as possible
#
# The most bytes that are live at once are a lower bound, which one of the greedy plans reaches for most networks. If
# none of them reaches it, pairs of buffers in the order are swapped as long as the arena does not grow (hill
# climbing).


SWAPS = 2000
"""How many swaps in the order are tried before an arena above the lower bound is accepted."""

ORDERS: Sequence[Callable[[Item], tuple[int, ...]]] = (
    lambda item: (-item.size, item.first),
    lambda item: (item.first, -item.size),
    lambda item: (-item.size * (item.last - item.first + 1), item.first),
)
"""The greedy orders: largest first, earliest first, and the largest product of bytes and steps first."""


@dataclass(frozen=True)
class Arena:
    """A placement of buffers.

    offsets   offset of each buffer, in bytes
    size      bytes of the whole arena
    bound     bytes that no placement undercuts: the most that are live at once, or less where buffers may overlap
    """

    offsets: Sequence[int]
    size: int
    bound: int


def _least_bytes(items: Sequence[Item], leads: Leads | None) -> int:
    """The bytes that no placement undercuts, whichever items overlap."""
    return max((item.size for item in items), default=0) if leads else live_at_most(items)[0]


def place(items: Sequence[Item], enough: int = 0, leads: Leads | None = None, bound: int | None = None) -> Arena:
    """Assigns an offset to each buffer, in an arena as small as can be found.

    Args:
        items: The buffers; each size is a multiple of the alignment.
        enough: Stop the search at an arena of this many bytes; a smaller arena is no better.
        leads: Buffers that may overlap; each lead is a multiple of the alignment.
        bound: Bytes that no placement undercuts; by default, all that are live at once, or the largest buffer where
            some may overlap.
    """
    bound = _least_bytes(items, leads) if bound is None else bound
    leads = leads and {pair: min(lead, items[pair[0]].size) for pair, lead in leads.items()}
    goal, neighbours = max(bound, enough), live_together(items)

    def tried(order: Sequence[int], fit: Fit = first_fit) -> Arena:
        offsets = plan(items, order, fit, neighbours, leads)
        assert offsets is not None
        return Arena(offsets, size_of(items, offsets), bound)

    def swapped(order: Sequence[int], arena: Arena) -> list[int]:
        """The order with an item at the top of the arena, or a neighbour of it, and a random item swapped."""
        top = max(range(len(items)), key=lambda n: arena.offsets[n] + items[n].size)
        one, other = int(rng.choice([top, *neighbours[top]])), int(rng.integers(len(items)))
        i, j, found = order.index(one), order.index(other), list(order)
        found[i], found[j] = found[j], found[i]
        return found

    orders = [sorted(range(len(items)), key=lambda n: key(items[n])) for key in ORDERS]
    order, arena = orders[0], tried(orders[0])
    for other in orders[1:]:
        if arena.size > goal and (trial := tried(other)).size < arena.size:
            order, arena = other, trial
    if leads:  # a result begins before its operand: chains of them are placed from their last result on
        chained = {n for pair in leads for n in pair}
        orders.append(sorted(range(len(items)), key=lambda n: (n not in chained, -items[n].last, -items[n].size)))
    for other in orders if leads is not None else ():
        for fit in (first_fit, best_fit):
            if arena.size > goal and (trial := tried(other, fit)).size < arena.size:
                order, arena = other, trial
    rng = np.random.default_rng(0)
    for _ in range(SWAPS if arena.size > goal else 0):
        other = swapped(order, arena)
        if (trial := tried(other)).size <= arena.size:
            order, arena = other, trial
        if arena.size <= goal:
            break
    return arena


# ---------------------------------------------------------------------------------------------------------------
# Circular (ring) buffers


@dataclass(frozen=True)
class Full:
    """Reports tiles that do not fit a region: the tiles that are live at the fullest step."""

    live: Sequence[Item]


def around(items: Sequence[Item], size: int) -> list[int] | Full:
    """The offset of each tile in a region of some bytes; Full if the tiles do not fit.

    Tiles between two moments at which no tile is live are placed independently. If going around leaves too little
    contiguous room, they are placed from the start of the region, and if need be as tightly as possible.

    Args:
        items: The tiles; each size is a multiple of the alignment.
        size: Bytes of the region.
    """
    offsets = [0] * len(items)
    at = 0
    for group in _groups(items):
        here = [items[n] for n in group]
        order = range(len(here))
        found = plan(here, order, NextFit(size, at)) or plan(here, order, NextFit(size)) or place(here, size).offsets
        if size_of(here, found) > size:
            return Full(live_at_most(here)[1])
        for n, offset in zip(group, found, strict=True):
            offsets[n] = offset
        at = found[-1] + here[-1].size
    return offsets


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

"""Where the tiles of a role lie: one behind the other around their region, so that bytes are reused as late as can be.

Tiles live for a few commands each. A queue that brings the next ones may run ahead as long as it does not meet what is
still in use; therefore a tile is not put where there is room first, but behind the one before it (next fit).
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qmlir.transforms.npu.arena import Item, live_at_most, place
from qmlir.transforms.npu.regions import Region


@dataclass(frozen=True)
class Full:
    """Tiles that do not fit a region: those that live when there is no room left."""

    live: Sequence[Item]


def around(items: Sequence[Item], region: Region) -> list[int] | Full:
    """The address of each tile in its region; sizes are multiples of what addresses are to be multiples of.

    Tiles between two moments at which none lives are placed on their own. Where going around leaves too little room
    in one piece, they are placed from the start of the region, and if need be as tightly as they can be.
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
    """Items in the order of their lives, divided where none lives."""
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
    """Offsets of items, each behind the one before it or, where that is no room, at the next one there is."""
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
    """The first room from `at` on, around the region, between what is taken: (start, end) in order."""
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

"""Circular (ring) buffers: places the tiles of a role one behind the other around their region.

Each tile lives for a few commands only. A queue that loads the next tiles can run ahead as long as it does not reach
bytes that are still in use. A tile is therefore placed behind the tile before it (next fit), not in the first free
room, so that bytes are reused as late as possible.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qmlir.transforms.npu.arena import Item, live_at_most, place
from qmlir.transforms.npu.regions import Region


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

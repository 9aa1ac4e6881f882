"""Regions: the parts of each memory that hold the tiles of a role, as the device file divides it.

A memory inside the device consists of regions only. Its roles share it by `SHARES`, in whole banks if it has banks, so
that computing and loading use different regions. If tensors of the network stay in the memory during some layers, the
tiles of these layers get the `Rest` of it, divided among the roles for which they have tiles. An external memory holds
tensors and constants. Only if a queue brings constants there from another external memory is its end, `STAGED` of its
size, divided into regions for their tiles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from qmlir.devices import Device
from qmlir.devices.description import Memory
from qmlir.devices.values import Role

SHARES: Mapping[Role, int] = {"ifm": 8, "ofm": 4, "weights": 4, "acc": 7, "bias": 1, "scales": 1, "lut": 1}
"""Role → its share of a memory, relative to the other roles in it."""

STAGED = Fraction(1, 8)
"""The part of an external memory that is reserved for constants brought there from another external memory."""

PARTS = 64
"""The number of parts into which a memory without banks is divided."""


@dataclass(frozen=True)
class Region:
    """Bytes base to base + size of a memory."""

    base: int
    size: int

    @property
    def end(self) -> int:
        """The address behind its last byte."""
        return self.base + self.size


@dataclass(frozen=True)
class Rest:
    """The part of a memory inside the device that tensors staying there leave to the tiles of a layer.

    memory  id of the memory
    region  the bytes, in whole parts of the memory
    roles   roles of the tiles that the layer has there
    """

    memory: str
    region: Region
    roles: tuple[Role, ...]


@cache
def regions(device: Device, rest: Rest | None = None) -> Mapping[tuple[str, Role], Region]:
    """(memory, role) → the region of the role's tiles; other roles and memories have no tiles.

    Args:
        device: The device.
        rest: The part of a memory that a layer's tiles have; by default all. If it is too small, regions are empty.
    """
    found: dict[tuple[str, Role], Region] = {}
    for memory in device.memory:
        if roles := _tiled(memory, device):
            whole = _whole(memory)
            if rest is not None and rest.memory == memory.id:
                whole, roles = rest.region, rest.roles
            found |= {(memory.id, role): region for role, region in _divided(whole, roles, memory).items()}
    return found


def part_of(memory: Memory) -> int:
    """The granularity of a memory's regions in bytes: a bank, or about 1 / PARTS of the memory, aligned."""
    if memory.banks > 1 and not memory.external:
        return memory.bytes // memory.banks
    return max(_whole(memory).size // PARTS // memory.align, 1) * memory.align


def staged_from(memory: Memory, device: Device) -> int:
    """The address at which the regions of a memory begin; tensors and constants lie before it."""
    return _whole(memory).base if _tiled(memory, device) else memory.bytes


def _tiled(memory: Memory, device: Device) -> Sequence[Role]:
    """The roles whose tiles lie in a memory."""
    if not memory.external:
        return memory.holds
    sources = {m for queue in device.queue if memory.id in queue.target for m in queue.source if m != memory.id}
    brought = {role for m in device.memory if m.external and m.id in sources for role in m.holds}
    return [role for role in memory.holds if role in brought]


def _whole(memory: Memory) -> Region:
    """The part of a memory that all its regions together cover."""
    if not memory.external:
        return Region(0, memory.bytes)
    size = max(int(memory.bytes * STAGED) // memory.align, len(memory.holds)) * memory.align
    base = (memory.bytes - size) // memory.align * memory.align
    return Region(base, memory.bytes - base)


def _divided(whole: Region, roles: Sequence[Role], memory: Memory) -> dict[Role, Region]:
    """Divides a region among roles: a part for each role, then each next part where the share is filled least."""
    part = part_of(memory)
    parts = whole.size // part
    counts = dict.fromkeys(roles, 1 if parts >= len(roles) else 0)
    for _ in range(parts - len(roles) if roles else 0):
        counts[min(roles, key=lambda role: Fraction(counts[role], SHARES[role]))] += 1
    found: dict[Role, Region] = {}
    base = whole.base
    for role in roles:
        found[role] = Region(base, counts[role] * part)
        base += counts[role] * part
    return found

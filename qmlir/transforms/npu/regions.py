"""Which part of a memory the tiles of a role have, as the device file divides it.

A memory inside the device is all regions: its roles share it by `SHARES`, in whole banks where it has banks, so that
what is computed and what is loaded meanwhile do not meet. Where tensors of the network stay in it for some layers,
these layers have the `Rest` of it, and there only the roles of which they have tiles. In an external memory lie tensors
and constants; only where a queue brings constants there from another external memory does `STAGED` of it, its end,
belong to their tiles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

from qmlir.device import Device
from qmlir.device.description import Memory
from qmlir.device.values import Role

SHARES: Mapping[Role, int] = {"ifm": 8, "ofm": 4, "weights": 4, "acc": 7, "bias": 1, "scales": 1, "lut": 1}
"""How roles that share a memory divide it, one relative to the other."""

STAGED = Fraction(1, 8)
"""The part of an external memory that belongs to what is brought there from another one."""

PARTS = 64
"""A memory without banks is divided as if it had so many."""


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
    """What tensors that stay in a memory inside the device leave of it to the tiles of a layer.

    memory  its id
    region  the bytes, in whole parts of the memory
    roles   of the tiles that the layer has there
    """

    memory: str
    region: Region
    roles: tuple[Role, ...]


@cache
def regions(device: Device, rest: Rest | None = None) -> Mapping[tuple[str, Role], Region]:
    """(memory, role) → where its tiles lie; other than these there are none.

    Args:
        device: The device.
        rest: What a layer has of a memory; all of it unless given. In too little of it regions have no bytes.
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
    """Bytes of which the regions of a memory are multiples: of a bank, or of what addresses are multiples of."""
    if memory.banks > 1 and not memory.external:
        return memory.bytes // memory.banks
    return max(_whole(memory).size // PARTS // memory.align, 1) * memory.align


def staged_from(memory: Memory, device: Device) -> int:
    """Where the regions of a memory begin: what lies before is for tensors and constants."""
    return _whole(memory).base if _tiled(memory, device) else memory.bytes


def _tiled(memory: Memory, device: Device) -> Sequence[Role]:
    """The roles whose tiles lie in a memory."""
    if not memory.external:
        return memory.holds
    sources = {m for queue in device.queue if memory.id in queue.target for m in queue.source if m != memory.id}
    brought = {role for m in device.memory if m.external and m.id in sources for role in m.holds}
    return [role for role in memory.holds if role in brought]


def _whole(memory: Memory) -> Region:
    """What all regions of a memory are together."""
    if not memory.external:
        return Region(0, memory.bytes)
    size = max(int(memory.bytes * STAGED) // memory.align, len(memory.holds)) * memory.align
    base = (memory.bytes - size) // memory.align * memory.align
    return Region(base, memory.bytes - base)


def _divided(whole: Region, roles: Sequence[Role], memory: Memory) -> dict[Role, Region]:
    """A region in parts, at least one for each role, the others where there are the fewest for the share."""
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

"""Which part of a memory the tiles of a role have, as the device file divides it.

A memory inside the device is all regions: its roles share it by `SHARES`, in whole banks where it has banks, so that
what is computed and what is loaded meanwhile do not meet. In an external memory lie tensors and constants; only where a
queue brings constants there from another external memory does `STAGED` of it, its end, belong to their tiles.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

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


def regions(device: Device) -> dict[tuple[str, Role], Region]:
    """(memory, role) → where its tiles lie; other than these there are none."""
    found: dict[tuple[str, Role], Region] = {}
    for memory in device.memory:
        if roles := _tiled(memory, device):
            whole = _whole(memory)
            found |= {(memory.id, role): region for role, region in _divided(whole, roles, memory).items()}
    return found


def staged_from(memory: Memory, device: Device) -> int:
    """Where the regions of a memory begin: what lies before is for tensors and constants."""
    return _whole(memory).base if _tiled(memory, device) else memory.bytes


def _tiled(memory: Memory, device: Device) -> list[Role]:
    """The roles whose tiles lie in a memory."""
    if not memory.external:
        return list(memory.holds)
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
    part = _part(whole, memory)
    counts = dict.fromkeys(roles, 1)
    for _ in range(whole.size // part - len(roles)):
        counts[min(roles, key=lambda role: Fraction(counts[role], SHARES[role]))] += 1
    found: dict[Role, Region] = {}
    base = whole.base
    for role in roles:
        found[role] = Region(base, counts[role] * part)
        base += counts[role] * part
    return found


def _part(whole: Region, memory: Memory) -> int:
    """Bytes of a part: a bank, or a multiple of what addresses are multiples of."""
    if memory.banks > 1 and not memory.external:
        return memory.bytes // memory.banks
    return max(whole.size // PARTS // memory.align, 1) * memory.align

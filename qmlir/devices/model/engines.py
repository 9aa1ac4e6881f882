"""Maps work to the queues of a device, and data to its memories and their regions, as the device file says."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import NamedTuple

from qmlir.devices.description.device import Device, Memory, Queue
from qmlir.devices.description.schema import Role
from qmlir.numerics import Array
from qmlir.numerics.packing import BYTE, fit


class WeightBits(NamedTuple):
    """The bits of each weight of a layer: in the constants and in their transfers, and where the array reads it."""

    stored: int
    read: int


class Arranging(NamedTuple):
    """The queue that arranges computed matrices as weights, and the memory where the array reads them."""

    queue: Queue
    target: Memory


@dataclass(frozen=True)
class Engines:
    """The queues and memories of a device as the compiler uses them.

    device   the device
    array    the queue that executes contractions
    post     the queue that executes `Post` and `Arithmetic`
    pool     the queue that executes `Pool` and `Reduce`
    """

    device: Device
    array: Queue
    post: Queue
    pool: Queue

    @staticmethod
    def of(device: Device) -> "Engines":
        """The engines of a device.

        `post` is the array if the array has `post` fused or there is no vector engine; otherwise it is the first vector
        engine. `pool` is the first vector engine, or the array if there is no vector engine.
        """
        array = next(q for q in device.queue if q.engine == "array")
        vector = [q for q in device.queue if q.engine == "vector"]
        post = array if "post" in array.fused or not vector else vector[0]
        pool = vector[0] if vector else array
        return Engines(device, array, post, pool)

    @property
    def external(self) -> Memory:
        """The memory where the tensors of the network lie."""
        return next(m for m in self.device.memory if m.external and not m.read_only)

    def constants(self, role: Role) -> Memory:
        """The memory that holds the constants of a role from the start; a read-only memory takes precedence."""
        outside = [m for m in self.device.memory if m.external and role in m.holds]
        return next((m for m in outside if m.read_only), self.external)

    def staging(self, role: Role, source: Memory) -> tuple[Memory, Queue] | None:
        """The memory to which data of a role is loaded, and the queue that loads it; None to use it in place."""
        holding = sorted((m for m in self.device.memory if role in m.holds), key=lambda m: m.external)
        for memory in holding:
            for queue in self.device.queue:
                if queue.engine == "dma" and source.id in queue.source and memory.id in queue.target:
                    return memory, queue
        return None

    def weight_bits(self, weights: Array) -> WeightBits:
        """How the device holds a layer's weights, given as it multiplies them.

        Weights of a byte are packed at the least width that all of them fit and that the array, or the queue that loads
        weights, unpacks. If both unpack that width, the array does: weights stay packed until it reads them.
        """
        own, loading = BYTE * weights.itemsize, self.staging("weights", self.constants("weights"))
        loaded = () if loading is None else loading[1].unpacks
        widths = sorted({*self.array.unpacks, *loaded}) if own == BYTE else []
        bits = next((bits for bits in widths if fit(weights, bits)), own)
        return WeightBits(bits, own if bits in loaded and bits not in self.array.unpacks else bits)

    def reading(self, queue: Queue) -> tuple[Memory, Queue] | None:
        """Where a queue reads tiles of tensors, and the queue that loads them; None if it reads tensors in place."""
        return None if "load" in queue.fused else self.staging("ifm", self.external)

    @property
    def arranging(self) -> Arranging | None:
        """How matrices become weights; None if no queue moves them from where it reads data to where weights go.

        Whoever arranges reads data like all other queues (`reading`).
        """
        staged = self.staging("weights", self.constants("weights"))
        for queue in self.device.queue:
            read = self.reading(queue)
            source, target = (self.external if read is None else read[0]), None if staged is None else staged[0]
            reached = queue.engine != "dma" or (
                source.id in queue.source and target is not None and target.id in queue.target
            )
            if queue.arranges and target is not None and reached:
                return Arranging(queue, target)
        return None

    def writing(self, queue: Queue) -> tuple[Memory, Queue] | None:
        """Where a queue writes tiles of results, and the queue that stores them; None if it writes in place."""
        if "store" in queue.fused:
            return None
        for memory in (m for m in self.device.memory if "ofm" in m.holds and not m.external):
            for store in self.device.queue:
                if store.engine == "dma" and memory.id in store.source and self.external.id in store.target:
                    return memory, store
        return None

    @property
    def staying(self) -> Memory | None:
        """The memory inside the device where tensors can stay from one layer to the next; None if there is none.

        All queues read their data from it and can leave results there.
        """
        read = [self.reading(queue) for queue in (self.array, self.post, self.pool)]
        written = [self.writing(queue) for queue in (self.post, self.pool)]
        memories = [None if way is None else way[0] for way in read] + [way[0] for way in written if way is not None]
        memory = memories[0]
        fits = memory is not None and not memory.external and "ofm" in memory.holds
        return memory if fits and all(other == memory for other in memories) else None

    @property
    def sums(self) -> Memory:
        """The memory of the sums of products."""
        return self.device.memory_of("acc")

    @property
    def between(self) -> tuple[Memory, Role]:
        """The memory and role of the intermediate tile that one command leaves to the next."""
        written = self.writing(self.post)
        return (self.sums, "acc") if written is None else (written[0], "ofm")

    def tables(self) -> Role:
        """The role under which tables of multipliers and shifts are stored."""
        known = {role for memory in self.device.memory for role in memory.holds}
        return "scales" if "scales" in known else "bias"

    def index(self, queue: Queue) -> int:
        """The number of a queue."""
        return self.device.queue.index(queue)


# ---------------------------------------------------------------------------------------------------------------
# Regions: the parts of each memory that hold the tiles of a role, as the device file divides it.
#
# A memory inside the device consists of regions only. Its roles share it by `SHARES`, in whole banks if it has banks,
# so that computing and loading use different regions. If tensors of the network stay in the memory during some layers,
# the tiles of these layers get the `Rest` of it, divided among the roles for which they have tiles. An external memory
# holds tensors and constants. Only if a queue brings constants there from another external memory is its end, `STAGED`
# of its size, divided into regions for their tiles; npu-place then moves what tiles use of them down to the tensors.


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
    return _whole(memory).base if _tiled(memory, device) else memory.addressable


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
        return Region(0, memory.addressable)
    size = max(int(memory.addressable * STAGED) // memory.align, len(memory.holds)) * memory.align
    base = (memory.addressable - size) // memory.align * memory.align
    return Region(base, memory.addressable - base)


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

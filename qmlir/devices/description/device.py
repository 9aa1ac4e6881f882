"""The schema of device files: every key, its unit, its meaning and its default.

A device is a TOML file. These classes are its schema and the reference page of its keys (`unit` and `description` of
each field). Legality, the quantizer's constraints, tiling, the cost model and the simulator take all their numbers from
these classes.

One machine model serves for all devices: memories, and queues that execute commands in order. A `dma` queue moves data
between memories, an `array` queue multiplies and adds, a `vector` queue executes the steps after a contraction. Queues
wait for each other.
"""

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import Field, model_validator

from qmlir.devices.description.schema import (
    Accumulator,
    Addend,
    Bits,
    Bytes,
    BytesPerCycle,
    Count,
    Cycles,
    Elements,
    ElementsPerCycle,
    Fallback,
    FewBits,
    Flag,
    Lanes,
    Line,
    MHz,
    MultiplierBits,
    Name,
    Operations,
    Role,
    Share,
    Storage,
    Sync,
    Table,
    TileElements,
    broken,
)
from qmlir.errors import near_misses
from qmlir.isa.encoding import ADDRESS_BITS, MEMORY_BITS, QUEUE_BITS
from qmlir.numerics.contracts import CONTRACTS

# ---------------------------------------------------------------------------------------------------------------
# [array]: the engine that multiplies and adds


class ArrayLanes(Table):
    """How many products the array makes in a cycle: k · n · m."""

    k: Lanes = Field(description="elements of one sum, multiplied and added together")
    n: Lanes = Field(description="output channels")
    m: Lanes = Field(default=1, description="output positions")

    @property
    def products(self) -> int:
        """Products in a cycle."""
        return self.k * self.n * self.m


class Mode(Table):
    """Types of data and weights that the array multiplies, and how fast."""

    a: Storage = Field(description="type of the data")
    w: Storage = Field(description="type of the weights")
    acc: Accumulator = Field(description="type of the sums")
    rate: Share = Field(default=1.0, description="products in a cycle, of all lanes")


class Fold(Table):
    """What one pass of the array over k · n weights costs, besides a cycle for each m output positions."""

    preload: Cycles = Field(default=0, description="weights go into the array")
    fill: Cycles = Field(default=0, description="until the first sum leaves it")
    drain: Cycles = Field(default=0, description="until the last one has")
    overlapped: Flag = Field(default=True, description="the next pass begins while this one drains")


class DepthwiseLanes(Table):
    """How many products of a depthwise convolution the array makes in a cycle: c · taps · m."""

    c: Lanes = Field(description="channels")
    taps: Lanes = Field(default=1, description="elements of the window")
    m: Lanes = Field(default=1, description="output positions")

    @property
    def products(self) -> int:
        """Products in a cycle."""
        return self.c * self.taps * self.m


class Depthwise(Table):
    """The resources of the array for depthwise convolutions."""

    lanes: DepthwiseLanes = Field(description="products in a cycle")


class Array(Table):
    """The engine that multiplies and adds."""

    dataflow: Literal["ws", "os", "dot"] = Field(
        description="what stays in the array while data streams through it: weights, sums (outputs), or nothing"
    )
    lanes: ArrayLanes = Field(description="products in a cycle")
    modes: tuple[Mode, ...] = Field(min_length=1, description="types that it multiplies")
    fold: Fold = Field(default=Fold(), description="cost of a pass")
    overflow: Literal["wrap", "saturate", "trap"] = Field(default="wrap", description="of sums beyond their type")
    depthwise: Depthwise | None = Field(default=None, description="without it depthwise convolutions have no place")


# ---------------------------------------------------------------------------------------------------------------
# [[memory]], [[queue]]


class Directions(Table):
    """A bandwidth for reads and a bandwidth for writes."""

    read: BytesPerCycle = Field(description="from the memory")
    write: BytesPerCycle | None = Field(default=None, description="to the memory; none where it is read-only")


class Latency(Table):
    """Cycles until the first byte of a transfer arrives."""

    read: Cycles = Field(default=0, description="from the memory")
    write: Cycles = Field(default=0, description="to the memory")


class Memory(Table):
    """A memory that commands address."""

    id: Name = Field(description="its name in this file")
    bytes: Bytes = Field(description="size")
    holds: tuple[Role, ...] = Field(min_length=1, description="what may be placed there")
    align: Bytes = Field(default=1, description="addresses of tensors are multiples of this power of two")
    banks: Count = Field(default=1, description="equal parts; data of two roles never share one where there are more")
    external: Flag = Field(default=False, description="outside the device: networks begin and end there")
    read_only: Flag = Field(default=False, description="holds constants alone")
    bytes_per_cycle: Directions | None = Field(
        default=None, description="that it serves, whoever asks, reads and writes in turn"
    )
    latency: Latency = Field(default=Latency(), description="of a transfer")

    @property
    def addressable(self) -> int:
        """The bytes that commands can address: those of a larger memory beyond the reach of an address stay unused."""
        return min(self.bytes, 1 << ADDRESS_BITS)

    def aligned(self, size: int) -> int:
        """The bytes that a buffer of some size takes: rounded up, so that the next one is aligned."""
        return -(-size // self.align) * self.align


class Queue(Table):
    """An engine that executes its commands in order, in parallel with the other queues."""

    id: Name = Field(description="its name in this file")
    engine: Literal["dma", "array", "vector"] = Field(description="what it does")
    source: tuple[Name, ...] = Field(default=(), alias="from", description="dma: memories it reads")
    target: tuple[Name, ...] = Field(default=(), alias="to", description="dma: memories it writes")
    bytes_per_cycle: BytesPerCycle | None = Field(default=None, description="dma: at most")
    setup: Cycles = Field(default=0, description="before each command's first byte or element")
    burst: Bytes = Field(default=1, description="dma: a transfer moves whole multiples of this from each row")
    dims: Count = Field(default=3, description="dma: loops of one transfer")
    can_pad: Flag = Field(default=False, description="dma: writes padding around what it moves")
    outstanding: Count = Field(default=1, description="commands whose setup may overlap")
    shares_bus_with: Name | None = Field(default=None, description="dma: a queue with which it shares its bytes")
    fused: tuple[Literal["load", "post", "pool", "store"], ...] = Field(
        default=(), description="steps that are part of this queue's commands instead of commands of their own"
    )
    elements_per_cycle: ElementsPerCycle | None = Field(
        default=None,
        description="vector, or array with `post` or `pool` fused: results in a cycle; dma: weights that it unpacks or "
        "arranges",
    )
    unpacks: tuple[FewBits, ...] = Field(
        default=(),
        description="array: widths, 2 to 7, of packed weights that it reads; dma: of those that it unpacks on the way",
    )
    arranges: Flag = Field(
        default=False, description="it copies computed matrices to where the array reads them as weights, for matmul"
    )
    pipelined: Flag = Field(
        default=False, description="array: what follows a contraction on it overlaps with it, and the longer counts"
    )

    def executes(self, step: Literal["post", "pool"]) -> bool:
        """Whether the queue executes `step`: a vector engine always does, an array if the step is fused."""
        return self.engine == "vector" or (self.engine == "array" and step in self.fused)


# ---------------------------------------------------------------------------------------------------------------
# [layout], [quant], [ops]


class WeightTile(Table):
    """The tile in which weights are stored."""

    n: TileElements = Field(description="output channels")
    k: TileElements = Field(description="elements of one sum")


class Layout(Table):
    """The memory layout of tensors: rows, columns and channels, with channels dense."""

    channels: Elements = Field(default=1, description="channels are padded to a multiple of this")
    weights: WeightTile | None = Field(default=None, description="weights are padded to multiples of these")

    @property
    def tile(self) -> tuple[int, int]:
        """The tile in which weights are stored: output channels by elements of a sum."""
        return (1, 1) if self.weights is None else (self.weights.n, self.weights.k)

    def in_tiles(self, outputs: int, terms: int) -> int:
        """How many weights whole tiles have, those included that fill the tiles at the edges."""
        n, k = self.tile
        return -(-outputs // n) * n * -(-terms // k) * k


class ZeroPoint(Table):
    """Whether the device computes with zero points other than 0."""

    activations: Flag = Field(default=False, description="of data")
    weights: Flag = Field(default=False, description="of weights: differences of 9 bits are stored in 8, around one")


class Shifts(Table):
    """The range of right shifts of a requantization."""

    min: Bits = Field(default=0, description="least")
    max: Bits = Field(default=31, description="most")
    per: Literal["factor", "layer"] = Field(
        default="factor", description="each multiplier has its own, or all multipliers of a layer share one"
    )


class Bias(Table):
    """How the device stores and adds the bias of a contraction."""

    type: Addend = Field(
        default="i32", description="its type; i8 and i16 are moved left to the sums' steps, all of a layer alike"
    )
    when: Literal["init", "post"] = Field(default="init", description="the sums begin with it, or it is added after")

    @property
    def moved_bits(self) -> int | None:
        """Bits of a bias that is shifted left to the scale of the sums; None if the bias is not shifted."""
        return int(self.type[1:]) if self.type in ("i8", "i16") else None


class Quantization(Table):
    """The quantized types of the device, and how it changes from one scale to another."""

    types: tuple[Storage, ...] = Field(
        min_length=1, description="types of data; unsigned bytes count as i8, less by 128, and so do their zero points"
    )
    scale: Literal["pow2", "mult-shift", "float32"] = Field(
        description="a shift, an integer multiplier and a shift, or a float32 factor"
    )
    multiplier_bits: MultiplierBits = Field(default=32, description="of a mult-shift's multiplier, its sign included")
    shift: Shifts = Field(default=Shifts(), description="of a pow2 or mult-shift scale")
    granularity: Literal["tensor", "channel"] = Field(description="one scale for a result, or one for each channel")
    round: Literal["half-up", "half-away", "half-even", "tfl-double"] = Field(description="of what is shifted out")
    zero_point: ZeroPoint = Field(default=ZeroPoint(), description="whether there are any")
    bias: Bias = Field(default=Bias(), description="of contractions")

    @property
    def contract(self) -> str:
        """The rounding contract of numerics/contracts.py that the device follows."""
        known = [(c.step, name) for name, c in CONTRACTS.items() if c.device == (self.scale, self.round)]
        if self.scale != "mult-shift":
            return known[0][1]
        return max((step, name) for step, name in known if step <= 1 << 32 - self.multiplier_bits)[1]

    @model_validator(mode="after")
    def _has_contract(self) -> Self:
        devices = {contract.device for contract in CONTRACTS.values() if contract.device is not None}
        if (self.scale, self.round) not in devices:
            known = sorted({rounding for scale, rounding in devices if scale == self.scale})
            got = f"{self.round} with {self.multiplier_bits} bits"
            raise broken(f"a {self.scale} scale rounds {' or '.join(known)}, got {got}")
        if self.shift.min > self.shift.max:
            raise broken("shift.min must be at most shift.max")
        return self


# ---------------------------------------------------------------------------------------------------------------
# The file


class Device(Table):
    """A whole device file.

    >>> import qmlir
    >>> qmlir.load_device("nmp").name
    'nmp'
    """

    format: Literal[1] = Field(alias="schema", description="version of these keys")
    name: Name = Field(description="as given to --target")
    description: Line = Field(default="", description="what it is, for lists of devices; programs do not depend on it")
    encoder: Name | None = Field(
        default=None, description="what turns commands into the device's own words, of an installed package"
    )
    clock: MHz = Field(alias="clock_mhz", description="frequency of everything that counts cycles")
    array: Array = Field(description="what multiplies and adds")
    memory: tuple[Memory, ...] = Field(min_length=1, max_length=1 << MEMORY_BITS, description="memories")
    queue: tuple[Queue, ...] = Field(min_length=1, max_length=1 << QUEUE_BITS, description="engines")
    sync: Sync = Field(description="how queues wait for each other")
    layout: Layout = Field(default=Layout(), description="how tensors lie in memory")
    quant: Quantization = Field(description="how scales change")
    ops: Operations = Field(description="what it computes")
    fallback: Fallback = Field(description="what it does not compute")

    def __hash__(self) -> int:
        return hash(self.name)

    @property
    def peak_macs(self) -> int:
        """The most products (multiply-accumulates) in a cycle: of the array's lanes, or of its depthwise lanes."""
        depthwise = 0 if self.array.depthwise is None else self.array.depthwise.lanes.products
        return max(self.array.lanes.products, depthwise)

    def with_(self, changes: Mapping[str, object]) -> "Device":
        """Returns a variant of the device: `device.with_({"array.lanes.k": 16, "memory.act.bytes": 65536})`.

        Args:
            changes: Key → its value, as plain data in the form of a device file (devices/description/changing.py).

        Raises:
            OptionError: There is no such key, or the variant breaks the schema.
        """
        from qmlir.devices.description.changing import changed

        return changed(self, changes)

    def memory_of(self, role: Role) -> Memory:
        """The memory that holds a role; a memory inside the device takes precedence over an external memory."""
        holding = sorted((m for m in self.memory if role in m.holds), key=lambda m: m.external)
        return holding[0]

    def bus_of(self, queue: Queue) -> str:
        """The name of a queue's bus: the id of the first queue in the file that shares it."""
        shared = {queue.id}
        for _ in self.queue:
            shared |= {q.id for q in self.queue if q.shares_bus_with in shared}
            shared |= {q.shares_bus_with for q in self.queue if q.id in shared and q.shares_bus_with is not None}
        return next(q.id for q in self.queue if q.id in shared)

    @model_validator(mode="after")
    def _hangs_together(self) -> Self:
        _unique("memory", [m.id for m in self.memory])
        _unique("queue", [q.id for q in self.queue])
        for queue in self.queue:
            _check_queue(queue, self)
        for memory in self.memory:
            _check_memory(memory)
        self.sync.check([q.id for q in self.queue], [m.id for m in self.memory])
        for role in ("ifm", "ofm", "weights", "acc"):
            if not any(role in m.holds for m in self.memory):
                raise broken(f"some memory must hold {role}")
        if not any(m.external and not m.read_only for m in self.memory):
            raise broken("a memory must be external, where networks begin and end")
        if not any(q.engine == "array" for q in self.queue):
            raise broken("some queue must have the engine array")
        pools = self.ops.maxpool is not None or self.ops.avgpool is not None
        for step in ("post", "pool") if pools else ("post",):
            if not any(q.executes(step) for q in self.queue):
                raise broken(f"some queue must have the engine vector, or array with {step} fused")
        _check_operations(self)
        return self


def _unique(table: str, names: list[str]) -> None:
    twice = sorted({n for n in names if names.count(n) > 1})
    if twice:
        raise broken(f"{table} {twice[0]} is there twice")


def _check_memory(memory: Memory) -> None:
    if memory.align & memory.align - 1:
        raise broken(f"memory {memory.id}: align must be a power of two, got {memory.align} bytes")
    if memory.bytes % memory.banks:
        raise broken(f"memory {memory.id}: bytes must be a multiple of its {memory.banks} banks")
    banked = memory.banks > 1 and not memory.external
    least = len(memory.holds) * (memory.bytes // memory.banks if banked else memory.align)
    if memory.bytes < least:
        parts = f"must have a bank, or align bytes, for each of {', '.join(memory.holds)}"
        raise broken(f"memory {memory.id}: {parts}: at least {least} bytes, got {memory.bytes}")


def _check_operations(device: Device) -> None:
    """Checks what operations need of other tables."""
    if device.ops.add is not None and device.ops.add.multiplier_bits is not None and device.quant.scale != "mult-shift":
        raise broken(f"ops.add.multiplier_bits is for a mult-shift scale, got {device.quant.scale}")
    if device.ops.add is not None and device.ops.add.ratio != "any" and device.ops.add.multiplier_bits is None:
        raise broken(f"ops.add.ratio = {device.ops.add.ratio} needs ops.add.multiplier_bits")
    if "lut" in device.ops.act and device.ops.lut is None:
        raise broken("ops.act names lut, but there is no table ops.lut")
    if device.ops.matmul is not None and not any(q.arranges for q in device.queue):
        raise broken("ops.matmul needs a queue that arranges computed matrices as weights (arranges = true)")
    if device.ops.depthwise is not None and device.array.depthwise is None:
        raise broken("ops.depthwise needs the table array.depthwise")


def _check_queue(queue: Queue, device: Device) -> None:
    known = [m.id for m in device.memory]
    for memory in (*queue.source, *queue.target):
        if memory not in known:
            raise broken(f"queue {queue.id}: there is no memory {memory}; {near_misses(memory, known) or 'add it'}")
    others = {q.id: q.engine for q in device.queue if q.id != queue.id}
    if queue.shares_bus_with is not None and queue.shares_bus_with not in others:
        near = near_misses(queue.shares_bus_with, others) or f"there are {', '.join(others) or 'none'}"
        raise broken(f"queue {queue.id}: there is no other queue {queue.shares_bus_with}; {near}")
    if queue.shares_bus_with is not None and {queue.engine, others[queue.shares_bus_with]} != {"dma"}:
        got = f"{queue.id} ({queue.engine}) and {queue.shares_bus_with} ({others[queue.shares_bus_with]})"
        raise broken(f"queue {queue.id}: shares_bus_with is for two queues of the engine dma, got {got}")
    if queue.unpacks:
        _check_unpacking(queue, device)
    needed = {
        "dma": ("from", "to", "bytes_per_cycle"),
        "vector": ("elements_per_cycle",),
        "array": ("elements_per_cycle",) if {"post", "pool"} & set(queue.fused) else (),
    }[queue.engine]
    given = {
        "from": queue.source,
        "to": queue.target,
        "bytes_per_cycle": queue.bytes_per_cycle,
        "elements_per_cycle": queue.elements_per_cycle,
    }
    missing = [key for key in needed if not given[key]]
    if missing:
        raise broken(f"queue {queue.id}: the engine {queue.engine} needs {', '.join(missing)}")
    if queue.arranges:
        _check_arranging(queue, device)


def _check_arranging(queue: Queue, device: Device) -> None:
    """Checks that a queue that arranges matrices says how fast, and that a transfer moves data to where weights lie."""
    if queue.elements_per_cycle is None:
        raise broken(f"queue {queue.id}: arranges needs elements_per_cycle")
    data, weights = ({m.id for m in device.memory if role in m.holds} for role in ("ifm", "weights"))
    if queue.engine == "dma" and not (data & set(queue.source) and weights & set(queue.target)):
        raise broken(
            f"queue {queue.id}: arranges is for a queue from a memory that holds ifm to one that holds weights"
        )


def _check_unpacking(queue: Queue, device: Device) -> None:
    """Checks that a queue that unpacks weights meets weights, and that the array multiplies them as bytes."""
    if queue.engine == "vector":
        raise broken(f"queue {queue.id}: unpacks is for the engines array and dma, got vector")
    holding = {m.id for m in device.memory if "weights" in m.holds}
    if queue.engine == "dma" and not (holding & set(queue.source) and holding & set(queue.target)):
        raise broken(f"queue {queue.id}: unpacks is for a queue from and to memories that hold weights")
    if not any(mode.w == "i8" for mode in device.array.modes):
        raise broken(f"queue {queue.id}: unpacks needs one of array.modes with w = i8, which weights are unpacked to")

"""How many cycles a command takes on a device, computed from the numbers of the device file alone.

The array makes one pass for each tile of n output channels by k terms, and a pass takes a cycle for every m output
positions. The commands after a contraction are bound by elements per cycle, a transfer by the bytes per cycle of its
bus. In addition, each byte that is read from or written to a memory with a bandwidth occupies that memory: a memory
serves one request after the other, reads and writes alike, whichever engine asks.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import ceil

from qmlir.devices import Device
from qmlir.devices.description.device import Memory, Queue
from qmlir.isa.blocks import Block, Footprint
from qmlir.isa.commands import (
    Arithmetic,
    Arrange,
    Convolve,
    ConvolveDepthwise,
    Fill,
    Host,
    Move,
    Norm,
    Normalize,
    Pool,
    Post,
    Reduce,
    SetContext,
    Softmax,
    Unpack,
    Window,
)
from qmlir.isa.encoding import Command
from qmlir.numerics.packing import packed_bytes


@dataclass(frozen=True)
class Demand:
    """The cycles that a command occupies each resource of the device.

    engine     cycles of its queue's engine; for a transfer, cycles of the bus
    memories   number of a memory → cycles of that memory's bandwidth
    setup      cycles before the first byte or element
    """

    engine: int = 0
    memories: Mapping[int, int] = field(default_factory=dict[int, int])
    setup: int = 0

    @property
    def busy(self) -> int:
        """Cycles from the first byte or element to the last, if no other command competes."""
        return max(self.engine, *self.memories.values(), 0)


def demand(command: Command, device: Device, touched: Footprint) -> Demand:
    """The cycles that a command occupies each resource of the device.

    Args:
        command: The command.
        device: The device.
        touched: The command's footprint.
    """
    queue = device.queue[command.queue]
    if isinstance(command, Host):
        fallback = device.fallback
        moved = ceil((command.read + command.written + command.constants) / exact(fallback.bytes_per_cycle))
        return Demand(max(moved, ceil(command.work / exact(fallback.macs_per_cycle))), {}, fallback.setup)
    engine = _engine_cycles(command, queue, device)
    if not engine:
        return Demand()
    burst = queue.burst if queue.engine == "dma" else 1
    memories, latency = _memory_cycles(touched, device, burst)
    return Demand(engine, memories, 0 if isinstance(command, SetContext) else queue.setup + latency)


def _engine_cycles(command: Command, queue: Queue, device: Device) -> int:
    """Cycles of the engine alone, as if memories had unlimited bandwidth."""
    match command:
        case Move() | Fill():
            rate = queue.bytes_per_cycle or queue.elements_per_cycle or 1.0
            burst = queue.burst if queue.engine == "dma" else 1
            return ceil(_rounded(command.size, burst) * command.rows * command.planes / exact(rate))
        case Unpack():
            moved = _rounded(packed_bytes(command.count, command.bits), queue.burst)
            arriving = ceil(moved / exact(queue.bytes_per_cycle or 1.0))
            return max(arriving, _elements(command.count, queue) if queue.elements_per_cycle else 0)
        case Arrange():
            size = _rounded(command.columns * command.bits // 8, queue.burst if queue.engine == "dma" else 1)
            arriving = ceil(size * command.rows / exact(queue.bytes_per_cycle)) if queue.bytes_per_cycle else 0
            return max(arriving, _elements(device.layout.in_tiles(*command.matrix), queue))
        case Convolve():
            return _convolution(command, device)
        case ConvolveDepthwise():
            return _depthwise(command, device)
        case Post() | Arithmetic() | Reduce():
            return _elements(command.rows * command.columns * command.channels, queue)
        case Pool():
            window = command.kernel_rows * command.kernel_columns
            return _elements(command.out_rows * command.out_columns * command.channels * window, queue)
        case Softmax() | Normalize():
            return _elements(command.rows * command.channels * _passes(command, device), queue)
        case SetContext():
            return 1
        case _:
            return 0


def products(command: Command) -> int:
    """How many products (multiply-accumulates) a command computes."""
    if not isinstance(command, Window):
        return 0
    places = command.out_rows * command.out_columns * command.kernel_rows * command.kernel_columns * command.channels
    return places * (command.out_channels if isinstance(command, Convolve) else 1)


def _rate(data_bits: int, weight_bits: int, device: Device) -> float:
    """The share of its peak rate at which the array multiplies these types; weights of few bits are bytes to it."""
    for mode in device.array.modes:
        if (mode.a, mode.w) == (f"i{data_bits}", f"i{max(weight_bits, 8)}"):
            return mode.rate
    return 1.0


def _convolution(command: Convolve, device: Device) -> int:
    lanes, fold = device.array.lanes, device.array.fold
    terms = command.kernel_rows * command.kernel_columns * command.channels
    passes = ceil(command.out_channels / lanes.n) * ceil(terms / lanes.k)
    positions = ceil(command.out_rows * command.out_columns / lanes.m)
    working = ceil(passes * positions / exact(_rate(command.data_bits, command.weight_bits, device)))
    overhead = fold.preload + fold.fill + fold.drain
    return working + overhead * (1 if fold.overlapped else passes)


def _depthwise(command: ConvolveDepthwise, device: Device) -> int:
    if device.array.depthwise is None:
        return 0
    lanes, fold = device.array.depthwise.lanes, device.array.fold
    passes = ceil(command.channels / lanes.c) * ceil(command.kernel_rows * command.kernel_columns / lanes.taps)
    positions = ceil(command.out_rows * command.out_columns / lanes.m)
    working = ceil(passes * positions / exact(_rate(command.data_bits, command.weight_bits, device)))
    return working + fold.fill + fold.drain


def _elements(count: int, queue: Queue) -> int:
    return ceil(count / exact(queue.elements_per_cycle or 1.0))


def _passes(command: Softmax | Normalize, device: Device) -> int:
    """How often the device goes over each row."""
    ops = device.ops
    if isinstance(command, Softmax):
        table = ops.softmax
    else:
        table = ops.layer_norm if command.norm is Norm.LAYER else ops.rms_norm
    return 1 if table is None else table.passes


def _memory_cycles(touched: Footprint, device: Device, burst: int) -> tuple[dict[int, int], int]:
    """Cycles of each touched memory that has a bandwidth, and the sum of the latencies of all touched memories."""
    shares: dict[int, Fraction] = {}
    latencies: dict[tuple[int, bool], int] = {}
    for block, memory, reads in _touches(touched, device):
        latencies[block.place.memory, reads] = memory.latency.read if reads else memory.latency.write
        rates = memory.bytes_per_cycle
        if rates is not None:
            rate = rates.read if reads else rates.write or rates.read
            moved = _rounded(block.size, burst) * block.rows * block.planes / exact(rate)
            shares[block.place.memory] = shares.get(block.place.memory, Fraction(0)) + moved
    return {number: ceil(share) for number, share in shares.items()}, sum(latencies.values())


def _touches(touched: Footprint, device: Device) -> Iterator[tuple[Block, Memory, bool]]:
    """Yields each block with its memory, and whether the command reads it."""
    for blocks, reads in ((touched.reads, True), (touched.writes, False)):
        for block in blocks:
            if block.place.memory < len(device.memory):
                yield block, device.memory[block.place.memory], reads


def _rounded(size: int, burst: int) -> int:
    return -(-size // burst) * burst


@cache
def exact(number: float) -> Fraction:
    """A rate as the exact decimal in the device file, so that 0.1 is a tenth."""
    return Fraction(str(number))

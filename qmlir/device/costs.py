"""How many cycles a command keeps its engine busy, from the numbers of the device file alone.

The array makes one pass for each tile of n output channels by k terms and takes a cycle for every m output positions;
what follows is bound by elements a cycle, and data movement by the slowest of queue and memories.
"""

from fractions import Fraction
from math import ceil, prod

from qmlir.device import Device
from qmlir.device.description import Queue
from qmlir.isa.commands import (
    Arithmetic,
    Convolve,
    ConvolveDepthwise,
    Fill,
    Host,
    Move,
    Pool,
    Post,
    Reduce,
    SetContext,
    Window,
)
from qmlir.isa.encoding import Command


def busy_cycles(command: Command, device: Device) -> int:
    """Cycles from a command's first byte or element to its last."""
    queue = device.queue[command.queue]
    match command:
        case Move():
            return _transfer(
                command.size,
                command.rows * command.planes,
                (command.source.memory, command.target.memory),
                queue,
                device,
            )
        case Fill():
            return _transfer(command.size, command.rows * command.planes, (command.target.memory,), queue, device)
        case Convolve():
            return _convolution(command, device)
        case ConvolveDepthwise():
            return _depthwise(command, device)
        case Post() | Arithmetic():
            return _elements(command.rows * command.columns * command.channels, queue)
        case Pool():
            window = command.kernel_rows * command.kernel_columns
            return _elements(command.out_rows * command.out_columns * command.channels * window, queue)
        case Reduce():
            return _elements(command.rows * command.columns * command.channels, queue)
        case SetContext():
            return 1
        case Host():
            fallback = device.fallback
            return fallback.setup + ceil((command.read + command.written) / _exact(fallback.bytes_per_cycle))
        case _:
            return 0


def products(command: Command) -> int:
    """How many products a command computes."""
    if not isinstance(command, Window):
        return 0
    places = command.out_rows * command.out_columns * command.kernel_rows * command.kernel_columns * command.channels
    return places * (command.out_channels if isinstance(command, Convolve) else 1)


def _rate(data_bits: int, weight_bits: int, device: Device) -> float:
    """The share of the peak at which the array multiplies these types."""
    for mode in device.array.modes:
        if (mode.a, mode.w) == (f"i{data_bits}", f"i{weight_bits}"):
            return mode.rate
    return 1.0


def _convolution(command: Convolve, device: Device) -> int:
    lanes, fold = device.array.lanes, device.array.fold
    terms = command.kernel_rows * command.kernel_columns * command.channels
    passes = ceil(command.out_channels / lanes.n) * ceil(terms / lanes.k)
    positions = ceil(command.out_rows * command.out_columns / lanes.m)
    working = ceil(passes * positions / _exact(_rate(command.data_bits, command.weight_bits, device)))
    overhead = fold.preload + fold.fill + fold.drain
    return working + overhead * (1 if fold.overlapped else passes)


def _depthwise(command: ConvolveDepthwise, device: Device) -> int:
    if device.array.depthwise is None:
        return 0
    lanes, fold = device.array.depthwise.lanes, device.array.fold
    passes = ceil(command.channels / lanes.c) * ceil(command.kernel_rows * command.kernel_columns / lanes.taps)
    positions = ceil(command.out_rows * command.out_columns / lanes.m)
    working = ceil(passes * positions / _exact(_rate(command.data_bits, command.weight_bits, device)))
    return working + fold.fill + fold.drain


def _elements(count: int, queue: Queue) -> int:
    return ceil(count / _exact(queue.elements_per_cycle or 1.0))


def _transfer(size: int, rows: int, memories: tuple[int, ...], queue: Queue, device: Device) -> int:
    """A transfer of rows, each of whole bursts, between memories: the slowest sets the pace."""
    bursts = ceil(size / queue.burst) * queue.burst * rows
    rates, latency = [queue.bytes_per_cycle or float("inf")], 0
    for place, memory in enumerate(device.memory[m] for m in memories if m < len(device.memory)):
        reads = len(memories) == 2 and place == 0
        if memory.bytes_per_cycle is not None:
            limit = memory.bytes_per_cycle.read if reads else memory.bytes_per_cycle.write
            rates.append(limit or memory.bytes_per_cycle.read)
        latency += memory.latency.read if reads else memory.latency.write
    return latency + ceil(bursts / _exact(min(rates))) if prod((size, rows)) else 0


def _exact(number: float) -> Fraction:
    """A rate as the file says it, so that 0.1 is a tenth."""
    return Fraction(str(number)) if number != float("inf") else Fraction(1 << 62)

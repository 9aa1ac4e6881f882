"""Carries out a program's commands on the simulated device."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from qmlir.backends.npu.machine import Int64s, Machine, Memories, clamped, finish, set_context, tap
from qmlir.backends.npu.races import checked, located
from qmlir.backends.npu.report import Counter, Report
from qmlir.backends.npu.stream import Port, Program
from qmlir.devices import Device
from qmlir.devices.footprints import (
    Block,
    Fault,
    arithmetic_blocks,
    fill_block,
    move_blocks,
    outputs,
    pool_blocks,
    post_blocks,
    reduce_blocks,
    weight_tile,
    window_blocks,
)
from qmlir.isa.commands import (
    Arithmetic,
    Convolve,
    ConvolveDepthwise,
    Fill,
    Host,
    Init,
    Move,
    Operation,
    Pool,
    Pooling,
    Post,
    Reduce,
    SetContext,
    Window,
)
from qmlir.isa.encoding import Command
from qmlir.numerics import Array

# ---------------------------------------------------------------------------------------------------------------
# Simulates the commands that only move data.


def move(command: Move, machine: Machine) -> None:
    """Executes a transfer."""
    source, target = move_blocks(command)
    machine.memories.write(target, machine.memories.read(source))


def fill(command: Fill, machine: Machine) -> None:
    """Executes a fill: writes one byte value to a whole block."""
    block = fill_block(command)
    machine.memories.write(block, np.full((1, block.planes, block.rows, block.size), command.value, np.uint8))


# ---------------------------------------------------------------------------------------------------------------
# Simulates the commands after the array: requantization, lookup tables, sums of tensors, pools, and reductions.


def post(command: Post, machine: Machine) -> None:
    """Executes a change of scale or a table lookup."""
    context = machine.context(command)
    source, target = post_blocks(command, context)
    machine.put(target, finish(machine.numbers(source, command.source_bits), context, machine), context.bits)


def arithmetic(command: Arithmetic, machine: Machine) -> None:
    """Executes the sum or product of two tensors."""
    context = machine.context(command)
    left, right, target = arithmetic_blocks(command, context)
    lhs = machine.numbers(left, command.bits) - command.lhs_zero_point
    rhs = machine.numbers(right, command.bits) - command.rhs_zero_point
    if command.operation is Operation.MUL:
        machine.put(target, finish(lhs * rhs, context, machine), context.bits)
        return
    reach = max(map(abs, (command.lhs_multiplier, command.rhs_multiplier))) * (
        int(np.abs(lhs).max(initial=0)) + int(np.abs(rhs).max(initial=0))
    )
    if reach + (1 << command.shift) >= 1 << 63:
        raise Fault("a sum must fit 64 bits", got=f"up to {reach}")
    total = lhs * command.lhs_multiplier + rhs * command.rhs_multiplier + (1 << command.shift - 1) >> command.shift
    machine.put(target, clamped(total, context), context.bits)


def pool(command: Pool, machine: Machine) -> None:
    """Executes a maximum or average pool."""
    source, target = pool_blocks(command)
    data = machine.numbers(source, command.bits)
    taps = [(i, j) for i in range(command.kernel_rows) for j in range(command.kernel_columns)]
    if command.pooling is Pooling.MAX:
        least = -(1 << command.bits - 1)
        greatest = tap(data, command, *taps[0], least)
        for i, j in taps[1:]:
            np.maximum(greatest, tap(data, command, i, j, least), out=greatest)
        machine.put(target, greatest, command.bits)
        return
    total = sum((tap(data, command, i, j, _outside(command)) for i, j in taps), np.zeros(1, np.int64))
    present = np.ones((1, command.rows, command.columns, 1), np.int64)
    counts = sum((tap(present, command, i, j) for i, j in taps), np.zeros(1, np.int64))
    divisor = np.int64(len(taps)) if command.count_padding else np.maximum(counts, 1)
    mean = np.sign(total) * ((np.abs(total) + divisor // 2) // divisor)
    machine.put(target, np.clip(mean, -(1 << command.bits - 1), (1 << command.bits - 1) - 1), command.bits)


def _outside(command: Pool) -> int:
    return command.zero_point if command.count_padding else 0


def reduce(command: Reduce, machine: Machine) -> None:
    """Executes a sum over the rows and columns of an image."""
    source, sums = reduce_blocks(command)
    total = (machine.numbers(source, command.bits) - command.zero_point).sum(axis=(1, 2), keepdims=True)
    if command.init is Init.ACCUMULATE:
        total = total + machine.numbers(sums, 32)
    if total.size and not -(1 << 31) <= total.min() <= total.max() < 1 << 31:
        raise Fault("sums must fit 32 bits", got=f"{total.min()} to {total.max()}")
    machine.put(sums, total, 32)


# ---------------------------------------------------------------------------------------------------------------
# Simulates the array: exact sums of products, stored with the overflow behaviour of its accumulators.


def convolve(command: Window, machine: Machine) -> None:
    """Executes a convolution: adds the products of one kernel position (tap) after the other."""
    blocks = window_blocks(command, machine.device)
    data = machine.numbers(blocks.data, command.data_bits) - command.zero_point
    if command.weight_zero_point and not machine.device.quant.zero_point.weights:
        raise Fault("weights must have the zero point 0", got=str(command.weight_zero_point))
    weights = _weights(command, blocks.weights, machine)
    dtype = _float_for(command)
    total = np.zeros((len(data), command.out_rows, command.out_columns, outputs(command)), np.int64)
    for i in range(command.kernel_rows):
        for j in range(command.kernel_columns):
            taken = tap(data, command, i, j)
            if isinstance(command, Convolve):
                total += _multiplied(taken, weights[:, i, j], dtype)
            else:
                total += taken * weights[:, None, None, i, j]
    if command.init is Init.BIAS:
        total += machine.numbers(blocks.bias, command.bias_bits) << command.bias_shift
    elif command.init is Init.ACCUMULATE:
        total += machine.numbers(blocks.sums, command.sum_bits).reshape(total.shape)
    machine.put(blocks.sums, _overflowed(total, command, machine), command.sum_bits)


def _float_for(command: Window) -> type[np.float32] | type[np.float64]:
    """The float type that holds every sum of products of one tap exactly, in whatever order the products are added."""
    data = (1 << command.data_bits - 1) + abs(command.zero_point)
    weight = (1 << command.weight_bits - 1) + abs(command.weight_zero_point)
    return np.float32 if data * weight * command.channels <= 1 << 24 else np.float64


def _multiplied(taken: Int64s, weights: Int64s, dtype: type[np.float32] | type[np.float64]) -> Int64s:
    """Multiplies [networks, rows, columns, channels] by [networks or 1, channels, output channels]."""
    networks, rows, columns, channels = taken.shape
    matrix = taken.astype(dtype).reshape(len(weights), -1, channels)
    return (matrix @ weights.astype(dtype)).astype(np.int64).reshape(networks, rows, columns, -1)


def _weights(command: Window, block: Block, machine: Machine) -> Int64s:
    """The weights without their zero point, int64 [networks or 1, KH, KW, channels, output channels].

    Depthwise weights have no last axis. If all networks have the same weights, the first axis is 1.
    """
    stored = machine.numbers(block, command.weight_bits) - command.weight_zero_point
    stored = stored[:1] if (stored == stored[:1]).all() else stored
    networks = len(stored)
    window = (command.kernel_rows, command.kernel_columns, command.channels)
    if not isinstance(command, Convolve):
        return stored.reshape(networks, *window)
    terms = command.kernel_rows * command.kernel_columns * command.channels
    n, k = weight_tile(machine.device)
    tiles = stored.reshape(networks, -(-command.out_channels // n), -(-terms // k), n, k)
    matrix = tiles.transpose(0, 1, 3, 2, 4).reshape(networks, tiles.shape[1] * n, -1)[:, : command.out_channels, :terms]
    return matrix.transpose(0, 2, 1).reshape(networks, *window, command.out_channels)


def _overflowed(total: Int64s, command: Window, machine: Machine) -> Int64s:
    """Sums after overflow in the accumulator of the array's mode: wrapped, saturated, or a Fault."""
    bits = _accumulator_bits(command, machine.device)
    half = 1 << bits - 1
    if not total.size or -half <= total.min() <= total.max() < half:
        return total
    if machine.device.array.overflow == "trap":
        raise Fault(f"sums must fit {bits} bits", got=f"{total.min()} to {total.max()}")
    if machine.device.array.overflow == "saturate":
        return np.clip(total, -half, half - 1)
    return (total + half & (1 << bits) - 1) - half if bits < 64 else total


def _accumulator_bits(command: Window, device: Device) -> int:
    for mode in device.array.modes:
        if (mode.a, mode.w) == (f"i{command.data_bits}", f"i{command.weight_bits}"):
            return min(int(mode.acc[1:]), command.sum_bits)
    modes = ", ".join(f"{mode.a} by {mode.w}" for mode in device.array.modes)
    raise Fault(f"the array must multiply {modes}", got=f"i{command.data_bits} by i{command.weight_bits}")


# ---------------------------------------------------------------------------------------------------------------
# The effect of every command, as isa/commands.py defines it; independent of the compiler.
#
# The footprint of a command is computed first (devices/footprints.py). Bounds and races are therefore checked before
# any byte is read; then the command is executed.


_RULES: dict[type[Command], Callable[[Any, Machine], None]] = {
    SetContext: set_context,
    Move: move,
    Fill: fill,
    Convolve: convolve,
    ConvolveDepthwise: convolve,
    Post: post,
    Arithmetic: arithmetic,
    Pool: pool,
    Reduce: reduce,
}
"""Command → the function that executes it; a command that is not listed has no effect."""


def execute(command: Command, machine: Machine) -> None:
    """Executes a command: changes memories and contexts."""
    rule = _RULES.get(type(command))
    if rule is not None:
        rule(command, machine)


# ---------------------------------------------------------------------------------------------------------------
# The simulator: executes a program bit for bit and cycle for cycle, and stops where the hardware would go wrong.
#
# Program order is a valid serial schedule, so commands are executed in that order. Before anything is executed,
# races.py checks once that overlapping queues give the same result.


Function = Callable[..., Sequence[Array]]
"""The function of a host routine: arrays to arrays, as the routine's ports describe them."""


class Simulator:
    """A device loaded with a program; `run` takes the network's inputs.

    report   the cost of a run of a single sample, set by the first run
    """

    def __init__(self, program: Program, device: Device, routines: Mapping[str, Function] | None = None):
        """Loads a program.

        Args:
            program: The program.
            device: The device.
            routines: The functions that the host runs for the program, by name.

        Raises:
            StreamError: The program was made for another device.
            Fault: The program's queues race, or a command cannot be executed; the error names the command, and what it
                should have waited for.
        """
        program.require(device)
        self.program, self.device, self.routines = program, device, dict(routines or {})
        self.report: Report | None = None
        self._touched = checked(program, device)

    def run(self, *inputs: Array) -> list[Array]:
        """Runs the network on one sample and returns its outputs; the cost is in `report`.

        Raises:
            Fault: A command did something that the device forbids; the error names the command.
        """
        return self.run_all([inputs])[0]

    def run_all(self, samples: Sequence[Sequence[Array]]) -> list[list[Array]]:
        """Runs the network on several samples in one pass over the commands; returns the outputs of each sample.

        Raises:
            Fault: A command did something that the device forbids; the error names the command.
        """
        program = self.program
        ports = [port.block for port in (*program.inputs, *program.outputs)]
        blocks = [block for touched in self._touched for block in (*touched.reads, *touched.writes)]
        segments = [segment.block for segment in program.segments]
        memories = Memories(self.device, [*ports, *segments, *blocks], len(samples))
        for segment in program.segments:
            memories.load(segment.block, segment.data)
        for network, inputs in enumerate(samples):
            if len(inputs) != len(program.inputs):
                raise Fault(f"the program must be given {len(program.inputs)} inputs", got=str(len(inputs)))
            for port, array in zip(program.inputs, inputs, strict=True):
                memories.load(port.block, _stored(port, array, "input"), network)
        self._execute(memories)
        results = [_loaded(port, memories) for port in program.outputs]
        return [[result[network, ...] for result in results] for network in range(len(samples))]

    def _execute(self, memories: Memories) -> None:
        machine, counter = Machine(self.device, memories, {}), Counter(self.device, self.program)
        for number, (command, touched) in enumerate(zip(self.program.commands, self._touched, strict=True)):
            try:
                if isinstance(command, Host):
                    self._call(command, memories)
                else:
                    execute(command, machine)
            except Fault as fault:
                raise located(fault, number, command, self.device) from None
            if self.report is None:
                counter.count(command, touched)
        self.report = self.report or counter.report()

    def _call(self, command: Host, memories: Memories) -> None:
        routine = self.program.routines[command.routine]
        if routine.name not in self.routines:
            raise Fault("must call a routine that the host has", got=routine.name)
        inputs = [_loaded(port, memories) for port in routine.inputs]
        networks: list[list[bytes]] = []
        for network in range(memories.networks):
            results = self.routines[routine.name](*(array[network, ...] for array in inputs))
            if len(results) != len(routine.outputs):
                raise Fault(f"routine {routine.name} must have {len(routine.outputs)} results", got=str(len(results)))
            networks.append([_stored(p, a, "result") for p, a in zip(routine.outputs, results, strict=True)])
        for place, port in enumerate(routine.outputs):
            stored = np.frombuffer(b"".join(results[place] for results in networks), np.uint8)
            memories.write(port.block, stored.reshape(memories.networks, 1, 1, port.block.size))


def _stored(port: Port, array: Array, what: str) -> bytes:
    if array.shape != port.shape or array.dtype != port.dtype:
        got = f"{array.dtype}{list(array.shape)}"
        raise Fault(f'{what} "{port.name}" must be {port.dtype.name}{list(port.shape)}', got=got)
    return np.ascontiguousarray(array).tobytes()


def _loaded(port: Port, memories: Memories) -> Array:
    """Reads the tensor of a port for all networks, stacked along the first axis."""
    return memories.read(port.block).reshape(-1).view(port.dtype).reshape(memories.networks, *port.shape)

"""The simulator: executes a program bit for bit and cycle for cycle, and stops where the hardware would go wrong.

Program order is a valid serial schedule, so commands are executed in that order. Before anything is executed, races.py
checks once that overlapping queues give the same result. Each command computes as isa/commands.py defines it, on the
operands that accesses.py derives; nothing here is shared with the compiler. The model in C (c_model/) computes the same
bytes, faster; which of both executes a run, the simulator chooses or is told.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import Any

import numpy as np

from qmlir.backends.npu import rows
from qmlir.backends.npu.accesses import Accesses, stored_weights
from qmlir.backends.npu.c_model.library import Library, LoadedDevice, compiler, is_built, library
from qmlir.backends.npu.c_model.status import MEANING, Status
from qmlir.backends.npu.compiled import Compiled, require_written
from qmlir.backends.npu.machine import Bytes, Int64s, Memories, Operands, sizes_of
from qmlir.backends.npu.movement import arrange, fill, move, unpack
from qmlir.backends.npu.races import checked, located
from qmlir.backends.npu.report import Counter, Report
from qmlir.backends.npu.stream import Port, Program
from qmlir.devices import Device
from qmlir.errors import QmlirError
from qmlir.isa.blocks import Block, Fault
from qmlir.isa.commands import (
    Arithmetic,
    Arrange,
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
    Step,
    Sync,
    Unpack,
    Window,
)
from qmlir.isa.encoding import Command
from qmlir.isa.limits import outputs_of, products_of
from qmlir.numerics import Array, fixed_point
from qmlir.numerics.contracts import NUMBERED

# ---------------------------------------------------------------------------------------------------------------
# Simulates the commands after the array: requantization, lookup tables, sums of tensors, pools, and reductions.


def post(command: Post, operands: Operands) -> None:
    """Executes a change of scale or a table lookup."""
    finished = _finish(operands.numbers("source", command.source_bits), operands)
    operands.put("target", finished, operands.context.bits)


def arithmetic(command: Arithmetic, operands: Operands) -> None:
    """Executes the sum or product of two tensors."""
    context = operands.context
    lhs = operands.numbers("lhs", command.bits) - command.lhs_zero_point
    rhs = operands.numbers("rhs", command.bits) - command.rhs_zero_point
    if command.operation is Operation.MUL:
        operands.put("target", _finish(lhs * rhs, operands), context.bits)
        return
    reach = max(map(abs, (command.lhs_multiplier, command.rhs_multiplier))) * (
        int(np.abs(lhs).max(initial=0)) + int(np.abs(rhs).max(initial=0))
    )
    if reach + (1 << command.shift) >= 1 << 63:
        raise Fault("a sum must fit 64 bits", got=f"up to {reach}")
    total = lhs * command.lhs_multiplier + rhs * command.rhs_multiplier + (1 << command.shift - 1) >> command.shift
    operands.put("target", _clamped(total, context), context.bits)


def _finish(values: Int64s, operands: Operands) -> Int64s:
    """Applies a command's context (requantization or table lookup) to integers [networks, rows, columns, channels]."""
    context, tables = operands.context, operands.bytes("table")
    if (tables == tables[:1]).all():
        return _finished(values, context, tables[0])
    pairs = zip(values, tables, strict=True)
    return np.stack([_finished(network[None], context, table)[0] for network, table in pairs])


def _finished(values: Int64s, context: SetContext, table: Bytes) -> Int64s:
    """Applies a context to integers; `table` holds the bytes of the context's table.

    Raises:
        Fault: A number is out of the table's range, or the contract refuses a multiplier or shift.
    """
    if context.step is Step.LOOKUP:
        entries = table.reshape(-1).view(f"<i{context.bits // 8}").astype(np.int64)
        if values.size and not -128 <= values.min() <= values.max() <= 127:
            raise Fault("a table must be looked up with numbers of 8 bits", got=f"{values.min()} to {values.max()}")
        return entries[values + 128]
    multiplier, shift = table.reshape(-1).view("<i4").astype(np.int64).reshape(-1, 2).T
    contract = NUMBERED[context.contract]
    try:
        rounded = fixed_point.requantize(values - context.input_zero_point, multiplier, shift, contract)
    except fixed_point.NumericsError as error:
        raise Fault(error.need, got=error.got) from None
    return _clamped(rounded, context)


def _clamped(values: Int64s, context: SetContext) -> Int64s:
    """Adds the zero point of a context and clips to its bounds."""
    return np.clip(values + context.zero_point, context.lower, context.upper)


def pool(command: Pool, operands: Operands) -> None:
    """Executes a maximum or average pool."""
    data = operands.numbers("source", command.bits)
    taps = [(i, j) for i in range(command.kernel_rows) for j in range(command.kernel_columns)]
    if command.pooling is Pooling.MAX:
        least = -(1 << command.bits - 1)
        greatest = _tap(data, command, *taps[0], least)
        for i, j in taps[1:]:
            np.maximum(greatest, _tap(data, command, i, j, least), out=greatest)
        operands.put("target", greatest, command.bits)
        return
    total = sum((_tap(data, command, i, j, _outside(command)) for i, j in taps), np.zeros(1, np.int64))
    present = np.ones((1, command.rows, command.columns, 1), np.int64)
    counts = sum((_tap(present, command, i, j) for i, j in taps), np.zeros(1, np.int64))
    divisor = np.int64(len(taps)) if command.count_padding else np.maximum(counts, 1)
    mean = np.sign(total) * ((np.abs(total) + divisor // 2) // divisor)
    operands.put("target", np.clip(mean, -(1 << command.bits - 1), (1 << command.bits - 1) - 1), command.bits)


def _outside(command: Pool) -> int:
    return command.zero_point if command.count_padding else 0


def reduce(command: Reduce, operands: Operands) -> None:
    """Executes a sum over the rows and columns of an image."""
    total = (operands.numbers("source", command.bits) - command.zero_point).sum(axis=(1, 2), keepdims=True)
    if command.init is Init.ACCUMULATE:
        total = total + operands.numbers("sums", 32)
    if total.size and not -(1 << 31) <= total.min() <= total.max() < 1 << 31:
        raise Fault("sums must fit 32 bits", got=f"{total.min()} to {total.max()}")
    operands.put("sums", total, 32)


def _tap(data: Int64s, command: Window | Pool, i: int, j: int, outside: int = 0) -> Int64s:
    """The elements at tap (i, j) of the window, for each output position.

    Args:
        data: int64 [networks, rows, columns, channels].
        command: The command with the window's strides, dilations and padding.
        i: Row of the tap.
        j: Column of the tap.
        outside: The value of elements outside the data.

    Returns:
        int64 [networks, out_rows, out_columns, channels].
    """
    networks, _, _, channels = data.shape
    taken = np.full((networks, command.out_rows, command.out_columns, channels), outside, np.int64)
    first_row, first_column = i * command.dilation_rows - command.top, j * command.dilation_columns - command.left
    to_rows, from_rows = _inside(first_row, command.stride_rows, command.out_rows, command.rows)
    to_columns, from_columns = _inside(first_column, command.stride_columns, command.out_columns, command.columns)
    taken[:, to_rows, to_columns] = data[:, from_rows, from_columns]
    return taken


def _inside(first: int, stride: int, count: int, size: int) -> tuple[slice, slice]:
    """Selects the positions first, first + stride, … that lie in [0, size).

    Returns:
        The indices of the selected positions, and the positions themselves.
    """
    begin = max(-(first // stride), 0)
    end = max(min((size - 1 - first) // stride + 1, count), begin)
    start = first + begin * stride
    return slice(begin, end), slice(start, start + (end - begin) * stride, stride) if end > begin else slice(0, 0)


# ---------------------------------------------------------------------------------------------------------------
# Simulates the array: exact sums of products, stored with the overflow behaviour of its accumulators.


def convolve(command: Window, operands: Operands) -> None:
    """Executes a convolution: adds the products of one kernel position (tap) after the other."""
    data = operands.numbers("data", command.data_bits) - command.zero_point
    if command.weight_zero_point and not operands.device.quant.zero_point.weights:
        raise Fault("weights must have the zero point 0", got=str(command.weight_zero_point))
    weights = _weights(command, operands)
    dtype = _float_for(command)
    total = np.zeros((len(data), command.out_rows, command.out_columns, outputs_of(command)), np.int64)
    for i in range(command.kernel_rows):
        for j in range(command.kernel_columns):
            taken = _tap(data, command, i, j)
            if isinstance(command, Convolve):
                total += _multiplied(taken, weights[:, i, j], dtype)
            else:
                total += taken * weights[:, None, None, i, j]
    if command.init is Init.BIAS:
        total += operands.numbers("bias", command.bias_bits) << command.bias_shift
    elif command.init is Init.ACCUMULATE:
        total += operands.numbers("sums", command.sum_bits).reshape(total.shape)
    operands.put("sums", _overflowed(total, command, operands.device), command.sum_bits)


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


def _weights(command: Window, operands: Operands) -> Int64s:
    """The weights without their zero point, int64 [networks or 1, KH, KW, channels, output channels].

    Depthwise weights have no last axis. If all networks have the same weights, the first axis is 1.
    """
    count = stored_weights(command, operands.device)
    stored = operands.weights("weights", command.weight_bits, count) - command.weight_zero_point
    stored = stored[:1] if (stored == stored[:1]).all() else stored
    networks = len(stored)
    window = (command.kernel_rows, command.kernel_columns, command.channels)
    if not isinstance(command, Convolve):
        return stored.reshape(networks, *window)
    terms = command.kernel_rows * command.kernel_columns * command.channels
    n, k = operands.device.layout.tile
    tiles = stored.reshape(networks, -(-command.out_channels // n), -(-terms // k), n, k)
    matrix = tiles.transpose(0, 1, 3, 2, 4).reshape(networks, tiles.shape[1] * n, -1)[:, : command.out_channels, :terms]
    return matrix.transpose(0, 2, 1).reshape(networks, *window, command.out_channels)


def _overflowed(total: Int64s, command: Window, device: Device) -> Int64s:
    """Sums after overflow in the accumulator of the array's mode: wrapped, saturated, or a Fault."""
    bits = _accumulator_bits(command, device)
    half = 1 << bits - 1
    if not total.size or -half <= total.min() <= total.max() < half:
        return total
    if device.array.overflow == "trap":
        raise Fault(f"sums must fit {bits} bits", got=f"{total.min()} to {total.max()}")
    if device.array.overflow == "saturate":
        return np.clip(total, -half, half - 1)
    return (total + half & (1 << bits) - 1) - half if bits < 64 else total


def _accumulator_bits(command: Window, device: Device) -> int:
    for mode in device.array.modes:
        if (mode.a, mode.w) == (f"i{command.data_bits}", f"i{max(command.weight_bits, 8)}"):
            return min(int(mode.acc[1:]), command.sum_bits)
    modes = ", ".join(f"{mode.a} by {mode.w}" for mode in device.array.modes)
    raise Fault(f"the array must multiply {modes}", got=f"i{command.data_bits} by i{command.weight_bits}")


# ---------------------------------------------------------------------------------------------------------------
# The effect of every command


_RULES: dict[type[Command], Callable[[Any, Operands], None]] = {
    Move: move,
    Fill: fill,
    Unpack: unpack,
    Arrange: arrange,
    Convolve: convolve,
    ConvolveDepthwise: convolve,
    Post: post,
    Arithmetic: arithmetic,
    Pool: pool,
    Reduce: reduce,
    **rows.RULES,
}
"""Command → the function that executes it; a command that is not listed changes no memory."""


def execute(command: Command, operands: Operands) -> None:
    """Executes a command, except for routines of the host.

    Raises:
        Fault: The command did something that the device forbids.
    """
    if (rule := _RULES.get(type(command))) is not None:
        rule(command, operands)


# ---------------------------------------------------------------------------------------------------------------
# The run of a whole program


Function = Callable[..., Sequence[Array]]
"""The function of a host routine: arrays to arrays, as the routine's ports describe them."""

Watch = Callable[[int, Memories], None]
"""A function that sees the memories before each command, with its number, and once behind the last."""

Due = Mapping[int, Sequence[Port]]
"""Number of a command → the tensors that are read behind it."""


WORTH = 4_000_000_000
"""Products of a run from which on it is worth compiling the model in C, if nobody has: about a second in Python."""


class Simulator:
    """A device loaded with a program; `run` takes the network's inputs.

    report   the cost of a run of a single sample, set by the first run
    by       what executed the last run, "c" or "python"; None before the first
    """

    def __init__(
        self,
        program: Program,
        device: Device,
        routines: Mapping[str, Function] | None = None,
        simulator: str = "auto",
    ):
        """Loads a program.

        Args:
            program: The program.
            device: The device.
            routines: The functions that the host runs for the program, by name.
            simulator: What executes the commands, one of `npu.SIMULATORS`. Both ways give the same bytes and faults.

        Raises:
            StreamError: The program was made for another device.
            Fault: The program's queues race, or a command cannot be executed; the error names the command, and what it
                should have waited for.
        """
        program.require(device)
        self.program, self.device, self.routines = program, device, dict(routines or {})
        self.simulator, self.by = simulator, None
        self.report: Report | None = None
        self._accesses = checked(program, device)
        self._library: Library | None = None

    def prepare(self, samples: int) -> None:
        """Compiles the model in C if it is to execute runs of so many samples, so that no run has to wait for it.

        Raises:
            QmlirError: The model in C was asked for, and cannot be compiled.
        """
        if self._model(samples) is not None:
            self._is_sound(False)

    def run(self, *inputs: Array) -> list[Array]:
        """Runs the network on one sample and returns its outputs; the cost is in `report`.

        Raises:
            Fault: A command did something that the device forbids; the error names the command.
        """
        return self.run_all([inputs])[0]

    def run_all(
        self,
        samples: Sequence[Sequence[Array]],
        seen: list[dict[str, Array]] | None = None,
        watch: Watch | None = None,
    ) -> list[list[Array]]:
        """Runs the network on several samples in one pass over the commands; returns the outputs of each sample.

        Args:
            samples: The inputs of each sample, in order.
            seen: Receives the tensors with names of each sample, by name, if it is given.
            watch: Sees the memories before each command and behind the last, if it is given.

        Raises:
            Fault: A command did something that the device forbids; the error names the command.
            QmlirError: The model in C was asked for, and cannot be compiled.
        """
        tensors = dict[str, Array]()
        due: Due = self._due if seen is not None else {}
        memories = self._run(samples, due, tensors, watch)
        if self.report is None:
            self.report = self._counted()
        results = [_loaded(port, memories) for port in self.program.outputs]
        if seen is not None:
            seen += [{name: array[n, ...] for name, array in tensors.items()} for n in range(len(samples))]
        return [[result[network, ...] for result in results] for network in range(len(samples))]

    def _run(
        self, samples: Sequence[Sequence[Array]], due: Due, tensors: dict[str, Array], watch: Watch | None
    ) -> Memories:
        """Runs the program; returns the memories behind the last command.

        Args:
            samples: The inputs of each sample.
            due: The tensors that are read on the way, by the number of the command behind which they are there.
            tensors: Receives these tensors, by name.
            watch: Sees the memories before each command, which Python executes then.
        """
        model, status = None if watch is not None else self._model(len(samples)), Status.DONE
        if model is not None and self._is_sound(bool(due)):
            memories = self._prepared(samples, tracked=False)
            status = self._execute_in_c(model, memories, due, tensors)
            self.by = "c"
            if status is Status.DONE:
                if len(samples) == 1 and self._keeps_constants:
                    self._used.append(memories)
                return memories
        memories = self._prepared(samples)
        self._execute(memories, due, tensors, watch)
        self.by = "python"
        if status is not Status.DONE:
            raise Fault(
                "must be executed alike in C and in Python",
                got=f"a fault in C alone: {MEANING[status]}",
                remedy="simulate in Python, and report the difference",
            )
        return memories

    def _model(self, samples: int) -> Library | None:
        """The model in C, if it is to execute a run of so many samples."""
        if self._library is None and self.simulator == "c":
            self._library = library(self.device)
        elif self._library is None and self.simulator == "auto" and compiler() is not None:
            if samples * self._products >= WORTH or is_built(self.device):
                with suppress(QmlirError):  # a compiler that does not compile
                    self._library = library(self.device)
        return self._library

    @cached_property
    def _products(self) -> int:
        """The products that a sample takes."""
        return sum(products_of(c) for c in self.program.commands if isinstance(c, Window))

    @cached_property
    def _hosts(self) -> set[int]:
        """The numbers of the commands that the host executes."""
        return {number for number, command in enumerate(self.program.commands) if isinstance(command, Host)}

    @cached_property
    def _compiled(self) -> Compiled:
        return Compiled(self.program.commands)

    @cached_property
    def _due(self) -> Due:
        """The tensors with names, by the number of the command behind which they are there."""
        ports: dict[int, list[Port]] = {}
        for named in self.program.tensors:
            ports.setdefault(named.after, []).append(named.port)
        due: dict[int, list[Port]] = {}
        done = 0
        for number, command in enumerate(self.program.commands):
            done += not isinstance(command, Sync)
            if done in ports:
                due[number] = ports.pop(done)
        return due

    def _is_sound(self, watched: bool) -> bool:
        """Whether no command, port or tensor that is watched reads bytes that nothing has written."""
        if watched not in self._sound:
            ports: list[list[Block]] = [[] for _ in self.program.commands]
            for number, read in self._due.items() if watched else ():
                ports[number] = [port.block for port in read]
            if ports:
                ports[-1] = [*ports[-1], *(port.block for port in self.program.outputs)]
            memories = Memories(self.device, self._sizes, 0)
            for block in (*(s.block for s in self.program.segments), *(port.block for port in self.program.inputs)):
                memories.note_written(block)
            try:
                require_written(self._accesses, memories, ports)
                self._sound[watched] = True
            except Fault:  # which the simulator in Python raises where it comes to it
                self._sound[watched] = False
        return self._sound[watched]

    @cached_property
    def _sound(self) -> dict[bool, bool]:
        return {}

    @cached_property
    def _sizes(self) -> list[int]:
        """How many bytes of each memory the program touches."""
        program = self.program
        ports = [port.block for port in (*program.inputs, *program.outputs, *(n.port for n in program.tensors))]
        blocks = [block for accesses in self._accesses for block in accesses.blocks]
        return sizes_of(self.device, [*ports, *(segment.block for segment in program.segments), *blocks])

    @cached_property
    def _used(self) -> list[Memories]:
        """Memories of earlier runs of a sample, which still have the constants."""
        return []

    @cached_property
    def _keeps_constants(self) -> bool:
        """Whether no command and no input overwrites a constant."""
        written = [block for accesses in self._accesses for block in accesses.writes.values()]
        memories = Memories(self.device, self._sizes, 0)
        for block in (*written, *(port.block for port in self.program.inputs)):
            memories.note_written(block)
        return not any(memories.is_touched(segment.block) for segment in self.program.segments)

    def _prepared(self, samples: Sequence[Sequence[Array]], *, tracked: bool = True) -> Memories:
        """The memories before the first command: with the constants, and the inputs of each sample."""
        program = self.program
        if self._used and len(samples) == 1 and not tracked:
            memories = self._used.pop()
        else:
            memories = Memories(self.device, self._sizes, len(samples), tracked=tracked)
            for segment in program.segments:
                memories.load(segment.block, segment.data)
        for network, inputs in enumerate(samples):
            if len(inputs) != len(program.inputs):
                raise Fault(f"the program must be given {len(program.inputs)} inputs", got=str(len(inputs)))
            for port, array in zip(program.inputs, inputs, strict=True):
                memories.load(port.block, _stored(port, array, "input"), network)
        return memories

    def _execute(self, memories: Memories, due: Due, tensors: dict[str, Array], watch: Watch | None) -> None:
        """Executes all commands in Python; `tensors` receives the tensors that are due."""
        for number, (command, accesses) in enumerate(zip(self.program.commands, self._accesses, strict=True)):
            try:
                if watch is not None:
                    watch(number, memories)
                if isinstance(command, Host):
                    self._call(command, memories)
                else:
                    execute(command, Operands(self.device, memories, accesses))
            except Fault as fault:
                raise located(fault, number, command, self.device) from None
            tensors |= {port.name: _loaded(port, memories) for port in due.get(number, ())}
        if watch is not None:
            watch(len(self.program.commands), memories)

    def _execute_in_c(self, model: Library, memories: Memories, due: Due, tensors: dict[str, Array]) -> Status:
        """Executes all commands by the model in C, up to the first fault; `tensors` receives those that are due."""
        commands, begin = self.program.commands, 0
        devices = [LoadedDevice(memories.of(network)) for network in range(memories.networks)]
        for number in sorted({*self._hosts, *due, len(commands) - 1} if commands else ()):
            behind = number if number in self._hosts else number + 1
            if (status := self._compiled.run(model, devices, begin, behind)) is not Status.DONE:
                return status
            if number in self._hosts:
                command = commands[number]
                assert isinstance(command, Host)
                try:
                    self._call(command, memories)
                except Fault as fault:
                    raise located(fault, number, command, self.device) from None
            tensors |= {port.name: _loaded(port, memories) for port in due.get(number, ())}
            begin = number + 1
        return Status.DONE

    def _counted(self) -> Report:
        """The cost of a run of a single sample."""
        counter = Counter(self.device, self.program)
        for command, accesses in zip(self.program.commands, self._accesses, strict=True):
            counter.count(command, accesses.footprint)
        return counter.report()

    @property
    def accesses(self) -> Sequence[Accesses]:
        """The operands of each command."""
        return self._accesses

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

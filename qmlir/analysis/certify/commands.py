"""The interval of every integer that a program's commands compute, from the bytes that lie in the program.

`prove_commands` walks a program once, in program order, which is a valid serial schedule. Weights, biases and tables
are those that transfers brought where a command reads them. Accumulators have the width that the device states for the
command's types.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from qmlir.analysis.certify.contents import ENTERING, LEAVING, Contents
from qmlir.analysis.certify.intervals import Interval, Proof
from qmlir.analysis.certify.rounding import Requantized, rounded
from qmlir.backends.npu.accesses import Accesses, outputs_of, stored_weights
from qmlir.backends.npu.races import checked
from qmlir.backends.npu.stream import Program
from qmlir.devices import Device
from qmlir.devices.packing import BYTE
from qmlir.errors import NodeError
from qmlir.isa.commands import (
    Arithmetic,
    Convolve,
    ConvolveDepthwise,
    Fill,
    Host,
    Init,
    Mark,
    Move,
    Operation,
    Pool,
    Pooling,
    Post,
    Reduce,
    SetContext,
    Step,
    Unpack,
    Window,
)
from qmlir.isa.encoding import Command, mnemonic
from qmlir.numerics import Int64s
from qmlir.numerics.contracts import CONTRACTS, NUMBERED
from qmlir.numerics.fixed_point import NumericsError

SCALES_REMEDY = (
    "quantize for a device that shifts far enough: "
    "--set quant.scale=mult-shift --set quant.round=half-up --set quant.shift.max=62"
)
"""The remedy where a device changes scales in floats."""

Called = Mapping[str, Sequence[Interval | int | None]]
"""Name of a host routine → for each output its interval, the label of its floats, or None if its bytes are unknown."""


@dataclass(frozen=True)
class CommandProof:
    """What is proved about a command.

    index     its number in the program
    command   its mnemonic
    layer     the layer that it works for
    proof     the intervals of its result and of its sums
    contract  the rounding contract of its context; None if it requantizes nothing
    """

    index: int
    command: str
    layer: str
    proof: Proof
    contract: str | None = None


def prove_commands(program: Program, device: Device, called: Called) -> list[CommandProof]:
    """Returns what is proved about each command that computes integers.

    Args:
        program: The program.
        device: The device that it is made for.
        called: What the host's routines return.

    Raises:
        Fault: Queues race, or the device cannot execute a command.
        NodeError: A command computes on floats, or its integers may overflow.
    """
    accesses = checked(program, device)
    ports = [port.block for port in (*program.inputs, *program.outputs)]
    segments = [segment.block for segment in program.segments]
    contents = Contents(device, [*ports, *segments, *(block for each in accesses for block in each.blocks)])
    for port in program.inputs:
        if port.type.startswith("f"):
            contents.mark(port.block, ENTERING)
    for segment in program.segments:
        contents.load(segment.block, segment.data)
    layer, found = "", list[CommandProof]()
    for index, (command, touched) in enumerate(zip(program.commands, accesses, strict=True)):
        match command:
            case Mark():
                layer = program.layers[command.layer] if command.layer < len(program.layers) else ""
            case Move():
                contents.copy(touched.reads["source"], touched.writes["target"])
            case Unpack():
                _At(index, command, layer, device, contents, touched).require_integers()
                contents.unpack(touched.reads["source"], touched.writes["target"], command.bits)
            case Fill():
                contents.fill(touched.writes["target"], command.value)
            case Host():
                _call(index, command, program, contents, called)
            case _ if (rule := RULES.get(type(command))) is not None:
                at = _At(index, command, layer, device, contents, touched)
                at.require_integers()
                found.append(CommandProof(index, mnemonic(type(command)), layer, rule(at), at.rounding))
            case _:
                pass
    return found


# ---------------------------------------------------------------------------------------------------------------
# Calls of the host


def _call(index: int, command: Host, program: Program, contents: Contents, called: Called) -> None:
    """Checks that a routine reads floats of inputs only, and puts what it returns into the memories.

    Raises:
        NodeError: It reads floats that the network computed, or takes floats for integers.
    """
    routine = program.routines[command.routine]
    for port in routine.inputs:
        floats = contents.labels(port.block) & {ENTERING, LEAVING}
        if (floats != {ENTERING}) if port.type.startswith("f") else floats:
            need = "must read floats of the network's inputs only"
            got = f'{port.type} in "{port.name}" that a routine of the host returned'
            remedy = "quantize what computes between the two calls, so that integers pass from one to the other"
            raise NodeError(f"command {index}, host", routine.name, need, got=got, remedy=remedy)
    for port, result in zip(routine.outputs, called[routine.name], strict=True):
        if isinstance(result, Interval):
            contents.write(port.block, result, 8 * port.dtype.itemsize)
        else:
            contents.mark(port.block, result or 0)


# ---------------------------------------------------------------------------------------------------------------
# Commands


@dataclass
class _At:
    """A command with its operands; `rounding` becomes the contract by which it requantizes."""

    index: int
    command: Any
    layer: str
    device: Device
    contents: Contents
    touched: Accesses
    rounding: str | None = None

    @property
    def where(self) -> tuple[str, str]:
        """The command and its layer, for errors."""
        return f"command {self.index}, {mnemonic(type(cast(Command, self.command)))}", self.layer

    @property
    def context(self) -> SetContext:
        """The context that the command uses."""
        assert self.touched.context is not None
        return self.touched.context

    def require_integers(self) -> None:
        """Raises NodeError if the command reads floats."""
        for name, block in self.touched.reads.items():
            if self.contents.labels(block) & {ENTERING, LEAVING}:
                remedy = "quantize the network's inputs on the host"
                raise NodeError(*self.where, "must compute on integers", got=f"floats in {name}", remedy=remedy)

    def read(self, name: str, bits: int) -> Interval:
        """The interval of each element of an operand along its rows."""
        return self.contents.read(self.touched.reads[name], bits)

    def put(self, name: str, result: Interval, bits: int) -> Interval:
        """Writes the result."""
        self.contents.write(self.touched.writes[name], result, bits)
        return result.whole()

    def sums(self, whole: Interval, partial: Interval, bits: int) -> Proof:
        """The proof of sums of a width.

        Raises:
            NodeError: They may not fit.
        """
        half = 1 << bits - 1
        for channel, (low, high) in enumerate(zip(partial.lowest, partial.highest, strict=True)):
            if low < -half or high >= half:
                at = f" in channel {channel}" if len(partial.lowest) > 1 else ""
                need = f"must have sums that fit the {bits}-bit accumulator of {self.device.name}"
                remedy = "choose a device with wider accumulators, or a lower precision"
                raise NodeError(*self.where, need, got=f"sums from {low} to {high}{at}", remedy=remedy)
        return Proof(None, whole, partial, bits)

    def finished(self, data: Interval) -> tuple[Interval, Requantized | None]:
        """The context applied to integers: the interval of the results, and what a requantization rounds off."""
        context = self.context
        table = self.touched.reads["table"]
        if context.step is Step.LOOKUP:
            if not -128 <= data.low <= data.high <= 127:
                raise NodeError(*self.where, "must look up numbers of 8 bits", got=f"{data.low} to {data.high}")
            low, high = self.contents.elements(table, context.bits)
            reached = slice(data.low + 128, data.high + 129)
            return Interval.of(low[reached].min(), high[reached].max()), None
        name = self.contract()
        low, high = self.contents.elements(table, 32)
        if (low != high).any():
            raise NodeError(*self.where, "must have constant multipliers and shifts", got="a table that is computed")
        moved = data.moved(-context.input_zero_point)
        try:
            found = rounded(self.where, name, (low[::2].tolist(), low[1::2].tolist()), (moved.lowest, moved.highest))
        except NumericsError as error:
            raise NodeError(*self.where, error.need, got=error.got) from None
        return self.clamped(found.least, found.most), found

    def contract(self) -> str:
        """The context's contract.

        Raises:
            NodeError: It rounds in floats.
        """
        name = NUMBERED[self.context.contract]
        if CONTRACTS[name].in_floats:
            need = "must change scales by integer instructions"
            got = f"contract {name}, which rounds in float32"
            raise NodeError(*self.where, need, got=got, remedy=SCALES_REMEDY)
        self.rounding = name
        return name

    def clamped(self, low: int, high: int) -> Interval:
        """The zero point added, and the result clamped."""
        c = self.context
        return Interval.of(*(min(max(n + c.zero_point, c.lower), c.upper) for n in (low, high)))


def _products(low: Int64s, high: Int64s, data: Interval) -> Interval:
    """The interval of Σ w·d for each row of weights, each product or 0."""
    ends = [w * d for w in (low, high) for d in (data.low, data.high)]
    below, above = (of.reduce([*ends, np.zeros_like(low)]).sum(axis=1) for of in (np.minimum, np.maximum))
    return Interval(below.astype(object), above.astype(object))


def _rows(at: _At, stored: Int64s) -> Int64s:
    """The weights of each output channel, [channels, terms], of weights as the device stores them."""
    command = at.command
    if not isinstance(command, Convolve):
        return stored.reshape(-1, command.channels).T
    terms = command.kernel_rows * command.kernel_columns * command.channels
    n, k = at.device.layout.tile
    tiles = stored.reshape(-(-command.out_channels // n), -(-terms // k), n, k)
    return tiles.transpose(0, 2, 1, 3).reshape(len(tiles) * n, -1)[: command.out_channels, :terms]


def _accumulator(at: _At) -> int:
    """The width of the array's accumulators for a command's types.

    Raises:
        NodeError: The array does not multiply such types.
    """
    command = at.command
    for mode in at.device.array.modes:
        if (mode.a, mode.w) == (f"i{command.data_bits}", f"i{max(command.weight_bits, 8)}"):
            return min(int(mode.acc[1:]), command.sum_bits)
    need = f"must have operands that the array of {at.device.name} multiplies"
    raise NodeError(*at.where, need, got=f"i{command.data_bits} by i{command.weight_bits}")


def _weights(at: _At) -> tuple[Int64s, Int64s]:
    """The interval of each weight as the device stores them, those that pad tiles included."""
    block, bits = at.touched.reads["weights"], at.command.weight_bits
    if bits < BYTE:
        return at.contents.packed(block, bits, stored_weights(at.command, at.device))
    return at.contents.elements(block, bits)


def _window(at: _At) -> Proof:
    command: Window = at.command
    low, high = _weights(at)
    low, high = (_rows(at, end - command.weight_zero_point) for end in (low, high))
    products = _products(low, high, at.read("data", command.data_bits).whole().moved(-command.zero_point))
    start = Interval.of(0, 0)
    if command.init is Init.BIAS:
        bias = at.read("bias", command.bias_bits)
        start = Interval(bias.lowest * (1 << command.bias_shift), bias.highest * (1 << command.bias_shift))
    elif command.init is Init.ACCUMULATE:
        start = _each(at.read("sums", command.sum_bits), outputs_of(command))
    return _accumulated(at, products, products, start, _accumulator(at), command.sum_bits)


def _each(row: Interval, channels: int) -> Interval:
    """One interval for each channel of dense elements [positions, channels]."""
    return Interval(row.lowest.reshape(-1, channels).min(axis=0), row.highest.reshape(-1, channels).max(axis=0))


def _accumulated(at: _At, products: Interval, partial: Interval, start: Interval, bits: int, stored: int) -> Proof:
    """The proof of products that are added to an initial value, in any order."""
    whole = Interval(products.lowest + start.lowest, products.highest + start.highest)
    every = [
        (i.lowest, i.highest)
        for i in (whole, partial, Interval(partial.lowest + start.lowest, partial.highest + start.highest))
    ]
    lowest, highest = np.minimum.reduce([e[0] for e in every]), np.maximum.reduce([e[1] for e in every])
    proof = at.sums(whole, Interval(lowest, highest), bits)
    proof.result = at.put("sums", whole, stored)
    return proof


def _post(at: _At) -> Proof:
    found, requantized = at.finished(at.read("source", at.command.source_bits))
    return Proof(at.put("target", found, at.context.bits), requantized=requantized)


def _arithmetic(at: _At) -> Proof:
    command: Arithmetic = at.command
    lhs = at.read("lhs", command.bits).whole().moved(-command.lhs_zero_point)
    rhs = at.read("rhs", command.bits).whole().moved(-command.rhs_zero_point)
    if command.operation is Operation.MUL:
        ends = [a * b for a in (lhs.low, lhs.high) for b in (rhs.low, rhs.high)]
        product = Interval.of(min(ends), max(ends))
        proof = at.sums(product, product, 32)
        found, proof.requantized = at.finished(product)
        proof.result = at.put("target", found, at.context.bits)
        return proof
    factors = command.lhs_multiplier, command.rhs_multiplier
    parts = [sorted((i.low * m, i.high * m)) for i, m in zip((lhs, rhs), factors, strict=True)]
    low, high, half = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1], 1 << command.shift - 1
    total = Interval.of(min(low, 0), max(high, 0) + half)
    proof = at.sums(total, total, 64)
    found = at.clamped(low + half >> command.shift, high + half >> command.shift)
    proof.result = at.put("target", found, at.context.bits)
    return proof


def _pool(at: _At) -> Proof:
    command: Pool = at.command
    data, empty = at.read("source", command.bits).whole(), _has_empty_windows(command)
    if command.pooling is Pooling.MAX:
        least = -(1 << command.bits - 1)
        found = data.join(Interval.of(least, least)) if empty else data
        return Proof(at.put("target", found, command.bits))
    if command.count_padding:
        data = data.join(Interval.of(command.zero_point, command.zero_point))
    elif empty:
        data = data.join(Interval.of(0, 0))
    count = command.kernel_rows * command.kernel_columns
    total = Interval.of(min(data.low, 0) * count - count // 2, max(data.high, 0) * count + count // 2)
    proof = at.sums(total, total, 32)
    half = 1 << command.bits - 1
    clipped = Interval.of(max(data.low, -half), min(data.high, half - 1))
    proof.result = at.put("target", clipped, command.bits)
    return proof


def _has_empty_windows(command: Pool) -> bool:
    """Whether some window has no element of the data."""
    return not all(
        ((positions >= 0) & (positions < size)).any(axis=1).all()
        for size, outputs, extent, stride, step, before in (
            (
                command.rows,
                command.out_rows,
                command.kernel_rows,
                command.stride_rows,
                command.dilation_rows,
                command.top,
            ),
            (
                command.columns,
                command.out_columns,
                command.kernel_columns,
                command.stride_columns,
                command.dilation_columns,
                command.left,
            ),
        )
        for positions in (np.arange(outputs)[:, None] * stride - before + np.arange(extent) * step,)
    )


def _reduce(at: _At) -> Proof:
    command: Reduce = at.command
    data = at.read("source", command.bits).moved(-command.zero_point)
    count = command.rows * command.columns
    whole, partial = (
        Interval(low * count, high * count)
        for low, high in (
            (data.lowest, data.highest),
            (np.minimum(data.lowest, 0), np.maximum(data.highest, 0)),
        )
    )
    start = Interval.of(0, 0)
    if command.init is Init.ACCUMULATE:
        start = at.read("sums", 32)
    return _accumulated(at, whole, partial, start, 32, 32)


RULES: Mapping[type[Command], Callable[[_At], Proof]] = {
    Convolve: _window,
    ConvolveDepthwise: _window,
    Post: _post,
    Arithmetic: _arithmetic,
    Pool: _pool,
    Reduce: _reduce,
}
"""Command → the function that proves it; a command that is not listed computes no integers."""

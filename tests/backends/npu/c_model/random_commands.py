"""Random commands on memories of random bytes: every field that a device can compute with, and faults now and then.

    program = draw(np.random.default_rng(7), device)
    program.commands, program.memories

A program is a few commands, each of which reads one half of every memory and writes the other half, so that no command
overwrites what it still has to read. Its words are legal; whether its numbers are (a multiplier, a sum, an index) is
for those who execute it to find out.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.accesses import Accesses, accesses
from qmlir.devices import Device
from qmlir.isa.blocks import Fault
from qmlir.isa.commands import (
    Arithmetic,
    Arrange,
    Convolve,
    ConvolveDepthwise,
    Division,
    Fill,
    Init,
    Mark,
    Move,
    Norm,
    Normalize,
    Operation,
    Pool,
    Pooling,
    Post,
    Reduce,
    SetContext,
    Softmax,
    Step,
    Sync,
    Unpack,
)
from qmlir.isa.encoding import Command, Place
from qmlir.numerics.contracts import CONTRACTS, NUMBERED

HALF = 1 << 15
"""Bytes of each half of a memory."""

TABLES = 1 << 13
"""Bytes at the end of each half in which tables lie: nobody writes there but who draws a table."""

Rng = np.random.Generator
Bytes = npt.NDArray[np.uint8]


@dataclass(frozen=True)
class Commands:
    """A program of random commands.

    commands  the commands
    accesses  the operands of each command
    memories  the bytes of each memory before the first command
    """

    commands: list[Command]
    accesses: list[Accesses]
    memories: list[Bytes]


@dataclass
class _Drawing:
    """A program while it is drawn.

    half    the half of the memories that the next command reads
    tables  bytes of tables that lie in each half
    """

    rng: Rng
    device: Device
    memories: list[Bytes]
    half: int = 0
    tables: list[int] = field(default_factory=lambda: [0, 0])

    def number(self, least: int, most: int) -> int:
        return int(self.rng.integers(least, most + 1))

    def one(self, *choices: Any) -> Any:
        return choices[self.number(0, len(choices) - 1)]

    def seldom(self, often: Any, rare: Callable[[], Any], share: float = 0.15) -> Any:
        return rare() if self.rng.random() < share else often

    def place(self, size: int, written: bool = False) -> Place:
        """Somewhere that an operand of so many bytes fits, in the half that commands read or write now."""
        room = HALF - TABLES - size
        if room < 0:
            raise _TooLarge
        start = HALF * (self.half ^ written)
        allowed = [n for n, memory in enumerate(self.device.memory) if not (written and memory.read_only)]
        return Place(self.one(*allowed), start + self.number(0, room))

    def pitches(self, columns: int, pixel: int, rows: int) -> tuple[int, int, int]:
        """Bytes from row to row and from pixel to pixel of a tensor, with gaps or without, and its bytes."""
        gap, behind = (self.seldom(0, lambda: self.number(1, 9), 0.4) for _ in range(2))
        row = columns * (pixel + gap) + behind
        return row, pixel + gap, rows * row

    def table(self, data: bytes) -> Place:
        """Writes a table to the half that commands read now, behind the tables there."""
        memory, at = self.number(0, len(self.memories) - 1), self.tables[self.half]
        if at + len(data) > TABLES:
            raise _TooLarge
        self.tables[self.half] += len(data)
        start = HALF * (self.half + 1) - TABLES + at
        self.memories[memory][start : start + len(data)] = np.frombuffer(data, np.uint8)
        return Place(memory, start)


class _TooLarge(Exception):
    """An operand that does not fit half of a memory."""


def draw(rng: Rng, device: Device, count: int = 6) -> Commands:
    """Draws a program for a device."""
    memories = [rng.integers(0, 256, 2 * HALF).astype(np.uint8) for _ in device.memory]
    drawing = _Drawing(rng, device, memories)
    found: list[Command] = []
    while len(found) < count:
        try:
            for command in _KINDS[drawing.number(0, len(_KINDS) - 1)](drawing):
                contexts = {c.ctx: c for c in found if isinstance(c, SetContext)}
                accesses(command, device, contexts)
                found.append(command)
        except (_TooLarge, Fault):
            continue
        drawing.half ^= 1
    initial = [memory.copy() for memory in memories]
    contexts: dict[int, SetContext] = {}
    operands: list[Accesses] = []
    for command in found:
        operands.append(accesses(command, device, contexts))
        if isinstance(command, SetContext):
            contexts[command.ctx] = command
    return Commands(found, operands, initial)


def _move(d: _Drawing) -> list[Command]:
    size, rows, planes = d.number(1, 40), d.number(1, 5), d.number(1, 4)
    (row, _, plane), (to_row, _, to_plane) = (d.pitches(1, size, rows) for _ in range(2))
    source, target = d.place(planes * plane), d.place(planes * to_plane, True)
    if d.rng.random() < 0.3:
        return [Fill(0, (), 0, target, size, rows, planes, to_row, to_plane, d.number(0, 255))]
    return [Move(0, (), 0, source, target, size, rows, planes, row, plane, to_row, to_plane)]


def _unpack(d: _Drawing) -> list[Command]:
    count, queue = d.number(1, 200), d.number(0, len(d.device.queue) - 1)
    if not (widths := d.device.queue[queue].unpacks):
        return []
    bits = d.one(*widths)
    return [Unpack(queue, (), 0, d.place(count), d.place(count, True), count, bits)]


def _arrange(d: _Drawing) -> list[Command]:
    """A matrix that fills its tiles, or that leaves parts of them to zeros."""
    bits, (rows, columns) = d.one(8, 16), (d.one(d.number(1, 70), 16, 32) for _ in range(2))
    queues = [number for number, queue in enumerate(d.device.queue) if queue.arranges]
    if not queues:
        return []
    pitch, _, size = d.pitches(1, columns * bits // 8, rows)
    n, k = d.device.layout.tile
    most = (rows + columns + n + k) ** 2 * bits // 8
    fields = (d.place(size), d.place(min(most, HALF - TABLES), True), bits, rows, columns, pitch, d.number(0, 1))
    return [Arrange(d.one(*queues), (), 0, *fields)]


def _control(d: _Drawing) -> list[Command]:
    """Commands that are not the model's."""
    return [d.one(Mark(0, (), 0, 3), Sync(0, (), 0, 1))]


def _window(d: _Drawing) -> list[Command]:
    rng, device = d.rng, d.device
    dense = device.array.depthwise is None or rng.random() < 0.6
    mode = d.one(*(mode for mode in device.array.modes if mode.a[0] == mode.w[0] == "i"))
    data_bits, weight_bits = int(mode.a[1:]), int(mode.w[1:])
    queue = d.number(0, len(device.queue) - 1)
    if weight_bits == 8 and device.queue[queue].unpacks and rng.random() < 0.7:
        weight_bits = d.one(*device.queue[queue].unpacks)
    if rng.random() < 0.02:
        data_bits = 24 - data_bits
    sum_bits = d.one(32, 64) if int(mode.acc[1:]) > 32 else 32
    kernel = [d.number(1, 4), d.number(1, 4)]
    channels = d.one(d.number(1, 5), d.number(6, 40), d.number(60, 90))
    image = [d.number(1, 7), d.number(1, 7)]
    out = [d.number(1, 5), d.number(1, 6)]
    outputs = d.number(1, 40) if dense else channels
    pixel = channels * data_bits // 8
    row_pitch, pixel_pitch, size = d.pitches(image[1], pixel, image[0])
    n, k = device.layout.tile
    terms = kernel[0] * kernel[1] * channels
    held = -(-outputs // n) * n * -(-terms // k) * k if dense else terms
    moved = device.quant.bias.moved_bits
    half = 1 << data_bits - 1
    zeros = device.quant.zero_point.weights
    common: tuple[Any, ...] = (
        d.place(size), d.place(held * max(weight_bits, 8) // 8), d.place(outputs * 8),
        d.place(out[0] * out[1] * outputs * sum_bits // 8, True), d.one(*Init), data_bits, weight_bits, sum_bits,
        moved or sum_bits, d.number(0, 31 if moved else 0),
        d.number(-half, half - 1), d.number(-128, 127) if zeros or rng.random() < 0.02 else 0,
        *image, channels, row_pitch, pixel_pitch, *out, *kernel, d.number(1, 3), d.number(1, 3), d.number(1, 2),
        d.number(1, 2), d.number(-2, 4), d.number(-2, 4),
    )  # fmt: skip
    if rng.random() < 0.3:
        for place in common[2:4]:
            _put_extremes(d, place, outputs * out[0] * out[1], sum_bits)
    context = d.number(0, 15)
    kind, last = (Convolve, (outputs,)) if dense else (ConvolveDepthwise, ())
    made: Callable[..., Command] = kind
    return [made(queue, (), context, *common, *last)]


def _put_extremes(d: _Drawing, place: Place, count: int, bits: int) -> None:
    """Writes sums near the least and the greatest that 32 bits hold, as bias or earlier sums."""
    sums = d.rng.integers(0, 1 << 16, count) - (1 << 31)
    sums = np.where(d.rng.random(count) < 0.5, sums, -1 - sums).astype(f"<i{bits // 8}").view(np.uint8)
    memory = d.memories[place.memory]
    room = memory[place.address :][: sums.size]
    room[:] = sums[: room.size]


def _context(d: _Drawing, channels: int) -> SetContext:
    """A context: multipliers and shifts that its contract takes, unless seldom, or a table."""
    rng = d.rng
    bits = d.one(8, 16, 32)
    least = -(1 << bits - 1)
    lower, upper = sorted((d.number(least, -least - 1), d.number(least, -least - 1)))
    if rng.random() < 0.5:
        lower, upper = least, -least - 1
    number, step = d.one(*NUMBERED), Step.LOOKUP if rng.random() < 0.25 else Step.REQUANTIZE
    contract, per_channel = CONTRACTS[NUMBERED[number]], d.number(0, 1)
    if step is Step.LOOKUP:
        place = d.table(rng.bytes(256 * bits // 8))
    else:
        count = channels if per_channel else 1
        multiplier = rng.integers(1 << 29, 1 << 31, count) // contract.step * contract.step
        multiplier[rng.random(count) < 0.3] = d.one(1 << 29, 1 << 30, 3 << 29)  # their products are often ties
        multiplier[rng.random(count) < 0.05] = 0
        shift = rng.integers(-31, contract.max_shift + 1, count)
        shift = np.where(rng.random(count) < 0.7, np.minimum(shift, d.number(-12, 2)), shift)
        if rng.random() < 0.06:
            multiplier[d.number(0, count - 1)] = d.one(1, -5, (1 << 29) - 1, (1 << 30) + 1)
        if rng.random() < 0.06:
            shift[d.number(0, count - 1)] = d.one(-32, contract.max_shift + 1)
        place = d.table(np.stack([multiplier, shift], axis=1).astype("<i4").tobytes())
    zero_points = (d.seldom(d.number(-200, 200), lambda: d.number(-(1 << 31), (1 << 31) - 1)) for _ in range(2))
    numbers: tuple[Any, ...] = (step, bits, number, *zero_points, lower, upper, per_channel, place)
    return SetContext(*(0, (), d.number(0, 15), *numbers))


def _elements(d: _Drawing) -> tuple[int, int, int]:
    """Rows, columns and channels of a tensor."""
    return d.number(1, 4), d.number(1, 5), d.one(d.number(1, 8), d.number(9, 63), d.number(64, 150))


def _post(d: _Drawing) -> list[Command]:
    rows, columns, channels = _elements(d)
    context = _context(d, channels)
    bits = 8 if context.step is Step.LOOKUP and d.rng.random() < 0.8 else d.one(8, 16, 32, 64)
    (row, pixel, size), (to_row, to_pixel, to_size) = (
        d.pitches(columns, channels * b // 8, rows) for b in (bits, context.bits)
    )
    source, target = d.place(size), d.place(to_size, True)
    if bits > 8 and context.step is Step.LOOKUP and d.rng.random() < 0.7:  # indices, few of them beyond the table
        count = -(-8 * size // bits)
        numbers = np.where(d.rng.random(count) < 1 / count, 128, d.rng.integers(-128, 128, count))
        d.memories[source.memory][source.address :][:size] = numbers.astype(f"<i{bits // 8}").view(np.uint8)[:size]
    elif bits == 64:  # sums of an accumulator, which seldom have more bits than contracts take
        numbers = d.rng.integers(-(1 << 40), 1 << 40, -(-size // 8)).astype("<i8").view(np.uint8)
        d.memories[source.memory][source.address : source.address + size] = numbers[:size]
    shape = (rows, columns, channels)
    return [context, Post(0, (), context.ctx, source, bits, *shape, row, pixel, target, to_row, to_pixel)]


def _arithmetic(d: _Drawing) -> list[Command]:
    rows, columns, channels = _elements(d)
    context, bits = _context(d, channels), d.one(8, 16)
    sides: list[tuple[Place, int, int]] = []
    for b, written in ((bits, False), (bits, False), (context.bits, True)):
        row, pixel, size = d.pitches(columns, channels * b // 8, rows)
        place = d.place(size, written)
        repeats = d.rng.random() < 0.2 and not written
        sides.append((place, 0 if repeats else row, 0 if repeats and d.rng.random() < 0.5 else pixel))
    (lhs, *lhs_pitches), (rhs, *rhs_pitches), (target, *target_pitches) = sides
    numbers = [d.number(-300, 300) for _ in range(2)] + [d.number(-(1 << 20), 1 << 20) for _ in range(2)]
    fields: tuple[Any, ...] = (
        0, (), context.ctx, d.one(*Operation), bits, lhs, rhs, target, rows, columns, channels, *lhs_pitches,
        *rhs_pitches, *target_pitches, *numbers, d.number(1, 30),
    )  # fmt: skip
    return [context, Arithmetic(*fields)]


def _pool(d: _Drawing) -> list[Command]:
    rows, columns, channels = _elements(d)
    bits, out = d.one(8, 16), (d.number(1, 4), d.number(1, 4))
    row, pixel, size = d.pitches(columns, channels * bits // 8, rows)
    if d.rng.random() < 0.3:
        sums, zero_point = d.place(4 * channels, True), d.seldom(d.number(-128, 127), lambda: d.one(-1, 1) << 28)
        init = d.one(Init.ZERO, Init.ACCUMULATE)
        return [Reduce(0, (), 0, d.place(size), bits, rows, columns, channels, row, pixel, zero_point, sums, init)]
    to_row, to_pixel, to_size = d.pitches(out[1], channels * bits // 8, out[0])
    fields: tuple[Any, ...] = (
        0, (), 0, d.one(*Pooling), bits, d.place(size), rows, columns, channels, row, pixel, d.place(to_size, True),
        *out, to_row, to_pixel, *(d.number(1, 3) for _ in range(4)), d.number(1, 2), d.number(1, 2), d.number(-1, 2),
        d.number(-1, 2), d.number(0, 1), d.seldom(d.number(-128, 127), lambda: d.number(-(1 << 31), (1 << 31) - 1)),
    )  # fmt: skip
    return [Pool(*fields)]


def _rows(d: _Drawing) -> tuple[Any, ...]:
    """The fields that operations on rows share."""
    source_bits, target_bits = d.one(8, 16), d.one(8, 16)
    rows, channels = d.number(1, 6), d.one(1, d.number(2, 30), d.number(60, 140))
    (source_row, _, size), (target_row, _, written) = (
        d.pitches(1, channels * bits // 8, rows) for bits in (source_bits, target_bits)
    )
    half = 1 << target_bits - 1
    lower, upper = (-half, half - 1) if d.rng.random() < 0.7 else sorted(d.number(-half, half - 1) for _ in range(2))
    zero_point = d.seldom(d.number(-200, 200), lambda: d.number(-(1 << 31), (1 << 31) - 1))
    places = d.place(size), d.place(written, True)
    return *places, source_bits, target_bits, rows, channels, source_row, target_row, zero_point, lower, upper


def _softmax(d: _Drawing) -> list[Command]:
    """Exponentials of some slope, in steps as their division has them; seldom any numbers at all."""
    fields, division = _rows(d), d.one(*Division)
    entries = d.one(256, 700, d.number(1, 300))
    one = {Division.EXACT: 1 << 30, Division.NEWTON: (1 << 31) - 1, Division.INTERPOLATED: 1 << 15}[division]
    table = np.rint(one * np.exp(-np.arange(entries) * d.rng.uniform(0, 0.3)))
    if d.rng.random() < 0.1:
        table[d.number(0, entries - 1)] = d.one(-1, (1 << 31) - 1)
    if d.rng.random() < 0.05:
        table[:] = d.one(0, 1, 1 << 20)
    unit = {
        Division.EXACT: d.number(1 << 12, 1 << d.number(13, 31)),
        Division.NEWTON: 1 << 12 + d.number(0, 16),
        Division.INTERPOLATED: 1 << 27,
    }[division]
    inverse = d.table(np.rint((1 << 15) / (1 + np.arange(513) / 512)).clip(max=(1 << 15) - 1).astype("<i2").tobytes())
    tables = d.table(table.astype("<i4").tobytes()), inverse
    made: tuple[Any, ...] = (0, (), 0, *fields, *tables, division, entries, unit)
    return [Softmax(*made)]


def _normalize(d: _Drawing) -> list[Command]:
    """Roots of sums of every size; what is too large for a root, the limits of commands refuse."""
    fields = _rows(d)
    point, epsilon = d.one(0, d.number(-300, 300)), d.one(0, d.number(0, 1 << d.number(1, 61)))
    fraction = d.number(-4, 40)
    shift = d.number(-8, 20) + fraction // 2
    numbers = (d.number(1 << 30, (1 << 31) - 1), shift, fraction, epsilon % (1 << 32), epsilon >> 32)
    made: tuple[Any, ...] = (0, (), 0, *fields, d.one(*Norm), point, *numbers)
    return [Normalize(*made)]


_KINDS: tuple[Callable[[_Drawing], list[Command]], ...] = (
    _move, _unpack, _arrange, _control, _window, _window, _window, _post, _post, _arithmetic, _arithmetic, _pool,
    _pool, _softmax, _normalize, _normalize,
)  # fmt: skip

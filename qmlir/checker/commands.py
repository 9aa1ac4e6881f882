"""The intervals of what a program's commands compute, derived in Python's own integers.

The commands' meaning is that of the instruction set (isa/commands.py), the widths of accumulators are those of the
device that the program names. Commands count in program order, in which every command may run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from struct import iter_unpack
from typing import Any

from qmlir.checker.deriver import Sums
from qmlir.checker.intervals import limit_slack, spread
from qmlir.checker.memory import ENTERING, LEAVING, Area, Memories, Range
from qmlir.checker.program import Program
from qmlir.checker.rounding import CONTRACTS, OverflowsError
from qmlir.checker.unproven import UnprovenError
from qmlir.checker.weights import unpacked
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
from qmlir.isa.encoding import Command, Place, field_kinds, mnemonic

NUMBERS = {
    0: "single", 1: "double", 2: "upup", 3: "float_even", 4: "shift", 5: "away16", 6: "single64", 7: "reduced16",
    8: "updown", 9: "even", 10: "away", 11: "away64",
}  # fmt: skip
"""Number of a rounding contract in commands → its name."""

BITS, MOST_BITS = ("bits", "bias_shift"), 64
"""The ends of the names of fields that are widths or powers of two, and their largest value."""

EXTENTS = (
    *("rows", "columns", "channels", "planes", "size", "count", "out_rows", "out_columns", "out_channels"),
    *("kernel_rows", "kernel_columns"),
)
STEPS = ("kernel_rows", "kernel_columns", "stride_rows", "stride_columns", "dilation_rows", "dilation_columns")
MOST_EXTENT, MOST_CHANNELS = 1 << 24, 1 << 20
"""The fields that count something, those of them that are not 0, and their largest value."""

LARGEST_SHIFT = {"single64": 15, "reduced16": 7}

Called = Mapping[str, Sequence[Range | int]]
"""Name of a host routine → for each output the interval of its elements, or the number of its content."""


@dataclass(frozen=True)
class Followed:
    """What follows for a command, in the fields of a certificate."""

    command: str
    layer: str
    range: Range
    sums: Sums | None = None
    contract: str | None = None
    slack: int | None = None


def follow(program: Program, called: Called) -> dict[int, Followed]:
    """Derives the intervals of all commands that compute; number of the command → what follows.

    Raises:
        UnprovenError: A command computes on floats, or its integers may not fit; the text names the command.
    """
    walk = _Walk(program)
    found: dict[int, Followed] = {}
    for index, command in enumerate(program.commands):
        try:
            if isinstance(command, Host):
                walk.call(command, called)
            elif (result := walk.step(command)) is not None:
                found[index] = result
        except OverflowsError as error:
            raise UnprovenError(f"command {index}, {mnemonic(type(command))}: {error}") from None
    return found


class _Walk:
    """The memories and contexts of a device, command after command."""

    def __init__(self, program: Program):
        self.program, self.memories, self.layer = program, Memories(program.sizes(), program.bytes), ""
        self.contexts: dict[int, SetContext] = {}
        self.weights: dict[tuple[Any, ...], list[Range]] = {}
        for port in program.inputs:
            if port.float:
                self.memories.mark(port.area, ENTERING)
        for area, data in program.constants:
            self.memories.constant(area, data)

    def call(self, command: Host, called: Called) -> None:
        """Follows a call of the host."""
        routine = self.program.routines[command.routine]
        for port in routine.inputs:
            floats = self.memories.contents(port.area) & {ENTERING, LEAVING}
            if floats != ({ENTERING} if port.float else set[int]()):
                raise OverflowsError(f'routine {routine.name} reads "{port.name}", floats that a routine computed')
        for port, result in zip(routine.outputs, called[routine.name], strict=True):
            if isinstance(result, tuple):
                self.memories.elements(port.area, [result], port.width)
            else:
                self.memories.mark(port.area, result)

    def step(self, command: Command) -> Followed | None:
        """Follows a command of the device."""
        self.bounded(command)
        match command:
            case Mark():
                self.layer = self.program.layers[command.layer] if command.layer < len(self.program.layers) else ""
            case SetContext():
                self.contexts[command.ctx] = command
            case Move():
                shape = command.size, command.rows, command.planes
                source = Area(*command.source, *shape, command.source_row, command.source_plane)
                self.memories.copy(source, Area(*command.target, *shape, command.target_row, command.target_plane))
            case Unpack():
                self.unpack(command)
            case Fill():
                shape = command.size, command.rows, command.planes
                area = Area(*command.target, *shape, command.target_row, command.target_plane)
                self.memories.constant(area, bytes([command.value]) * (command.size * command.rows * command.planes))
            case _ if (rule := RULES.get(type(command))) is not None:
                return rule(self, command)
            case _:
                pass
        return None

    # What commands read and write

    def read(self, area: Area, width: int) -> list[Range]:
        """The interval of each element along the rows of an operand."""
        self._integers(area)
        return self.memories.each(area, width)

    def whole(self, area: Area, width: int) -> Range:
        """The interval of an operand."""
        self._integers(area)
        return self.memories.whole(area, width)

    def _integers(self, area: Area) -> None:
        if self.memories.contents(area) & {ENTERING, LEAVING}:
            raise OverflowsError("it reads floats")

    def dense(self, place: Place, bits: int, count: int) -> list[Range]:
        """The interval of each element of a dense operand."""
        if count > MOST_EXTENT:
            raise OverflowsError(f"{count} elements")
        return self.read(Area(*place, count * bits // 8), bits // 8)

    def unpack(self, command: Unpack) -> None:
        """Follows the unpacking of weights to bytes."""
        held, area = (
            self.packed(command, command.source, command.bits, command.count),
            Area(*command.target, command.count),
        )
        if held is None:
            self.memories.elements(area, [_ends(command.bits)], 1)
        else:
            self.memories.constant(area, held)

    def packed(self, command: Command, place: Place, bits: int, count: int) -> bytes | None:
        """Packed weights as a byte each; None if they are not constant.

        Raises:
            OverflowsError: The command's queue does not unpack such weights, or they are floats.
        """
        if bits not in self.program.unpacks(command.queue):
            raise OverflowsError(f"queue {command.queue} unpacks no weights of {bits} bits")
        area = Area(*place, -(-count * bits // 8))
        self._integers(area)
        held = self.memories.constants(area)
        return None if held is None else unpacked(held, bits, count)

    def context(self, command: Command) -> SetContext:
        """The context of a command."""
        if command.ctx not in self.contexts:
            raise OverflowsError(f"context {command.ctx} was never written")
        return self.contexts[command.ctx]

    def bounded(self, command: Command) -> None:
        """Refuses a command that is larger than any device executes.

        Raises:
            OverflowsError: It is; the text says which field.
        """
        for name in field_kinds(type(command)):
            value = getattr(command, name)
            if name.endswith(BITS) and not 0 <= value <= MOST_BITS:
                raise OverflowsError(f"{name} is {value}")
            if name in EXTENTS and value > (MOST_CHANNELS if name.endswith("channels") else MOST_EXTENT):
                raise OverflowsError(f"{name} is {value}")
            if name in STEPS and not 0 < value <= MOST_EXTENT:
                raise OverflowsError(f"{name} is {value}")
        if isinstance(command, Window | Pool):
            taps = command.out_rows * command.kernel_rows + command.out_columns * command.kernel_columns
            if taps > MOST_EXTENT:
                raise OverflowsError(f"{taps} places of windows")

    def followed(self, command: Command, result: Range, **more: Any) -> Followed:
        """The fields of a command."""
        return Followed(mnemonic(type(command)), self.layer, result, **more)

    def changed(self, command: Command, data: list[Range]) -> tuple[Range, dict[str, Any]]:
        """A command's context applied to elements: the interval of the results, and the fields of its rounding."""
        context = self.context(command)
        if context.step is Step.LOOKUP:
            low, high = _join(data)
            if not -128 <= low <= high <= 127:
                raise OverflowsError(f"a table is looked up with {low} to {high}")
            return _join(self.dense(context.table, context.bits, 256)[low + 128 : high + 129]), {}
        name = _contract(context)
        pairs = self.dense(context.table, 32, 2 * (len(data) if context.per_channel else 1))
        if any(low != high for low, high in pairs):
            raise OverflowsError("its multipliers are no constants")
        ms, ss = ([low for low, _ in pairs[place::2]] for place in (0, 1))
        count = max(len(data), len(ms))
        lows, highs = (
            [n - context.input_zero_point for n in spread([each[end] for each in data], count)] for end in (0, 1)
        )
        rule, found = CONTRACTS[name], list[int]()
        for a, b, m, s in zip(lows, highs, spread(ms, count), spread(ss, count), strict=True):
            if not (m == 0 or 1 << 29 <= m < 1 << 31) or not -31 <= s <= LARGEST_SHIFT.get(name, 30):
                raise OverflowsError(f"contract {name} with multiplier {m} and shift {s}")
            found += [rule(a, m, s), rule(b, m, s)]
        slack = limit_slack(name, (lows, highs))
        return _clamped(context, min(found), max(found)), {"contract": name, "slack": slack}


def _contract(context: SetContext) -> str:
    name = NUMBERS.get(context.contract, f"number {context.contract}")
    if name not in CONTRACTS:
        raise OverflowsError(f"contract {name} is none on integers")
    return name


def _clamped(context: SetContext, low: int, high: int) -> Range:
    ends = [min(max(n + context.zero_point, context.lower), context.upper) for n in (low, high)]
    return ends[0], ends[1]


def _join(ranges: Sequence[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def _ends(bits: int) -> Range:
    """The least and the greatest signed integer of so many bits."""
    return -(1 << bits - 1), (1 << bits - 1) - 1


def _less(data: Range, point: int) -> Range:
    return data[0] - point, data[1] - point


def _times(a: Range, b: Range) -> Range:
    ends = [x * y for x in a for y in b]
    return min(ends), max(ends)


def _sums(whole: Sequence[Range], partial: Sequence[Range], bits: int) -> Sums:
    for channel, (low, high) in enumerate(partial):
        if low < -(1 << bits - 1) or high >= 1 << bits - 1:
            raise OverflowsError(f"sums of channel {channel} reach [{low}, {high}], beyond {bits} bits")
    return Sums(([low for low, _ in whole], [high for _, high in whole]), _join(partial), bits)


def _image(place: Place, rows: int, columns: int, size: int, row: int, pixel: int) -> Area:
    """A tensor: each pixel is a run of bytes, each row a plane."""
    return Area(*place, size, columns, rows, pixel, row)


def _target(walk: _Walk, command: Post | Arithmetic, result: Range) -> None:
    width = walk.context(command).bits // 8
    size = command.channels * width
    area = _image(command.target, command.rows, command.columns, size, command.target_row, command.target_pixel)
    walk.memories.elements(area, [result], width)


# ---------------------------------------------------------------------------------------------------------------
# Commands


def _window(walk: _Walk, command: Window) -> Followed:
    modes, types = walk.program.modes(), (f"i{command.data_bits}", f"i{max(command.weight_bits, 8)}")
    if types not in modes:
        raise OverflowsError(f"the array multiplies no {types[0]} by {types[1]}")
    bits, width = min(modes[types], command.sum_bits), command.data_bits // 8
    size = command.channels * width
    data = walk.whole(
        _image(command.data, command.rows, command.columns, size, command.row_pitch, command.pixel_pitch), width
    )
    low, high = _less(data, command.zero_point)
    products = _products(walk, command, (low, high))
    outputs = command.out_channels if isinstance(command, Convolve) else command.channels
    positions, start = command.out_rows * command.out_columns, [(0, 0)] * outputs
    area = Area(*command.sums, positions * outputs * command.sum_bits // 8)
    if command.init is Init.BIAS:
        biases = walk.dense(command.bias, command.bias_bits, outputs)
        start = [(a << command.bias_shift, b << command.bias_shift) for a, b in biases]
    elif command.init is Init.ACCUMULATE:
        pixel = outputs * command.sum_bits // 8
        start = walk.read(Area(area.memory, area.start, pixel, positions, 1, pixel), command.sum_bits // 8)
    return _accumulated(walk, command, area, (products, products, start), bits)


def _accumulated(
    walk: _Walk, command: Window | Reduce, area: Area, parts: tuple[list[Range], list[Range], list[Range]], bits: int
) -> Followed:
    """Sums that start with a value: complete ones, and partial ones with and without it."""
    whole = [(a + c, b + d) for (a, b), (c, d) in zip(parts[0], parts[2], strict=True)]
    partial = [
        (min(w[0], p[0], p[0] + s[0]), max(w[1], p[1], p[1] + s[1]))
        for w, p, s in zip(whole, parts[1], parts[2], strict=True)
    ]
    sums = _sums(whole, partial, bits)
    stored = command.sum_bits if isinstance(command, Window) else 32
    walk.memories.elements(area, whole, stored // 8)
    return walk.followed(command, _join(whole), sums=sums)


def _products(walk: _Walk, command: Window, data: Range) -> list[Range]:
    """The interval of Σ w·d of each output channel, each product or 0."""
    terms = command.kernel_rows * command.kernel_columns * command.channels
    few = command.weight_bits < 8
    width, shape = 1 if few else command.weight_bits // 8, (1, 1)
    if command.weight_bits > 16:
        raise OverflowsError(f"weights of {command.weight_bits} bits")
    count = terms
    if isinstance(command, Convolve):
        shape = walk.program.device.get("layout.weights.n", 1), walk.program.device.get("layout.weights.k", 1)
        count = -(-command.out_channels // shape[0]) * shape[0] * -(-terms // shape[1]) * shape[1]
        outputs = command.out_channels
    else:
        outputs = command.channels
        terms = command.kernel_rows * command.kernel_columns
    area = Area(*command.weights, count * width)
    if few:
        held = walk.packed(command, command.weights, command.weight_bits, count)
    else:
        held = walk.memories.constants(area)
    places = _places(isinstance(command, Convolve), outputs, terms, shape)
    if held is None:
        read = [_ends(command.weight_bits)] * count if few else walk.read(area, width)
        weights = [_less(each, command.weight_zero_point) for each in read]
        found: list[Range] = []
        for channel in places:
            ends = [_times(w, data) for run in channel for w in weights[run]]
            found.append((sum(min(a, 0) for a, _ in ends), sum(max(b, 0) for _, b in ends)))
        return found
    key = sha256(held).digest(), command.weight_zero_point, width, outputs, terms, isinstance(command, Convolve)
    if key not in walk.weights:
        numbers = memoryview(held).cast("b") if width == 1 else [n for (n,) in iter_unpack("<h", held)]
        walk.weights[key] = [_sums_of(numbers, channel, command.weight_zero_point) for channel in places]
    low, high = min(data[0], 0), max(data[1], 0)
    return [(above * low + below * high, above * high + below * low) for below, above in walk.weights[key]]


def _sums_of(numbers: Sequence[int], runs: Sequence[slice], point: int) -> Range:
    """The sum of the negative weights of a channel, and that of the positive ones."""
    row = [w - point for run in runs for w in numbers[run]]
    return sum(w for w in row if w < 0), sum(w for w in row if w > 0)


def _places(dense: bool, outputs: int, terms: int, shape: tuple[int, int]) -> list[list[slice]]:
    """Where the weights of each output channel are stored, as runs."""
    if not dense:
        return [[slice(channel, None, outputs)] for channel in range(outputs)]
    n, k = shape
    tiles = -(-terms // k)
    return [
        [
            slice(at, at + min(k, terms - tile * k))
            for tile in range(tiles)
            for at in (((channel // n * tiles + tile) * n + channel % n) * k,)
        ]
        for channel in range(outputs)
    ]


def _post(walk: _Walk, command: Post) -> Followed:
    width = command.source_bits // 8
    size = command.channels * width
    source = _image(command.source, command.rows, command.columns, size, command.source_row, command.source_pixel)
    result, fields = walk.changed(command, walk.read(source, width))
    _target(walk, command, result)
    return walk.followed(command, result, **fields)


def _arithmetic(walk: _Walk, command: Arithmetic) -> Followed:
    width, context = command.bits // 8, walk.context(command)
    size = command.channels * width
    shape = command.rows, command.columns, size
    lhs = _less(
        walk.whole(_image(command.lhs, *shape, command.lhs_row, command.lhs_pixel), width), command.lhs_zero_point
    )
    rhs = _less(
        walk.whole(_image(command.rhs, *shape, command.rhs_row, command.rhs_pixel), width), command.rhs_zero_point
    )
    if command.operation is Operation.MUL:
        product = [_times(lhs, rhs)]
        sums = _sums(product, product, 32)
        result, fields = walk.changed(command, product * command.channels)
        _target(walk, command, result)
        return walk.followed(command, result, sums=sums, **fields)
    if not 1 <= command.shift <= 62:
        raise OverflowsError(f"a shift by {command.shift} bits")
    parts = [_times(data, (m, m)) for data, m in ((lhs, command.lhs_multiplier), (rhs, command.rhs_multiplier))]
    low, high, half = parts[0][0] + parts[1][0], parts[0][1] + parts[1][1], 1 << command.shift - 1
    total = [(min(low, 0), max(high, 0) + half)]
    sums = _sums(total, total, 64)
    result = _clamped(context, low + half >> command.shift, high + half >> command.shift)
    _target(walk, command, result)
    return walk.followed(command, result, sums=sums)


def _pool(walk: _Walk, command: Pool) -> Followed:
    width = command.bits // 8
    size = command.channels * width
    source = _image(command.source, command.rows, command.columns, size, command.row_pitch, command.pixel_pitch)
    target = _image(
        command.target, command.out_rows, command.out_columns, size, command.target_row, command.target_pixel
    )
    data, least = walk.whole(source, width), -(1 << command.bits - 1)
    if command.pooling is Pooling.MAX:
        result = _join([data, (least, least)]) if _empty(command) else data
        walk.memories.elements(target, [result], width)
        return walk.followed(command, result)
    if command.count_padding:
        data = _join([data, (command.zero_point, command.zero_point)])
    elif _empty(command):
        data = _join([data, (0, 0)])
    count = command.kernel_rows * command.kernel_columns
    total = [(min(data[0], 0) * count - count // 2, max(data[1], 0) * count + count // 2)]
    sums = _sums(total, total, 32)
    result = max(data[0], least), min(data[1], -least - 1)
    walk.memories.elements(target, [result], width)
    return walk.followed(command, result, sums=sums)


def _empty(command: Pool) -> bool:
    """Whether a window lies outside of the data."""
    for size, outputs, extent, stride, step, before in (
        (command.rows, command.out_rows, command.kernel_rows, command.stride_rows, command.dilation_rows, command.top),
        (
            command.columns, command.out_columns, command.kernel_columns, command.stride_columns,
            command.dilation_columns, command.left,
        ),
    ):  # fmt: skip
        for output in range(outputs):
            first = output * stride - before
            if not any(0 <= first + tap * step < size for tap in range(extent)):
                return True
    return False


def _reduce(walk: _Walk, command: Reduce) -> Followed:
    width, count = command.bits // 8, command.rows * command.columns
    size = command.channels * width
    source = _image(command.source, command.rows, command.columns, size, command.row_pitch, command.pixel_pitch)
    data = [_less(each, command.zero_point) for each in walk.read(source, width)]
    whole = [(low * count, high * count) for low, high in data]
    partial = [(min(low, 0) * count, max(high, 0) * count) for low, high in data]
    start = [(0, 0)] * command.channels
    if command.init is Init.ACCUMULATE:
        start = walk.dense(command.sums, 32, command.channels)
    area = Area(*command.sums, 4 * command.channels)
    return _accumulated(walk, command, area, (whole, partial, start), 32)


RULES: Mapping[type[Command], Callable[[_Walk, Any], Followed]] = {
    Convolve: _window,
    ConvolveDepthwise: _window,
    Post: _post,
    Arithmetic: _arithmetic,
    Pool: _pool,
    Reduce: _reduce,
}
"""Command → its rule; all other commands move bytes or control the device."""

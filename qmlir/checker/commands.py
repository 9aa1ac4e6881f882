"""The intervals of what a program's commands compute, derived in Python's own integers.

The commands' meaning is that of the instruction set (isa/commands.py), the widths of accumulators are those of the
device that the program names. Commands count in program order, in which every command may run.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from struct import iter_unpack
from typing import Any

from qmlir.checker.intervals import sum_of_products, taps_inside
from qmlir.checker.memory import ENTERING, LEAVING, Area, Memories
from qmlir.checker.program import Program
from qmlir.checker.ranges import Channels, Range, Sums, clamped, join, less, repeated, signed, times
from qmlir.checker.rounding import contract_of, requantized
from qmlir.checker.row_commands import exponential_sums, radicands
from qmlir.checker.unproven import UnprovenError
from qmlir.checker.weights import signed_sums, unpacked
from qmlir.isa.commands import (
    Arithmetic,
    Arrange,
    Convolve,
    ConvolveDepthwise,
    Division,
    Fill,
    Host,
    Init,
    Mark,
    Move,
    Normalize,
    OfRows,
    Operation,
    Pool,
    Pooling,
    Post,
    Reduce,
    SetContext,
    Softmax,
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
        RefusedError: A command computes on floats, or its integers may not fit.
    """
    walk = _Walk(program)
    found: dict[int, Followed] = {}
    for index, command in enumerate(program.commands):
        try:
            if isinstance(command, Host):
                walk.call(command, called)
            elif (result := walk.step(command)) is not None:
                found[index] = result
        except UnprovenError as error:
            name = program.routines[command.routine].name if isinstance(command, Host) else walk.layer
            raise error.at(f"command {index}, {mnemonic(type(command))}", name) from None
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
                need = "must read floats of the network's inputs only"
                got = f'{port.type} in "{port.name}", floats that a routine of the host returned'
                remedy = "quantize what computes between the two calls, so that integers pass from one to the other"
                raise UnprovenError(got, need, remedy=remedy)
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
            case Arrange():
                self.arrange(command)
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

    def read(self, name: str, area: Area, width: int) -> list[Range]:
        """The interval of each element along the rows of an operand."""
        self._integers(name, area)
        return self.memories.each(area, width)

    def whole(self, name: str, area: Area, width: int, point: int = 0) -> Range:
        """The interval of an operand, less a zero point."""
        self._integers(name, area)
        return less(self.memories.whole(area, width), point)

    def _integers(self, name: str, area: Area) -> None:
        if self.memories.contents(area) & {ENTERING, LEAVING}:
            need, remedy = "must compute on integers", "quantize the network's inputs on the host"
            raise UnprovenError(f"floats in {name}", need, remedy=remedy)

    def dense(self, name: str, place: Place, bits: int, count: int) -> list[Range]:
        """The interval of each element of a dense operand."""
        if count > MOST_EXTENT:
            raise UnprovenError(f"{count} elements", "must be a command that a device executes")
        return self.read(name, Area(*place, count * bits // 8), bits // 8)

    def sums(self, whole: Channels, partial: Channels, bits: int) -> Sums:
        """Sums of a width, which is at most that of the device's accumulators."""
        return Sums.of(whole, partial, bits, str(self.program.device["name"]))

    def unpack(self, command: Unpack) -> None:
        """Follows the unpacking of weights to bytes."""
        held = self.packed(command, "source", command.bits, command.count)
        area = Area(*command.target, command.count)
        if held is None:
            self.memories.elements(area, [signed(command.bits)], 1)
        else:
            self.memories.constant(area, held)

    def arrange(self, command: Arrange) -> None:
        """Follows the copy of a matrix to tiles, whose elements beyond the matrix are 0."""
        if not self.program.arranges(command.queue):
            got = f"queue {command.queue}, which arranges no matrices"
            raise UnprovenError(got, "must be a command that the device executes")
        if command.bits not in (8, 16):
            raise UnprovenError(f"{command.bits} bits", "must be a command that a device executes")
        width, outputs, terms = command.bits // 8, command.rows, command.columns
        source = Area(*command.source, command.columns * width, command.rows, 1, command.pitch)
        if command.transposed:
            outputs, terms = terms, outputs
        count = in_tiles(outputs, terms, self.program.tile())
        element = join(self.whole("source", source, width), (0, 0))
        self.memories.elements(Area(*command.target, count * width), [element], width)

    def packed(self, command: Command, name: str, bits: int, count: int) -> bytes | None:
        """Packed weights of an operand as a byte each; None if they are not constant.

        Raises:
            UnprovenError: The command's queue does not unpack such weights, or they are floats.
        """
        if bits not in self.program.unpacks(command.queue):
            got = f"queue {command.queue}, which unpacks no weights of {bits} bits"
            raise UnprovenError(got, "must be a command that the device executes")
        place: Place = getattr(command, name)
        area = Area(*place, -(-count * bits // 8))
        self._integers(name, area)
        held = self.memories.constants(area)
        return None if held is None else unpacked(held, bits, count)

    def context(self, command: Command) -> SetContext:
        """The context of a command."""
        if command.ctx not in self.contexts:
            raise UnprovenError(f"{command.ctx}", "must use a context that was written")
        return self.contexts[command.ctx]

    def bounded(self, command: Command) -> None:
        """Refuses a command that is larger than any device executes.

        Raises:
            UnprovenError: It is; the error says which field.
        """
        for name in field_kinds(type(command)):
            value, least, most = getattr(command, name), 0, MOST_EXTENT
            if name.endswith(BITS):
                most = MOST_BITS
            elif name in STEPS:
                least = 1
            elif name not in EXTENTS:
                continue
            elif name.endswith("channels"):
                most = MOST_CHANNELS
            if not least <= value <= most:
                raise UnprovenError(f"{name} of {value}", "must be a command that a device executes")
        if isinstance(command, Window | Pool):
            taps = command.out_rows * command.kernel_rows + command.out_columns * command.kernel_columns
            if taps > MOST_EXTENT:
                raise UnprovenError(f"{taps} places of windows", "must be a command that a device executes")

    def stored(self, command: Post | Arithmetic, result: Range, **more: Any) -> Followed:
        """The fields of a command whose result has the type of its context, and is stored."""
        width = self.context(command).bits // 8
        shape = command.rows, command.columns, command.channels * width
        area = _image(command.target, *shape, command.target_row, command.target_pixel)
        self.memories.elements(area, [result], width)
        return self.followed(command, result, **more)

    def followed(self, command: Command, result: Range, **more: Any) -> Followed:
        """The fields of a command."""
        return Followed(mnemonic(type(command)), self.layer, result, **more)

    def changed(self, command: Command, data: list[Range]) -> tuple[Range, dict[str, Any]]:
        """A command's context applied to elements: the interval of the results, and the fields of its rounding."""
        context = self.context(command)
        if context.step is Step.LOOKUP:
            low, high = join(*data)
            if not -128 <= low <= high <= 127:
                raise UnprovenError(f"{low} to {high}", "must look up numbers of 8 bits")
            return join(*self.dense("table", context.table, context.bits, 256)[low + 128 : high + 129]), {}
        name = NUMBERS.get(context.contract, f"number {context.contract}")
        contract_of(name)
        pairs = self.dense("table", context.table, 32, 2 * (len(data) if context.per_channel else 1))
        if any(low != high for low, high in pairs):
            raise UnprovenError("a table that is computed", "must have constant multipliers and shifts")
        ms, ss = ([low for low, _ in pairs[place::2]] for place in (0, 1))
        for m, s in zip(ms, ss, strict=True):
            if not (m == 0 or 1 << 29 <= m < 1 << 31) or not -31 <= s <= LARGEST_SHIFT.get(name, 30):
                raise UnprovenError(f"{m} and {s}", f"must have multipliers and shifts that contract {name} takes")
        found, slack = requantized(name, [less(each, context.input_zero_point) for each in data], ms, ss)
        return _clamped(context, found), {"contract": name, "slack": slack}


def _clamped(context: SetContext, interval: Range) -> Range:
    return clamped(interval, context.zero_point, context.lower, context.upper)


def _image(place: Place, rows: int, columns: int, size: int, row: int, pixel: int) -> Area:
    """A tensor: each pixel is a run of bytes, each row a plane."""
    return Area(*place, size, columns, rows, pixel, row)


# ---------------------------------------------------------------------------------------------------------------
# Commands


def _window(walk: _Walk, command: Window) -> Followed:
    modes, types = walk.program.modes(), (f"i{command.data_bits}", f"i{max(command.weight_bits, 8)}")
    if types not in modes:
        need = f"must have operands that the array of {walk.program.device['name']} multiplies"
        raise UnprovenError(f"{types[0]} by {types[1]}", need)
    bits, width = min(modes[types], command.sum_bits), command.data_bits // 8
    size = command.channels * width
    area = _image(command.data, command.rows, command.columns, size, command.row_pitch, command.pixel_pitch)
    products = _products(walk, command, walk.whole("data", area, width, command.zero_point))
    outputs = command.out_channels if isinstance(command, Convolve) else command.channels
    positions, start = command.out_rows * command.out_columns, [(0, 0)] * outputs
    area = Area(*command.sums, positions * outputs * command.sum_bits // 8)
    if command.init is Init.BIAS:
        biases = walk.dense("bias", command.bias, command.bias_bits, outputs)
        start = [repeated(each, 1 << command.bias_shift) for each in biases]
    elif command.init is Init.ACCUMULATE:
        pixel = outputs * command.sum_bits // 8
        start = walk.read("sums", Area(*command.sums, pixel, positions, 1, pixel), command.sum_bits // 8)
    return _accumulated(walk, command, area, (products, products, start), bits)


def _accumulated(
    walk: _Walk, command: Window | Reduce, area: Area, parts: tuple[list[Range], list[Range], list[Range]], bits: int
) -> Followed:
    """Sums that start with a value: complete ones, and partial ones with and without it."""
    whole, some = ([(a + c, b + d) for (a, b), (c, d) in zip(each, parts[2], strict=True)] for each in parts[:2])
    partial = [join(*each) for each in zip(whole, some, parts[1], strict=True)]
    sums = walk.sums(whole, partial, bits)
    stored = command.sum_bits if isinstance(command, Window) else 32
    walk.memories.elements(area, whole, stored // 8)
    return walk.followed(command, join(*whole), sums=sums)


def _products(walk: _Walk, command: Window, data: Range) -> list[Range]:
    """The interval of Σ w·d of each output channel, each product or 0."""
    few = command.weight_bits < 8
    width, shape = 1 if few else command.weight_bits // 8, (1, 1)
    if command.weight_bits > 16:
        raise UnprovenError(f"weights of {command.weight_bits} bits", "must be a command that a device executes")
    terms = command.kernel_rows * command.kernel_columns
    count, outputs, dense = terms * command.channels, command.channels, isinstance(command, Convolve)
    if isinstance(command, Convolve):
        shape, terms, outputs = walk.program.tile(), count, command.out_channels
        count = in_tiles(outputs, terms, shape)
    area = Area(*command.weights, count * width)
    held = walk.packed(command, "weights", command.weight_bits, count) if few else walk.memories.constants(area)
    places = _places(dense, outputs, terms, shape)
    if held is None:
        read = [signed(command.weight_bits)] * count if few else walk.read("weights", area, width)
        weights = [times(less(each, command.weight_zero_point), data) for each in read]
        each = ([join(weight, (0, 0)) for run in channel for weight in weights[run]] for channel in places)
        return [(sum(low for low, _ in ends), sum(high for _, high in ends)) for ends in each]
    key = sha256(held).digest(), command.weight_zero_point, width, outputs, terms, dense
    if key not in walk.weights:
        numbers = memoryview(held).cast("b") if width == 1 else [n for (n,) in iter_unpack("<h", held)]
        rows = ([w - command.weight_zero_point for run in channel for w in numbers[run]] for channel in places)
        walk.weights[key] = list(map(signed_sums, rows))
    low, high = join(data, (0, 0))
    return [(above * low + below * high, above * high + below * low) for above, below in walk.weights[key]]


def in_tiles(outputs: int, terms: int, shape: tuple[int, int]) -> int:
    """How many weights the whole tiles [n, k] of a matrix have."""
    n, k = shape
    return -(-outputs // n) * n * -(-terms // k) * k


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
    result, fields = walk.changed(command, walk.read("source", source, width))
    return walk.stored(command, result, **fields)


def _arithmetic(walk: _Walk, command: Arithmetic) -> Followed:
    width, context = command.bits // 8, walk.context(command)
    shape = command.rows, command.columns, command.channels * width
    area = _image(command.lhs, *shape, command.lhs_row, command.lhs_pixel)
    lhs = walk.whole("lhs", area, width, command.lhs_zero_point)
    area = _image(command.rhs, *shape, command.rhs_row, command.rhs_pixel)
    rhs = walk.whole("rhs", area, width, command.rhs_zero_point)
    if command.operation is Operation.MUL:
        product = [times(lhs, rhs)]
        sums = walk.sums(product, product, 32)
        result, fields = walk.changed(command, product * command.channels)
        return walk.stored(command, result, sums=sums, **fields)
    if not 1 <= command.shift <= 62:
        raise UnprovenError(f"a shift by {command.shift} bits", "must be a command that a device executes")
    factors = [(m, m) for m in (command.lhs_multiplier, command.rhs_multiplier)]
    total, result = sum_of_products(times(lhs, factors[0]), times(rhs, factors[1]), command.shift)
    sums = walk.sums([total], [total], 64)
    return walk.stored(command, _clamped(context, result), sums=sums)


def _pool(walk: _Walk, command: Pool) -> Followed:
    width = command.bits // 8
    size = command.channels * width
    source = _image(command.source, command.rows, command.columns, size, command.row_pitch, command.pixel_pitch)
    shape = command.out_rows, command.out_columns, size
    target = _image(command.target, *shape, command.target_row, command.target_pixel)
    result, (least, most), sums = walk.whole("source", source, width), signed(command.bits), None
    if command.pooling is Pooling.MAX:
        result = join(result, (least, least)) if _empty(command) else result
    else:
        if command.count_padding:
            result = join(result, (command.zero_point, command.zero_point))
        elif _empty(command):
            result = join(result, (0, 0))
        count = command.kernel_rows * command.kernel_columns
        low, high = join(result, (0, 0))
        total = [(low * count - count // 2, high * count + count // 2)]
        sums = walk.sums(total, total, 32)
        result = max(result[0], least), min(result[1], most)
    walk.memories.elements(target, [result], width)
    return walk.followed(command, result, sums=sums)


def _empty(command: Pool) -> bool:
    """Whether a window lies outside of the data."""
    c = command
    return not all(
        taps_inside(output * stride - before, extent, step, size)
        for size, outputs, extent, stride, step, before in (
            (c.rows, c.out_rows, c.kernel_rows, c.stride_rows, c.dilation_rows, c.top),
            (c.columns, c.out_columns, c.kernel_columns, c.stride_columns, c.dilation_columns, c.left),
        )
        for output in range(outputs)
    )


def _reduce(walk: _Walk, command: Reduce) -> Followed:
    width, count = command.bits // 8, command.rows * command.columns
    size = command.channels * width
    source = _image(command.source, command.rows, command.columns, size, command.row_pitch, command.pixel_pitch)
    data = [less(each, command.zero_point) for each in walk.read("source", source, width)]
    whole = [repeated(each, count) for each in data]
    partial = [repeated(join(each, (0, 0)), count) for each in data]
    start = [(0, 0)] * command.channels
    if command.init is Init.ACCUMULATE:
        start = walk.dense("sums", command.sums, 32, command.channels)
    return _accumulated(walk, command, Area(*command.sums, 4 * command.channels), (whole, partial, start), 32)


def _rows(command: OfRows, place: Place, bits: int, pitch: int) -> Area:
    """The rows of an operand: each is a run of bytes."""
    return Area(*place, command.channels * bits // 8, command.rows, 1, pitch)


def _of_rows(walk: _Walk, command: Softmax | Normalize) -> Followed:
    if not {command.source_bits, command.target_bits} <= {8, 16} or not command.rows or not command.channels:
        raise UnprovenError(f"rows of {command.channels} elements", "must be a command that a device executes")
    width = command.source_bits // 8
    data = walk.whole("source", _rows(command, command.source, command.source_bits, command.source_row), width)
    if isinstance(command, Softmax):
        table = walk.dense("table", command.table, 32, command.entries) if command.entries else [(-1, -1)]
        total, bits = exponential_sums(command, data, table), 64
        if command.division is Division.INTERPOLATED:
            walk.dense("inverse", command.inverse, 16, 513)
    else:
        total, bits = radicands(command, data), 63
    target = _rows(command, command.target, command.target_bits, command.target_row)
    (least, most), result = signed(command.target_bits), (command.lower, command.upper)
    if not least <= command.lower <= command.upper <= most:
        raise UnprovenError(f"bounds {result}", "must be a command that a device executes")
    walk.memories.elements(target, [result], command.target_bits // 8)
    return walk.followed(command, result, sums=walk.sums([total], [total], bits))


RULES: Mapping[type[Command], Callable[[_Walk, Any], Followed]] = {
    Convolve: _window,
    ConvolveDepthwise: _window,
    Post: _post,
    Arithmetic: _arithmetic,
    Pool: _pool,
    Reduce: _reduce,
    Softmax: _of_rows,
    Normalize: _of_rows,
}
"""Command → its rule; all other commands move bytes or control the device."""

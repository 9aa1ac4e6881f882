"""Depthwise convolution kernels: each output channel sums over the window positions (taps) of one input channel.

The kernel walks down a strip of the output image: some neighbouring columns, and a chunk of the channels. The input
rows that the current output row reads lie in a ring on the stack, padded and converted for the kernel's arithmetic.
The next output row overwrites the oldest rows of the ring only, so that each input row is prepared once for a strip:

    for a strip, for an output row of the strip              one item of the parallel loop
      prepare the rows of the ring that the row above did not need
      for each vector of channels
        for a few neighbouring outputs p
          total[p] = start;  for kh, kw:  total[p] = total[p] + ring[kh, p + kw, channels] · w[kh, kw, channels]
        for each output p of the strip:  y[p] = finish(total[p])

The totals of a row go through memory, so that the loop of sums keeps accumulators in registers, and the loop of
`finish` its parameters.

An arithmetic may multiply a `group` of two taps in one step: the taps of two neighbouring rows. The ring then consists
of bands, each of which holds two rows, interleaved: the two elements of a channel and a column are neighbours.
"""

import abc
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
from xdsl.dialects.builtin import AnyFloat, i16, i32
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernel import STACK_LIMIT, Array, Epilogue, FinishedKernel, MainLowering
from qmlir.codegen.kernels.packing import Window
from qmlir.codegen.value import Value
from qmlir.ir.types import is_integer

LANES = (16, 8, 4)
"""Channels of a vector. With 16 i32 sums a vector fills a register of AVX-512, and two registers of AVX2."""

BLOCK = 2
"""Outputs whose sums are taken together: they share each load of weights. On AVX2, 4 outputs of 16 channels were not
faster and 7, which are 14 registers of sums, slower."""

CHUNK = 64
"""The most channels of a strip: a cache line of i8."""

RING = 24 * 1024
"""Bytes that a ring may take: most of a first-level cache."""

FEW = 4
"""The least number of outputs of a strip's row, because neighbouring windows overlap."""


class TapArithmetic(abc.ABC):
    """How a depthwise convolution multiplies and adds; implementations are frozen dataclasses.

    group     the taps that a step multiplies, 1 or 2; two taps are neighbouring rows of one column
    element   the type of the ring's elements; i16 if `group` is 2
    sums      the type of the accumulators
    outside   the number in the ring at positions outside the image
    """

    group: int
    element: Attribute
    sums: Attribute
    outside: int

    @abc.abstractmethod
    def prepare(self, x: Value) -> Value:
        """Converts input elements to the form that the ring holds."""

    @abc.abstractmethod
    def weights(self, w: Value) -> Value:
        """Converts weights to the form that a step multiplies."""

    @abc.abstractmethod
    def start(self, code: Code, bias: Buffer | None, channel: Value, lanes: int | None) -> Value:
        """The initial accumulators of the channels from `channel` on: the bias or zeros."""

    @abc.abstractmethod
    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        """Adds the products of one step; x and w hold the `group` taps of a channel as neighbours."""


# ---------------------------------------------------------------------------------------------------------------
# Bands: the input rows that a window reads, `group` rows each.
#
# A group of one: output row r reads the rows r·stride, r·stride + 1, …, counted from the first row of padding, and band
# b is row b. A group of two: band b has the rows 2b and 2b + 1. If r·stride is odd, the window begins at the second row
# of a band, and the first row of that band gets the weight zero. So the weights exist in two phases:
#
#     r·stride even:  (w0, w1) (w2, 0)        odd:  (0, w0) (w1, w2)
#
# Rows that are `dilation` apart are never neighbours. If the dilation is not 1, an output row has bands of its own,
# which start at its first tap, and which no other output row reads.


@dataclass(frozen=True)
class Bands:
    """How the rows of a window's input are grouped. Bands are numbered down an image, from its top padding on."""

    window: Window
    group: int

    @property
    def shared(self) -> bool:
        """Whether output rows share bands."""
        return self.window.dilations[0] == 1

    @property
    def phases(self) -> int:
        """The number of places in a band at which a window may begin."""
        return self.group if self.shared and self.window.strides[0] % self.group else 1

    @property
    def count(self) -> int:
        """The number of bands that an output row reads."""
        return -(-(self.phases - 1 + self.window.extent[0]) // self.group)

    @property
    def per_image(self) -> int:
        """The number of bands of an image."""
        last = self.window.output[0] - 1
        return (last * self.window.strides[0] // self.group if self.shared else last * self.count) + self.count

    @property
    def leaves(self) -> bool:
        """Whether some band has a row outside the image."""
        window = self.window
        if self.shared:
            bottom = self.per_image * self.group - 1
        else:
            steps = self.count * self.group - 1
            bottom = (window.output[0] - 1) * window.strides[0] + steps * window.dilations[0]
        return window.origin[0] > 0 or bottom - window.origin[0] >= window.height

    def first(self, row: Value) -> Value:
        """The first of the bands that an output row reads."""
        return row * self.window.strides[0] // self.group if self.shared else row * self.count

    def phase(self, row: Value) -> Value:
        """The place in its first band at which the window of an output row begins."""
        return row * self.window.strides[0] % self.phases

    def rows(self, band: Value) -> list[Value]:
        """The rows of a band, counted in the image; some may lie outside."""
        window = self.window
        if self.shared:
            rows = [band * self.group + i for i in range(self.group)]
        else:
            top, step = band // self.count * window.strides[0], band % self.count * self.group
            rows = [top + (step + i) * window.dilations[0] for i in range(self.group)]
        return [row - window.origin[0] for row in rows]

    def pack(self, weights: Array) -> Array:
        """Packs weights [KH, KW, O] to [phases · count, KW, O · group]."""
        rows, columns, outputs = weights.shape
        packed = np.zeros((self.phases, self.count * self.group, columns, outputs), weights.dtype)
        for phase in range(self.phases):
            packed[phase, phase : phase + rows] = weights
        grouped = packed.reshape(-1, self.group, columns, outputs).transpose(0, 2, 3, 1)
        return np.ascontiguousarray(grouped).reshape(-1, columns, outputs * self.group)


# ---------------------------------------------------------------------------------------------------------------
# The kernel


@dataclass(frozen=True)
class Strip:
    """The size of a strip: how many neighbouring outputs of a row, and how many channels.

    All strips of a convolution have this size. Where it does not divide the image, the last strip overlaps the strip
    before, and both write the same numbers. The vectors of channels and the blocks of outputs in a strip do the same.
    """

    outputs: int
    channels: int

    def columns(self, window: Window) -> int:
        """The number of input columns that a row of the strip reads."""
        return (self.outputs - 1) * window.strides[1] + (window.extent[1] - 1) * window.dilations[1] + 1


@contextmanager
def _covering(code: Code, size: int, step: int, name: str) -> Generator[Value]:
    """Opens a loop over ranges of `step` that cover [0, size); the last range may overlap the range before."""
    with code.loop(0, size, step, name) as i:
        yield i if size % step == 0 else i.minimum(size - step)


@dataclass(frozen=True)
class _Place:
    """Where an item lies: its row and the first column of its outputs, and the first channel of its strip.

    image, row   the image, and the output row in it
    """

    image: Value
    row: Value
    column: Value
    channel: Value


@dataclass(frozen=True)
class Depthwise(FinishedKernel):
    """y[n, oh, ow, o] = finish(start[o] + Σ_{kh,kw} x[…, o div m] · w[kh, kw, o]).

    Here m is the channel multiplier. Buffers: x [N·H, W, C], w [phases · bands, KW, O · group], the bias [O] if
    `has_bias`, the epilogue's parameters [O] each, y [N·OH, OW, O].

    lanes   the channels of a vector, at most those of a strip; None for code without vectors
    """

    name: str
    bands: Bands
    outputs: int
    strip: Strip
    lanes: int | None
    arithmetic: TapArithmetic
    epilogue: Epilogue
    has_bias: bool

    @property
    def window(self) -> Window:
        """The geometry of the window."""
        return self.bands.window

    @property
    def chunks(self) -> int:
        """The number of strips beside each other in the channels."""
        return -(-self.outputs // self.strip.channels)

    @property
    def rows(self) -> int:
        """The number of items of a strip: the output rows of all images."""
        return self.window.batch * self.window.output[0]

    @property
    def items(self) -> int:
        """The number of items, over which the parallel loop runs, one strip after the other."""
        return -(-self.window.output[1] // self.strip.outputs) * self.chunks * self.rows

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, w, bias, parameters, y = self.roles(buffers)
        window, strip, bands, lanes = self.window, self.strip, self.bands, self.lanes
        size = strip.columns(window) * strip.channels * bands.group
        ring = code.stack((bands.count, size), self.arithmetic.element, "ring")
        totals = code.stack((strip.outputs, lanes or 1), self.arithmetic.sums, "totals")

        def item(i: Value, carried: list[Value]) -> Sequence[Value]:
            number, line = i // self.rows, i % self.rows
            image, row = line // window.output[0], line % window.output[0]
            channel = (number % self.chunks * strip.channels).minimum(self.outputs - strip.channels)
            column = (number // self.chunks * strip.outputs).minimum(window.output[1] - strip.outputs)
            place = _Place(image, row, column, channel)
            first = bands.first(row)
            # Bands of all strips and images, in the order of the items: `at` is the number of this row's first band.
            at = (number * window.batch + image) * bands.per_image + first
            with code.loop(carried[0].maximum(at), at + bands.count, name="band") as band:
                self._prepare(code, x, ring, band % bands.count, band - at + first, place)
            with _covering(code, strip.channels, lanes or 1, "channel") as c:
                start = self.arithmetic.start(code, bias, channel + c, lanes)
                self._sum(code, ring, w, start, at % bands.count, place, c, totals)
                own = [p.load(channel + c, lanes=lanes) for p in parameters]
                with code.loop(0, strip.outputs, name="output") as output:
                    result = self.epilogue.finish(totals.load(output, 0, lanes=lanes), own)
                    y.store(result, line, column + output, channel + c)
            return [at + bands.count]

        code.fold(begin, end, [code.index(0)], item, "item")

    def _sum(
        self, code: Code, ring: Buffer, w: Buffer, start: Value, slot: Value, at: _Place, c: Value, totals: Buffer
    ) -> None:
        """Writes the sums of a row of outputs to `totals`, for the strip's channels from c on.

        `slot` is the place in the ring of the first band that the row reads.
        """
        window, strip, bands, arithmetic = self.window, self.strip, self.bands, self.arithmetic
        wide = None if self.lanes is None else self.lanes * bands.group
        phase, block = bands.phase(at.row) * bands.count, min(BLOCK, strip.outputs)
        channel = (at.channel + c) * bands.group
        with _covering(code, strip.outputs, block, "output") as output:

            def over_bands(b: Value, sums: list[Value]) -> Sequence[Value]:
                place = slot + b
                if bands.count > 1:
                    place = (place >= bands.count).choose(place - bands.count, place)

                def over_columns(j: Value, sums: list[Value]) -> Sequence[Value]:
                    taps = arithmetic.weights(w.load(phase + b, j, channel, lanes=wide))

                    def add(p: int, total: Value) -> Value:
                        column = (output + p) * window.strides[1] + j * window.dilations[1]
                        data = ring.load(place, (column * strip.channels + c) * bands.group, lanes=wide)
                        return arithmetic.multiply_add(total, data, taps)

                    return [add(p, total) for p, total in enumerate(sums)]

                return code.fold(0, window.extent[1], sums, over_columns, "kw")

            for p, total in enumerate(code.fold(0, bands.count, [start] * block, over_bands, "kh")):
                totals.store(total, output + p, code.index(0))

    def _prepare(self, code: Code, x: Buffer, ring: Buffer, slot: Value, band: Value, at: _Place) -> None:
        """Writes a band of the image to a slot of the ring."""
        window, size = self.window, self.strip.channels * self.bands.group
        columns = self.strip.columns(window)
        left = at.column * window.strides[1] - window.origin[1]  # the input column of the ring's column 0
        low, high = code.index(0), code.index(columns)
        if window.padded_columns:
            low = (0 - left).maximum(0).minimum(columns)
            high = (window.width - left).minimum(columns).maximum(0)
        rows, inside = self.bands.rows(band), list[Value]()
        if self.bands.leaves:
            inside = [row.below(window.height) for row in rows]
            rows = [within.choose(row, code.index(0)) for within, row in zip(inside, rows, strict=True)]
            if self.bands.group == 1:  # a row outside the image has no columns inside
                low, high = (inside[0].choose(bound, code.index(columns)) for bound in (low, high))
        if window.padded_columns or inside:

            def outside(i: Value, lanes: int | None) -> None:
                ring.store(self._outside(code).spread(lanes), slot, i)

            code.spans(0, low * size, outside)
            code.spans(high * size, columns * size, outside)
        lines = [at.image * window.height + row for row in rows]

        def copy(replace: _Replace | None) -> None:
            with code.loop(low, high, name="column") as t:
                if self.lanes is not None and self.outputs == window.channels:
                    with _covering(code, self.strip.channels, self.lanes, "channel") as c:
                        data = [x.load(line, left + t, at.channel + c, lanes=self.lanes) for line in lines]
                        self._store(ring, slot, t * size + c * self.bands.group, data, replace)
                else:
                    with code.loop(0, self.strip.channels, name="channel") as c:
                        source = (at.channel + c) // (self.outputs // window.channels)
                        for i, line in enumerate(lines):
                            value = self.arithmetic.prepare(x.load(line, left + t, source))
                            if replace is not None:
                                value = inside[i].choose(value, self._outside(code))
                            ring.store(value, slot, t * size + c * self.bands.group + i)

        if self.bands.group == 2 and inside:
            code.branch(inside[0] & inside[1], lambda: copy(None), lambda: copy(self._replacement(code, inside)))
        else:
            copy(None)

    def _store(self, ring: Buffer, slot: Value, place: Value, data: list[Value], replace: "_Replace | None") -> None:
        """Stores a vector of channels of the rows of a band."""
        if len(data) == 1:
            ring.store(self.arithmetic.prepare(data[0]), slot, place)
            return
        assert self.lanes is not None
        part = min(8, self.lanes)  # a register of AVX2 holds 8 pairs
        for first in range(0, self.lanes, part):
            pairs = self.arithmetic.prepare(data[0].interleave(data[1], first, part))
            ring.store(pairs if replace is None else replace(pairs), slot, place + 2 * first)

    def _outside(self, code: Code) -> Value:
        return code.constant(self.arithmetic.outside, self.arithmetic.element)

    def _replacement(self, code: Code, inside: list[Value]) -> "_Replace":
        """What replaces the rows of a band outside the image, in a vector of pairs of i16."""
        assert self.arithmetic.element == i16
        outside, none = self.arithmetic.outside, code.constant(0, i32)
        kept, number = none, code.constant((outside << 16) | (outside & 0xFFFF), i32)
        for within, half in zip(inside, (0xFFFF, -0x10000), strict=True):  # the bits of a pair's elements, as i32
            kept = kept | within.choose(half, none)
        given = (kept ^ -1) & number

        def replace(pairs: Value) -> Value:
            assert pairs.lanes is not None
            lanes = pairs.lanes // 2
            return (pairs & kept.spread(lanes).bits(i16)) | given.spread(lanes).bits(i16)

        return replace


_Replace = Callable[[Value], Value]


# ---------------------------------------------------------------------------------------------------------------
# The call


@dataclass(frozen=True)
class DepthwiseTask:
    """A depthwise convolution to lower: its geometry and arithmetic (see `Depthwise`), and its data.

    weights            [KH, KW, O], an array, or a buffer if the arithmetic takes one tap at a time
    bias, parameters   one entry for each output channel; the bias may be a buffer
    """

    name: str
    window: Window
    outputs: int
    arithmetic: TapArithmetic
    epilogue: Epilogue
    x: SSAValue
    weights: Array | SSAValue
    bias: Array | SSAValue | None = None
    parameters: Sequence[Array] = ()


def _choose_lanes(outputs: int) -> int | None:
    """The channels of a vector: 16 if more than half of the last vector is new, else 8, else 4, else none."""
    widest = LANES[0]
    return next((n for n in LANES if n <= outputs and (n < widest or not 0 < outputs % n <= n // 2)), None)


def _bytes(element: Attribute) -> int:
    assert is_integer(element) or isinstance(element, AnyFloat)
    return (element.width.data if is_integer(element) else element.bitwidth) // 8


def _stack(bands: Bands, strip: Strip, lanes: int, arithmetic: TapArithmetic) -> int:
    """The bytes of stack that the kernel takes for strips of a size."""
    columns, totals = strip.columns(bands.window), strip.outputs * lanes * _bytes(arithmetic.sums)
    return bands.count * bands.group * columns * strip.channels * _bytes(arithmetic.element) + totals


def _choose_strip(bands: Bands, outputs: int, lanes: int, arithmetic: TapArithmetic, limit: int) -> Strip | None:
    """The size of strips whose kernel takes at most `limit` bytes of stack; None if a strip of one output takes more.

    The channels, and then the outputs of a row, are divided evenly.
    """
    width = bands.window.output[1]
    chunk = min(outputs, -(-outputs // -(-outputs // CHUNK) // lanes) * lanes)
    while True:
        one, two = (_stack(bands, Strip(n, chunk), lanes, arithmetic) for n in (1, 2))
        most = 1 + (limit - one) // (two - one)
        if most >= min(FEW, width) or chunk <= lanes:
            break
        chunk = max(lanes, chunk // 2 // lanes * lanes)
    return Strip(-(-width // -(-width // most)), chunk) if most > 0 else None


def lower_depthwise(state: MainLowering, op: Operation, task: DepthwiseTask, result: SSAValue) -> None:
    """Calls a depthwise kernel for the tensor `result` of `op`.

    Raises:
        UnsupportedError: The input of one output does not fit the stack, even for the smallest chunk of channels.
    """
    window, arithmetic = task.window, task.arithmetic
    bands, outputs = Bands(window, arithmetic.group), task.outputs
    lanes, strip = _choose_lanes(outputs), None
    narrower = [n for n in LANES if lanes is not None and n < lanes]
    for lanes, limit in ((lanes, RING), *((n, STACK_LIMIT) for n in (lanes, *narrower))):
        strip = _choose_strip(bands, outputs, lanes or 1, arithmetic, limit)
        if strip is not None:
            break
    else:
        size = _stack(bands, Strip(1, lanes or 1), lanes or 1, arithmetic)
        state.refuse(op, f"needs the input of one output within {STACK_LIMIT} bytes", got=f"{size}")
    kernel = Depthwise(task.name, bands, task.outputs, strip, lanes, arithmetic, task.epilogue, task.bias is not None)
    weights = task.weights if isinstance(task.weights, SSAValue) else bands.pack(task.weights)
    given = [weights, *([task.bias] if task.bias is not None else []), *task.parameters]
    buffers = [g if isinstance(g, SSAValue) else state.constant(g) for g in given]
    y = state.allocate_result(result)
    x = state.view(task.x, (window.batch * window.height, window.width, window.channels))
    target = state.view(y, (window.batch * window.output[0], window.output[1], task.outputs))
    state.call(kernel, [x, *buffers, target], kernel.items)
    state.replace(result, y)

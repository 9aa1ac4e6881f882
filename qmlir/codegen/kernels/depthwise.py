"""Depthwise convolution kernels: each output channel sums over the window positions (taps) of one input channel.

The kernel walks down a strip of the output image: some neighbouring columns, and a chunk of the channels. The input
rows that the current output row reads lie in a ring, padded and converted for the kernel's arithmetic.
The next output row overwrites the oldest rows of the ring only, so that each input row is prepared once for a strip:

    for a strip, for an output row of the strip              threads share the rows, or the strips if rows are few
      prepare the rows of the ring that the row above did not need
      for each vector of channels
        for a few neighbouring outputs p
          total[p] = start;  for kh, kw:  total[p] = total[p] + ring[kh, p + kw, channels] · w[kh, kw, channels]
        for each output p of the strip:  y[p] = finish(total[p])

All of that is a function whose sizes are arguments, `DepthwiseStrips`, so that layers of one kind share it.

The totals of a row go through memory, so that the loop of sums keeps accumulators in registers, and the loop of
`finish` its parameters.

An arithmetic may multiply a `group` of two taps in one step: the taps of two neighbouring rows. The ring then consists
of row groups, each of which holds two rows, interleaved: the two elements of a channel and a column are neighbours.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.dialects.builtin import AnyFloat, MemRefType
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.code import Buffer, Code, Microkernel, Numbers, element_bytes
from qmlir.codegen.kernels.interfaces import Epilogue, Finished, TapArithmetic
from qmlir.codegen.kernels.packed_weights import constant_weights
from qmlir.codegen.kernels.packing import FilledRun, Window, narrow_bias
from qmlir.codegen.kernels.row_groups import PreparedRows, RowGroups, covering
from qmlir.codegen.kernels.task import LayerKernel, Task, call_on
from qmlir.codegen.leads import least_lead
from qmlir.codegen.lowering import SCRATCH_LIMIT, SMALL_SCRATCH, MainLowering
from qmlir.codegen.value import Value
from qmlir.ir.stripes import Reads, Stripes
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

FEWEST_LINES = 8
"""The fewest output rows that are divided among threads; of fewer, two threads might get 3 and 4."""

FEW = 4
"""The least number of outputs of a strip's row, because neighbouring windows overlap."""


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


@dataclass(frozen=True)
class Sizes(Numbers):
    """The sizes of one depthwise convolution, and the strips and rows that one call computes.

    height, width, channels   the size of an image of x, [N, H, W, C]
    images                    N
    rows, columns, outputs    the size of an image of y, [N, OH, OW, O]
    strip                     the outputs of a strip's row
    chunks                    strips beside each other in the channels
    row_groups                the row groups of an image
    slot                      elements of a row group in the ring
    outside                   the number in the ring at positions outside the image
    strips, end_strip         the first strip, and the one behind the last
    lines, end_line           the first output row of all images, and the one behind the last
    """

    height: Value
    width: Value
    channels: Value
    images: Value
    rows: Value
    columns: Value
    outputs: Value
    strip: Value
    chunks: Value
    row_groups: Value
    slot: Value
    outside: Value
    strips: Value
    end_strip: Value
    lines: Value
    end_line: Value


@dataclass(frozen=True)
class _Place:
    """Where outputs lie: their row and first column, and the first channel of their strip.

    image, row   the image, and the output row in it
    """

    image: Value
    row: Value
    column: Value
    channel: Value


@dataclass(frozen=True)
class DepthwiseStrips(Finished, Microkernel):
    """Strips of a depthwise convolution whose sizes are arguments, `Sizes`.

    Buffers: the ring [row groups of a window, slot], totals [strip's outputs, lanes], and those of `Depthwise`.

    columns   the extent, stride, dilation and origin of the window's columns
    leaves    whether some row of a window lies outside the image
    padded    whether some column of a window does
    dense     whether each input channel has one output channel
    channels  the channels of a strip; fixed, because all distances between what the innermost loop reads are multiples
              of them, and computing these distances there takes 7 % of the time
    """

    name: str
    row_groups: RowGroups
    columns: tuple[int, int, int, int]
    leaves: bool
    padded: bool
    dense: bool
    channels: int
    block: int
    lanes: int | None
    arithmetic: TapArithmetic
    epilogue: Epilogue
    has_bias: bool

    @property
    def arguments(self) -> Sequence[str]:
        return ["ring", "totals", *self.buffers, *Sizes.names()]

    def write(self, code: Code, buffers: Sequence[Buffer], numbers: Sequence[Value]) -> None:
        ring, totals, *others = buffers
        _, _, bias, parameters, y = self.roles(others)
        sizes, row_groups, lanes = Sizes(*numbers), self.row_groups, self.lanes

        def line_of(strip: Value, line: Value, carried: list[Value]) -> Sequence[Value]:
            image, row = line // sizes.rows, line % sizes.rows
            channel = (strip % sizes.chunks * self.channels).minimum(sizes.outputs - self.channels)
            column = (strip // sizes.chunks * sizes.strip).minimum(sizes.columns - sizes.strip)
            place = _Place(image, row, column, channel)
            first = row_groups.first(row)
            # Row groups of all images, in the order of the rows: `at` is the number of this row's first row group.
            at = image * sizes.row_groups + first
            with code.loop(carried[0].maximum(at), at + row_groups.count, name="band") as row_group:
                self._prepare(code, others[0], ring, row_group % row_groups.count, row_group - at + first, place, sizes)
            with covering(code, code.index(self.channels), lanes or 1, "channel") as c:
                start = self.arithmetic.start(code, bias, channel + c, lanes)
                self._sum(code, ring, others[1], start, at % row_groups.count, place, c, totals, sizes)
                own = [p.load(channel + c, lanes=lanes) for p in parameters]
                to = (line * sizes.columns + column) * sizes.outputs + (channel + c)
                with code.loop(0, sizes.strip, name="output") as output:
                    result = self.epilogue.finish(totals.load(output * (lanes or 1), lanes=lanes), own)
                    y.store(result, to + output * sizes.outputs)
            return [at + row_groups.count]

        with code.loop(sizes.strips, sizes.end_strip, name="strip") as strip:
            code.fold(sizes.lines, sizes.end_line, [code.index(0)], partial(line_of, strip), "line")

    def _sum(
        self,
        code: Code,
        ring: Buffer,
        w: Buffer,
        start: Value,
        slot: Value,
        at: _Place,
        c: Value,
        totals: Buffer,
        sizes: Sizes,
    ) -> None:
        """Writes the sums of a row of outputs to `totals`, for the strip's channels from c on.

        `slot` is the place in the ring of the first row group that the row reads.
        """
        row_groups, arithmetic, lanes = self.row_groups, self.arithmetic, self.lanes
        extent, stride, dilation, _ = self.columns
        wide = None if lanes is None else lanes * row_groups.group
        phase = row_groups.phase(at.row) * row_groups.count
        column, tap = self.channels * row_groups.group, sizes.outputs * row_groups.group  # elements of each
        weights = phase * extent * tap + (at.channel + c) * row_groups.group
        with covering(code, sizes.strip, self.block, "output") as output:
            data = output * stride * column + c * row_groups.group

            def over_groups(b: Value, sums: list[Value]) -> Sequence[Value]:
                place = slot + b
                if row_groups.count > 1:
                    place = (place >= row_groups.count).choose(place - row_groups.count, place)
                left = place * sizes.slot + data

                def over_columns(j: Value, sums: list[Value]) -> Sequence[Value]:
                    taps = arithmetic.weights(w.load(weights + (b * extent + j) * tap, lanes=wide))
                    x = left + j * dilation * column

                    def add(p: int, total: Value) -> Value:
                        return arithmetic.multiply_add(total, ring.load(x + p * stride * column, lanes=wide), taps)

                    return [add(p, total) for p, total in enumerate(sums)]

                return code.fold(0, extent, sums, over_columns, "kw")

            for p, total in enumerate(code.fold(0, row_groups.count, [start] * self.block, over_groups, "kh")):
                totals.store(total, (output + p) * (lanes or 1))

    def _prepare(
        self, code: Code, x: Buffer, ring: Buffer, slot: Value, row_group: Value, at: _Place, sizes: Sizes
    ) -> None:
        """Writes a row group of the image to a slot of the ring."""
        _, stride, _, origin = self.columns
        size, group = self.channels * self.row_groups.group, self.row_groups.group
        columns = sizes.slot // size
        to = slot * sizes.slot
        left = at.column * stride - origin  # the input column of the ring's column 0
        low, high = code.index(0), columns
        if self.padded:
            low = (0 - left).maximum(0).minimum(columns)
            high = (sizes.width - left).minimum(columns).maximum(0)
        rows, inside = self.row_groups.rows(row_group), list[Value]()
        if self.leaves:
            inside = [row.below(sizes.height) for row in rows]
            rows = [within.choose(row, code.index(0)) for within, row in zip(inside, rows, strict=True)]
            if group == 1:  # a row outside the image has no columns inside
                low, high = (inside[0].choose(bound, columns) for bound in (low, high))
        if self.padded or inside:
            code.call(FilledRun(), [ring], [to, low * size, sizes.outside])
            code.call(FilledRun(), [ring], [to + high * size, (columns - high) * size, sizes.outside])
        column = (left + low) * sizes.channels + (at.channel if self.dense else code.index(0))
        lines = [(at.image * sizes.height + row) * sizes.width * sizes.channels + column for row in rows]
        function = PreparedRows(self.arithmetic.prepared, self.lanes, self.dense, bool(inside) and group == 2)
        ones = [within.choose(code.index(1), code.index(0)) for within in inside]
        numbers = [
            to + low * size,
            high - low,
            sizes.channels,
            code.index(self.channels),
            *([] if self.dense else [at.channel, sizes.outputs // sizes.channels]),
            *lines,
            *([sizes.outside, *ones] if function.leaves else []),
        ]
        code.call(function, [x, ring], numbers)


@dataclass(frozen=True)
class Depthwise(LayerKernel[TapArithmetic]):
    """y[n, oh, ow, o] = finish(start[o] + Σ_{kh,kw} x[…, o div m] · w[kh, kw, o]).

    Here m is the channel multiplier. Buffers: x [N·H, W, C], w [phases · row groups, KW, O · group], the bias [O] if
    `has_bias`, the epilogue's parameters [O] each, y [N·OH, OW, O].

    lanes   the channels of a vector, at most those of a strip; None for code without vectors
    by_row  whether all strips of an output row are computed before the next row: each prepares its rows anew, and the
            result can be written over the rows above
    """

    strip: Strip
    lanes: int | None
    by_row: bool = False

    @property
    def row_groups(self) -> RowGroups:
        """The row groups of the window's rows."""
        return RowGroups.of(self.layer.window, self.layer.arithmetic.group)

    @property
    def chunks(self) -> int:
        """The number of strips beside each other in the channels."""
        return -(-self.layer.outputs // self.strip.channels)

    @property
    def strips(self) -> int:
        """The number of strips of an image."""
        return -(-self.layer.window.output[1] // self.strip.outputs) * self.chunks

    @property
    def lines(self) -> int:
        """The output rows of all images."""
        return self.layer.window.batch * self.layer.window.output[0]

    @property
    def by_lines(self) -> bool:
        """Whether threads share output rows, as the kernels before and behind do; each thread computes all strips.

        Few rows are not divided evenly. Beside them are contractions whose threads share channels, as strips do.
        """
        return self.by_row or self.lines >= FEWEST_LINES

    @property
    def items(self) -> int:
        """The number of items, over which the parallel loop runs."""
        return self.lines if self.by_lines else self.strips

    @property
    def inner(self) -> DepthwiseStrips:
        """The function that computes items."""
        window, row_groups = self.layer.window, self.row_groups
        return DepthwiseStrips(
            f"{self.name}_strips",
            row_groups,
            (window.extent[1], window.strides[1], window.dilations[1], window.origin[1]),
            row_groups.leave(window.output[0], window.height),
            window.padded_columns,
            self.layer.outputs == window.channels,
            self.strip.channels,
            min(BLOCK, self.strip.outputs),
            self.lanes,
            self.layer.arithmetic.prepared,
            self.epilogue,
            self.has_bias,
        )

    def leads(self, types: Sequence[MemRefType[Attribute]]) -> Mapping[int, int]:
        """A row reads the groups that the row above has left, if they stay in the ring; otherwise all of its own."""
        if self.strips > 1 and not self.by_row:
            return {}
        window, row_groups, kept = self.layer.window, self.row_groups, self.strips == 1
        rows, read, written = window.output[0], list[int](), list[int]()
        for line in range(self.lines):
            image, row = divmod(line, rows)
            top = row_groups.top(row, prepared=row_groups.end(row - 1) if kept and row else 0)
            first = (image * window.height + max(0, top)) * window.width * window.channels
            read.append(first * element_bytes(types[0]))
            written.append((line + 1) * window.output[1] * self.layer.outputs * element_bytes(types[-1]))
        return {0: least_lead(written, read, buffered=kept)}

    def stripes(self, types: Sequence[MemRefType[Attribute]]) -> Stripes | None:
        """Steps are output rows. The first row of a call prepares all of its row groups anew."""
        window = self.layer.window
        if not self.by_lines or window.batch > 1:
            return None
        row = window.output[1] * self.layer.outputs * element_bytes(types[-1])
        origin, extent = self.row_groups.reach()
        read = window.width * window.channels * element_bytes(types[0])
        return Stripes(1, row, {0: Reads(read, window.strides[0], origin, extent)})

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        window, strip, row_groups = self.layer.window, self.strip, self.row_groups
        slot = strip.columns(window) * strip.channels * row_groups.group
        ring = code.scratch((row_groups.count, slot), self.layer.arithmetic.element, "ring")
        totals = code.scratch((strip.outputs, self.lanes or 1), self.layer.arithmetic.sums, "totals")
        shape = (window.height, window.width, window.channels, window.batch, *window.output, self.layer.outputs)
        rest = (strip.outputs, self.chunks, row_groups.per_image(window.output[0]), slot, self.layer.arithmetic.outside)
        if self.by_row and self.strips > 1:
            with code.loop(begin, end, name="line") as line, code.loop(0, self.strips, name="strip") as strip:
                sizes = Sizes(*map(code.index, (*shape, *rest, strip, strip + 1, line, line + 1)))
                code.call(self.inner, [ring, totals, *buffers], sizes.numbers)
            return
        share, strips, lines = (begin, end), (0, self.strips), (0, self.lines)
        ranges = (*strips, *share) if self.by_lines else (*share, *lines)
        sizes = Sizes(*map(code.index, (*shape, *rest, *ranges)))
        code.call(self.inner, [ring, totals, *buffers], sizes.numbers)


# ---------------------------------------------------------------------------------------------------------------
# The call


def _choose_lanes(outputs: int, most: int) -> int | None:
    """The channels of a vector, at most `most`: 16 if more than half of the last vector is new, else 8, 4 or none."""
    fitting = (n for n in LANES if n <= min(outputs, most))
    return next((n for n in fitting if n < LANES[0] or not 0 < outputs % n <= n // 2), None)


def _bytes(element: Attribute) -> int:
    assert is_integer(element) or isinstance(element, AnyFloat)
    return (element.width.data if is_integer(element) else element.bitwidth) // 8


def _stack(window: Window, strip: Strip, lanes: int, arithmetic: TapArithmetic) -> int:
    """The bytes of scratch memory that the kernel takes for strips of a size."""
    columns, totals = strip.columns(window), strip.outputs * lanes * _bytes(arithmetic.sums)
    row_groups = RowGroups.of(window, arithmetic.group)
    return row_groups.count * row_groups.group * columns * strip.channels * _bytes(arithmetic.element) + totals


def _choose_strip(window: Window, outputs: int, lanes: int, arithmetic: TapArithmetic, limit: int) -> Strip | None:
    """The size of strips whose kernel takes at most `limit` bytes of scratch; None if a strip of one output takes more.

    The channels, and then the outputs of a row, are divided evenly.
    """
    width = window.output[1]
    chunk = min(outputs, -(-outputs // -(-outputs // CHUNK) // lanes) * lanes)
    while True:
        one, two = (_stack(window, Strip(n, chunk), lanes, arithmetic) for n in (1, 2))
        most = 1 + (limit - one) // (two - one)
        if most >= min(FEW, width) or chunk <= lanes:
            break
        chunk = max(lanes, chunk // 2 // lanes * lanes)
    return Strip(-(-width // -(-width // most)), chunk) if most > 0 else None


def lower_depthwise(state: MainLowering, task: Task[TapArithmetic]) -> None:
    """Calls a depthwise kernel.

    Raises:
        UnsupportedError: The input of one output does not fit scratch memory, even for the smallest chunk of channels.
    """
    window, arithmetic, machine = task.window, task.arithmetic, state.machine
    outputs = task.outputs
    most = machine.small_lanes if machine.small else LANES[0]
    lanes, strip = _choose_lanes(outputs, most) if machine.vectors else None, None
    narrower = [n for n in LANES if lanes is not None and n < lanes]
    limits = (SMALL_SCRATCH, RING) if machine.small else (RING,)
    for lanes, limit in (*((lanes, n) for n in limits), *((n, SCRATCH_LIMIT) for n in (lanes, *narrower))):
        strip = _choose_strip(window, outputs, lanes or 1, arithmetic, limit)
        if strip is not None:
            break
    else:
        size = _stack(window, Strip(1, lanes or 1), lanes or 1, arithmetic)
        assert state.at is not None
        state.refuse(state.at, f"needs the input of one output within {SCRATCH_LIMIT} bytes", got=f"{size}")
    kernel = Depthwise(task.layer, task.bias is not None, strip, lanes, machine.small)
    weights = task.weights
    if not isinstance(weights, SSAValue):
        weights = constant_weights(state, kernel.row_groups.pack(weights), task.levels)
    given = [weights, *narrow_bias(task.bias, task.levels.bits), *task.parameters]
    buffers = [g if isinstance(g, SSAValue) else state.constant(g) for g in given]
    source = (task.x, (window.batch * window.height, window.width, window.channels))
    shape = (window.batch * window.output[0], window.output[1], task.outputs)
    call_on(state, task, kernel, kernel.items, source, buffers, shape)

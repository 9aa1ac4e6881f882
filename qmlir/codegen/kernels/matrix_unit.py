"""Contractions of bytes on a matrix unit: convolutions, fully connected layers and products with constant weights.

The unit multiplies a matrix of 16 outputs by up to 64 channels with one of these channels by 16 output channels. A
*place* is a window of the input, one for each output; neighbouring places lie at one distance in memory, so that a
matrix of data is loaded from where the data are:

    for a strip of places                                all pixels, an image or an output row; see `Strips`
      for each block of output channels
        for 32 places p of the strip                     from here on: a function that layers share, `StripTimesBlock`
          acc[p] = bias                                  four registers: twice 16 places by twice 16 channels
          for kh, kw, and 64 channels c:  acc += x[p, kh, kw, c] · w[kh, kw, c]
          y[p] = finish(acc[p])

The last registers of a strip, and of a run of channels, begin so early that they end with it. Outputs that they compute
again are not finished again, and weights of channels that they would add again are 0. So nothing is read beyond the
data, and no register has a size of its own.

The data keep their zero point z. Because Σ (x − z)·w = Σ x·w − z·Σ w, the bias loses z·Σ w (see `SignedQuads`). All
sums are exact modulo 2^32, and the result fits i32.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import i8, i32
from xdsl.ir import SSAValue

from qmlir.codegen.code import Buffer, Code, Microkernel, Numbers, store_valid
from qmlir.codegen.kernels.interfaces import Arithmetic, Epilogue, Finished
from qmlir.codegen.kernels.packed_weights import constant_weights
from qmlir.codegen.kernels.packing import Window, gather_windows, pad_channels, prepare_image
from qmlir.codegen.kernels.task import LayerKernel, Task, call_on
from qmlir.codegen.lowering import Array, MainLowering, memref_shape
from qmlir.codegen.value import Value
from qmlir.ir.interfaces import shape_of

SIDE = 16
"""Rows and columns of i32 that a register holds."""

DEPTH = 64
"""Bytes of a row of a register: channels that one instruction multiplies."""

FEWEST_PLACES = 6
"""The fewest neighbouring places for which the unit, which is as fast for one row as for 16, is faster than vectors."""

FEWEST_PRODUCTS = 32
"""The fewest products of an output for which loading and storing registers is worth it."""

UNIT = 2 * SIDE
"""Places that are computed together, at most; threads divide strips at their multiples."""

STRIP = 1024
"""Places of a part of a strip: enough to use each load of weights from the second-level cache often."""

LINE = 64
"""Bytes of a cache line."""

FAR = 200_000
"""Weights of a layer beyond which they come from the third-level cache or from memory, in each call of a network."""

SHALLOW = 640
"""The most elements of a window for which the weights of 64 output channels stay in the first-level cache."""

RECIPROCAL = 40
"""Bits of the fixed-point reciprocal by which places are divided."""


@dataclass(frozen=True)
class Strips:
    """How the windows of an image become strips of places at one distance.

    count     the number of strips
    places    the places of a strip
    columns   places of a row if only some are outputs: those whose column in the row is below the output's width;
              0 if all places are outputs

    A window of stride 1 slides over all pixels of an image as if rows did not end. Of each row of W places the last
    W − OW lie across the end of the row, and are not stored.
    """

    window: Window
    count: int
    places: int
    columns: int = 0

    @staticmethod
    def of(window: Window) -> "Strips":
        """The strips of a window that does not leave the image."""
        rows, columns = window.output
        if rows == 1 or window.strides != (1, 1):
            return Strips(window, window.batch * rows, columns)
        return Strips(window, window.batch, (rows - 1) * window.width + columns, window.width)

    @property
    def distance(self) -> int:
        """Elements between neighbouring places."""
        return self.window.strides[1] * self.window.channels

    @property
    def outputs(self) -> int:
        """Outputs of a strip."""
        return self.window.output[1] * (self.window.output[0] if self.columns else 1)

    @property
    def units(self) -> int:
        """Units of a strip: groups of `UNIT` places, which threads share; the last one has up to twice as many."""
        return max(self.places // UNIT, 1)

    def first_element(self, strip: Value) -> Value:
        """The element of the input at which the window of a strip's first place begins."""
        window = self.window
        line = window.width * window.channels
        if self.columns:
            return strip * (window.height * line)
        rows = window.output[0]
        image, row = (strip // rows, strip % rows) if window.batch > 1 else (strip * 0, strip)
        return image * (window.height * line) + row * (window.strides[0] * line)


@dataclass(frozen=True)
class Depth:
    """How the channels of a window are cut into registers: runs of consecutive elements, each a multiple of 4.

    rows      rows of the window
    runs      runs of a row
    run       elements of a run
    """

    rows: int
    runs: int
    run: int

    @staticmethod
    def of(window: Window) -> "Depth":
        """The runs of a window; up to 3 elements behind a run, whose weights are 0, fill its last group of 4."""
        rows, columns = window.extent
        joined = window.dilations[1] == 1
        run = window.channels * (columns if joined else 1)
        return Depth(rows, 1 if joined else columns, run + -run % 4)

    @property
    def width(self) -> int:
        """Elements that a register takes of a run."""
        return min(self.run, DEPTH)

    @property
    def begins(self) -> Sequence[int]:
        """The elements of a run at which registers begin; the last one ends with the run."""
        return [*range(0, self.run - self.width, self.width), self.run - self.width]

    @property
    def full(self) -> int:
        """Registers of a run that lie side by side."""
        return self.run // self.width

    @property
    def overlaps(self) -> bool:
        """Whether the last register begins before the last but one ends."""
        return self.run % self.width != 0

    def pack(self, weights: Array, channels: int, lanes: int) -> Array:
        """Packs weights [O, KH, KW, C], C ≤ `channels`, register by register, flattened.

        The order is [blocks, rows, runs, registers of a run, registers of a block, width / 4, 16, 4].
        """
        padding = ((0, -len(weights) % lanes), (0, 0), (0, 0), (0, channels - weights.shape[3]))
        runs = np.pad(weights, padding).reshape(-1, self.rows, self.runs, weights.shape[2] * channels // self.runs)
        runs = np.pad(runs, ((0, 0), (0, 0), (0, 0), (0, self.run - runs.shape[3])))
        registers = np.zeros((*runs.shape[:3], len(self.begins), self.width), weights.dtype)
        done = 0
        for i, begin in enumerate(self.begins):
            end = begin + self.width
            registers[..., i, done - begin :] = runs[..., done:end]
            done = end
        split = registers.reshape(-1, lanes // SIDE, SIDE, *registers.shape[1:4], self.width // 4, 4)
        return np.ascontiguousarray(split.transpose(0, 3, 4, 5, 1, 6, 2, 7)).reshape(-1)


@dataclass(frozen=True)
class Job(Numbers):
    """What one call of `StripTimesBlock` computes; places and distances are numbers of elements.

    x_at              the first element of the first place's window
    distance          distance of neighbouring places
    rows, row         rows of the window, and their distance
    runs, run         runs of a row, and the distance of their beginnings
    full, last        registers of a run that lie side by side, and where in the run the last one begins if it overlaps
    w_at              the first weight of the block
    block             the block of output channels, for bias and parameters
    y_at, apart       where output 0 of the strip is stored, and the distance between outputs
    first, places     the first place of the strip, and the number of places
    columns, inverse  places of a row, and 2^40 divided by it, rounded up, if some places are no outputs
    width             outputs of a row
    valid             lanes of the block that are output channels; the others are not stored
    ahead             cache lines of the next block's weights to ask for beside each product
    """

    x_at: Value
    distance: Value
    rows: Value
    row: Value
    runs: Value
    run: Value
    full: Value
    last: Value
    w_at: Value
    block: Value
    y_at: Value
    apart: Value
    first: Value
    places: Value
    columns: Value
    inverse: Value
    width: Value
    valid: Value
    ahead: Value


@dataclass(frozen=True)
class StripTimesBlock(Finished, Microkernel):
    """The outputs of a strip of places for one block of output channels; a `Job` says where they are.

    Buffers: those of `MatrixContraction`; each is a row of elements.

    lanes      output channels of the block, 16, 32 or 64
    height     places that a register takes
    tall       registers of places, 1 or 2; with 4 registers of channels 1
    width      channels that a register takes
    overlaps   whether a run ends with a register that overlaps the one before
    rows, runs whether the window has several rows, and a row several runs
    gaps       whether some places are no outputs
    partial    whether some block has lanes that are no output channels
    streams    whether the weights of the next block are asked for, because they come from far away
    """

    name: str
    epilogue: Epilogue
    has_bias: bool
    lanes: int
    height: int
    tall: int
    width: int
    overlaps: bool
    rows: bool
    runs: bool
    gaps: bool
    partial: bool
    streams: bool

    @property
    def arguments(self) -> Sequence[str]:
        return [*self.buffers, *Job.names()]

    def write(self, code: Code, buffers: Sequence[Buffer], numbers: Sequence[Value]) -> None:
        job = Job(*numbers)
        *_, parameters, y = self.roles(buffers)
        own = [p.load(job.block * self.lanes, lanes=self.lanes) for p in parameters]
        store = store_valid(code, y, self.lanes, job.valid) if self.partial else y.store
        together = self.tall * self.height
        pieces = (job.places + (together - 1)) // together
        sums = code.scratch((together * self.lanes,), i32, "sums")

        def begins(piece: Value) -> list[Value]:
            """The first place of each register; the last ones end with the strip, in a short one the second of two."""
            if self.height < SIDE:  # one register holds the strip
                return [code.index(0)]
            first = (piece * together).minimum((job.places - together).maximum(0))
            return [first, (first + SIDE).minimum(job.places - SIDE)][: self.tall]

        def finish_rows(piece: Value, low: Value, high: Value) -> None:
            """Finishes the rows from `low` to `high` of each register of a piece."""
            first = piece * together
            for part, begin in enumerate(begins(piece)):
                done, first = first - begin, first.maximum(begin + self.height)
                # What an earlier register has finished is not finished again.
                with code.loop(done.maximum(low), high, name="place") as place:
                    accumulator = sums.load((place + part * self.height) * self.lanes, lanes=self.lanes)

                    def finish(output: Value, accumulator: Value = accumulator) -> None:
                        store(self.epilogue.finish(accumulator, own), job.y_at + output * job.apart)

                    self._output(code, job, job.first + begin + place, finish)

        # The unit multiplies a piece while vectors finish the one before: after each product a few of its rows. The
        # sums of the piece stay in registers until the scratch memory is free.
        products = job.rows * job.runs * (job.full + int(self.overlaps))
        share = (products + (self.height - 1)) // products
        none, all_rows = code.index(0), code.index(self.height)
        self._store(code, self._multiply(code, buffers, job, begins(none), none, lambda _: None), sums)
        with code.loop(1, pieces, name="piece") as piece:

            def finish_some(product: Value, before: Value = piece - 1) -> None:
                low = (product * share).minimum(all_rows)
                finish_rows(before, low, (low + share).minimum(all_rows))

            self._store(code, self._multiply(code, buffers, job, begins(piece), piece, finish_some), sums)
        finish_rows(pieces - 1, none, all_rows)

    def _store(self, code: Code, totals: Sequence[Value], sums: Buffer) -> None:
        """Stores the sums of a piece as [places, lanes]."""
        wide = self.lanes // SIDE
        for i, total in enumerate(totals):
            at = i // wide * self.height * self.lanes + i % wide * SIDE
            code.store_matrix(total, sums, code.index(at), code.index(self.lanes))

    def _multiply(
        self,
        code: Code,
        buffers: Sequence[Buffer],
        job: Job,
        begins: Sequence[Value],
        piece: Value,
        meanwhile: Callable[[Value], None],
    ) -> list[Value]:
        """The sums of the places from each of `begins` on: for each, the matrices of 16 output channels.

        `meanwhile` is called with the number of each product, and writes what is computed beside it.
        """
        x, w, bias, *_ = self.roles(buffers)
        assert bias is not None
        across, steps = range(0, self.lanes, SIDE), self.width // 4
        zero = code.index(0)
        blocks = [job.block * self.lanes + lane for lane in across]
        start = [code.load_matrix(bias, at, zero, self.height, SIDE) for _ in begins for at in blocks]
        places = [job.x_at + (job.first + begin) * job.distance for begin in begins]
        size, total = self.width * self.lanes, job.rows * job.runs * (job.full + int(self.overlaps))

        def over_rows(i: Value, sums: list[Value]) -> Sequence[Value]:
            def over_runs(j: Value, sums: list[Value]) -> Sequence[Value]:
                ahead = i * job.row + j * job.run
                number = (i * job.runs + j) * (job.full + int(self.overlaps))

                def multiply(register: Value, channel: Value, sums: list[Value]) -> list[Value]:
                    weights_at = job.w_at + (number + register) * size
                    if self.streams:
                        done = piece * total + number + register
                        with code.loop(0, job.ahead, name="line") as line:
                            code.prefetch(w, job.w_at + total * size + (done * job.ahead + line) * LINE)
                    factors: list[Value | None] = [None] * len(across)
                    results: list[Value] = []
                    for p, place in enumerate(places):
                        data = code.load_matrix(x, place + ahead + channel, job.distance, self.height, self.width)
                        for n, lane in enumerate(across):
                            weights = factors[n]
                            if weights is None:
                                weights = code.load_matrix(
                                    w, weights_at + lane * self.width, code.index(DEPTH), steps, DEPTH
                                )
                                factors[n] = weights
                            results.append(code.dot_matrices(sums[p * len(across) + n], data, weights))
                    meanwhile(number + register)
                    return results

                sums = code.fold(0, job.full, sums, lambda k, sums: multiply(k, k * self.width, sums), "k")
                return multiply(job.full, job.last, sums) if self.overlaps else sums

            return code.fold(0, job.runs if self.runs else code.index(1), sums, over_runs, "kw")

        return code.fold(0, job.rows if self.rows else code.index(1), start, over_rows, "kh")

    def _output(self, code: Code, job: Job, place: Value, finish: Callable[[Value], None]) -> None:
        """Calls `finish` with the output at a place, if there is one.

        The row of place f is f div W = (f · ⌈2^40 / W⌉) >> 40: the product exceeds f · 2^40 / W by less than f, and
        therefore by less than 2^40 / W as long as f · W < 2^40, which `why_not` demands.
        """
        if not self.gaps:
            finish(place)
            return
        row = (place * job.inverse).logical_shift(RECIPROCAL)
        column = place - row * job.columns
        with code.when(column < job.width):
            finish(row * job.width + column)


@dataclass(frozen=True)
class MatrixContraction(LayerKernel[Arithmetic]):
    """y[n, oh, ow, o] = finish(bias[o] + Σ_{kh,kw,c} x[…] · w[o, kh, kw, c]).

    Buffers: x [N·H, W·C], w (see `Depth.pack`), the bias [blocks · lanes], the epilogue's parameters, y [N·OH·OW·O].
    """

    lanes: int

    @property
    def strips(self) -> Strips:
        """The strips of the window."""
        return Strips.of(self.layer.window)

    @property
    def depth(self) -> Depth:
        """The runs of the window."""
        return Depth.of(self.layer.window)

    @property
    def blocks(self) -> int:
        """The number of blocks of output channels."""
        return -(-self.layer.outputs // self.lanes)

    @property
    def weights(self) -> int:
        """The number of weights."""
        return self.depth.rows * self.depth.runs * self.depth.run * self.layer.outputs

    @property
    def by_blocks(self) -> bool:
        """Whether threads share the blocks of output channels instead of the places.

        Each thread then reads a part of the weights, but all data, and the layers that follow find half of the outputs
        in another processor's cache.
        """
        window, outputs = self.layer.window, self.strips.count * self.strips.outputs * self.layer.outputs
        return self.weights > 2 * (window.batch * window.height * window.width * window.channels + outputs)

    @property
    def streams(self) -> bool:
        """Whether the weights are too large to stay in the second-level cache from call to call."""
        return self.weights > FAR and self.strips.count * self.strips.places <= STRIP

    @property
    def items(self) -> int:
        """The number of iterations of the parallel loop: blocks, or units of all strips."""
        return self.blocks if self.by_blocks else self.strips.count * self.strips.units

    @property
    def inner(self) -> StripTimesBlock:
        """The function that computes the outputs of a part for a block."""
        height = min(self.strips.places, SIDE)
        return StripTimesBlock(
            name=f"{self.name.split('_')[0]}_strip_times_block",
            epilogue=self.epilogue,
            has_bias=self.has_bias,
            lanes=self.lanes,
            height=height,
            tall=2 if self.strips.places > height and self.lanes < 4 * SIDE else 1,
            width=self.depth.width,
            overlaps=self.depth.overlaps,
            rows=self.depth.rows > 1,
            runs=self.depth.runs > 1,
            gaps=self.strips.columns > 0,
            partial=self.layer.outputs % self.lanes != 0,
            streams=self.streams,
        )

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        count, places, units = self.strips.count, self.strips.places, self.strips.units
        if self.by_blocks:
            with code.loop(begin, end, name="block") as block, code.loop(0, count, name="strip") as strip:
                self._parts(code, buffers, strip, block, code.index(0), code.index(places))
            return
        with code.loop(begin // units, (end + (units - 1)) // units, name="strip") as strip:
            first, last = (begin - strip * units).maximum(0), (end - strip * units).minimum(units)
            # The last unit takes the places that are left.
            beyond = last * UNIT + last // units * (places - units * UNIT)

            self._parts(code, buffers, strip, None, first * UNIT, beyond)

    def _parts(
        self, code: Code, buffers: Sequence[Buffer], strip: Value, block: Value | None, first: Value, end: Value
    ) -> None:
        """Computes places from `first` to `end` of a strip in parts of `STRIP` places, for one block or for all.

        The last part has up to half as many places more or less.
        """
        places = end - first
        parts = ((places + STRIP // 2) // STRIP).maximum(1).minimum(places)  # none of no places
        with code.loop(0, parts, name="part") as part:
            done = part * STRIP
            last = (part + 1) // parts  # 1 in the last part
            size = last * (places - done) + (1 - last) * STRIP
            blocks = (block, block + 1) if block is not None else (0, self.blocks)
            with code.loop(*blocks, name="block") as block:
                self._call(code, buffers, strip, block, first + done, size)

    def _call(
        self, code: Code, buffers: Sequence[Buffer], strip: Value, block: Value, first: Value, places: Value
    ) -> None:
        """Computes a block of output channels of some places of a strip."""
        strips, depth, window, inner = self.strips, self.depth, self.layer.window, self.inner
        together = inner.height * inner.tall
        pieces = (places + (together - 1)) // together
        lines = depth.width * self.lanes // LINE
        valid = code.index(self.lanes)
        if self.layer.outputs % self.lanes:
            valid = (self.layer.outputs - block * self.lanes).minimum(self.lanes)
        job = Job(
            x_at=strips.first_element(strip),
            distance=code.index(strips.distance),
            rows=code.index(depth.rows),
            row=code.index(window.dilations[0] * window.width * window.channels),
            runs=code.index(depth.runs),
            run=code.index(window.dilations[1] * window.channels),
            full=code.index(depth.full),
            last=code.index(depth.begins[-1]),
            w_at=block * (depth.rows * depth.runs * len(depth.begins) * depth.width * self.lanes),
            block=block,
            y_at=strip * (strips.outputs * self.layer.outputs) + block * self.lanes,
            apart=code.index(self.layer.outputs),
            first=first,
            places=places,
            columns=code.index(strips.columns),
            inverse=code.index(-(-(1 << RECIPROCAL) // strips.columns) if strips.columns else 0),
            width=code.index(window.output[1]),
            valid=valid,
            ahead=(pieces + (lines - 1)) // pieces,
        )
        code.call(inner, buffers, job.numbers)


def why_not(task: Task[Arithmetic]) -> str:
    """Why the unit, on a processor that has one, does not suit a task of bytes; empty if it does."""
    if not task.is_plain or task.grouped is not None:
        return "weights are computed, grouped or scaled"
    window = task.window.flattened()
    strips, products = Strips.of(window), window.channels * window.extent[0] * window.extent[1]
    if strips.places < FEWEST_PLACES:
        return f"fewer than {FEWEST_PLACES} outputs at one distance"
    if task.outputs < SIDE // 2:
        return f"fewer than {SIDE // 2} output channels"
    if products < FEWEST_PRODUCTS:
        return f"fewer than {FEWEST_PRODUCTS} products of an output"
    near = (strips.places + window.width * window.extent[1]) * (window.width + 2 * window.origin[1]) < 1 << RECIPROCAL
    return "" if near else "the image is too large for its divisions"


def scattered(window: Window) -> bool:
    """Whether windows are gathered first: strides leave few places at one distance, and the copy is small."""
    strided = window.strides != (1, 1) and window.dilations[1] == 1
    return strided and (window.extent == (1, 1) or window.output[1] < SIDE)


def _lanes(outputs: int, depth: Depth) -> int:
    """The output channels of a block.

    Two registers of places by two of channels load the least for each product. One by four loads a quarter more, and
    stores whole cache lines, which is worth more where few channels are summed for each output.
    """
    if outputs % (4 * SIDE) == 0 and depth.rows * depth.runs * depth.run <= SHALLOW:
        return 4 * SIDE
    return SIDE if 0 < outputs % (2 * SIDE) <= SIDE and outputs < 12 * SIDE else 2 * SIDE


def lower_matrices(state: MainLowering, task: Task[Arithmetic]) -> None:
    """Calls a kernel of the matrix unit; the task's arithmetic is `SignedQuads`."""
    assert not isinstance(task.weights, SSAValue)
    window, x = task.window.flattened(), task.x
    assert task.element == i8
    channels, slack = window.channels, 0
    if channels % 4 and window.extent[1] > 1 and window.dilations[1] == 1:
        slack = -window.extent[1] * channels % 4
    else:
        channels += -channels % 4
    if window.padded_rows or window.padded_columns or channels != window.channels or slack:
        x, window = prepare_image(state, f"{task.name}_input", window, channels, task.arithmetic, x, slack)
    weights = task.weights
    if scattered(window) and not slack:
        x, window = gather_windows(state, f"{task.name}_windows", window, x)
        weights = np.pad(weights, ((0, 0), (0, 0), (0, 0), (0, channels - weights.shape[3])))
        weights, channels = weights.reshape(len(weights), 1, 1, -1), window.channels
    window = window.flattened()
    depth = Depth.of(window)
    lanes = _lanes(task.outputs, depth)
    arithmetic, name = task.arithmetic.prepared, f"{task.name.split('_')[0]}_matrices"
    layer = replace(task.layer, name=name, window=window, arithmetic=arithmetic)
    kernel = MatrixContraction(layer, task.bias is not None, lanes)
    packed = constant_weights(state, depth.pack(weights, channels, lanes), task.levels)
    given = [*([task.bias] if task.bias is not None else []), *task.parameters]
    buffers = [g if isinstance(g, SSAValue) else state.constant(pad_channels(g, lanes)) for g in given]
    line = window.width * window.channels
    source = (x, (prod(memref_shape(x)) // line, line))
    call_on(state, task, kernel, kernel.items, source, [packed, *buffers], (prod(shape_of(task.result)),))

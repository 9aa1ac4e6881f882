"""Depthwise convolution kernels on bytes: a window slides along a row, and each column is loaded once.

A processor that multiplies four bytes and adds the products to a sum takes four rows of a window in one step, if the
bytes of a channel lie side by side. Interleaving the rows of a column does that for a block of channels:

    for an output row, for a block of channels               one item of the parallel loop
      for an output x of the row                             from here on: a function that layers share, `SlidingRow`
        for each column that window x has and window x − 1 has not
          quads = the column's rows, interleaved
          for each window that the column lies in:  sum[window] += quads · weights[the column's place in the window]
        y[x] = finish(sum[x])

The sums of the windows that follow are carried from output to output, so nothing is loaded or interleaved twice.

**Outside the image.** The input is read where it is. A column outside is a constant: the number that stands for the
zero point. The first and the last outputs of a row, which have such columns, are computed by code of their own. A row
outside has weights 0, and the bias of that output row lacks the row's share of what `Quads` subtracts: output rows with
the same rows outside have one *phase*, a set of weights and of biases.

**Order of channels.** Processors interleave within 128 bits. Of each 16 channels, 0 … 3 come to the first of four
registers, 4 … 7 to the second, and so on: register k has channel 16r + 4k + i in lane 4r + i. Weights, bias and
parameters are packed in that order, and narrowing four registers to one puts the bytes back in theirs.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from qmlir.codegen.code import Buffer, Code, Microkernel, Numbers
from qmlir.codegen.kernels.interfaces import Epilogue, Finished, QuadArithmetic, TapArithmetic
from qmlir.codegen.kernels.packed_weights import constant_weights
from qmlir.codegen.kernels.packing import Window
from qmlir.codegen.kernels.task import LayerKernel, Task
from qmlir.codegen.lowering import Array, MainLowering, memref_shape
from qmlir.codegen.value import Value
from qmlir.ir.interfaces import shape_of

PARTS = 4
"""Registers of sums of a block: those of its bytes, widened to 32 bits."""

ROW = 16
"""Bytes of 128 bits, within which processors interleave."""

MOST_WINDOWS = 5
"""The most windows of a row that a column may lie in: their sums take 20 of 32 registers."""

LEAST_LANES = 16
"""The fewest channels of a block."""


def order(lanes: int) -> list[int]:
    """The channel of a block in each place of its four registers, one register after the other."""
    return [ROW * r + 4 * k + i for k in range(PARTS) for r in range(lanes // ROW) for i in range(4)]


@dataclass(frozen=True)
class Columns:
    """The columns of a row of windows.

    extent, stride   those of the window, extent ≥ stride
    left, right      columns outside the image that the first window has, and the last
    """

    extent: int
    stride: int
    left: int
    right: int

    @staticmethod
    def of(window: Window) -> "Columns":
        """The columns of a window's rows."""
        extent, stride, left = window.extent[1], window.strides[1], window.origin[1]
        beyond = (window.output[1] - 1) * stride + extent - left - window.width
        return Columns(extent, stride, left, max(beyond, 0))

    @property
    def windows(self) -> int:
        """The windows that a column may lie in."""
        return (self.extent - 1) // self.stride + 1

    @property
    def before(self) -> int:
        """Columns that the first window has before those that each output adds."""
        return self.extent - self.stride

    @property
    def head(self) -> int:
        """The first outputs that add columns outside the image."""
        return max(0, -(-(self.left - self.before) // self.stride))

    @property
    def tail(self) -> int:
        """The last outputs that add columns outside the image."""
        return -(-self.right // self.stride)

    def suit(self, outputs: int, width: int) -> bool:
        """Whether a row has all of the outputs that are computed by code of their own, and the columns before."""
        return self.head + self.tail <= outputs and self.before - self.left <= width


@dataclass(frozen=True)
class Job(Numbers):
    """What one call of `SlidingRow` computes; places and distances are numbers of elements.

    x_at             the first element of the image and of the block of channels
    height           rows of the image
    row, dilation    the row of the window's first row, which may lie outside, and rows between those of the window
    line, column     the distances of the image's rows, and of neighbouring columns
    outside          the byte in columns outside the image
    w_at             the first weight of the block in the row's phase
    bias_at          the first bias of it
    block            the block of channels, for the epilogue's parameters
    y_at, apart      where the first output is stored, and the distance of neighbouring outputs
    outputs          outputs of a row
    """

    x_at: Value
    height: Value
    row: Value
    dilation: Value
    line: Value
    column: Value
    outside: Value
    w_at: Value
    bias_at: Value
    block: Value
    y_at: Value
    apart: Value
    outputs: Value


@dataclass(frozen=True)
class SlidingRow(Finished, Microkernel):
    """A row of outputs for one block of channels; a `Job` says where they are.

    Buffers: those of `SlidingDepthwise`; each is a row of elements.

    rows     the window's rows
    lanes    channels of a block
    """

    name: str
    rows: int
    columns: Columns
    lanes: int
    arithmetic: QuadArithmetic
    epilogue: Epilogue
    has_bias: bool

    @property
    def arguments(self) -> Sequence[str]:
        return [*self.buffers, *Job.names()]

    @property
    def groups(self) -> int:
        """Groups of four rows of a window."""
        return -(-self.rows // 4)

    def write(self, code: Code, buffers: Sequence[Buffer], numbers: Sequence[Value]) -> None:
        job, columns, lanes, part = Job(*numbers), self.columns, self.lanes, self.lanes // PARTS
        x, w, bias, parameters, y = self.roles(buffers)
        assert bias is not None
        start = [bias.load(job.bias_at + k * part, lanes=part) for k in range(PARTS)]
        own = [p.load(job.block * lanes, lanes=lanes) for p in parameters]
        natural = np.argsort(order(lanes)).tolist()
        places = [(job.row + job.dilation * i).maximum(0).minimum(job.height - 1) for i in range(self.rows)]
        rows = [job.x_at + place * job.line for place in places]
        outside = job.outside.to(i8).spread(lanes)

        def add_column(column: Value | None, place: int, sums: list[list[Value]]) -> None:
            """Adds a column of the image, or one outside: it is the column `place` − f · stride of window f."""
            quads = [outside] * (PARTS * self.groups)
            if column is not None:
                quads = self._quads(
                    [self.arithmetic.prepare(x.load(r + column * job.column, lanes=lanes)) for r in rows]
                )
            for f, total in enumerate(sums):
                tap = place - f * columns.stride
                if not 0 <= tap < columns.extent:
                    continue
                for n, quad in enumerate(quads):
                    at = job.w_at + (tap * self.groups * PARTS + n) * lanes
                    total[n % PARTS] = self.arithmetic.multiply_add(total[n % PARTS], quad, w.load(at, lanes=lanes))

        def output(i: Value, carried: Sequence[Value], inside: Callable[[int], bool]) -> Sequence[Value]:
            """Computes output i; `inside` tells whether its column at a place of the window lies in the image."""
            sums = [list(carried[f * PARTS : (f + 1) * PARTS]) for f in range(columns.windows - 1)] + [list(start)]
            for place in range(columns.before, columns.extent):
                column = i * columns.stride + (place - columns.left)
                add_column(column if inside(place) else None, place, sums)
            halves = [a.shuffle(b, range(2 * part)) for a, b in (sums[0][:2], sums[0][2:])]
            result = self.epilogue.finish(halves[0].shuffle(halves[1], range(lanes)), own)
            y.store(result.shuffle(result, natural), job.y_at + i * job.apart)
            return [register for total in sums[1:] for register in total]

        begun = [list(start) for _ in range(columns.windows - 1)]
        for place in range(columns.before):
            add_column(None if place < columns.left else code.index(place - columns.left), place, begun)
        sums: Sequence[Value] = [register for total in begun for register in total]
        for i in range(columns.head):
            sums = output(code.index(i), sums, lambda place, i=i: i * columns.stride + place >= columns.left)
        last = job.outputs - columns.tail
        sums = code.fold(columns.head, last, sums, lambda i, sums: output(i, sums, lambda _: True), "output")
        for i in range(columns.tail):
            end = columns.extent - columns.right + (columns.tail - 1 - i) * columns.stride
            sums = output(last + i, sums, lambda place, end=end: place < end)

    def _quads(self, rows: Sequence[Value]) -> list[Value]:
        """The rows of a column, interleaved: four registers for each group of four rows.

        A row beyond the window, whose weights are 0, is the window's last one.
        """
        rows = [*rows, *[rows[-1]] * (-len(rows) % 4)]
        quads: list[Value] = []
        for a, b, c, d in zip(*(rows[i::4] for i in range(4)), strict=True):
            for half in (0, ROW // 2):
                ab, cd = self._interleave(a, b, half, 1), self._interleave(c, d, half, 1)
                quads += [self._interleave(ab, cd, quarter, 2) for quarter in (0, ROW // 2)]
        return quads

    def _interleave(self, a: Value, b: Value, first: int, size: int) -> Value:
        """Interleaves eight bytes of each 16 of two vectors, from byte `first` of the 16 on, `size` at a time."""
        places = [
            vector * self.lanes + row + first + run + byte
            for row in range(0, self.lanes, ROW)
            for run in range(0, ROW // 2, size)
            for vector in (0, 1)
            for byte in range(size)
        ]
        return a.shuffle(b, places)


@dataclass(frozen=True)
class Phases:
    """The output rows of an image by the rows of their windows that lie outside it.

    top, bottom   output rows at the upper and at the lower edge; each has a phase of its own, and all others have one
    """

    window: Window
    top: int
    bottom: int

    @staticmethod
    def of(window: Window) -> "Phases":
        """The phases of a window's output rows."""
        rows = range(window.output[0])
        top = sum(window.origin[0] > row * window.strides[0] for row in rows)
        end = (window.extent[0] - 1) * window.dilations[0] - window.origin[0]
        bottom = sum(row * window.strides[0] + end >= window.height for row in rows)
        return Phases(window, top, bottom) if top + bottom < len(rows) else Phases(window, len(rows), 0)

    @property
    def rows(self) -> Sequence[int]:
        """An output row of each phase."""
        count = self.window.output[0]
        return [*range(min(self.top + 1, count)), *range(count - self.bottom, count)]

    def number(self, row: Value) -> Value:
        """The phase of an output row."""
        return row.minimum(self.top) + (row + (self.bottom + 1 - self.window.output[0])).maximum(0)

    def inside(self, row: int) -> Array:
        """Which rows of an output row's window lie in the image, [KH]."""
        window = self.window
        rows = row * window.strides[0] - window.origin[0] + np.arange(window.extent[0]) * window.dilations[0]
        return (rows >= 0) & (rows < window.height)


@dataclass(frozen=True)
class SlidingDepthwise(LayerKernel[QuadArithmetic]):
    """y[n, oh, ow, c] = finish(start[c] + Σ_{kh,kw} x[n, …, c] · w[kh, kw, c]).

    Buffers: x [N·H·W·C]; then, with the channels of each block in the order of `order`, w [phases, blocks, KW, groups
    of rows, 4, lanes / 4, 4], the bias [phases, blocks · lanes] and the epilogue's parameters [blocks · lanes]; then
    y [N·OH·OW·C].

    The last block ends with the channels: it computes some of the block before again, if they are no multiple.
    """

    lanes: int

    @property
    def begins(self) -> Sequence[int]:
        """The first channel of each block."""
        last = self.layer.window.channels - self.lanes
        return [min(first, last) for first in range(0, self.layer.window.channels, self.lanes)]

    @property
    def items(self) -> int:
        """The number of iterations of the parallel loop: output rows times blocks."""
        return self.layer.window.batch * self.layer.window.output[0] * len(self.begins)

    @property
    def inner(self) -> SlidingRow:
        """The function that computes a row of outputs."""
        window, name = self.layer.window, f"{self.name.split('_')[0]}_sliding_row"
        columns, arithmetic = Columns.of(window), self.layer.arithmetic.prepared
        return SlidingRow(name, window.extent[0], columns, self.lanes, arithmetic, self.epilogue, self.has_bias)

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        window, blocks, inner, phases = self.layer.window, len(self.begins), self.inner, Phases.of(self.layer.window)
        (rows, columns), channels = window.output, window.channels
        line, block_weights = window.width * channels, window.extent[1] * inner.groups * PARTS * self.lanes
        with code.loop(begin, end, name="item") as item:
            place, block = item // blocks, item % blocks
            image, row = place // rows, place % rows
            channel = (block * self.lanes).minimum(self.begins[-1])
            number = phases.number(row) * blocks + block
            job = Job(
                x_at=image * (window.height * line) + channel,
                height=code.index(window.height),
                row=row * window.strides[0] - window.origin[0],
                dilation=code.index(window.dilations[0]),
                line=code.index(line),
                column=code.index(channels),
                outside=code.index(self.layer.arithmetic.outside),
                w_at=number * block_weights,
                bias_at=number * self.lanes,
                block=block,
                y_at=place * (columns * channels) + channel,
                apart=code.index(channels),
                outputs=code.index(columns),
            )
            code.call(inner, buffers, job.numbers)

    def pack(self, values: Array) -> Array:
        """Packs numbers for each channel, [C]."""
        return np.concatenate([values[first : first + self.lanes][order(self.lanes)] for first in self.begins])

    def pack_weights(self, weights: Array) -> Array:
        """Packs weights [KH, KW, C] of one phase, flattened."""
        rows = np.pad(weights, ((0, -len(weights) % 4), (0, 0), (0, 0)))
        quads = rows.reshape(-1, 4, *rows.shape[1:]).transpose(2, 0, 3, 1)  # [KW, groups, C, 4]
        places = order(self.lanes)
        blocks = [quads[:, :, first : first + self.lanes][:, :, places] for first in self.begins]
        return np.ascontiguousarray(blocks).reshape(-1)


def why_not(task: Task[TapArithmetic]) -> str:
    """Why the kernel, on a processor that sums quads of bytes, does not suit a task of bytes; empty if it does."""
    window = task.window
    if isinstance(task.weights, SSAValue) or not task.outputs == window.channels >= LEAST_LANES:
        return f"fewer than {LEAST_LANES} channels, or several outputs of each"
    columns = Columns.of(window)
    if window.dilations[1] > 1 or columns.stride > columns.extent or columns.windows > MOST_WINDOWS:
        return "the columns of neighbouring windows do not overlap, or too many do"
    return "" if columns.suit(window.output[1], window.width) else "rows are too short"


def lower_sliding(
    state: MainLowering, task: Task[TapArithmetic], arithmetic: QuadArithmetic, bias_of: Callable[[Array], Array]
) -> None:
    """Calls a kernel in an arithmetic of quads; `bias_of` returns the bias for weights [C, KH, KW]."""
    assert not isinstance(task.weights, SSAValue)
    window, phases, result = task.window, Phases.of(task.window), task.result
    weights = [task.weights * phases.inside(row)[:, None, None].astype(np.int8) for row in phases.rows]
    biases = [bias_of(np.moveaxis(w, -1, 0)) for w in weights]
    lanes = next(n for n in (64, 32, 16) if n <= min(window.channels, state.machine.quads))
    kernel = SlidingDepthwise(task.layer_in(arithmetic), True, lanes)
    laid_out = np.concatenate([kernel.pack_weights(w) for w in weights])
    packed = constant_weights(state, laid_out, task.levels)
    constants = [np.concatenate([kernel.pack(bias) for bias in biases]), *map(kernel.pack, task.parameters)]
    y = state.allocate_result(result)
    source, target = state.view(task.x, (prod(memref_shape(task.x)),)), state.view(y, (prod(shape_of(result)),))
    state.call(kernel, [source, packed, *map(state.constant, constants), target], kernel.items)
    state.replace(result, y)

"""Kernels over sliding windows of single channels: pools, and depthwise convolutions."""

import abc
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TypeAlias

from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.codegen.code import WIDTHS, Buffer, Code
from qmlir.codegen.kernel import STACK_LIMIT, Array, Epilogue, Kernel, MainLowering
from qmlir.codegen.kernels.packing import Copy, Tile, Window, choose_tile
from qmlir.codegen.value import Value

# ---------------------------------------------------------------------------------------------------------------
# Pooling kernels: each channel is reduced over windows or over whole images.
#
# for an output row, for an output, for a vector of channels
# acc = start;  for the taps inside the image: acc = combine(acc, x[tap, channels]);  y = finish(acc, taps)


class Reduction(abc.ABC):
    """How a pool reduces elements to one result; implementations are frozen dataclasses."""

    @abc.abstractmethod
    def start(self, code: Code, lanes: int | None) -> Value:
        """The initial accumulator, a scalar or a vector of `lanes`."""

    @abc.abstractmethod
    def combine(self, accumulator: Value, x: Value) -> Value:
        """Combines the accumulator with one more element."""

    @abc.abstractmethod
    def finish(self, accumulator: Value, count: Value, parameters: Sequence[Value]) -> Value:
        """Computes the result from the accumulator, the number of elements inside the image (an index), parameters."""


@dataclass(frozen=True)
class Pool(Kernel):
    """y[n, oh, ow, c] = the reduction of x[n, …, c] over the window's positions (taps) inside the image.

    Buffers: x [N·H, W, C], y [N·OH, OW, C].
    """

    name: str
    window: Window
    reduction: Reduction

    @property
    def symbol(self) -> str:
        return self.name

    @property
    def items(self) -> int:
        """The number of output rows of all images, over which the parallel loop runs."""
        return self.window.batch * self.window.output[0]

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, y = buffers
        window, reduction = self.window, self.reduction
        with each_output(code, window, begin, end) as at:
            count = (at.rows[1] - at.rows[0]) * (at.columns[1] - at.columns[0])
            first = at.image + at.top

            def channels(c: Value, lanes: int | None) -> None:
                def over_rows(i: Value, sums: list[Value]) -> Sequence[Value]:
                    source = first + i * window.dilations[0]

                    def over_columns(j: Value, sums: list[Value]) -> Sequence[Value]:
                        element = x.load(source, at.left + j * window.dilations[1], c, lanes=lanes)
                        return [reduction.combine(sums[0], element)]

                    return code.fold(*at.columns, sums, over_columns, "kw")

                (total,) = code.fold(*at.rows, [reduction.start(code, lanes)], over_rows, "kh")
                y.store(reduction.finish(total, count, []), at.line, at.column, c)

            code.spans(0, window.channels, channels)


Taps: TypeAlias = tuple[Value, Value]
"""A range [first, end) of a window's taps (positions) along one axis."""


@dataclass(frozen=True)
class Output:
    """The position of one output, and of the window that it reads.

    line, column    the output's row, counted through all images, and its column
    image           the first row of the output's image, counted through all images
    top, left       row and column of the image where the window begins; may lie outside the image
    rows, columns   the taps that lie inside the image
    """

    line: Value
    column: Value
    image: Value
    top: Value
    left: Value
    rows: Taps
    columns: Taps


@contextmanager
def each_output(code: Code, window: Window, begin: Value, end: Value) -> Generator[Output]:
    """Opens loops over the outputs of the output rows [begin, end), and yields the current output."""
    with code.loop(begin, end, name="row") as line:
        top = line % window.output[0] * window.strides[0] - window.origin[0]
        rows = _inside(code, top, 0, window, window.padded_rows)
        with code.loop(0, window.output[1], name="column") as column:
            left = column * window.strides[1] - window.origin[1]
            columns = _inside(code, left, 1, window, window.padded_columns)
            yield Output(line, column, line // window.output[0] * window.height, top, left, rows, columns)


def _inside(code: Code, first: Value, axis: int, window: Window, padded: bool) -> Taps:
    """The range of taps along an axis that lie inside the image; an empty range has equal bounds."""
    extent, dilation, size = window.extent[axis], window.dilations[axis], (window.height, window.width)[axis]
    if not padded:
        return code.index(0), code.index(extent)
    begin = ((0 - first).maximum(0) + (dilation - 1)) // dilation
    end = (((size - first).maximum(0) + (dilation - 1)) // dilation).minimum(extent)
    return begin.minimum(end), end


@dataclass(frozen=True)
class GlobalPool(Kernel):
    """y[n, c] = the reduction of x[n, :, c] over all pixels.

    Buffers: x [N, pixels, C], the reduction's parameters [C] each, y [N, C].
    """

    name: str
    shape: tuple[int, int, int]
    reduction: Reduction

    @property
    def symbol(self) -> str:
        return self.name

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, *parameters, y = buffers
        _, pixels, size = self.shape
        with code.loop(begin, end, name="image") as image:

            def channels(c: Value, lanes: int | None) -> None:
                def over_pixels(p: Value, sums: list[Value]) -> Sequence[Value]:
                    return [self.reduction.combine(sums[0], x.load(image, p, c, lanes=lanes))]

                (total,) = code.fold(0, pixels, [self.reduction.start(code, lanes)], over_pixels, "pixel")
                own = [p.load(c, lanes=lanes) for p in parameters]
                y.store(self.reduction.finish(total, code.index(pixels), own), image, c)

            code.spans(0, size, channels)


def lower_pool(
    state: MainLowering, name: str, window: Window, reduction: Reduction, x: SSAValue, result: SSAValue
) -> None:
    """Calls a pooling kernel for the tensor `result`."""
    kernel = Pool(name, window, reduction)
    y = state.allocate_result(result)
    source = state.view(x, (window.batch * window.height, window.width, window.channels))
    target = state.view(y, (kernel.items, window.output[1], window.channels))
    state.call(kernel, [source, target], kernel.items)
    state.replace(result, y)


def lower_global_pool(
    state: MainLowering,
    name: str,
    shape: tuple[int, int, int],
    reduction: Reduction,
    x: SSAValue,
    result: SSAValue,
    parameters: Sequence[Array] = (),
) -> None:
    """Calls a kernel that pools x over all pixels for the tensor `result`; `shape` is x's, [N, pixels, C]."""
    images, _, channels = shape
    y = state.allocate_result(result)
    buffers = [state.constant(p) for p in parameters]
    arguments = [state.view(x, shape), *buffers, state.view(y, (images, channels))]
    state.call(GlobalPool(name, shape, reduction), arguments, images)
    state.replace(result, y)


# ---------------------------------------------------------------------------------------------------------------
# Depthwise convolution kernels: each output channel sums over the window positions (taps) of one input channel.
#
# Vectors run over output channels. The kernel takes a chunk of channels at a time, so that the tile fits the stack:
#
#     for a tile of an output row, for a chunk of channels
#       for each vector of channels, for each output of the tile
#         acc = start;  for kh, kw: acc = acc + tile[kh, kw, channels] · w[kh, kw, channels];  y = finish(acc)


FEW = 4
"""The least number of outputs that a tile should serve, because neighbouring windows overlap."""


class TapArithmetic(abc.ABC):
    """How a depthwise convolution multiplies and adds; implementations are frozen dataclasses.

    element   the type of a tile's elements
    """

    element: Attribute

    @abc.abstractmethod
    def prepare(self, x: Value) -> Value:
        """Converts an input element to the form that a tile holds."""

    @abc.abstractmethod
    def start(self, code: Code, bias: Buffer | None, channel: Value, lanes: int | None) -> Value:
        """The initial accumulators of the channels from `channel` on: the bias or zeros."""

    @abc.abstractmethod
    def multiply_add(self, accumulator: Value, x: Value, w: Value) -> Value:
        """Adds the products of one tap to the accumulators."""


@dataclass(frozen=True)
class Depthwise(Kernel):
    """y[n, oh, ow, o] = finish(start[o] + Σ_{kh,kw} x[…, o div m] · w[kh, kw, o]).

    Here m is the channel multiplier. Buffers: x [N·H, W, C], w [KH, KW, O], the bias [O] if `has_bias`, the epilogue's
    parameters [O] each, y [N·OH, OW, O]. The tile's channels are a chunk of the output channels.
    """

    name: str
    multiplier: int
    outputs: int
    arithmetic: TapArithmetic
    epilogue: Epilogue
    has_bias: bool
    tile: Tile

    @property
    def symbol(self) -> str:
        return self.name

    def arguments(self, count: int) -> Sequence[str]:
        names = ["x", "w", *(["bias"] if self.has_bias else [])]
        return [*names, *(f"p{i}" for i in range(self.epilogue.parameters)), "y"]

    @property
    def items(self) -> int:
        """The number of tiles, over which the parallel loop runs."""
        return self.tile.items

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, w, *rest = buffers
        bias = rest.pop(0) if self.has_bias else None
        *parameters, y = rest
        tile, rows = self.tile, self.tile.window.output[0]
        memory = tile.allocate(code)
        with code.loop(begin, end, name="tile_index") as item:
            line, part = item // tile.per_row, item % tile.per_row
            first = part * tile.outputs
            count = (tile.window.output[1] - first).minimum(tile.outputs)
            with code.loop(0, self.outputs, tile.channels, name="chunk") as chunk:
                width = (self.outputs - chunk).minimum(tile.channels)
                if self.outputs % tile.channels == 0:
                    width = code.index(tile.channels)
                copy = self._copy(code, x, memory, chunk, width)
                tile.fill(code, memory, line // rows, line % rows, first, copy)

                def vector(c: Value, lanes: int | None) -> None:
                    channel = chunk + c
                    start = self.arithmetic.start(code, bias, channel, lanes)
                    own = [p.load(channel, lanes=lanes) for p in parameters]
                    with code.loop(0, count, name="output") as output:
                        total = self._sum(code, memory, w, start, output, c, channel)
                        y.store(self.epilogue.finish(total, own), line, first + output, channel)

                code.spans(0, width, vector)

    def _copy(self, code: Code, x: Buffer, memory: Buffer, chunk: Value, width: Value) -> Copy:
        """A copy of the channels of a chunk into the tile, each input channel `multiplier` times."""
        channels = self.tile.channels

        def copy(i: Value, line: Value, left: Value, begin: Value, end: Value) -> None:
            with code.loop(begin, end, name="column") as t:

                def channel(c: Value, lanes: int | None) -> None:
                    value = x.load(line, left + t, (chunk + c) // self.multiplier, lanes=lanes)
                    memory.store(self.arithmetic.prepare(value), i, t * channels + c)

                code.spans(0, width, channel, WIDTHS if self.multiplier == 1 else ())

        return copy

    def _sum(
        self, code: Code, memory: Buffer, w: Buffer, start: Value, output: Value, c: Value, channel: Value
    ) -> Value:
        """The sum over the taps for one output; `c` is the channel in the tile, `channel` the same in the weights."""
        window, channels = self.tile.window, self.tile.channels
        left = output * (window.strides[1] * channels) + c

        def over_rows(i: Value, sums: list[Value]) -> Sequence[Value]:
            def over_taps(j: Value, sums: list[Value]) -> Sequence[Value]:
                x = memory.load(i, left + j * (window.dilations[1] * channels), lanes=start.lanes)
                return [self.arithmetic.multiply_add(sums[0], x, w.load(i, j, channel, lanes=start.lanes))]

            return code.fold(0, window.extent[1], sums, over_taps, "kw")

        return code.fold(0, window.extent[0], [start], over_rows, "kh")[0]


@dataclass(frozen=True)
class DepthwiseTask:
    """A depthwise convolution to lower: its geometry and arithmetic (see `Depthwise`), and its data.

    weights            [KH, KW, O], an array or a buffer
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


def lower_depthwise(state: MainLowering, op: Operation, task: DepthwiseTask, result: SSAValue) -> None:
    """Calls a depthwise kernel for the tensor `result` of `op`.

    Raises:
        UnsupportedError: The input of one output does not fit the stack, even for the smallest chunk of channels.
    """
    window, element = task.window, task.arithmetic.element
    chunk = task.outputs
    while (tile := choose_tile(window, chunk, element, 1)) is None or tile.outputs < min(FEW, window.output[1]):
        if chunk <= WIDTHS[0]:
            break
        chunk = -(-chunk // 2 // WIDTHS[0]) * WIDTHS[0]
    if tile is None:
        size = Tile(window, 1, chunk, element).size
        state.refuse(op, f"needs the input of one output within {STACK_LIMIT} bytes", got=f"{size}")
    kernel = Depthwise(
        task.name,
        task.outputs // window.channels,
        task.outputs,
        task.arithmetic,
        task.epilogue,
        task.bias is not None,
        tile,
    )
    given = [task.weights, *([task.bias] if task.bias is not None else []), *task.parameters]
    buffers = [g if isinstance(g, SSAValue) else state.constant(g) for g in given]
    y = state.allocate_result(result)
    x = state.view(task.x, (window.batch * window.height, window.width, window.channels))
    target = state.view(y, (window.batch * window.output[0], window.output[1], task.outputs))
    state.call(kernel, [x, *buffers, target], kernel.items)
    state.replace(result, y)

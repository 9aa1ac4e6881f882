"""Tiles of a sliding window's input, and operands packed in the layout that contraction kernels read."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import AnyFloat, IntegerType, MemRefType
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.code import Buffer, Code, Microkernel
from qmlir.codegen.kernels.interfaces import Arithmetic
from qmlir.codegen.kernels.squares import in_turn, square_side, transpose_square
from qmlir.codegen.lowering import SCRATCH_LIMIT, SMALL_SCRATCH, Array, Kernel, MainLowering, memref_shape
from qmlir.codegen.value import Value
from qmlir.dialects.windows import WindowOp
from qmlir.ir.interfaces import Shape
from qmlir.ir.stripes import Reads
from qmlir.ir.types import dtype_of, is_integer, is_memref
from qmlir.numerics.packing import BYTE

# ---------------------------------------------------------------------------------------------------------------
# Tiles: parts of a sliding window's input, copied to scratch memory, padded and converted for the kernel's arithmetic.
#
# An output row needs KH input rows. A tile holds the part of these rows that some neighbouring outputs of the row read:
#
#     tile[i, t·C' + c] = prepare(x[n, oh·s + i·d − top, ow0·s + t − left, c]), or `outside` beyond the image
#
# with C' ≥ C channels (zeros beyond C). Code that reads a tile needs no bounds checks, no zero points and no
# conversions. Each element is prepared once for each row of the window, instead of once for each window position and
# output channel.


@dataclass(frozen=True)
class Window:
    """The geometry of a sliding window over an image [batch, height, width, channels]; pairs are (rows, columns).

    extent      the window's size
    output      the size of the output image
    """

    batch: int
    height: int
    width: int
    channels: int
    extent: tuple[int, int]
    output: tuple[int, int]
    strides: tuple[int, int] = (1, 1)
    dilations: tuple[int, int] = (1, 1)
    origin: tuple[int, int] = (0, 0)
    """Padding above and to the left."""

    @property
    def padded_rows(self) -> bool:
        """Whether some window leaves the image above or below."""
        last = (self.output[0] - 1) * self.strides[0] + (self.extent[0] - 1) * self.dilations[0] - self.origin[0]
        return self.origin[0] > 0 or last >= self.height

    @property
    def padded_columns(self) -> bool:
        """Whether some window leaves the image to the left or to the right."""
        last = (self.output[1] - 1) * self.strides[1] + (self.extent[1] - 1) * self.dilations[1] - self.origin[1]
        return self.origin[1] > 0 or last >= self.width

    @property
    def is_pointwise(self) -> bool:
        """Whether each output reads only the input pixel at its own position."""
        return (self.extent, self.strides, self.origin) == ((1, 1), (1, 1), (0, 0)) and self.output == (
            self.height,
            self.width,
        )

    def first_read(self, line: int, column: int = 0) -> int:
        """The first element of the image that outputs read, from a column of an output row of all images on."""
        image, row = divmod(line, self.output[0])
        top, left = (
            max(0, place * stride - origin)
            for place, stride, origin in zip((row, column), self.strides, self.origin, strict=True)
        )
        return ((image * self.height + top) * self.width + left) * self.channels

    def row_reads(self, size: int) -> Reads:
        """The rows of the image that an output row reads; an element has `size` bytes."""
        extent = (self.extent[0] - 1) * self.dilations[0] + 1
        return Reads(self.width * self.channels * size, self.strides[0], self.origin[0], extent)

    @property
    def is_column(self) -> bool:
        """Whether image and window are one column wide, so that their rows are neighbours in memory, as columns are."""
        return (self.width, self.extent[1], self.output[1]) == (1, 1, 1) and not self.padded_columns

    def turned(self) -> "Window":
        """A window over a column as a window over a row, in which neighbouring outputs share weights."""
        turned = {name: getattr(self, name)[::-1] for name in ("extent", "output", "strides", "dilations", "origin")}
        return replace(self, height=self.width, width=self.height, **turned)

    def flattened(self) -> "Window":
        """A pointwise window as a window over one row of all pixels; any other window unchanged."""
        if not self.is_pointwise:
            return self
        pixels = self.batch * self.height * self.width
        return replace(self, batch=1, height=1, width=pixels, output=(1, pixels), dilations=(1, 1))


def window_of(op: WindowOp, x: Shape, y: Shape, extent: Sequence[int]) -> Window:
    """The geometry of an operation with a window of `extent` from x [N, H, W, C] to y [N, OH, OW, …]."""
    top, _, left, _ = op.padding_values()
    batch, height, width, channels = x
    size = (extent[0], extent[1])
    return Window(
        batch, height, width, channels, size, (y[1], y[2]), op.stride_values(), op.dilation_values(), (top, left)
    )


class Rows:
    """A view of a buffer [rows, columns] that starts at row `first`."""

    def __init__(self, buffer: Buffer, first: Value | int = 0):
        self.buffer = buffer
        self.first = first

    def store(self, value: Value, row: Value, column: Value) -> None:
        """Stores a value at a row, counted from `first`, and a column, like `Buffer.store`."""
        self.buffer.store(value, row + self.first, column)

    def place(self, row: Value, column: Value) -> Value:
        """The number of elements of the buffer before a row, counted from `first`, and a column."""
        return (row + self.first) * self.buffer.shape[1] + column


@dataclass(frozen=True)
class FilledRun(Microkernel):
    """to[j + i] = number for 0 ≤ i < n, modulo 2^bits; rows of floats are filled with zeros."""

    @property
    def symbol(self) -> str:
        return "filled_run"

    @property
    def arguments(self) -> Sequence[str]:
        return ["to", "j", "n", "number"]

    def write(self, code: Code, buffers: Sequence[Buffer], numbers: Sequence[Value]) -> None:
        (to,), (first, count, number) = buffers, numbers
        element = number.to(to.element) if is_integer(to.element) else code.zeros(to.element, None)
        code.spans(0, count, lambda i, lanes: to.store(element.spread(lanes), first + i))


@dataclass(frozen=True)
class PreparedRun(Microkernel):
    """to[j + i] = prepare(x[k + i]) for 0 ≤ i < n: elements that are neighbours in x and where they go."""

    arithmetic: Arithmetic

    @property
    def symbol(self) -> str:
        return "prepared_run"

    @property
    def arguments(self) -> Sequence[str]:
        return ["x", "to", "k", "j", "n", "zero_point"]

    def write(self, code: Code, buffers: Sequence[Buffer], numbers: Sequence[Value]) -> None:
        x, to = buffers
        source, target, count, given = numbers
        element = self.arithmetic.element
        zero_point = given.to(element) if is_integer(element) else None

        def copy(i: Value, lanes: int | None) -> None:
            to.store(self.arithmetic.prepare(x.load(source + i, lanes=lanes), zero_point), target + i)

        code.spans(0, count, copy)


@dataclass(frozen=True)
class Tile:
    """How a window's input is cut into tiles.

    outputs    the outputs of a row that one tile serves
    channels   C', the channels of the tile
    element    the type of the tile's elements
    outside    the number at positions outside the image
    slack      elements behind each row that may be read, but whose numbers do not matter
    """

    window: Window
    outputs: int
    channels: int
    element: Attribute
    outside: int = 0
    slack: int = 0

    @property
    def columns(self) -> int:
        """The number of input columns in a tile."""
        window = self.window
        return (self.outputs - 1) * window.strides[1] + (window.extent[1] - 1) * window.dilations[1] + 1

    @property
    def per_row(self) -> int:
        """The number of tiles that make up an output row."""
        return -(-self.window.output[1] // self.outputs)

    @property
    def items(self) -> int:
        """The number of tiles: output rows of all images times tiles of a row."""
        return self.window.batch * self.window.output[0] * self.per_row

    @property
    def size(self) -> int:
        """The bytes of scratch memory that a tile takes."""
        assert is_integer(self.element) or isinstance(self.element, AnyFloat)
        bits = self.element.width.data if is_integer(self.element) else self.element.bitwidth
        return self.window.extent[0] * self.row * bits // 8

    @property
    def row(self) -> int:
        """The elements from one row of the tile to the next."""
        return self.columns * self.channels + self.slack

    def allocate(self, code: Code) -> Buffer:
        """Allocates the tile's memory, [KH, columns · C' + slack]."""
        return code.scratch((self.window.extent[0], self.row), self.element, "tile")

    def fill(self, code: Code, tile: Rows, image: Value, row: Value, first: Value, copy: "Copy") -> None:
        """Fills the tile for outputs `first`, `first` + 1, … of output row `row` of an image.

        `copy` writes the columns that lie inside the image; this function writes `outside` to the other columns.
        """
        window, columns, channels = self.window, self.columns, self.channels
        left = first * window.strides[1] - window.origin[1]  # the input column of tile column 0
        low, high = code.index(0), (window.width - left).minimum(columns)
        if window.padded_columns:
            low = (0 - left).maximum(0).minimum(columns)
            high = high.maximum(0)

        with code.loop(0, window.extent[0], name="kh") as i:
            line = row * window.strides[0] + i * window.dilations[0] - window.origin[0]
            begin, end = low, high
            if window.padded_rows:  # a row outside the image becomes all zeros
                inside = line.below(window.height)
                begin, end = inside.choose(low, code.index(columns)), inside.choose(high, code.index(columns))
            if window.padded_rows or window.padded_columns:
                zero, before, after = code.index(0), begin * channels, (columns - end) * channels
                outside = code.index(self.outside)
                code.call(FilledRun(), [tile.buffer], [tile.place(i, zero), before, outside])
                code.call(FilledRun(), [tile.buffer], [tile.place(i, end * channels), after + self.slack, outside])
            elif self.slack:
                behind = tile.place(i, code.index(columns * channels))
                code.call(FilledRun(), [tile.buffer], [behind, code.index(self.slack), code.index(0)])
            copy(i, image * window.height + line, left, begin, end)


Copy: TypeAlias = Callable[[Value, Value, Value, Value, Value], None]
"""Copies columns of one row of a tile. Arguments: the tile's row, the row of x [N·H, …], the column of x at tile column
0, and the range [begin, end) of the tile's columns to write."""


def copy_pixels(code: Code, x: Buffer, tile: Tile, memory: Rows, arithmetic: Arithmetic) -> Copy:
    """A `Copy` of all channels of x [N·H, W · C]; adds zero channels if the tile has more channels than x."""
    channels, padded = tile.window.channels, tile.channels

    def run(i: Value, line: Value, left: Value, begin: Value, end: Value) -> None:
        source = line * x.shape[1] + (left + begin) * channels
        target, count = memory.place(i, begin * channels), (end - begin) * channels
        numbers = [source, target, count, code.index(arithmetic.zero_point)]
        code.call(PreparedRun(arithmetic.prepared), [x, memory.buffer], numbers)

    def pixel_by_pixel(i: Value, line: Value, left: Value, begin: Value, end: Value) -> None:
        with code.loop(begin, end, name="column") as t:

            def copy(c: Value, lanes: int | None) -> None:
                element = x.load(line, (left + t) * channels + c, lanes=lanes)
                memory.store(arithmetic.prepare(element), i, t * padded + c)

            def zero(c: Value, lanes: int | None) -> None:
                memory.store(code.zeros(tile.element, lanes), i, t * padded + c)

            code.spans(0, channels, copy)
            code.spans(channels, padded, zero)

    return run if padded == channels else pixel_by_pixel


def choose_tile(
    window: Window, channels: int, element: Attribute, multiple: int, outside: int = 0, slack: int = 0, *,
    small: bool = False,
) -> Tile | None:  # fmt: skip
    """The largest tile that fits scratch memory (`SCRATCH_LIMIT`); None if even a tile of one output does not fit.

    The outputs of a row are divided evenly among its tiles, so that the last tile is not a small remainder. The number
    of outputs of a tile is a multiple of `multiple` where possible. A `small` tile takes `SMALL_SCRATCH`, or the bytes
    of a tile of two outputs, or of one if `multiple` is 1, if these are more.
    """
    width = window.output[1]
    smallest = Tile(window, 1, channels, element, outside, slack)
    step = replace(smallest, outputs=2).size - smallest.size
    fewest = replace(smallest, outputs=min(multiple, 2)).size
    limit = min(SCRATCH_LIMIT, max(SMALL_SCRATCH, fewest)) if small else SCRATCH_LIMIT
    most = 1 + (limit - smallest.size) // step
    if most < 1:
        return None
    if width <= most:
        return replace(smallest, outputs=width)
    tiles = -(-width // most)
    outputs = -(-width // tiles)
    rounded = -(-outputs // multiple) * multiple
    largest = most // multiple * multiple or most
    return replace(smallest, outputs=min(rounded, largest))


# ---------------------------------------------------------------------------------------------------------------
# Packs operands in the layout that contraction kernels read: constants with numpy, computed tensors with kernels.


def pack_weights(weights: Array, lanes: int, group: int, groups: int = 1, *, copies: bool = False) -> Array:
    """Packs weights [O, KH, KW, C] to [blocks, KH, KW, C' / group, lanes, group], flattened.

    Output channels are divided into `groups`; each group starts with a new block. Beyond the last channel, where
    outputs are not stored, weights are 0, or `copies` of the last channel's, which are in its codebook.
    """
    outputs, rows, columns, channels = weights.shape
    split = weights.reshape(groups, outputs // groups, rows, columns, channels)
    beyond = (0, 0), (0, -split.shape[1] % lanes), *[(0, 0)] * 3
    padded = np.pad(split, beyond, "edge" if copies else "constant")
    padded = np.pad(padded, (*[(0, 0)] * 4, (0, -channels % group)))
    steps = padded.reshape(-1, lanes, rows, columns, padded.shape[4] // group, group)
    return np.ascontiguousarray(steps.transpose(0, 2, 3, 4, 1, 5)).reshape(-1)


def pad_channels(parameters: Array, lanes: int, groups: int = 1) -> Array:
    """Pads parameters [O] to [blocks · lanes], with zeros after the last channel of each of the `groups`."""
    split = parameters.reshape(groups, -1)
    return np.pad(split, ((0, 0), (0, -split.shape[1] % lanes))).reshape(-1)


def narrow_bias(bias: Array | SSAValue | None, bits: int) -> list[Array | SSAValue]:
    """The bias, if there is one: in 16 bits beside packed weights, of fewer than 8 `bits`, if all of it fits.

    The larger the steps of the weights, the fewer of them a bias takes; beside weights of 4 bits, biases of 32 would be
    a seventh of a small network's constants. Beside weights of 8 bits some layers' would not fit, and layers whose
    biases differ in width share no code.
    """
    if bias is None:
        return []
    if isinstance(bias, SSAValue) or bits == BYTE or bias.dtype != np.int32:
        return [bias]
    return [in_fewer_bytes(bias, np.int16)]


def in_fewer_bytes(numbers: Array, dtype: npt.DTypeLike) -> Array:
    """Integers in a narrower type if it holds all of them; otherwise as they are."""
    narrow = numbers.astype(dtype)
    return narrow if np.array_equal(narrow, numbers) else numbers


def pack_multipliers(multipliers: Array, lanes: int) -> Array:
    """Packs multipliers of taps [O, KW] to [blocks, KW, lanes], flattened, with zeros after the last output."""
    outputs, taps = multipliers.shape
    padded = np.pad(multipliers, ((0, -outputs % lanes), (0, 0)))
    return np.ascontiguousarray(padded.reshape(-1, lanes, taps).transpose(0, 2, 1)).reshape(-1)


def choose_lanes(outputs: int, most: int = 16) -> int:
    """The output channels of a block: the least of 4, 8 and 16 that holds all outputs, else 16; at most `most` below 8.

    Blocks of up to `most` are chosen where few of their channels lie beyond the outputs.
    """
    if most <= 4:
        return most
    wide = outputs % most == 0 or outputs > 6 * most
    return next((lanes for lanes in (4, 8, 16) if outputs <= lanes), most if wide else 16)


@dataclass(frozen=True)
class PackColumns(Kernel):
    """out[(b, block), k div group, lane, k mod group] = prepare(x[b, k, block · lanes + lane]); zero beyond K and N.

    Buffers: x [B, K, N] ([B, N, K] if `transposed`), out [B · blocks, steps · lanes · group].

    square   the side of the squares of words of `group` elements in which a transposed x is read; 0 for none
    """

    name: str
    columns: int
    lanes: int
    arithmetic: Arithmetic
    transposed: bool = False
    square: int = 0

    @property
    def symbol(self) -> str:
        return self.name

    @property
    def blocks(self) -> int:
        """The number of blocks of columns."""
        return -(-self.columns // self.lanes)

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, out = buffers
        by_vectors = self.square > 0 if self.transposed else code.vectors
        whole = self.columns // self.lanes if by_vectors else 0
        with code.loop(begin, end, name="item") as item:
            batch, block = item // self.blocks, item % self.blocks
            if whole == self.blocks:
                self._by_vectors(code, x, out, item, batch, block)
            elif whole:
                code.branch(
                    block < whole,
                    lambda: self._by_vectors(code, x, out, item, batch, block),
                    lambda: self._by_elements(code, x, out, item, batch, block),
                )
            else:
                self._by_elements(code, x, out, item, batch, block)

    def _rows(self, x: Buffer) -> int:
        """K."""
        return x.shape[2 if self.transposed else 1]

    def _by_elements(
        self, code: Code, x: Buffer, out: Buffer, item: Value, batch: Value, block: Value, begin: int = 0
    ) -> None:
        """Packs what a block has of the columns, from row `begin` on, and zeros behind the last."""
        rows, group, first = self._rows(x), self.arithmetic.group, block * self.lanes
        valid = (self.columns - first).minimum(self.lanes)
        if self.columns % self.lanes or rows % group:
            empty = begin * self.lanes
            code.spans(empty, out.shape[1], lambda i, lanes: out.store(code.zeros(out.element, lanes), item, i))
        with code.loop(begin, rows, name="k") as k:
            place = k // group * (self.lanes * group) + k % group
            with code.loop(0, valid, name="lane") as lane:
                column = first + lane
                value = x.load(batch, column, k) if self.transposed else x.load(batch, k, column)
                out.store(self.arithmetic.prepare(value), item, place + lane * group)

    def _by_vectors(self, code: Code, x: Buffer, out: Buffer, item: Value, batch: Value, block: Value) -> None:
        """Packs a block all of whose columns are there."""
        group, first = self.arithmetic.group, block * self.lanes
        if self.transposed:
            done = self._squares(code, x, out, item, batch, first)
            if done < self._rows(x):
                self._by_elements(code, x, out, item, batch, block, done)
            return

        def pack(step: Value, present: int) -> None:
            read = [self._prepared(x, batch, step * group + i, first, lanes=self.lanes) for i in range(present)]
            read += [code.zeros(out.element, self.lanes)] * (group - present)
            out.store(in_turn(read), item, step * (self.lanes * group))

        steps, rest = divmod(self._rows(x), group)
        with code.loop(0, steps, name="step") as step:
            pack(step, group)
        if rest:
            pack(code.index(steps), rest)

    def _squares(self, code: Code, x: Buffer, out: Buffer, item: Value, batch: Value, first: Value) -> int:
        """Packs whole squares of a transposed x; returns the rows that they hold."""
        group, square = self.arithmetic.group, self.square
        reach = square * group
        done = self._rows(x) // reach * reach
        word = IntegerType(8 * dtype_of(out.element).itemsize * group)
        with code.loop(0, done, reach, name="k") as k, code.loop(0, self.lanes, square, name="lane") as lane:
            read = [self._prepared(x, batch, first + lane + i, k, lanes=reach).bits(word) for i in range(square)]
            for i, words in enumerate(transpose_square(read)):
                out.store(words.bits(out.element), item, (k + i * group) * self.lanes + lane * group)
        return done

    def _prepared(self, x: Buffer, *indices: Value, lanes: int) -> Value:
        return self.arithmetic.prepare(x.load(*indices, lanes=lanes))


def pack_columns(
    state: MainLowering, name: str, x: SSAValue, arithmetic: Arithmetic, *, transposed: bool = False
) -> SSAValue:
    """Packs a buffer [B…, K, N] ([B…, N, K] if `transposed`) by a kernel, and returns the packed, flat buffer.

    Products that read the same buffer in the same order share what is packed: those of stripes of rows
    (transforms/qint/stripe_rows/).
    """
    *batch, rows, columns = memref_shape(x)
    if transposed:
        rows, columns = columns, rows
    widest = min(16, state.machine.block(arithmetic.group))
    lanes = choose_lanes(columns, widest)
    kernel = PackColumns(name, columns, lanes, arithmetic, transposed, square_side(state.machine, lanes))
    if (known := state.packed.get((x, kernel))) is not None:
        return known
    count = prod(batch)
    steps = -(-rows // arithmetic.group)
    out = state.allocate(
        MemRefType(arithmetic.element, (count * kernel.blocks, steps * kernel.lanes * arithmetic.group))
    )
    matrices = (count, columns, rows) if transposed else (count, rows, columns)
    state.call(kernel, [state.view(x, matrices), out], count * kernel.blocks)
    packed = state.view(out, (count * kernel.blocks * steps * kernel.lanes * arithmetic.group,))
    state.packed[x, kernel] = packed
    return packed


@dataclass(frozen=True)
class PrepareImage(Kernel):
    """Prepares and pads a whole input, like a tile does with a part of it; an item is one row of the output.

    Buffers: x [N·H, W·C], out [N·H', W'·C'].
    """

    name: str
    tile: Tile
    arithmetic: Arithmetic

    @property
    def symbol(self) -> str:
        return self.name

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, out = buffers
        rows = self.tile.window.output[0]
        with code.loop(begin, end, name="row") as item:
            copy = copy_pixels(code, x, self.tile, Rows(out, item), self.arithmetic)
            self.tile.fill(code, Rows(out, item), item // rows, item % rows, code.index(0), copy)


def prepare_image(
    state: MainLowering, name: str, window: Window, channels: int, arithmetic: Arithmetic, x: SSAValue, slack: int = 0
) -> tuple[SSAValue, Window]:
    """Calls the kernel that prepares and pads a whole input, with `slack` elements or more behind each row.

    Returns:
        The prepared input's buffer, and the window over it, which has no padding.
    """
    sizes = [
        (count - 1) * stride + (extent - 1) * dilation + 1
        for count, stride, extent, dilation in zip(
            window.output, window.strides, window.extent, window.dilations, strict=True
        )
    ]
    height, width = sizes[0], sizes[1] + -(-slack // channels)
    images = prod(memref_shape(x)) // (window.height * window.width * window.channels)
    pixels = Window(images, window.height, window.width, window.channels, (1, 1), (height, width), origin=window.origin)
    out = state.allocate(MemRefType(arithmetic.element, (images * height, width * channels)))
    source = state.view(x, (images * window.height, window.width * window.channels))
    kernel = PrepareImage(name, Tile(pixels, width, channels, arithmetic.element, arithmetic.outside), arithmetic)
    state.call(kernel, [source, out], images * height)
    return out, replace(window, height=height, width=width, channels=channels, origin=(0, 0))


@dataclass(frozen=True)
class GatherWindows(Kernel):
    """out[n·OH + oh, ow·K + kh·KW·C + j] = x[n·H + oh·s + kh·d, ow·s'·C + j]: the windows of an image, side by side.

    K = KH · KW · C, and 0 ≤ j < KW · C: the columns of a window are neighbours, and no window leaves the image.

    Buffers: x [N·H, W·C], out [N·OH, OW·K]; an item is a row of `out`.
    """

    name: str
    window: Window

    @property
    def symbol(self) -> str:
        return self.name

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, out = buffers
        window, rows = self.window, self.window.output[0]
        run = window.extent[1] * window.channels
        with code.loop(begin, end, name="row") as item:
            first = item // rows * window.height + item % rows * window.strides[0]
            with (
                code.loop(0, window.output[1], name="column") as column,
                code.loop(0, window.extent[0], name="kh") as i,
            ):
                line, source = first + i * window.dilations[0], column * (window.strides[1] * window.channels)
                target = (column * window.extent[0] + i) * run

                def copy(j: Value, lanes: int | None, at: tuple[Value, Value, Value] = (line, source, target)) -> None:
                    out.store(x.load(at[0], at[1] + j, lanes=lanes), item, at[2] + j)

                code.spans(0, run, copy, (64, 16))


def gather_windows(state: MainLowering, name: str, window: Window, x: SSAValue) -> tuple[SSAValue, Window]:
    """Calls the kernel that gathers the windows of an image, which none of them leaves.

    Returns:
        The windows' buffer, and a window of one pixel over it, whose channels are all elements of a window.
    """
    assert is_memref(x.type)
    rows, columns = window.output
    elements = window.extent[0] * window.extent[1] * window.channels
    out = state.allocate(MemRefType(x.type.element_type, (window.batch * rows, columns * elements)))
    source = state.view(x, (window.batch * window.height, window.width * window.channels))
    state.call(GatherWindows(name, window), [source, out], window.batch * rows)
    return out, Window(window.batch, rows, columns, elements, (1, 1), (rows, columns))

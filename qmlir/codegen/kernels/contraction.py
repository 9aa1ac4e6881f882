"""Contraction kernels: convolutions, fully connected layers and matrix products, in any arithmetic.

Weights are packed in blocks of output channels, [blocks, KH · KW · C', lanes], with zeros beyond the last channel. A
tap is a position (kh, kw) of the window. One step multiplies one input channel (or a group of channels) of one tap by
the weights of one block, for a few neighbouring outputs:

    for a tile of an output row                          see packing.py; or straight from the input if that is dense
      for each block of output channels
        for a few outputs p of the tile
          acc[p] = start                                 vectors of output channels, in registers
          for kh, kw, c:  acc[p] = step(acc[p], x[p, kh, kw, c], w[kh, kw, c])
          y[p] = finish(acc[p])

The order of kh, kw, c is that of the reference. An exact arithmetic may take several c in one step.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernel import Arithmetic, Array, Epilogue, FinishedKernel, MainLowering, memref_shape
from qmlir.codegen.kernels.packing import (
    Tile,
    Window,
    choose_lanes,
    choose_tile,
    copy_pixels,
    pack_weights,
    pad_channels,
    prepare_image,
)
from qmlir.codegen.value import Value
from qmlir.ir.interfaces import shape_of
from qmlir.ir.types import dtype_of, is_memref

ACCUMULATORS = 12
"""Registers of 256 bits that accumulators take: 16 less those of a step's weights, data and products."""

MOST_TOGETHER = 12
"""The most outputs that are computed together."""

CACHED_INPUT = 24 * 1024
"""Bytes of input that a tile may span if it is read in place: most of a first-level cache."""


@dataclass(frozen=True)
class Broadcast:
    """The batch of an operand that batch n of the result reads: Σ ((n div d) mod m) · s over the digits (d, m, s)."""

    digits: tuple[tuple[int, int, int], ...]

    @staticmethod
    def of(operand: Sequence[int], result: Sequence[int]) -> "Broadcast":
        """The broadcast of an operand to a result, both given by their batch dimensions."""
        aligned = [1] * (len(result) - len(operand)) + list(operand)
        digits: list[tuple[int, int, int]] = []
        divisor = stride = 1
        for size, full in zip(reversed(aligned), reversed(result), strict=True):
            if size != 1:
                digits.append((divisor, full, stride))
                stride *= size
            divisor *= full
        return Broadcast(tuple(digits))

    def apply(self, code: Code, batch: Value) -> Value:
        """The operand's batch that a batch of the result reads."""
        total = code.index(0)
        for divisor, modulus, stride in self.digits:
            total = total + (batch // divisor) % modulus * stride
        return total


@dataclass(frozen=True)
class Contraction(FinishedKernel):
    """y[n, oh, ow, o] = finish(start[o] + Σ_{kh,kw,c} x[…] · w[o, kh, kw, c]).

    Buffers: x [N·H, W·C], w [blocks · steps · lanes · group], the bias [blocks · lanes] if `has_bias`, the epilogue's
    parameters, y [N·OH, OW, O].

    channels     input channels, padded to a multiple of the arithmetic's group
    groups       groups of a grouped convolution; each has its own blocks of output channels
    per_tile     neighbouring outputs of a row that are computed before the next outputs: their input stays in the cache
    together     outputs computed at a time: they share each load of weights, and their accumulators stay in registers
    tile         geometry of the copied input; None to read the input in place, if it needs no preparation or padding
    x_batch,
    w_batch      broadcasts of a matrix product's batches; None if x has the result's batches, and w has no batches
    """

    name: str
    window: Window
    channels: int
    outputs: int
    lanes: int
    arithmetic: Arithmetic
    epilogue: Epilogue
    has_bias: bool
    per_tile: int
    together: int
    tile: Tile | None
    x_batch: Broadcast | None = None
    w_batch: Broadcast | None = None
    groups: int = 1

    @property
    def group_blocks(self) -> int:
        """The number of blocks of output channels in a group."""
        return -(-(self.outputs // self.groups) // self.lanes)

    @property
    def blocks(self) -> int:
        """The number of blocks of output channels."""
        return self.groups * self.group_blocks

    @property
    def steps(self) -> int:
        """The number of steps that one output takes."""
        rows, columns = self.window.extent
        return rows * columns * self.channels // self.groups // self.arithmetic.group

    @property
    def by_block(self) -> bool:
        """Whether the parallel loop runs over blocks, because all outputs lie in one tile; else it runs over tiles."""
        return self._tiles == 1

    @property
    def row_tiles(self) -> int:
        """The number of tiles of an output row."""
        return -(-self.window.output[1] // self.per_tile)

    @property
    def _tiles(self) -> int:
        return self.window.batch * self.window.output[0] * self.row_tiles

    @property
    def items(self) -> int:
        """The number of iterations of the parallel loop."""
        return self.blocks if self.by_block else self._tiles

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        body = _Body(self, code, buffers)
        if self.by_block:
            body.open_tile(code.index(0))
            with code.loop(begin, end, name="block") as block:
                body.write_block(block)
            return
        with code.loop(begin, end, name="tile_index") as item:
            body.open_tile(item)
            with code.loop(0, self.blocks, name="block") as block:
                body.write_block(block)


class _Body:
    """Writes the body of one kernel; holds its buffers and the position of the current tile."""

    def __init__(self, kernel: Contraction, code: Code, buffers: Sequence[Buffer]):
        self.kernel, self.code = kernel, code
        self.x, self.w, self.bias, self.parameters, self.y = kernel.roles(buffers)
        self.memory = kernel.tile.allocate(code) if kernel.tile else None
        full = kernel.outputs // kernel.groups % kernel.lanes == 0
        self.spill = None if full else code.stack((kernel.lanes,), self.y.element, "spill")

    def open_tile(self, item: Value) -> None:
        """Computes the position of tile `item`, and copies its input if the kernel has a tile buffer."""
        kernel, code, window = self.kernel, self.code, self.kernel.window
        rows = window.output[0]
        line, part = item // kernel.row_tiles, item % kernel.row_tiles
        batch, row = line // rows, line % rows
        if window.batch == 1:
            batch, row = code.index(0), line
        self.line = line  # the row of y
        self.first = part * kernel.per_tile
        self.count = (window.output[1] - self.first).minimum(kernel.per_tile)
        image = kernel.x_batch.apply(code, batch) if kernel.x_batch else batch
        self.weights_from = kernel.w_batch.apply(code, batch) * kernel.blocks if kernel.w_batch else code.index(0)
        self.base = (image * window.height + row * window.strides[0], code.index(0))  # row and column of x, if no tile
        if kernel.tile and self.memory:
            self.base = (code.index(0), code.index(0))
            copy = copy_pixels(code, self.x, kernel.tile, self.memory, kernel.arithmetic.prepare)
            kernel.tile.fill(code, self.memory, image, row, self.first, copy)

    def write_block(self, block: Value) -> None:
        """Writes all outputs of the tile for one block of output channels."""
        kernel, code, count = self.kernel, self.code, self.count
        most = count - count % kernel.together
        with code.loop(0, most, kernel.together, name="output") as output:
            self.write_outputs(block, output, kernel.together)
        left = {size % kernel.together for size in (kernel.per_tile, kernel.window.output[1] % kernel.per_tile)} - {0}
        if left:  # of whole tiles, and of the last tile of a row
            step = left.pop() if len(left) == 1 else 1
            with code.loop(most, count, step, name="output") as output:
                self.write_outputs(block, output, step)

    def write_outputs(self, block: Value, output: Value, together: int) -> None:
        """Writes `together` neighbouring outputs, from `output` on, for one block of output channels."""
        kernel, code, arithmetic = self.kernel, self.code, self.kernel.arithmetic
        lanes = kernel.lanes
        start = arithmetic.start(code, self.bias, block, lanes)
        sums = self.accumulate(block, output, [start] * together)
        parameters = [p.load(block * lanes, lanes=lanes) for p in self.parameters]
        for p, accumulator in enumerate(sums):
            y = kernel.epilogue.finish(accumulator, parameters)
            self.store(y, self.first + output + p, block)

    def accumulate(self, block: Value, output: Value, start: Sequence[Value]) -> list[Value]:
        """Sums the products over kh, kw and c, from the accumulators `start` of neighbouring outputs."""
        kernel, code, arithmetic, window = self.kernel, self.code, self.kernel.arithmetic, self.kernel.window
        source = self.memory or self.x
        rows, columns = window.extent
        run, taps = kernel.channels // kernel.groups, columns
        if window.dilations[1] == 1 and kernel.groups == 1:  # neighbouring taps are neighbours in memory
            run, taps = run * columns, 1
        steps = run // arithmetic.group
        stride = window.strides[1] * kernel.channels  # between the windows of neighbouring outputs
        # Rows of the window are consecutive in a tile, and a dilation apart in the input.
        row_step = 1 if kernel.tile else window.dilations[0]
        first = self.base[1] + (output if kernel.tile else self.first + output) * stride
        if kernel.groups > 1:
            first = first + block // kernel.group_blocks * run
        weights = (self.weights_from + block) * kernel.steps

        def over_rows(i: Value, sums: list[Value]) -> Sequence[Value]:
            row = self.base[0] + i * row_step

            def over_taps(j: Value, sums: list[Value]) -> Sequence[Value]:
                left = first + j * (window.dilations[1] * kernel.channels)
                before = weights + (i * taps + j) * steps

                def over_run(k: Value, sums: list[Value]) -> Sequence[Value]:
                    w = arithmetic.weights(self.w, before + k, kernel.lanes)
                    at = left + k * arithmetic.group
                    return [arithmetic.step(acc, source, (row, at + p * stride), w) for p, acc in enumerate(sums)]

                return code.fold(0, steps, sums, over_run, "k")

            return code.fold(0, taps, sums, over_taps, "kw")

        return code.fold(0, rows, start, over_rows, "kh")

    def store(self, value: Value, output: Value, block: Value) -> None:
        """Stores the lanes of a block that are real output channels; the padded lanes are dropped."""
        kernel, code, lanes = self.kernel, self.code, self.kernel.lanes
        part_of_group = block % kernel.group_blocks
        channel = block * lanes
        if kernel.groups > 1:
            channel = block // kernel.group_blocks * (kernel.outputs // kernel.groups) + part_of_group * lanes

        def whole() -> None:
            self.y.store(value, self.line, output, channel)

        if self.spill is None:
            whole()
            return
        spill, rest = self.spill, kernel.outputs // kernel.groups % lanes

        def part() -> None:
            spill.store(value, 0)
            with code.loop(0, rest) as j:
                self.y.store(spill.load(j), self.line, output, channel + j)

        if kernel.group_blocks == 1:
            part()
        else:
            code.branch((part_of_group if kernel.groups > 1 else block) < kernel.group_blocks - 1, whole, part)


@dataclass(frozen=True)
class Task:
    """A contraction to lower: its geometry and arithmetic (see `Contraction`), and its data.

    x         the input's buffer; its memory is [N, H, W, C] in row-major order, whatever its shape is
    weights   an array [O, KH, KW, C / groups], or a buffer that is packed already
    bias, parameters   one entry for each output channel; the bias may be a buffer that is padded already
    """

    name: str
    window: Window
    outputs: int
    arithmetic: Arithmetic
    epilogue: Epilogue
    x: SSAValue
    weights: Array | SSAValue
    bias: Array | SSAValue | None = None
    parameters: Sequence[Array] = ()
    x_batch: Broadcast | None = None
    w_batch: Broadcast | None = None
    groups: int = 1


def lower_contraction(state: MainLowering, task: Task, result: SSAValue) -> None:
    """Calls a contraction kernel for the tensor `result`."""
    if 0 in shape_of(result):
        state.replace(result, state.allocate_result(result))
        return
    if task.window.channels == 0:
        task = _over_a_zero(state, task)
    arithmetic, window, x = task.arithmetic, task.window, task.x
    if task.x_batch is None and task.w_batch is None:
        window = window.flattened()
    lanes = choose_lanes(task.outputs // task.groups)
    channels = window.channels + -window.channels % arithmetic.group
    together = outputs_together(window.output[1], lanes, arithmetic.sums)
    tile = None
    as_is = arithmetic.keeps and _element(x) == arithmetic.element and channels == window.channels
    if window.padded_rows or window.padded_columns or not as_is:
        tile = choose_tile(window, channels, arithmetic.element, together)
        if tile is None:  # a tile would exceed the stack: prepare the whole input beforehand, in the arena
            x, window = prepare_image(state, f"{task.name}_input", window, channels, arithmetic, x)
    per_tile = tile.outputs if tile else _dense_outputs(window, together)
    kernel = Contraction(
        task.name,
        window,
        channels,
        task.outputs,
        lanes,
        arithmetic,
        task.epilogue,
        task.bias is not None,
        per_tile,
        min(together, per_tile),
        tile,
        task.x_batch,
        task.w_batch,
        task.groups,
    )
    packed = task.weights
    if not isinstance(packed, SSAValue):
        packed = state.constant(pack_weights(packed, lanes, arithmetic.group, task.groups))
    given = [*([task.bias] if task.bias is not None else []), *task.parameters]
    buffers = [g if isinstance(g, SSAValue) else state.constant(pad_channels(g, lanes, task.groups)) for g in given]
    y = state.allocate_result(result)
    line = window.width * window.channels
    source = state.view(x, (prod(memref_shape(x)) // line, line))
    target = state.view(y, (window.batch * window.output[0], window.output[1], task.outputs))
    state.call(kernel, [source, packed, *buffers, target], kernel.items)
    state.replace(result, y)


def _over_a_zero(state: MainLowering, task: Task) -> Task:
    """Replaces a contraction over zero channels by a contraction over one channel of zeros: both yield the bias."""
    window = replace(task.window, channels=1)
    dtype = dtype_of(_element(task.x))
    x = state.constant(np.zeros((window.batch, window.height, window.width, 1), dtype))
    weights = np.zeros((task.outputs, *window.extent, 1), dtype)
    return replace(task, window=window, x=x, weights=weights, x_batch=None, w_batch=None, groups=1)


def _element(buffer: SSAValue) -> Attribute:
    assert is_memref(buffer.type)
    return buffer.type.element_type


def outputs_together(width: int, lanes: int, sums: Attribute) -> int:
    """The outputs of a row of `width` to compute at a time: as many as registers hold, divided evenly."""
    most = max(1, min(ACCUMULATORS * 256 // (lanes * 8 * dtype_of(sums).itemsize), MOST_TOGETHER))
    return max(1, -(-width // -(-width // most))) if width else 1


def _dense_outputs(window: Window, together: int) -> int:
    """The outputs per tile if the input is read in place: their input fits a first-level cache (`CACHED_INPUT`)."""
    of_one = window.extent[0] * window.strides[1] * window.channels * 4
    most = max(1, CACHED_INPUT // (of_one * together)) * together
    tiles = -(-window.output[1] // most)
    return min(window.output[1], -(-window.output[1] // (tiles * together)) * together)

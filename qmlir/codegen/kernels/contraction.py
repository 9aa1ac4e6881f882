"""Contraction kernels: convolutions, fully connected layers and matrix products, in any arithmetic.

Weights are packed in blocks of output channels, [blocks, KH · KW · C', lanes], with zeros beyond the last channel. A
tap is a position (kh, kw) of the window. One step multiplies one input channel (or a group of channels) of one tap by
the weights of one block, for a few neighbouring outputs:

    for a tile of an output row                          see packing.py; or straight from the input if that is dense
      for each block of output channels
        for a few outputs p of the tile                  from here on: a function that layers share, `TileTimesBlock`
          acc[p] = start                                 vectors of output channels, in registers
          for kh, kw, c:  acc[p] = step(acc[p], x[p, kh, kw, c], w[kh, kw, c])
          y[p] = finish(acc[p])

Where weights are many, the loops over tiles and blocks change places: each block is read once, and while all tiles use
it, each step asks for some of the next block. Weights come from the third-level cache or memory at a quarter of the
speed at which a tile multiplies them, but many tiles multiply them.

The order of kh, kw, c is that of the reference. An exact arithmetic may take several c in one step.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import MemRefType, f32, i64
from xdsl.ir import Attribute, SSAValue

from qmlir.codegen.code import Buffer, Code, element_bytes
from qmlir.codegen.kernels.interfaces import Arithmetic
from qmlir.codegen.kernels.packed_weights import Packing, pack
from qmlir.codegen.kernels.packing import (
    Rows,
    Tile,
    Window,
    choose_lanes,
    choose_tile,
    copy_pixels,
    narrow_bias,
    pack_multipliers,
    pack_weights,
    pad_channels,
    prepare_image,
)
from qmlir.codegen.kernels.rows_of_tables import PackedRows
from qmlir.codegen.kernels.task import LayerKernel, Task, call_on
from qmlir.codegen.kernels.tile_times_block import Job, Scaling, TileTimesBlock, with_multipliers
from qmlir.codegen.leads import least_lead
from qmlir.codegen.lowering import Array, MainLowering, memref_shape
from qmlir.codegen.machine import Capabilities
from qmlir.codegen.value import Value
from qmlir.ir.stripes import Reads, Stripes
from qmlir.ir.types import dtype_of
from qmlir.ir.weights import sealed
from qmlir.numerics.codebooks import Codebook

MOST_TOGETHER = 12
"""The most outputs that are computed together."""

AT_ONCE = 2
"""The steps in a turn of the innermost loop on processors that multiply halves of words: counting turns takes two of
the 20 instructions of a step."""

FEW_STEPS = 4
"""The most steps of a run that are unrolled, where a window has several rows."""

NEAR = 1 << 18
"""Bytes that stay in a second-level cache from one tile to the next, and from one call of a network to the next."""

TILES_TOGETHER = 4
"""Tiles of outputs that a call of the inner function computes where no tile has to fit the first-level cache."""

CACHED_INPUT = 24 * 1024
"""Bytes of input that a tile may span if it is read in place: most of a first-level cache."""


@dataclass(frozen=True)
class Contraction(LayerKernel[Arithmetic]):
    """y[n, oh, ow, o] = finish(start[o] + Σ_{kh,kw,c} x[…] · w[o, kh, kw, c]).

    Buffers: x [N·H, W·C], w [blocks · steps · lanes · group], the bias [blocks · lanes] if `has_bias`, the epilogue's
    parameters, y [N·OH, OW, O].

    channels     input channels, padded to a multiple of the arithmetic's group unless neighbouring taps fill steps
                 together (`joined`)
    lanes        output channels of a block
    per_tile     neighbouring outputs of a row that are computed before the next outputs: their input stays in the cache
    together     outputs computed at a time: they share each load of weights, and their accumulators stay in registers
    tile         geometry of the copied input; None to read the input in place, if it needs no preparation or padding
    by_blocks    whether all tiles are computed for one block before the next; tiles are read in place then, and each
                 step asks for some of the next block's weights
    scaled       whether the sums of each run, of one tap then, are multiplied by an integer of the tap and the output,
                 [blocks · runs · lanes] behind w, before they are added to i64 accumulators
    offset       whether sums of a run's data, [outputs of all rows · runs], are multiplied by other such integers and
                 added; the integers and the sums are behind the multipliers
    narrow       whether the accumulators of multiplied sums have 32 bits
    packing      how w holds the weights
    grouped      steps of a group whose weights have a multiplier for each output, [blocks · groups · lanes] behind w;
                 0 if weights have none
    reals        what makes floats of w, whose scales, [blocks · groups · lanes], and zero points are behind w
    at_once      the steps that the innermost loop takes in a turn where they divide those of a run
    fixed        whether the distance between the windows of neighbouring outputs is in the code, not an argument
    """

    channels: int
    lanes: int
    per_tile: int
    together: int
    tile: Tile | None
    by_blocks: bool = False
    scaled: bool = False
    offset: bool = False
    narrow: bool = False
    packing: Packing = Packing()
    grouped: int = 0
    reals: Scaling | None = None
    at_once: int = 1
    fixed: bool = False

    @property
    def buffers(self) -> Sequence[str]:
        scaled = self.scaled or self.grouped > 0
        return with_multipliers(super().buffers, scaled=scaled, offset=self.offset, reals=self.reals)

    @property
    def group_blocks(self) -> int:
        """The number of blocks of output channels in a group."""
        return -(-(self.layer.outputs // self.layer.groups) // self.lanes)

    @property
    def blocks(self) -> int:
        """The number of blocks of output channels."""
        return self.layer.groups * self.group_blocks

    @property
    def steps(self) -> int:
        """The number of steps that one output takes."""
        return self.layer.window.extent[0] * self.runs * self.run_steps

    @property
    def row_tiles(self) -> int:
        """The number of tiles of an output row."""
        return -(-self.layer.window.output[1] // self.per_tile)

    @property
    def items(self) -> int:
        """The number of iterations of the parallel loop: one for each block of each tile."""
        return self.layer.window.batch * self.layer.window.output[0] * self.row_tiles * self.blocks

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        """Opens each tile of which a block is asked for once; a share may begin and end within a tile."""
        body, blocks = _Body(self, code, buffers), self.blocks
        if self.by_blocks:
            tiles = self.items // blocks
            with code.loop(begin, end, name="item") as item:
                body.open_tile(item % tiles)
                body.write_block(item // tiles)
            return
        with code.loop(begin // blocks, (end + (blocks - 1)) // blocks, name="tile_index") as tile:
            body.open_tile(tile)
            before = tile * blocks
            with code.loop((begin - before).maximum(0), (end - before).minimum(blocks), name="block") as block:
                body.write_block(block)

    def leads(self, types: Sequence[MemRefType[Attribute]]) -> Mapping[int, int]:
        """A tile that is copied is read before its outputs are written."""
        if self.by_blocks or self.layer.x_batch or self.layer.w_batch:
            return {}
        width, read, written = self.layer.window.output[1], list[int](), list[int]()
        for line in range(self.layer.window.batch * self.layer.window.output[0]):
            for first in range(0, width, self.per_tile):
                read.append(self.layer.window.first_read(line, first) * element_bytes(types[0]))
                last = line * width + min(first + self.per_tile, width)
                written.append(last * self.layer.outputs * element_bytes(types[-1]))
        return {0: least_lead(written, read, buffered=self.tile is not None)}

    def stripes(self, types: Sequence[MemRefType[Attribute]]) -> Stripes | None:
        """Steps are output rows, and tiles of a pointwise convolution, which has a single row."""
        window = self.layer.window
        if self.by_blocks or self.layer.x_batch or self.layer.w_batch or window.batch > 1 or self.offset:
            return None
        read, written = element_bytes(types[0]), self.layer.outputs * element_bytes(types[-1])
        if window.is_pointwise and window.output[0] == 1:
            reads = Reads(self.per_tile * window.channels * read)
            return Stripes(self.blocks, self.per_tile * written, {0: reads})
        return Stripes(self.row_tiles * self.blocks, window.output[1] * written, {0: window.row_reads(read)})

    @property
    def inner(self) -> TileTimesBlock:
        """The function that computes a tile's outputs for a block."""
        few = self.run_steps if self.run_steps <= FEW_STEPS and self.layer.window.extent[0] > 1 else 0
        return TileTimesBlock(
            name=f"{self.name.split('_')[0]}_tile_times_block",
            lanes=self.lanes,
            arithmetic=self.layer.arithmetic.prepared,
            epilogue=self.epilogue,
            has_bias=self.has_bias,
            together=self.together,
            rest=left_over(self.layer.window.output[1], self.per_tile, self.together),
            rows=self.layer.window.extent[0] > 1,
            runs=self.runs > 1,
            partial=self.layer.outputs // self.layer.groups % self.lanes != 0,
            few=few,
            scaled=self.scaled,
            offset=self.offset,
            narrow=self.narrow,
            streams=self.by_blocks,
            packing=self.packing,
            grouped=self.grouped,
            reals=self.reals,
            at_once=1 if few or self.run_steps % self.at_once else self.at_once,
            stride=self.layer.window.strides[1] * self.channels if self.fixed else 0,
        )

    @property
    def run(self) -> int:
        """The elements of a run: neighbouring taps are neighbours in memory, unless something lies between them."""
        together = self.layer.window.dilations[1] == 1 and self.layer.groups == 1 and not self.scaled
        return self.channels // self.layer.groups * (self.layer.window.extent[1] if together else 1)

    @property
    def run_steps(self) -> int:
        """The number of steps that a run takes; the weights of what the last one reads beyond the run are 0."""
        return -(-self.run // self.layer.arithmetic.group)

    @property
    def runs(self) -> int:
        """The number of runs that a row of the window takes."""
        return self.layer.window.extent[1] * self.channels // self.layer.groups // self.run


class _Body:
    """Writes the body of one kernel; holds its buffers and the position of the current tile."""

    def __init__(self, kernel: Contraction, code: Code, buffers: Sequence[Buffer]):
        self.kernel, self.code = kernel, code
        x, *rest = buffers
        self.memory = kernel.tile.allocate(code) if kernel.tile else None
        self.x, self.source, self.others = x, self.memory or x, rest

    def open_tile(self, item: Value) -> None:
        """Computes the position of tile `item`, and copies its input if the kernel has a tile buffer."""
        kernel, code, layer = self.kernel, self.code, self.kernel.layer
        window = layer.window
        rows = window.output[0]
        line, part = item // kernel.row_tiles, item % kernel.row_tiles
        batch, row = line // rows, line % rows
        if window.batch == 1:
            batch, row = code.index(0), line
        first = part * kernel.per_tile
        self.tile = item
        self.count = (window.output[1] - first).minimum(kernel.per_tile)
        self.row = line * window.output[1] + first
        self.y = self.row * layer.outputs
        image = layer.x_batch.apply(code, batch) if layer.x_batch else batch
        self.weights_from = layer.w_batch.apply(code, batch) * kernel.blocks if layer.w_batch else code.index(0)
        if kernel.tile and self.memory:
            self.first = code.index(0)
            copy = copy_pixels(code, self.x, kernel.tile, Rows(self.memory), layer.arithmetic)
            kernel.tile.fill(code, Rows(self.memory), image, row, first, copy)
        else:
            line = image * window.height + row * window.strides[0]
            self.first = line * self.x.shape[1] + first * (window.strides[1] * kernel.channels)

    def write_block(self, block: Value) -> None:
        """Writes all outputs of the tile for one block of output channels."""
        kernel, code, layer = self.kernel, self.code, self.kernel.layer
        window = layer.window
        x, channel, lanes = self.first, block * kernel.lanes, kernel.lanes
        per_group = layer.outputs // layer.groups
        part = block
        if layer.groups > 1:
            group, part = block // kernel.group_blocks, block % kernel.group_blocks
            x = x + group * (kernel.channels // layer.groups)
            channel = group * per_group + part * lanes
        valid = code.index(lanes) if per_group % lanes == 0 else (per_group - part * lanes).minimum(lanes)
        # Rows of the window are consecutive in a tile, and a dilation apart in the input.
        row = self.source.shape[1] * (1 if kernel.tile else window.dilations[0])
        stride = window.strides[1] * kernel.channels
        # All tiles ask for the next block together, each step for an equal part.
        step = lanes * layer.arithmetic.group
        passes = -(-kernel.per_tile // kernel.together)
        pace = -(-step // (kernel.items // kernel.blocks * passes))
        ahead = ((block + 1) * step + self.tile * (passes * pace)) * kernel.steps if kernel.by_blocks else code.index(0)
        job = Job(
            x_at=x,
            rows=code.index(window.extent[0]),
            row=code.index(row),
            runs=code.index(kernel.runs),
            run=code.index(window.dilations[1] * kernel.channels),
            steps=code.index(kernel.run_steps),
            w_at=(self.weights_from + block) * kernel.steps,
            block=block,
            y_at=self.y + channel,
            apart=code.index(layer.outputs),
            outputs=self.count,
            valid=valid,
            ahead=ahead,
            pace=code.index(pace if kernel.by_blocks else 0),
            strides=[code.index(i * stride) for i in range(1, max(kernel.together, 2), 2)],
            sums_at=self.row * kernel.runs if kernel.offset else None,
        )
        code.call(kernel.inner, [self.source, *self.others], job.numbers)


def lower_contraction(state: MainLowering, task: Task[Arithmetic]) -> None:
    """Calls a contraction kernel."""
    if task.window.channels == 0:
        task = _over_a_zero(state, task)
    task = _along_a_row(task, state.machine)
    arithmetic, window, x, machine = task.arithmetic, task.window, task.x, state.machine
    if task.x_batch is None and task.w_batch is None:
        window = window.flattened()
    lanes = _lanes(task, window, machine)
    channels = window.channels + -window.channels % arithmetic.group
    sums = arithmetic.sums if task.multipliers is None or task.narrow else i64
    together = 1 if arithmetic.by_channel else outputs_together(window.output[1], lanes, sums, machine)
    if machine.small:
        together = min(together, machine.small_outputs)
    packed = task.weights
    if task.grouped is not None and not isinstance(packed, SSAValue):
        packed = task.grouped.quotients(packed)
        assert packed is not None
    small = machine.small or machine.halves
    tile = joined(task, window, together, small=small)
    as_is = arithmetic.keeps and task.element == arithmetic.element and channels == window.channels
    # A tile of several outputs that is copied is read before any of them is written, over the input in little memory.
    as_is = as_is and not (machine.small and arithmetic.by_channel and window.output[1] > 1)
    if tile and not isinstance(packed, SSAValue):
        channels, packed = window.channels, packed.reshape(*packed.shape[:2], 1, -1)
    elif window.padded_rows or window.padded_columns or not as_is:
        tile = choose_tile(window, channels, arithmetic.element, together, arithmetic.outside, small=small)
        if tile is None:  # a tile would exceed scratch memory: prepare the whole input beforehand
            x, window = prepare_image(state, f"{task.name}_input", window, channels, arithmetic, x)
    per_tile = tile.outputs if tile else together if machine.small else _dense_outputs(window, together)
    blocks = task.groups * -(-task.outputs // task.groups // lanes)
    by_blocks = not machine.small and _by_blocks(task, window, per_tile, blocks)
    if by_blocks:
        per_tile = min(window.output[1], TILES_TOGETHER * together)
        if tile:
            x, window = prepare_image(state, f"{task.name}_input", window, channels, arithmetic, x, tile.slack)
            tile = None
    packing = Packing()
    if not isinstance(packed, SSAValue):
        chunk = lanes * arithmetic.group
        copies = isinstance(task.levels, Codebook)
        laid_out = arithmetic.arranged(pack_weights(packed, lanes, arithmetic.group, task.groups, copies=copies))
        packing, constant = pack(laid_out, task.levels, chunk, machine)
        if packing == Packing():
            note_rows(state, task, packed, constant, lanes)
        packed = state.constant(sealed(constant))
    kernel = Contraction(
        layer=replace(task.layer, window=window),
        has_bias=task.bias is not None,
        channels=channels,
        lanes=lanes,
        per_tile=per_tile,
        together=min(together, per_tile),
        tile=tile,
        by_blocks=by_blocks,
        scaled=task.multipliers is not None,
        offset=task.offsets is not None,
        narrow=task.narrow,
        packing=packing,
        grouped=0 if task.grouped is None else task.grouped.size // arithmetic.group,
        reals=_scaling(task),
        at_once=AT_ONCE if machine.halves else 1,
        fixed=machine.halves and together > 1,
    )
    line = window.width * window.channels
    source = (x, (prod(memref_shape(x)) // line, line))
    shape = (window.batch * window.output[0], window.output[1], task.outputs)
    call_on(state, task, kernel, kernel.items, source, [packed, *_beside_weights(state, task, packing, lanes)], shape)


def _beside_weights(state: MainLowering, task: Task[Arithmetic], packing: Packing, lanes: int) -> Iterator[SSAValue]:
    """Yields what a kernel reads behind its weights: multipliers, sums of blocks, bias, numbers of the epilogue."""
    scaling = task.multipliers if task.grouped is None else task.grouped.multipliers
    for numbers in (scaling, task.offsets):
        if numbers is not None:
            yield state.constant(pack_multipliers(numbers, lanes))
    if task.block_sums is not None:
        yield task.block_sums
    if task.reals is not None:
        for numbers in (task.reals.scales, task.reals.points):
            if numbers is not None:
                by_output = task.reals.is_by_output
                yield state.constant(
                    pad_channels(numbers, lanes, task.groups) if by_output else pack_multipliers(numbers, lanes)
                )
    for given in (*narrow_bias(task.bias, packing.bits), *task.parameters):
        yield given if isinstance(given, SSAValue) else state.constant(pad_channels(given, lanes, task.groups))


def _scaling(task: Task[Arithmetic]) -> Scaling | None:
    """How the kernel makes floats of weights that are integers."""
    if task.reals is None:
        return None
    return Scaling(0 if task.reals.is_by_output else task.reals.size, points=task.reals.points is not None)


def note_rows(state: MainLowering, task: Task[Arithmetic], weights: Array, constant: Array, lanes: int) -> None:
    """Notes the packed form of a matrix of bytes, which look-ups of its rows may read, too (rows_of_tables.py)."""
    matrix = weights.shape[1:3] == (1, 1) and task.groups == 1 and task.grouped is None
    in_order = type(task.arithmetic).arranged is Arithmetic.arranged
    if matrix and in_order and weights.dtype == constant.dtype == np.int8:
        state.note_table(PackedRows(weights.reshape(len(weights), -1), constant, lanes, task.arithmetic.group))


def _by_blocks(task: Task[Arithmetic], window: Window, per_tile: int, blocks: int) -> bool:
    """Whether all outputs of a block are computed before the next block, because that reads less from far memory.

    What does not stay near is read again: the weights for each tile, or the data for each block.
    """
    if not task.is_plain or isinstance(task.weights, SSAValue):
        return False
    size = dtype_of(task.arithmetic.element).itemsize
    of_weight = size if task.reals is None else task.weights.itemsize
    weights, data = task.weights.size * of_weight, window.batch * window.height * window.width * window.channels * size
    tiles = window.batch * window.output[0] * -(-window.output[1] // per_tile)
    again, instead = ((times - 1) * bytes if bytes > NEAR else 0 for times, bytes in ((tiles, weights), (blocks, data)))
    return instead < again


def joined(task: Task[Arithmetic], window: Window, together: int, *, small: bool = False) -> Tile | None:
    """The tile of a convolution whose neighbouring taps fill steps together; None if each tap fills its own.

    With 3 channels and steps of 4, a row of 7 taps takes 6 steps of its 21 numbers instead of 7 with a zero each, and
    the tile's rows are those of the image. The last step may read beyond the row, where its weights are 0.
    """
    group = task.arithmetic.group
    if not task.is_plain or window.channels % group == 0 or window.extent[1] == 1 or window.dilations[1] > 1:
        return None
    slack = -window.extent[1] * window.channels % group
    element, outside = task.arithmetic.element, task.arithmetic.outside
    return choose_tile(window, window.channels, element, together, outside, slack, small=small)


def _lanes(task: Task[Arithmetic], window: Window, machine: Capabilities) -> int:
    """The output channels of a block.

    On processors without vectors, where a row has one output, no other shares the weights of a block: as many channels
    as there are registers for sums share the data instead.
    """
    outputs, packed = task.outputs // task.groups, isinstance(task.weights, SSAValue)
    widest = machine.block(task.arithmetic.group)
    wide = machine.vectors and not machine.small
    if task.arithmetic.sums == f32 and wide and window.output == (1, 1) and not packed:
        # Each sum waits for its last product: a single row takes as many channels at a time as cover this.
        widest = next((n for n in (64, 32) if n <= machine.row_block and choose_lanes(outputs, n) == n), widest)
    lanes = choose_lanes(outputs, min(16, widest) if packed else widest)
    if packed or machine.vectors or window.output[1] > 1:
        return lanes
    return next((n for n in (8, 4) if n <= machine.sum_bits // 32 and outputs % n == 0), lanes)


def _over_a_zero(state: MainLowering, task: Task[Arithmetic]) -> Task[Arithmetic]:
    """Replaces a contraction over zero channels by a contraction over one channel of zeros: both yield the bias."""
    window = replace(task.window, channels=1)
    dtype = dtype_of(task.element)
    x = state.constant(np.zeros((window.batch, window.height, window.width, 1), dtype))
    weights = np.zeros((task.outputs, *window.extent, 1), dtype)
    return replace(task, window=window, x=x, weights=weights, x_batch=None, w_batch=None, groups=1)


def _along_a_row(task: Task[Arithmetic], machine: Capabilities) -> Task[Arithmetic]:
    """A convolution over a column, of which a row has one output, as one over a row: the sums are the same.

    Where memory is to be small, rows stay rows, of which some are computed at a time (`stripes`).
    """
    if machine.small or not task.window.is_column or task.multipliers is not None:
        return task
    weights = task.weights
    if not isinstance(weights, SSAValue):
        weights = weights.reshape(weights.shape[0], 1, weights.shape[1], weights.shape[3])
    return replace(task, window=task.window.turned(), weights=weights)


def outputs_together(width: int, lanes: int, sums: Attribute, machine: Capabilities) -> int:
    """The outputs of a row of `width` to compute at a time: as many as registers hold, divided evenly."""
    most = max(1, min(machine.sum_bits // (lanes * 8 * dtype_of(sums).itemsize), MOST_TOGETHER))
    return max(1, -(-width // -(-width // most))) if width else 1


def left_over(width: int, per_tile: int, together: int) -> int:
    """How many outputs to compute at a time of those that `together` leaves over in the tiles of a row; 0 if none."""
    sizes = {per_tile % together, width % per_tile % together} - {0}
    return sizes.pop() if len(sizes) == 1 else min(1, len(sizes))


def _dense_outputs(window: Window, together: int) -> int:
    """The outputs per tile if the input is read in place: their input fits a first-level cache (`CACHED_INPUT`)."""
    of_one = window.extent[0] * window.strides[1] * window.channels * 4
    most = max(1, CACHED_INPUT // (of_one * together)) * together
    tiles = -(-window.output[1] // most)
    return min(window.output[1], -(-window.output[1] // (tiles * together)) * together)

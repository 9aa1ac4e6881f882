"""Matrix products of u8 by i8 with instructions whose sums of two products saturate, exact to the last bit.

`pairing.py` puts the channels of each block of output channels in an order in which no sum of two products leaves 16
bits. The kernel reorders the pixels of a tile accordingly, and multiplies them as other contractions do:

    for a tile of pixels
      for each block of output channels
        work[p, i] = x[p, order[i]] + 128                one shuffle for each 16 channels; some channels once more
        y[p] = finish(start + Σ_i work[p, i] · w[i])     TileTimesBlock, four channels a step

The windows of a convolution are gathered side by side before, so that a pixel has all their elements as channels.

On Zen 3 the products alone are 1.2 times as fast as those of i16, and a layer whose channels all find partners is
1.10 to 1.15 times as fast: the shuffles take 6 to 10 %.
"""

from collections.abc import MutableMapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar
from weakref import WeakKeyDictionary

import numpy as np
from xdsl.dialects.builtin import i8
from xdsl.ir import SSAValue

from qmlir.codegen.code import Buffer, Code, Microkernel
from qmlir.codegen.kernels.contraction import MOST_TOGETHER, left_over, outputs_together
from qmlir.codegen.kernels.interfaces import Arithmetic
from qmlir.codegen.kernels.packing import gather_windows, pack_weights, pad_channels, prepare_image
from qmlir.codegen.kernels.pairing import GROUP, Pairing, pair_channels
from qmlir.codegen.kernels.rows_of_tables import PairedRows
from qmlir.codegen.kernels.task import LayerKernel, Task, call_on
from qmlir.codegen.kernels.tile_times_block import Job, TileTimesBlock
from qmlir.codegen.lowering import SCRATCH_LIMIT, MainLowering
from qmlir.codegen.value import INDEX, Value

LANES = 16
"""The output channels of a block."""

WORK = 8 * 1024
"""Bytes of reordered pixels, unless the pixels that are computed together take more: a quarter of a first-level cache,
which holds the pixels as they were and the weights of a block, too."""

MOST_EXTRA = 40
"""One in MOST_EXTRA channels may appear once more, on average; beyond that, products of i16 are as fast."""

LEAST_OUTPUTS = 64
"""The fewest outputs that share windows which are gathered side by side first."""

LEAST_CHANNELS = 32
"""Sums over fewer channels spend their time in other work."""


@dataclass(frozen=True)
class ReorderedPixels(Microkernel):
    """work[p, i] = x[p, order[i]] ^ 0x80 for all pixels of a tile; places behind hold the channels that `extra` names.

    The bits of x ^ 0x80 are those of x + 128 as an unsigned byte. `order` counts within groups of 16 channels.
    """

    @property
    def symbol(self) -> str:
        return "reordered_pixels"

    @property
    def arguments(self) -> Sequence[str]:
        return ["x", "order", "extra", "work", "x_at", "order_at", "extra_at", "pixels", "channels", "extras", "row"]

    def write(self, code: Code, buffers: Sequence[Buffer], numbers: Sequence[Value]) -> None:
        x, order, extra, work = buffers
        x_at, order_at, extra_at, pixels, channels, extras, row = numbers
        pairs = channels - channels % (2 * GROUP)
        for first, last, lanes in ((code.index(0), pairs, 2 * GROUP), (pairs, channels, GROUP)):
            with code.loop(first, last, lanes, name="group") as group:
                places = order.load(order_at + group, lanes=lanes)
                with code.loop(0, pixels, name="pixel") as pixel:
                    data = x.load(x_at + pixel * channels + group, lanes=lanes)
                    work.store(code.permute_bytes(data ^ -128, places), pixel * row + group)
        with code.loop(0, extras, name="extra") as i:
            channel = extra.load(extra_at + i).to(INDEX)
            with code.loop(0, pixels, name="pixel") as pixel:
                work.store(x.load(x_at + pixel * channels + channel) ^ -128, pixel * row + channels + i)


@dataclass(frozen=True)
class PairedProduct(LayerKernel[Arithmetic]):
    """y[p, o] = finish(start[o] + Σ_c (x[p, c] + 128) · w[o, c]) for the pixels p of an image.

    Buffers: x [pixels, C], order [blocks, C] and extra (see `Pairing`), table [blocks, 2], w [steps · lanes · 4], the
    bias [blocks · lanes], the epilogue's parameters, y [pixels, O]. The table holds the number of channels that appear
    once more in a block, and in all blocks before it.

    extras     the most channels that appear once more in a block
    per_tile   pixels that are reordered at a time
    together   pixels computed at a time: they share each load of weights, and their accumulators stay in registers
    """

    DATA: ClassVar[Sequence[str]] = ("x", "order", "extra", "table", "w")

    extras: int
    per_tile: int
    together: int

    @property
    def pixels(self) -> int:
        """The pixels of all images."""
        return self.layer.window.width

    @property
    def channels(self) -> int:
        """The input channels."""
        return self.layer.window.channels

    @property
    def blocks(self) -> int:
        """The number of blocks of output channels."""
        return -(-self.layer.outputs // LANES)

    @property
    def items(self) -> int:
        """The number of iterations of the parallel loop: one for each block of each tile."""
        return -(-self.pixels // self.per_tile) * self.blocks

    @property
    def inner(self) -> TileTimesBlock:
        """The function that computes a tile's outputs for a block."""
        return TileTimesBlock(
            name=f"{self.name.split('_')[0]}_tile_times_block",
            lanes=LANES,
            arithmetic=self.layer.arithmetic.prepared,
            epilogue=self.epilogue,
            has_bias=self.has_bias,
            together=self.together,
            rest=left_over(self.pixels, self.per_tile, self.together),
            rows=False,
            runs=False,
            partial=self.layer.outputs % LANES != 0,
        )

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        work = code.scratch((self.per_tile * (self.channels + self.extras),), i8, "work")
        with code.loop(begin, end, name="item") as item:
            self._write_block(code, buffers, work, item // self.blocks, item % self.blocks)

    def _write_block(self, code: Code, buffers: Sequence[Buffer], work: Buffer, tile: Value, block: Value) -> None:
        """Reorders the pixels of a tile for a block of output channels, and computes the block's outputs."""
        x, order, extra, table, *others = buffers
        first, row = tile * self.per_tile, self.channels + self.extras
        count = (self.pixels - first).minimum(self.per_tile)
        one, zero = code.index(1), code.index(0)
        extras, before = (table.load(block, code.index(i)).to(INDEX) for i in (0, 1))
        places = [first * self.channels, block * self.channels, before]
        sizes = [count, code.index(self.channels), extras, code.index(row)]
        code.call(ReorderedPixels(), [x, order, extra, work], [*places, *sizes])
        group = self.layer.arithmetic.group
        job = Job(
            x_at=zero,
            rows=one,
            row=zero,
            runs=one,
            run=zero,
            steps=(extras + self.channels) // group,
            w_at=(block * self.channels + before) // group,
            block=block,
            y_at=first * self.layer.outputs + block * LANES,
            apart=code.index(self.layer.outputs),
            outputs=count,
            valid=(self.layer.outputs - block * LANES).minimum(LANES),
            ahead=zero,
            pace=zero,
            strides=[code.index(i * row) for i in range(1, max(self.together, 2), 2)],
        )
        code.call(self.inner, [work, *others], job.numbers)


_PAIRINGS: MutableMapping[Task[Arithmetic], Pairing | None] = WeakKeyDictionary()
"""The pairings of tasks: a candidate that suits a task computes it, too."""


def pairing_for(task: Task[Arithmetic]) -> Pairing | None:
    """The pairing of the channels of a task's weights, or None if the kernel does not suit the task.

    The kernel suits products of i8 by constants over a whole number of groups of channels, of which few appear twice.
    The pixels that are computed together fit scratch memory. Where windows are gathered, all their elements are
    channels.
    """
    if task not in _PAIRINGS:
        _PAIRINGS[task] = _pairing_for(task)
    return _PAIRINGS[task]


def _pairing_for(task: Task[Arithmetic]) -> Pairing | None:
    weights, window = task.weights, task.window
    if not task.is_plain or isinstance(weights, SSAValue) or 0 in weights.shape:
        return None
    if not window.is_pointwise and (window.dilations[1] > 1 or task.outputs < LEAST_OUTPUTS):
        return None
    weights = weights.reshape(len(weights), -1)
    channels = weights.shape[1]
    if not LEAST_CHANNELS <= channels <= SCRATCH_LIMIT // MOST_TOGETHER or channels % GROUP:
        return None
    pairing = pair_channels(weights, LANES)
    counts = [len(own) for own in pairing.extra]
    fits = MOST_TOGETHER * (channels + max(counts)) <= SCRATCH_LIMIT
    return pairing if fits and sum(counts) * MOST_EXTRA <= pairing.order.size else None


def gathered(state: MainLowering, task: Task[Arithmetic]) -> Task[Arithmetic]:
    """The task on its windows side by side, each a pixel with all elements of a window as channels.

    Args:
        state: The lowering.
        task: A task whose arithmetic keeps bytes as they are.
    """
    window, x = task.window, task.x
    if window.is_pointwise:
        return task
    assert not isinstance(task.weights, SSAValue)
    if window.padded_rows or window.padded_columns:
        x, window = prepare_image(state, f"{task.name}_input", window, window.channels, task.arithmetic, x)
    x, window = gather_windows(state, f"{task.name}_windows", window, x)
    return replace(task, window=window, x=x, weights=task.weights.reshape(len(task.weights), 1, 1, -1))


def lower_paired(state: MainLowering, task: Task[Arithmetic], pairing: Pairing) -> None:
    """Calls a kernel; the task has a bias."""
    assert isinstance(task.bias, np.ndarray)
    layer = replace(task.layer, window=task.window.flattened())
    pixels, channels = layer.window.width, layer.window.channels
    counts = np.array([len(own) for own in pairing.extra], np.int32)
    extras = int(counts.max())
    together = outputs_together(pixels, LANES, task.arithmetic.sums, state.machine)
    tiles = -(-pixels * (channels + extras) // WORK)
    per_tile = min(pixels, -(-pixels // (tiles * together)) * together)
    kernel = PairedProduct(layer, True, extras, per_tile, min(together, per_tile))
    packed = [pack_weights(own[:, None, None, :], LANES, task.arithmetic.group) for own in pairing.weights]
    extra = np.concatenate([*pairing.extra, np.zeros(1, np.int32)])  # a buffer has at least one element
    table = np.stack([counts, np.cumsum(counts, dtype=np.int32) - counts], 1)
    arrays = (pairing.order, extra, table, np.concatenate(packed))
    assert not isinstance(task.weights, SSAValue)
    state.note_table(PairedRows(task.weights[:, 0, 0, :], *arrays, LANES, task.arithmetic.group))
    constants = [state.constant(array) for array in arrays]
    parameters = [state.constant(pad_channels(array, LANES)) for array in (task.bias, *task.parameters)]
    source = (task.x, (pixels, channels))
    call_on(state, task, kernel, kernel.items, source, [*constants, *parameters], (pixels, task.outputs))

"""Integer Winograd kernels: 3x3 convolutions of stride 1 with a quarter of the multiplications, exact to the last bit.

F(4x4, 3x3) computes 4x4 outputs of a channel from 6x6 inputs d and 3x3 weights g (Lavin and Gray, 2016):

    y = A^T [(G g G^T) ⊙ (B^T d B)] A

summed over the input channels before the output transform, so that the products ⊙ are 36 matrix products, one for each
place of the 6x6 transformed input: [tiles, C] · [C, O]. B and A hold integers; G holds fractions. `SCALES` make
each row of G integer; row i of A^T's columns is multiplied by 24 / SCALES[i] in return:

    (Â^T M Â) = 24² · y = 576 · y,   with Â^T = A^T · diag(24 / SCALES) and Ĝ = diag(SCALES) · G integer

Why this is exact:

* Data minus zero point lie in [−255, 255], so B^T d B lies within 100 · 255 = 25,500 (each row of B^T sums to at most
  10 in magnitude), and fits i16. So do transformed weights, within 144 · 128 = 18,432 (each row
  of Ĝ within 12).
* All sums of products, and the output transform, are computed modulo 2^32, in any order, so overflow does no harm.
* 576 · y = 9 · 64 · y, and 9 is odd: multiplied by its inverse modulo 2^32, the result is 64 · y modulo 2^32. If
  |y| < 2^25, then 64 · y fits i32, and a shift by 6 bits gives y. Weights and bias prove the bound (`why_not`).
* The bias, times 576, is added to the plane of the point (1, 1), whose number is a term of each output.

Two kernels share the work. The first writes the transformed input, i16, to a buffer; the second multiplies a block of
tiles by all weights, a block of output channels at a time, transforms, and finishes as other contractions do:

    for tiles:                  for 16 channels:        V[p, tile, c] = (B^T d B)[p]          p = 0 … 35
    for a block of tiles:       for 16 or 32 outputs:
        for p:                      M[p, tile, o] = Σ_c V[p, tile, c] · U[o, p, c]             in scratch memory
        for each tile:              y = finish((Â^T M Â) · 9⁻¹ >> 6)                           with the bias in M

Where the weights are more than the data, the loops over tiles and outputs change places: each block of weights is read
once, and while all tiles use it, each step asks for some of the next block.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import MemRefType, i8, i16, i32
from xdsl.ir import SSAValue

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernels.interfaces import Arithmetic, Epilogue, FinishedKernel
from qmlir.codegen.kernels.packing import Rows, Tile, Window, choose_tile, copy_pixels, pack_weights, pad_channels
from qmlir.codegen.kernels.task import Task
from qmlir.codegen.lowering import SCRATCH_LIMIT, Array, Kernel, MainLowering
from qmlir.codegen.machine import Capabilities
from qmlir.codegen.value import Value
from qmlir.numerics.packing import BYTE

OUTPUTS, INPUTS = 4, 6
"""A tile computes OUTPUTS x OUTPUTS outputs from INPUTS x INPUTS inputs."""

PLANES = INPUTS * INPUTS
"""The places of a transformed tile."""

LANES = 16
"""Channels of a vector: input channels of i16, and output channels of a block."""

ROWS = 6
"""Tiles of LANES output channels whose sums stay in registers while they share each load of weights."""

NEAR = 1 << 20
"""Bytes of transformed weights that stay in a second-level cache from one call of a network to the next."""

READ, READ_FAR = 3, 9
"""Products that take as long as the steps on a weight take besides, and as long as reading one from far memory."""

PADDING = 32
"""Elements between the planes of V: planes a power of two apart would fall on the same lines of a cache."""

SCALES = (24, 24, 24, 24, 24, 12)
"""The factors that make the rows of G integer, and the other factors of the sums as simple as i16 allows."""

SCALED_G = np.array([[6, 0, 0], [-4, -4, -4], [-4, 4, -4], [1, 2, 4], [1, -2, 4], [0, 0, 12]])
"""diag(SCALES) · G."""

FACTOR = 24 * 24
"""What the transformed sums are multiplied by."""

OF_ONE = INPUTS + 1
"""The plane of the point (1, 1), which is added to every output as it is."""

INVERSE_OF_9 = pow(9, -1, 1 << 32)
"""9⁻¹ modulo 2^32; it fits i32."""

LIMIT = 1 << 25
"""A bound of |y| for which 64 · y fits i32."""


def of_input(d: Sequence[Value]) -> list[Value]:
    """B^T d for six vectors of i16."""
    d0, d1, d2, d3, d4, d5 = d
    fours, twos = d4 - (d2 << 2), d3 - (d1 << 2)
    rest, odd = d4 - d2, (d3 - d1) << 1
    return [
        (d0 << 2) - ((d2 << 2) + d2) + d4,
        fours + twos,
        fours - twos,
        rest + odd,
        rest - odd,
        (d1 << 2) - ((d3 << 2) + d3) + d5,
    ]


def of_sums(m: Sequence[Value]) -> list[Value]:
    """Â^T m for six vectors of i32; the columns of A^T are multiplied by 24 / SCALES = (1, 1, 1, 1, 1, 2)."""
    m0, m1, m2, m3, m4, m5 = m
    even, odd = m1 + m2, m1 - m2
    far, skew = m3 + m4, m3 - m4
    return [
        m0 + even + far,
        odd + (skew << 1),
        even + (far << 2),
        odd + (skew << 3) + (m5 << 1),
    ]


def of_weights(weights: Array) -> Array:
    """Transforms weights [O, 3, 3, C] to Ĝ g Ĝ^T, int16 [O, 6, 6, C].

    Products of float32 matrices are exact here, and the fastest: no sum exceeds 144 · 128.
    """
    by_place = np.moveaxis(weights, 0, 2).reshape(9, -1)  # [3 · 3, O · C]
    transformed = np.kron(SCALED_G, SCALED_G).astype(np.float32) @ by_place.astype(np.float32)
    planes = transformed.astype(np.int16).reshape(INPUTS, INPUTS, weights.shape[0], weights.shape[3])
    return np.moveaxis(planes, 2, 0)


def why_not(task: Task[Arithmetic], at_once: int) -> str:
    """Why the kernels do not suit a contraction: they are not exact, or probably slower; empty if they suit.

    Args:
        task: A contraction whose input, minus the zero point, is i16.
        at_once: Products that the sum over the window adds in the time of one product of i16.
    """
    window, weights = task.window, task.weights
    if (window.extent, window.strides, window.dilations) != ((3, 3), (1, 1), (1, 1)):
        return "the window is not 3x3 of stride 1"
    if not task.is_plain or isinstance(weights, SSAValue):
        return "weights are computed, grouped or scaled"
    if task.levels.bits < BYTE:
        return "transformed weights take 16 bits"
    outputs, channels = task.outputs, window.channels
    if outputs == 0 or channels == 0 or outputs % LANES or channels % LANES:
        return f"channels are no multiples of {LANES}"
    if task.arithmetic.sums != i32 or task.largest > 255 or _largest_sum(task, weights) >= LIMIT:
        return "sums may leave their bound"
    if _scratch(task) is None:
        return "a tile exceeds scratch memory"
    return "" if _is_faster(window, channels, outputs, at_once) else "its transforms take longer than they save"


def _largest_sum(task: Task[Arithmetic], weights: Array) -> int:
    """A bound of |y|: on the other side of the zero point, where weights of the other sign count, data reach less far.

    Behind a ReLU, whose zero point is the least datum, the weights of one sign reach the bound by themselves.
    """
    assert not isinstance(task.bias, SSAValue)
    others = 255 - task.largest if task.element == i8 else task.largest
    weights = weights.astype(np.int64)
    signs = np.stack([np.maximum(of_sign, 0).sum(axis=(1, 2, 3)) for of_sign in (weights, -weights)])
    products = int((signs.max(axis=0) * task.largest + signs.min(axis=0) * others).max())
    return products + (0 if task.bias is None else int(np.abs(task.bias.astype(np.int64)).max(initial=0)))


def lanes_of(outputs: int, machine: Capabilities) -> int:
    """The output channels of a block: two vectors share each datum where registers hold the sums of both."""
    wide = machine.sum_bits >= 2 * ROWS * 2 * LANES * 32
    return 2 * LANES if wide and outputs % (2 * LANES) == 0 else LANES


def _scratch(task: Task[Arithmetic]) -> Tile | None:
    """The tile of the transformed input; None if it exceeds scratch memory."""
    window = task.window
    inputs = replace(window, extent=(INPUTS, INPUTS), output=tiles_of(window), strides=(OUTPUTS, OUTPUTS))
    return choose_tile(inputs, window.channels, i16, 1)


def _is_faster(window: Window, channels: int, outputs: int, at_once: int) -> bool:
    """Compares costs in products of i16: those of matrix products, and those that take as long as the other work.

    Measured on Zen 3: the transforms of a tile take as long as 150 products for each input channel, and 220 for each
    output channel; reading a weight from memory takes as long as 9. Zen 4 with VNNI agrees: beside vpdpbusd,
    56x56x64, 28x28x128, 14x14x256 and 8x8x64 take 0.65, 0.58, 0.69 and 0.58 of the time, 4x4x64 takes 1.4 times as
    long, and 6x6x128 as long.
    """
    pixels, tiles = window.batch * prod(window.output), window.batch * prod(tiles_of(window))
    per_item, _ = blocks_of_tiles(tiles, LANES)
    weights = PLANES * channels * outputs
    steps = per_item * -(-tiles // per_item) + READ
    if 2 * weights > NEAR:
        steps = max(steps, READ_FAR)
    direct = 9 * pixels * channels * outputs // at_once
    return weights * steps + tiles * (150 * channels + 220 * outputs) < direct


@dataclass(frozen=True)
class TransformInput(Kernel):
    """V[p, tile, c] = (B^T d B)[p] for 6x6 inputs d of each tile and channel; an item is some tiles of a row of tiles.

    Buffers: x [N·H, W·C], V [36, tiles · C + PADDING]. The tile's window is the 6x6 inputs, which advance by 4.

    lanes   channels that are transformed together
    """

    name: str
    tile: Tile
    arithmetic: Arithmetic
    lanes: int

    @property
    def symbol(self) -> str:
        return self.name

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, v = buffers
        tile, channels, (rows, columns) = self.tile, self.tile.channels, self.tile.window.output
        memory = tile.allocate(code)
        copy = copy_pixels(code, x, tile, Rows(memory), self.arithmetic)
        with code.loop(begin, end, name="item") as item:
            line, first = item // tile.per_row, item % tile.per_row * tile.outputs
            tile.fill(code, Rows(memory), line // rows, line % rows, first, copy)
            count = (columns - first).minimum(tile.outputs)
            with code.loop(0, count, name="tile") as t, code.loop(0, channels, self.lanes, name="c") as c:
                left = t * (OUTPUTS * channels) + c
                half = [
                    of_input([memory.load(i, left + j * channels, lanes=self.lanes) for i in range(INPUTS)])
                    for j in range(INPUTS)
                ]
                place = (line * columns + first + t) * channels + c
                for i in range(INPUTS):
                    for j, value in enumerate(of_input([column[i] for column in half])):
                        v.store(value, i * INPUTS + j, place)


@dataclass(frozen=True)
class Winograd(FinishedKernel):
    """y = finish(bias + the convolution), from the transformed input and weights.

    An item is a block of output channels of a block of tiles.

    Buffers: V [36, tiles · C + PADDING], U [blocks · 36 · C · lanes], 576 · bias modulo 2^32, [blocks · lanes], if
    `has_bias`, the epilogue's parameters, y [N·OH, OW, O].

    tiles     rows and columns of tiles of an image
    output    rows, columns and channels of an output image
    lanes     output channels of a block
    per_item  tiles of a block
    together  tiles multiplied together, of which a block of tiles has a multiple: they share each load of weights, and
              their sums stay in registers
    by_blocks whether all blocks of tiles are computed for one block of channels before the next, for whose weights
              each step asks ahead; otherwise all blocks of channels for one block of tiles
    finished  output channels that are transformed and finished together
    """

    DATA = ("v", "u")

    name: str
    batch: int
    tiles: tuple[int, int]
    channels: int
    output: tuple[int, int, int]
    lanes: int
    per_item: int
    together: int
    by_blocks: bool
    finished: int
    epilogue: Epilogue
    has_bias: bool

    @property
    def count(self) -> int:
        """The number of tiles of all images."""
        return self.batch * self.tiles[0] * self.tiles[1]

    @property
    def tile_blocks(self) -> int:
        """The number of blocks of tiles."""
        return -(-self.count // self.per_item)

    @property
    def blocks(self) -> int:
        """The number of blocks of output channels."""
        return self.output[2] // self.lanes

    @property
    def items(self) -> int:
        """The number of iterations of the parallel loop."""
        return self.tile_blocks * self.blocks

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        v, u, bias, parameters, y = self.roles(buffers)
        sums = code.scratch((PLANES, self.per_item * self.lanes), i32, "sums")
        with code.loop(begin, end, name="item") as item:
            if self.by_blocks:
                block, part = item // self.tile_blocks, item % self.tile_blocks
            else:
                part, block = item // self.blocks, item % self.blocks
            first, o = part * self.per_item, block * self.lanes
            last = (self.count - first).minimum(self.per_item)
            with code.loop(0, PLANES, name="plane") as plane:
                self._multiply(code, v, u, sums, plane, part, block)
            with code.loop(0, last, name="tile") as t, code.loop(0, self.lanes, self.finished, name="lane") as lane:
                values = [sums.load(p, t * self.lanes + lane, lanes=self.finished) for p in range(PLANES)]
                if bias:
                    values[OF_ONE] = values[OF_ONE] + bias.load(o + lane, lanes=self.finished)
                own = [p.load(o + lane, lanes=self.finished) for p in parameters]
                self._finish(code, values, own, y, first + t, o + lane)

    def _multiply(
        self, code: Code, v: Buffer, u: Buffer, sums: Buffer, plane: Value, part: Value, block: Value
    ) -> None:
        """M[plane, tile, o] for a block of tiles and a block of output channels."""
        steps, size = self.channels // 2, 2 * self.lanes
        before = (block * PLANES + plane) * steps
        zero = code.zeros(i32, self.lanes)
        groups = self.per_item // self.together
        # All steps of a block of channels ask for the next block together, each for an equal part.
        pace = -(-size // (self.tile_blocks * groups))
        ahead = (block + 1) * (PLANES * steps * size)

        with code.loop(0, groups, name="group") as group:
            tile = group * self.together
            place = (part * self.per_item + tile) * self.channels
            done = ((part * PLANES + plane) * groups + group) * steps

            def step(k: Value, totals: list[Value]) -> Sequence[Value]:
                if self.by_blocks:
                    code.prefetch(u, ahead + (done + k) * pace)
                weights = u.chunk(before + k, size)
                found: list[Value] = []
                for i, total in enumerate(totals):
                    pair = v.load(plane, place + i * self.channels + k * 2, lanes=2).bits(i32).lane(0)
                    found.append(code.dot_pairs(total, pair.spread(self.lanes).bits(i16), weights))
                return found

            for i, total in enumerate(code.fold(0, steps, [zero] * self.together, step, "k")):
                sums.store(total, plane, (tile + i) * self.lanes)

    def _finish(
        self,
        code: Code,
        sums: Sequence[Value],
        parameters: Sequence[Value],
        y: Buffer,
        tile: Value,
        o: Value,
    ) -> None:
        """Transforms the sums of one tile, and finishes and stores its outputs that lie inside the image."""
        rows, columns, _ = self.output
        down, across = self.tiles
        image, line = tile // (down * across), tile // across % down
        row, column = line * OUTPUTS, tile % across * OUTPUTS
        half = [of_sums(sums[j::INPUTS]) for j in range(INPUTS)]
        for i in range(OUTPUTS):
            for j, scaled in enumerate(of_sums([values[i] for values in half])):

                def finish(i: int = i, j: int = j, scaled: Value = scaled) -> None:
                    total = (scaled * INVERSE_OF_9) >> 6
                    y.store(self.epilogue.finish(total, parameters), image * rows + row + i, column + j, o)

                if rows % OUTPUTS == 0 and columns % OUTPUTS == 0:
                    finish()
                    continue
                inside = (row + i).less(rows)
                inside = inside if columns % OUTPUTS == 0 else inside & (column + j).less(columns)
                with code.when(inside):
                    finish()


def blocks_of_tiles(count: int, lanes: int) -> tuple[int, int]:
    """The tiles of a block, and how many of them are multiplied together, for `lanes` output channels.

    Blocks are as even as fit scratch memory, and those that leave the fewest tiles over come first. A group takes the
    time of one tile besides that of its own.
    """
    most, together = SCRATCH_LIMIT // (PLANES * lanes * 4), ROWS * lanes // LANES

    def cost(block: tuple[int, int]) -> tuple[int, int]:
        groups, rows = block
        return -(-count // (groups * rows)) * groups * (rows + 1), -groups * rows

    fitting = [
        (n, rows) for rows in range(1, together + 1) for n in range(1, most // rows + 1) if (n - 1) * rows < count
    ]
    groups, rows = min(fitting, key=cost)
    return groups * rows, rows


def tiles_of(window: Window) -> tuple[int, int]:
    """Rows and columns of tiles of an output image."""
    rows, columns = window.output
    return -(-rows // OUTPUTS), -(-columns // OUTPUTS)


def lower_winograd(state: MainLowering, task: Task[Arithmetic]) -> None:
    """Calls the two kernels for a contraction that they suit."""
    window, tiles, tile, weights = task.window, tiles_of(task.window), _scratch(task), task.weights
    assert tile is not None
    assert not isinstance(weights, SSAValue)
    channels, machine = window.channels, state.machine
    lanes = lanes_of(task.outputs, machine)
    count = window.batch * prod(tiles)
    per_item, together = blocks_of_tiles(count, lanes)
    wide = machine.wide_words
    at_once, finished = (2 * LANES if wide and channels % (2 * LANES) == 0 else LANES), (LANES if wide else LANES // 2)
    kernel = Winograd(
        name=task.name,
        batch=window.batch,
        tiles=tiles,
        channels=channels,
        output=(*window.output, task.outputs),
        lanes=lanes,
        per_item=per_item,
        together=together,
        by_blocks=task.outputs > count,
        finished=finished,
        epilogue=task.epilogue,
        has_bias=task.bias is not None,
    )
    v = state.allocate(MemRefType(i16, (PLANES, kernel.tile_blocks * per_item * channels + PADDING)))
    x = state.view(task.x, (window.batch * window.height, window.width * channels))
    state.call(TransformInput(f"{task.name}_input", tile, task.arithmetic, at_once), [x, v], tile.items)
    packed = pack_weights(of_weights(weights), lanes, 2)
    assert not isinstance(task.bias, SSAValue)
    bias = [] if task.bias is None else [(task.bias.astype(np.int64) * FACTOR).astype(np.int32)]
    buffers = [state.constant(pad_channels(given, lanes)) for given in (*bias, *task.parameters)]
    y = state.allocate_result(task.result)
    target = state.view(y, (window.batch * window.output[0], window.output[1], task.outputs))
    state.call(kernel, [v, state.constant(packed), *buffers, target], kernel.items)
    state.replace(task.result, y)

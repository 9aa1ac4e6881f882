"""Packs operands in the layout that contraction kernels read: constants with numpy, computed tensors with kernels."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np
from xdsl.dialects.builtin import MemRefType
from xdsl.ir import SSAValue

from qmlir.codegen.code import Buffer, Code
from qmlir.codegen.kernel import Array, Kernel, MainLowering, memref_shape
from qmlir.codegen.kernels.arithmetic import Arithmetic
from qmlir.codegen.kernels.tile import Rows, Tile, Window, copy_pixels
from qmlir.codegen.value import Value


def pack_weights(weights: Array, lanes: int, group: int, groups: int = 1) -> Array:
    """Packs weights [O, KH, KW, C] to [blocks, KH, KW, C' / group, lanes, group], flattened.

    Output channels are divided into `groups`; each group starts with a new block.
    """
    outputs, rows, columns, channels = weights.shape
    split = weights.reshape(groups, outputs // groups, rows, columns, channels)
    padding = ((0, 0), (0, -split.shape[1] % lanes), (0, 0), (0, 0), (0, -channels % group))
    padded = np.pad(split, padding)
    steps = padded.reshape(-1, lanes, rows, columns, padded.shape[4] // group, group)
    return np.ascontiguousarray(steps.transpose(0, 2, 3, 4, 1, 5)).reshape(-1)


def pad_channels(parameters: Array, lanes: int, groups: int = 1) -> Array:
    """Pads parameters [O] to [blocks · lanes], with zeros after the last channel of each of the `groups`."""
    split = parameters.reshape(groups, -1)
    return np.pad(split, ((0, 0), (0, -split.shape[1] % lanes))).reshape(-1)


def choose_lanes(outputs: int) -> int:
    """The output channels of a block: the least of 4, 8 and 16 that holds all outputs, else 16."""
    return next((lanes for lanes in (4, 8) if outputs <= lanes), 16)


@dataclass(frozen=True)
class PackColumns(Kernel):
    """out[(b, block), k div group, lane, k mod group] = prepare(x[b, k, block · lanes + lane]); zero beyond K and N.

    Buffers: x [B, K, N] ([B, N, K] if `transposed`), out [B · blocks, steps · lanes · group].
    """

    name: str
    columns: int
    lanes: int
    arithmetic: Arithmetic
    transposed: bool = False

    @property
    def symbol(self) -> str:
        return self.name

    @property
    def blocks(self) -> int:
        """The number of blocks of columns."""
        return -(-self.columns // self.lanes)

    def write(self, code: Code, buffers: Sequence[Buffer], begin: Value, end: Value) -> None:
        x, out = buffers
        rows, length, group = x.shape[2 if self.transposed else 1], out.shape[1], self.arithmetic.group
        with code.loop(begin, end, name="item") as item:
            batch, block = item // self.blocks, item % self.blocks
            first = block * self.lanes
            valid = (self.columns - first).minimum(self.lanes)
            if self.columns % self.lanes or rows % group:
                code.spans(0, length, lambda i, lanes: out.store(code.zeros(out.element, lanes), item, i))
            with code.loop(0, rows, name="k") as k:
                place = k // group * (self.lanes * group) + k % group
                with code.loop(0, valid, name="lane") as lane:
                    column = first + lane
                    value = x.load(batch, column, k) if self.transposed else x.load(batch, k, column)
                    out.store(self.arithmetic.prepare(value), item, place + lane * group)


def pack_columns(
    state: MainLowering, name: str, x: SSAValue, arithmetic: Arithmetic, *, transposed: bool = False
) -> SSAValue:
    """Packs a buffer [B…, K, N] ([B…, N, K] if `transposed`) by a kernel, and returns the packed, flat buffer."""
    *batch, rows, columns = memref_shape(x)
    if transposed:
        rows, columns = columns, rows
    kernel = PackColumns(name, columns, choose_lanes(columns), arithmetic, transposed)
    count = prod(batch)
    steps = -(-rows // arithmetic.group)
    out = state.allocate(
        MemRefType(arithmetic.element, (count * kernel.blocks, steps * kernel.lanes * arithmetic.group))
    )
    matrices = (count, columns, rows) if transposed else (count, rows, columns)
    state.call(kernel, [state.view(x, matrices), out], count * kernel.blocks)
    return state.view(out, (count * kernel.blocks * steps * kernel.lanes * arithmetic.group,))


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
            copy = copy_pixels(code, x, self.tile, Rows(out, item), self.arithmetic.prepare)
            self.tile.fill(code, Rows(out, item), item // rows, item % rows, code.index(0), copy)


def prepare_image(
    state: MainLowering, name: str, window: Window, channels: int, arithmetic: Arithmetic, x: SSAValue
) -> tuple[SSAValue, Window]:
    """Calls the kernel that prepares and pads a whole input.

    Returns:
        The prepared input's buffer, and the window over it, which has no padding.
    """
    sizes = [
        (count - 1) * stride + (extent - 1) * dilation + 1
        for count, stride, extent, dilation in zip(
            window.output, window.strides, window.extent, window.dilations, strict=True
        )
    ]
    height, width = sizes
    images = prod(memref_shape(x)) // (window.height * window.width * window.channels)
    pixels = Window(images, window.height, window.width, window.channels, (1, 1), (height, width), origin=window.origin)
    out = state.allocate(MemRefType(arithmetic.element, (images * height, width * channels)))
    source = state.view(x, (images * window.height, window.width * window.channels))
    kernel = PrepareImage(name, Tile(pixels, width, channels, arithmetic.element), arithmetic)
    state.call(kernel, [source, out], images * height)
    return out, replace(window, height=height, width=width, channels=channels, origin=(0, 0))

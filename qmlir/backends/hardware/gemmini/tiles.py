"""Tiles of convolutions: how much of one a loop computes at once in half of Gemmini's memories."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from qmlir.backends.hardware.gemmini.words import ACCUMULATOR_ROWS, DIM, SCRATCHPAD_ROWS

HALF, HALF_SUMS = SCRATCHPAD_ROWS // 2, ACCUMULATOR_ROWS // 2

SIZES = (512, 256, 128, 64, 48, 32, 16)
"""Channels and columns of tiles that are tried, beside all of them."""


def blocks(size: int) -> int:
    """How many blocks of 16 hold so many elements."""
    return -(-size // DIM)


@dataclass(frozen=True)
class Windows:
    """What a convolution's windows are: a result [rows, columns, outputs] of sums over `inputs` channels.

    kernel    rows and columns of a window
    stride    from window to window, in rows and in columns
    dilation  from element to element of a window
    pixels    neighbours of a row that are multiplied at once
    """

    rows: int
    columns: int
    inputs: int
    outputs: int
    kernel: tuple[int, int]
    stride: tuple[int, int]
    dilation: int
    pixels: int

    def reach(self, axis: int) -> int:
        """Rows (columns) from a window's first to its last."""
        return (self.kernel[axis] - 1) * self.dilation + 1


@dataclass(frozen=True)
class Tile:
    """How much one loop computes."""

    rows: int
    columns: int
    inputs: int
    outputs: int

    def extent(self, of: Windows) -> tuple[int, int]:
        """Rows and columns that the loop holds of the image: for each result a whole stride."""
        return self.rows * of.stride[1] + of.reach(0) - 1, self.columns * of.stride[1] + of.reach(1) - 1

    def fits(self, of: Windows) -> bool:
        """Whether it fits half of the scratchpad and half of the accumulator."""
        tall, wide = self.extent(of)
        held = blocks(self.inputs) * tall * wide
        held += blocks(self.outputs) * of.kernel[0] * of.kernel[1] * self.inputs
        return held <= HALF and blocks(self.outputs) * self.rows * self.columns <= HALF_SUMS

    def cycles(self, of: Windows) -> int:
        """What all loops take by a plain count: a row of 16 bytes a cycle on the bus, a row of A in the array."""
        tall, wide = self.extent(of)
        taps = of.kernel[0] * -(-of.kernel[1] // of.pixels)
        passes = blocks(self.inputs) * blocks(self.outputs) * taps * self.rows * blocks(self.columns)
        loaded = blocks(self.inputs) * tall * wide
        loaded += blocks(self.outputs) * of.kernel[0] * of.kernel[1] * self.inputs
        stored = blocks(self.outputs) * self.rows * self.columns
        places = -(-of.rows // self.rows) * -(-of.columns // self.columns) * -(-of.outputs // self.outputs)
        steps = -(-of.inputs // self.inputs)
        return places * (steps * max(loaded, passes * min(max(self.columns, 4), DIM)) + 4 * stored)


@lru_cache(maxsize=256)
def tile_of(of: Windows) -> Tile | None:
    """The tile that takes the fewest cycles; None if none fits."""
    return min(_tiles(of), key=lambda tile: tile.cycles(of), default=None)


def _tiles(of: Windows) -> Iterator[Tile]:
    for inputs in _sizes(of.inputs) if of.pixels == 1 else (of.inputs,):
        for outputs in _sizes(of.outputs):
            for columns in _sizes(of.columns):
                least = Tile(1, columns, inputs, outputs)
                most = 1 if of.stride[0] != of.stride[1] else min(of.rows, HALF_SUMS // (blocks(outputs) * columns))
                while most > 1 and not replace(least, rows=most).fits(of):
                    most -= 1
                if most and least.fits(of):
                    parts = -(-of.rows // most)
                    yield replace(least, rows=-(-of.rows // parts))


def _sizes(whole: int) -> list[int]:
    return [whole, *(size for size in SIZES if size < whole)]

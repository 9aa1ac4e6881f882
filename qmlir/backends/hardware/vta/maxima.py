"""Maxima of windows as instructions.

The vector unit compares sums, and only the array makes sums of data: each vector is multiplied with the identity. Loads
pad with 0, which may be the maximum of what is below 0, so data are brought without padding and the padding is made.
"""

from collections.abc import Iterator, Sequence
from itertools import product

from qmlir.backends.hardware.vta.epilogue import Act, Immediate, Refusal
from qmlir.backends.hardware.vta.instructions import Alu, Buffer, Gemm, Load, MicroOp, Operation
from qmlir.backends.hardware.vta.products import (
    DATA,
    MOST_STEP,
    SUMS,
    WEIGHTS,
    Constants,
    Places,
    diagonal,
    with_micro_ops,
)
from qmlir.backends.hardware.vta.stream import Part, Piece
from qmlir.backends.hardware.vta.windows import Span, Tile, Windows, data_load, even, stores, tiles

LEAST = -128


class Maxima:
    """The parts of a layer that begins with maxima of windows.

    Args:
        windows: What each result reads.
        number: The blocks of channels.
        acts: What becomes of the maxima, in order: operations with numbers.
        constants: Gets micro-ops and the identity.

    Raises:
        Refusal: No part of the result fits the buffers, or there is an act that is no operation with a number.
    """

    def __init__(self, windows: Windows, number: int, acts: Sequence[Act], constants: Constants):
        self.windows, self.number, self.constants = windows, number, constants
        self.acts = [act for act in acts if isinstance(act, Immediate)]
        if len(self.acts) != len(acts):
            raise Refusal("VTA computes maxima and their scale alone, got another tensor behind them")
        self.size = self._chosen()
        self._identity = constants.weights(diagonal(1, number).tiles)

    def _chosen(self) -> tuple[int, int, int]:
        """Blocks, rows and columns of a part: the most that fit, whole rows first."""
        rows, columns = self.windows.result
        for wide in even(columns):
            for high in even(rows):
                plane = self.windows.extent(0, high) * self.windows.extent(1, wide)
                if self.windows.stride[0] * self.windows.extent(1, wide) > MOST_STEP:
                    continue
                if not self.windows.all_read(high, wide):
                    continue
                if most := min(DATA // plane, SUMS // (plane + high * wide), self.number):
                    return most, high, wide
        raise Refusal(f"VTA's buffers hold no window of {self.windows.kernel[0]}x{self.windows.kernel[1]} elements")

    def parts(self) -> Iterator[Part]:
        """Yields the parts of the result."""
        divided = list(tiles((self.number, *self.windows.result), self.size))
        for n, (places, tile) in enumerate(product(self.constants.places.each, divided)):
            yield self._part(places, tile, n % 2)

    def _part(self, places: Places, tile: Tile, turn: int) -> Part:
        windows, blocks = self.windows, range(*tile.blocks)
        rows, columns = windows.span(0, tile.rows[0], tile.height), windows.span(1, tile.columns[0], tile.width)
        plane, held = rows.extent * columns.extent, rows.size * columns.size
        best = turn * SUMS
        copy = best + tile.number * tile.pixels
        piece = Piece()
        bare = [Span(span.first, span.size, 0, 0) for span in (rows, columns)]
        piece.loads += [
            data_load(places.inputs[0], block, windows.data, bare, turn * DATA + n * held)
            for n, block in enumerate(blocks)
        ]
        piece.loads.append(Load(memory=Buffer.WEIGHTS, buffer_address=turn * WEIGHTS, address=self._identity, stride=1))
        piece.computed += self._least(best, tile.number * tile.pixels)
        if plane > held:
            piece.computed += self._least(copy, tile.number * plane)
        inside = copy + rows.before * columns.extent + columns.before
        micro_ops = [MicroOp(inside + n * plane, turn * DATA + n * held, turn * WEIGHTS) for n in range(tile.number)]
        loops = {"outer": rows.size, "inner": columns.size, "to_outer": columns.extent, "to_inner": 1}
        piece.computed += self._looped(micro_ops, Gemm(reset=1, **loops))
        piece.computed += self._looped(micro_ops, Gemm(**loops, from_outer=columns.size, from_inner=1))
        for tap in windows.taps(columns.extent):
            step = Alu(
                operation=Operation.MAX, outer=tile.height, inner=tile.width, to_outer=tile.width, to_inner=1,
                from_outer=windows.stride[0] * columns.extent, from_inner=windows.stride[1],
            )  # fmt: skip
            some = [MicroOp(best + n * tile.pixels, copy + n * plane + tap) for n in range(tile.number)]
            piece.computed += self._looped(some, step)
        for act in self.acts:
            piece.computed += self._step(best, tile.number * tile.pixels, act.operation, act.value)
        return Part([piece], stores(tile, windows.result, best, places.output))

    def _looped(self, some: Sequence[MicroOp], step: Gemm | Alu) -> list[Load | Gemm | Alu]:
        return with_micro_ops(self.constants.micro_ops, some, step)

    def _step(self, at: int, number: int, operation: Operation, value: int) -> list[Load | Gemm | Alu]:
        step = Alu(operation=operation, immediate=1, value=value, inner=number, to_inner=1, from_inner=1)
        return self._looped([MicroOp(at, at)], step)

    def _least(self, at: int, number: int) -> list[Load | Gemm | Alu]:
        """Makes sums the least number of 8 bits."""
        reset = self._looped([MicroOp(at)], Gemm(reset=1, inner=number, to_inner=1))
        return [*reset, *self._step(at, number, Operation.ADD, LEAST)]

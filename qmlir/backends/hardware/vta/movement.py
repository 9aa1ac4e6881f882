"""Data that move as instructions: each vector of the result gathers lanes of vectors of the inputs.

The array does it: a tile whose rows select lanes, one number of 1 in each, multiplies a vector that holds some of the
result's elements. A result whose elements lie in several vectors is the sum of as many products.
"""

from collections.abc import Iterator, Sequence

import numpy as np

from qmlir.backends.hardware.vta.epilogue import Refusal
from qmlir.backends.hardware.vta.instructions import Alu, Buffer, Gemm, Load, MicroOp, Operation, Store
from qmlir.backends.hardware.vta.layout import LANES, from_vectors, to_vectors, vectors_of
from qmlir.backends.hardware.vta.products import DATA, SUMS, WEIGHTS, Constants, with_micro_ops
from qmlir.backends.hardware.vta.stream import Part, Piece
from qmlir.devices.model.layer import Movement, Tensor
from qmlir.numerics import Array

NOTHING = -1
"""The source of an element that is 0."""

MOST_STEPS = 4096
"""Steps of a part: half of the micro-ops on the chip."""


def moved(step: Movement, inputs: Sequence[Array]) -> Array:
    """What a movement makes of tensors, which have the shapes that the network gives them; new elements are `NOTHING`.

    Raises:
        Refusal: New elements are not 0.
    """
    x, numbers = inputs[0], step.numbers
    match step.kind:
        case "reshape":
            return x.reshape(step.shapes[-1])
        case "transpose":
            return x.transpose(numbers["permutation"])
        case "broadcast":
            return np.broadcast_to(x, step.shapes[-1])
        case "concat":
            return np.concatenate(inputs, numbers["axis"][0])
        case "slice":
            for axis, (offset, size, stride) in enumerate(
                zip(numbers["offsets"], numbers["sizes"], numbers["strides"], strict=True)
            ):
                x = x.take(offset + stride * np.arange(size), axis)
            return x
        case "pad":
            if numbers.get("value", (0,)) != (0,):
                raise Refusal(f"VTA pads with 0, got {numbers['value'][0]}")
            pads = list(zip(numbers["low"], numbers["high"], strict=True))
            return np.pad(x, pads, constant_values=NOTHING)
        case _:
            raise Refusal(f"VTA has no instructions for a {step.kind}")


def sources(step: Movement, inputs: Sequence[Tensor], output: Tensor) -> Array:
    """Of each element of the result's vectors [vectors, 16]: its place among the elements of all inputs' vectors.

    Elements of the inputs are counted through their vectors, one input behind the other.
    """
    given, first = list[Array](), 0
    for tensor, shape in zip(inputs, step.shapes, strict=False):
        number = vectors_of(tensor.shape) * LANES
        places = from_vectors(first + np.arange(number), tensor.shape)
        given.append(places.reshape(shape))
        first += number
    result = moved(step, given).reshape(output.shape)
    return to_vectors(result, NOTHING).reshape(-1, LANES)


class Gathered:
    """The parts of a layer that moves data.

    Args:
        step: The movement.
        inputs: Its inputs.
        output: Its result.
        constants: Gets micro-ops and the tiles that select lanes.

    Raises:
        Refusal: The movement is none that selects elements, or a vector's elements lie too far apart.
    """

    def __init__(self, step: Movement, inputs: Sequence[Tensor], output: Tensor, constants: Constants):
        self.constants = constants
        self._sources = sources(step, inputs, output)
        self._firsts = np.cumsum([0, *(vectors_of(tensor.shape) for tensor in inputs)])
        self._ranges = list(self._divided())

    def _divided(self) -> Iterator[tuple[int, int]]:
        """Yields ranges of the result's vectors whose sources and tiles fit."""
        first, held, tiles, steps = 0, set[int](), set[bytes](), 0
        for n, row in enumerate(self._sources):
            found = _selections(row)
            more, most = held | {vector for vector, _ in found}, tiles | {tile for _, tile in found}
            steps += len(found)
            full = len(more) > DATA or len(most) > WEIGHTS or n - first + 1 > SUMS or steps > MOST_STEPS
            if full and n > first:
                yield first, n
                first, steps = n, len(found)
                more, most = {vector for vector, _ in found}, {tile for _, tile in found}
            held, tiles = more, most
        yield first, len(self._sources)

    def parts(self) -> Iterator[Part]:
        """Yields the parts of the result."""
        for n, (first, end) in enumerate(self._ranges):
            yield self._part(first, end, n % 2)

    def _part(self, first: int, end: int, turn: int) -> Part:
        piece, at = Piece(), turn * SUMS
        steps = [_selections(row) for row in self._sources[first:end]]
        wanted = sorted({vector for some in steps for vector, _ in some})
        where = {vector: turn * DATA + n for n, vector in enumerate(wanted)}
        for vector, number in _runs(wanted, self._firsts.tolist()):
            owner = int(np.searchsorted(self._firsts, vector, "right")) - 1
            address = self.constants.places.inputs[owner] + vector - int(self._firsts[owner])
            piece.loads.append(
                Load(
                    memory=Buffer.DATA, buffer_address=where[vector], address=address, columns=number, stride=number
                )
            )  # fmt: skip
        tiles = list(dict.fromkeys(tile for some in steps for _, tile in some))
        selecting = np.frombuffer(b"".join(tiles), np.int8).reshape(-1, LANES, LANES)
        address = self.constants.weights(selecting)
        piece.loads.append(
            Load(
                memory=Buffer.WEIGHTS, buffer_address=turn * WEIGHTS, address=address, columns=len(tiles),
                stride=len(tiles),
            )
        )  # fmt: skip
        tile_at = {tile: turn * WEIGHTS + n for n, tile in enumerate(tiles)}
        held = self.constants.micro_ops
        piece.computed += with_micro_ops(held, [MicroOp(at)], Gemm(reset=1, inner=end - first, to_inner=1))
        if not all(steps):  # a reset leaves other numbers in the results than in the sums
            zero = Alu(operation=Operation.ADD, immediate=1, inner=end - first, to_inner=1)
            piece.computed += with_micro_ops(held, [MicroOp(at)], zero)
        for depth in range(max(map(len, steps), default=0)):
            some = [
                MicroOp(at + n, where[found[depth][0]], tile_at[found[depth][1]])
                for n, found in enumerate(steps)
                if depth < len(found)
            ]
            piece.computed += with_micro_ops(held, some, Gemm())
        store = Store(
            buffer_address=at, address=self.constants.places.output + first, columns=end - first, stride=end - first
        )
        return Part([piece], [store])


def _selections(row: Array) -> list[tuple[int, bytes]]:
    """The vectors that hold elements of a vector, each with the tile that selects them."""
    found = list[tuple[int, bytes]]()
    for vector in np.unique(row[row != NOTHING] // LANES).tolist():
        tile = np.zeros((LANES, LANES), np.int8)
        lanes = np.flatnonzero((row // LANES == vector) & (row != NOTHING))
        tile[lanes, row[lanes] % LANES] = 1
        found.append((vector, tile.tobytes()))
    return found


def _runs(wanted: Sequence[int], borders: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Yields runs of numbers one after the other, each as its first and how many; a run ends at a border."""
    first, last = None, -1
    for each in wanted:
        if first is None or each != last + 1 or each in borders:
            if first is not None:
                yield first, last - first + 1
            first = each
        last = each
    if first is not None:
        yield first, last - first + 1

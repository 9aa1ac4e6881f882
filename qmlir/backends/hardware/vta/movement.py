"""Data that move as instructions: each vector of the result gathers lanes of vectors of the inputs.

The array does it: a tile whose rows select lanes, one number of 1 in each, multiplies a vector that holds some of the
result's elements. A result whose elements lie in several vectors is the sum of as many products.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

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


@dataclass(frozen=True, eq=False)
class Steps:
    """Products of vectors with tiles, in the order of the vectors that they make.

    to      the vector of the result
    source  the vector of the inputs
    tile    the number of the tile
    tiles   int8 [tiles, 16, 16], each with one 1 at most in a row
    first   of each vector of the result: its first step; and how many steps there are
    """

    to: Array
    source: Array
    tile: Array
    tiles: Array
    first: Array


def steps_of(found: Array) -> Steps:
    """The steps that gather elements [vectors, 16], each given by its place or `NOTHING`."""
    to, lanes = np.nonzero(found != NOTHING)
    places = found[to, lanes]
    vectors = int(places.max(initial=0)) // LANES + 1
    pairs, own = np.unique(to * vectors + places // LANES, return_inverse=True)
    patterns = np.full((len(pairs), LANES), NOTHING, np.int8)
    patterns[own, lanes] = places % LANES
    different, tile = np.unique(patterns, axis=0, return_inverse=True)
    tiles = np.zeros((len(different), LANES, LANES), np.int8)
    number, row = np.nonzero(different != NOTHING)
    tiles[number, row, different[number, row]] = 1
    first = np.searchsorted(pairs // vectors, np.arange(len(found) + 1))
    return Steps(pairs // vectors, pairs % vectors, tile.reshape(-1), tiles, first)


class Gathered:
    """The parts of a layer that moves data.

    Args:
        step: The movement.
        inputs: Its inputs.
        output: Its result.
        constants: Gets micro-ops and the tiles that select lanes.

    Raises:
        Refusal: The movement is none that selects elements.
    """

    def __init__(self, step: Movement, inputs: Sequence[Tensor], output: Tensor, constants: Constants):
        self.constants = constants
        self._steps = steps_of(sources(step, inputs, output))
        self._firsts = np.cumsum([0, *(vectors_of(tensor.shape) for tensor in inputs)])

    def _ranges(self) -> Iterator[tuple[int, int]]:
        """Yields ranges of the result's vectors whose sources and tiles fit."""
        source, tile, steps = self._steps.source.tolist(), self._steps.tile.tolist(), self._steps.first.tolist()
        first, held, used = 0, set[int](), set[int]()
        for n, (begin, end) in enumerate(pairwise(steps)):
            held.update(source[begin:end])
            used.update(tile[begin:end])
            full = len(held) > DATA or len(used) > WEIGHTS or n - first + 1 > SUMS or end - steps[first] > MOST_STEPS
            if full and n > first:
                yield first, n
                first, held, used = n, set(source[begin:end]), set(tile[begin:end])
        yield first, len(steps) - 1

    def parts(self) -> Iterator[Part]:
        """Yields the parts of the result."""
        for n, (first, end) in enumerate(self._ranges()):
            yield self._part(first, end, n % 2)

    def _part(self, first: int, end: int, turn: int) -> Part:
        piece, at, steps, held = Piece(), turn * SUMS, self._steps, self.constants.micro_ops
        begin, behind = int(steps.first[first]), int(steps.first[end])
        own = slice(begin, behind)
        wanted, tiles = np.unique(steps.source[own]), np.unique(steps.tile[own])
        for vector, number in _runs(wanted.tolist() or [0], self._firsts.tolist()):
            owner = int(np.searchsorted(self._firsts, vector, "right")) - 1
            address = self.constants.places.inputs[owner] + vector - int(self._firsts[owner])
            place = turn * DATA + int(np.searchsorted(wanted, vector))
            piece.loads.append(
                Load(memory=Buffer.DATA, buffer_address=place, address=address, columns=number, stride=number)
            )
        if len(tiles):
            address, place = self.constants.weights(steps.tiles[tiles]), turn * WEIGHTS
            piece.loads.append(
                Load(
                    memory=Buffer.WEIGHTS, buffer_address=place, address=address, columns=len(tiles), stride=len(tiles)
                )
            )  # fmt: skip
        piece.computed += with_micro_ops(held, [MicroOp(at)], Gemm(reset=1, inner=end - first, to_inner=1))
        number = np.diff(steps.first[first : end + 1])
        if not number.all():  # a reset leaves other numbers in the results than in the sums
            zero = Alu(operation=Operation.ADD, immediate=1, inner=end - first, to_inner=1)
            piece.computed += with_micro_ops(held, [MicroOp(at)], zero)
        depth = np.arange(begin, behind) - steps.first[steps.to[own]]
        micro_ops = np.stack(
            [
                at + steps.to[own] - first,
                turn * DATA + np.searchsorted(wanted, steps.source[own]),
                turn * WEIGHTS + np.searchsorted(tiles, steps.tile[own]),
            ],
            axis=1,
        )
        for n in range(int(number.max(initial=0))):
            some = [MicroOp(*each) for each in micro_ops[depth == n].tolist()]
            piece.computed += with_micro_ops(held, some, Gemm())
        output = self.constants.places.output + first
        return Part([piece], [Store(buffer_address=at, address=output, columns=end - first, stride=end - first)])


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

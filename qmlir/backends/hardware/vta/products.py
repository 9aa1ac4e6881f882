"""Sums of products of windows as instructions: convolutions, fully connected layers, means, sums of tensors.

The weights are tiles of 16 outputs of 16 inputs. Steps of the array that follow each other add to different sums,
because the array does not wait for a sum that is on its way: there is an instruction for each element of the windows,
whose micro-ops are a row of results. A part of the result with few sums has copies of them, which take turns and are
added at last.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import groupby, pairwise, product
from math import ceil

import numpy as np

from qmlir.backends.hardware.vta.epilogue import FACTOR, Act, Immediate, Merge, PerChannel, Refusal, Sign, Times
from qmlir.backends.hardware.vta.instructions import IN_FLIGHT, Alu, Buffer, Gemm, Load, MicroOp, Operation
from qmlir.backends.hardware.vta.layout import LANES, blocks
from qmlir.backends.hardware.vta.stream import HALF, MicroOps, Part, Piece
from qmlir.backends.hardware.vta.windows import Tile, Windows, data_load, even, stores, tiles
from qmlir.devices.model.layer import Convolution, Pair
from qmlir.numerics import Array

DATA, WEIGHTS, SUMS = (HALF[buffer] for buffer in (Buffer.DATA, Buffer.WEIGHTS, Buffer.SUMS))


MOST_STEP = 2047
"""Vectors by which a loop moves at most."""


@dataclass(frozen=True, eq=False)
class Weights:
    """Tiles of weights, int8 [tiles, 16, 16].

    reads   of each block of the result: the first block of the data that it reads, and the one behind the last
    single  whether one tile is that of all elements of all windows, with a result's block reading its own alone
    repeat  how often each product is added
    """

    tiles: Array
    reads: Sequence[Pair]
    single: bool = False
    repeat: int = 1

    @property
    def first(self) -> list[int]:
        """Of each block of the result: how many pairs of blocks lie before its first one."""
        return [sum(end - begin for begin, end in self.reads[:n]) for n in range(len(self.reads))]


def diagonal(factor: int, number: int) -> Weights:
    """Weights that multiply a tensor of so many blocks."""
    repeat = 1 if factor <= 127 else factor // FACTOR
    tile = np.eye(LANES, dtype=np.int8) * np.int8(factor // repeat)
    return Weights(tile[None], [(n, n + 1) for n in range(number)], True, repeat)


def weights_of(step: Convolution) -> Weights:
    """The tiles of a convolution: for each block of the result, each block of data that it reads, each element."""
    outputs, rows, columns, width = step.weights.shape
    number, held = outputs // step.groups, step.weights.reshape(outputs, rows * columns, width)
    reads, found = list[Pair](), list[Array]()
    for block in range(blocks(outputs)):
        own = range(block * LANES, min((block + 1) * LANES, outputs))
        firsts = [output // number * width for output in own]
        reads.append((firsts[0] // LANES, blocks(firsts[-1] + width)))
        begin, end = reads[-1]
        wide = np.zeros((LANES, rows * columns, (end - begin) * LANES), np.int8)
        for lane, (output, first) in enumerate(zip(own, firsts, strict=True)):
            at = first - begin * LANES
            wide[lane, :, at : at + width] = held[output]
        tiled = wide.reshape(LANES, rows * columns, end - begin, LANES).transpose(2, 1, 0, 3)
        found.append(tiled.reshape(-1, LANES, LANES))
    return Weights(np.concatenate(found), reads)


@dataclass(frozen=True)
class Places:
    """Addresses in external memory, each in elements of what lies there; the inputs and the output in vectors.

    images  how many images the tensors hold
    steps   vectors of an image of each input, and of the output behind them
    """

    inputs: tuple[int, ...]
    output: int
    micro_ops: int
    weights: int
    sums: int
    images: int
    steps: tuple[int, ...]

    @property
    def each(self) -> "Iterator[Places]":
        """The places of each image."""
        for image in range(self.images):
            *inputs, output = (
                at + image * step for at, step in zip((*self.inputs, self.output), self.steps, strict=True)
            )
            yield replace(self, inputs=tuple(inputs), output=output)


class Constants:
    """What a layer has in external memory beside its tensors, in the order in which it is asked for."""

    def __init__(self, places: Places):
        self.places = places
        self.micro_ops = MicroOps(places.micro_ops)
        self._weights: list[Array] = []
        self._sums: list[Array] = []

    def weights(self, tiles: Array) -> int:
        """Adds tiles; returns the address of the first one."""
        return self._put(self._weights, tiles, self.places.weights)

    def sums(self, values: Array) -> int:
        """Adds numbers [channels]; returns the address of their first vector."""
        vectors = np.zeros(blocks(len(values)) * LANES, "<i4")
        vectors[: len(values)] = values
        return self._put(self._sums, vectors.reshape(-1, LANES), self.places.sums)

    @staticmethod
    def _put(held: list[Array], more: Array, address: int) -> int:
        at = address + sum(map(len, held))
        held.append(more)
        return at

    @property
    def contents(self) -> tuple[bytes, bytes, bytes]:
        """Micro-ops, weights and sums as bytes."""
        return self.micro_ops.contents, _bytes(self._weights), _bytes(self._sums)


def _bytes(some: Sequence[Array]) -> bytes:
    return b"".join(each.tobytes() for each in some)


@dataclass(frozen=True)
class Sizes:
    """The sizes of parts: blocks, rows and columns of the result, and blocks of the data in a piece."""

    tile: tuple[int, int, int]
    blocks: int


class Products:
    """The parts of a layer that begins with sums of products.

    Args:
        windows: What each result reads of the first input.
        weights: The tiles.
        acts: What becomes of the sums, in order.
        constants: Gets micro-ops, tiles and biases.

    Raises:
        Refusal: No part of the result fits the buffers.
    """

    def __init__(self, windows: Windows, weights: Weights, acts: Sequence[Act], constants: Constants):
        self.windows, self.weights, self.acts, self.constants = windows, weights, acts, constants
        self.number = len(weights.reads)
        self.elements = windows.kernel[0] * windows.kernel[1]
        self.space = 1 + any(isinstance(act, Sign | Times) for act in acts)
        self.sizes = self._chosen()
        self._tiles = constants.weights(weights.tiles)
        self._channels = {act: constants.sums(act.values) for act in acts if isinstance(act, PerChannel)}
        self._diagonals = {
            act: (each := diagonal(act.factor, self.number), constants.weights(each.tiles))
            for act in acts
            if isinstance(act, Merge)
        }

    # -- sizes

    def _chosen(self) -> Sizes:
        """The sizes that bring the fewest bytes."""
        (rows, columns), best = self.windows.result, None
        for number in even(self.number):
            if number * self.elements > WEIGHTS and not self.weights.single:
                continue
            for high in even(rows):
                for wide in even(columns):
                    if (held := self._fitting(number, high, wide)) is None:
                        continue
                    cost = self._cost(number, high, wide)
                    if best is None or cost < best[0]:
                        best = (cost, Sizes((number, high, wide), held))
        if best is None:
            raise Refusal(f"VTA's buffers hold no window of {self.windows.kernel[0]}x{self.windows.kernel[1]} elements")
        return best[1]

    def _copies(self, reads: Sequence[Pair], pixels: int) -> int:
        """The number of copies of a part's sums; steps take turns, so that none reads a sum that is added."""
        runs = [(depth, len(list(some))) for depth, some in groupby(end - begin for begin, end in reads)]
        apart = IN_FLIGHT + 1
        return max(min(depth * self.weights.repeat, ceil(apart / (number * pixels))) for depth, number in runs)

    def _room(self, number: int) -> int:
        """Vectors that copies may take in a part of so many blocks, where blocks do not read as many as each other."""
        return 0 if len({end - begin for begin, end in self.weights.reads}) == 1 else number * IN_FLIGHT

    def _plane(self, high: int, wide: int) -> int:
        return self.windows.extent(0, high) * self.windows.extent(1, wide)

    def _fitting(self, number: int, high: int, wide: int) -> int | None:
        """How many blocks of data a piece may hold; None if the part does not fit."""
        if number * (self.space * high * wide + 1) + self._room(number) > SUMS or number * wide > 2048:
            return None
        if any(isinstance(act, Merge) for act in self.acts) and number * high * wide > DATA:
            return None
        plane = self._plane(high, wide)
        if plane > DATA or self.windows.stride[0] * self.windows.extent(1, wide) > MOST_STEP:
            return None
        if not self.windows.all_read(high, wide):
            return None
        reads = self.weights.reads
        spread = all(pair == reads[0] for pair in reads)
        if spread:
            most = reads[0][1] - reads[0][0]
            if not self.weights.single:
                most = min(most, WEIGHTS // (number * self.elements))
            return min(most, DATA // plane) or None
        needed = max(
            max(end for _, end in reads[first : first + number])
            - min(begin for begin, _ in reads[first : first + number])
            for first in range(0, self.number, number)
        )
        most = max(end - begin for begin, end in reads)
        fits = needed * plane <= DATA and (self.weights.single or number * most * self.elements <= WEIGHTS)
        return most if fits else None

    def _cost(self, number: int, high: int, wide: int) -> int:
        """The bytes that the load unit brings with parts of these sizes, and 64 for each instruction's start."""
        rows, columns = self.windows.result
        parts = ceil(rows / high) * ceil(columns / wide)
        pairs = 1 if self.weights.single else sum(end - begin for begin, end in self.weights.reads) * self.elements
        groups = ceil(self.number / number)
        read = max(end for _, end in self.weights.reads) if self.weights.reads[0] == self.weights.reads[-1] else number
        data = parts * groups * read * self._plane(high, wide) * 16
        return data + parts * pairs * 256 + parts * groups * self.elements * 64

    # -- parts

    def parts(self) -> Iterator[Part]:
        """Yields the parts of the result."""
        pieces, divided = 0, list(tiles((self.number, *self.windows.result), self.sizes.tile))
        for n, (places, tile) in enumerate(product(self.constants.places.each, divided)):
            part = self._part(places, tile, n % 2 * SUMS, pieces)
            pieces += len(part.pieces)
            yield part

    def _part(self, places: Places, tile: Tile, at: int, pieces: int) -> Part:
        part, result = Part(), tile.number * tile.pixels
        reads = self.weights.reads[slice(*tile.blocks)]
        copies = self._copies(reads, tile.pixels)
        reset = self._reset(at, copies * result)  # first, as its micro-ops may be those of products, too
        most = max(end - begin for begin, end in reads)
        for begin in range(0, most, self.sizes.blocks):
            turn = (pieces + len(part.pieces)) % 2
            piece = self._piece(places.inputs[0], tile, at, turn, (begin, min(begin + self.sizes.blocks, most)), copies)
            piece.computed[:0] = reset
            reset = []
            part.pieces.append(piece)
        part.pieces[-1].computed += self._summed(at, result, copies)
        for act in self.acts:
            match act:
                case Merge():
                    turn = (pieces + len(part.pieces)) % 2
                    part.pieces.append(self._merged(act, places.inputs[act.number], tile, at, turn))
                case Immediate(operation, value):
                    part.pieces[-1].computed += self._step(at, result, operation, value)
                case Sign():
                    part.pieces[-1].computed += self._signed(at, result)
                case Times(factor):
                    part.pieces[-1].computed += self._multiplied(at, result, factor)
                case PerChannel():
                    part.pieces[-1].computed += self._added(act, tile, at)
        part.stores += stores(tile, self.windows.result, at, places.output)
        return part

    def _looped(self, some: Sequence[MicroOp], step: Gemm | Alu) -> list[Load | Gemm | Alu]:
        """An instruction with its micro-ops, and the load that brings them."""
        return with_micro_ops(self.constants.micro_ops, some, step)

    def _reset(self, at: int, number: int) -> list[Load | Gemm | Alu]:
        return self._looped([MicroOp(at)], Gemm(reset=1, inner=number, to_inner=1))

    def _summed(self, at: int, number: int, copies: int) -> list[Load | Gemm | Alu]:
        """Adds copies of sums, which lie one behind the other, to the first one: the last half to the first one."""
        found = list[Load | Gemm | Alu]()
        while copies > 1:
            half = copies // 2 * number
            copies -= copies // 2
            add = Alu(operation=Operation.ADD, inner=half, to_inner=1, from_inner=1)
            found += self._looped([MicroOp(at, at + copies * number)], add)
        return found

    def _step(self, at: int, number: int, operation: Operation, value: int) -> list[Load | Gemm | Alu]:
        step = Alu(operation=operation, immediate=1, value=value, inner=number, to_inner=1, from_inner=1)
        return self._looped([MicroOp(at, at)], step)

    def _signed(self, at: int, number: int) -> list[Load | Gemm | Alu]:
        """Subtracts 1 from what is below 0: a copy becomes -1 or 0 by its bounds, and is added."""
        copy = at + number
        add = Alu(operation=Operation.ADD, inner=number, to_inner=1, from_inner=1)
        found = [*self._reset(copy, number), *self._looped([MicroOp(copy, at)], add)]
        found += [*self._step(copy, number, Operation.MIN, 0), *self._step(copy, number, Operation.MAX, -1)]
        return [*found, *self._looped([MicroOp(at, copy)], add)]

    def _multiplied(self, at: int, number: int, factor: int) -> list[Load | Gemm | Alu]:
        """Multiplies by an odd factor: for each 1 from the second on a shift to it, and the sum is added."""
        copy = at + number
        add = Alu(operation=Operation.ADD, inner=number, to_inner=1, from_inner=1)
        found = [*self._reset(copy, number), *self._looped([MicroOp(copy, at)], add)]
        for zeros in f"{factor:b}"[1:].split("1")[:-1]:
            for left in [16] * (len(zeros) // 16) + [len(zeros) % 16 + 1]:
                found += self._step(at, number, Operation.SHIFT, -left)
            found += self._looped([MicroOp(at, copy)], add)
        return found

    def _added(self, act: PerChannel, tile: Tile, at: int) -> list[Load | Gemm | Alu]:
        """Adds a vector of numbers, which lie behind the sums, to all vectors of a block."""
        behind = at + self.space * tile.number * tile.pixels
        address = self._channels[act] + tile.blocks[0]
        load = Load(memory=Buffer.SUMS, buffer_address=behind, address=address, columns=tile.number, stride=tile.number)
        some = [MicroOp(at + n * tile.pixels, behind + n) for n in range(tile.number)]
        return [load, *self._looped(some, Alu(operation=Operation.ADD, inner=tile.pixels, to_inner=1))]

    def _merged(self, act: Merge, other: int, tile: Tile, at: int, turn: int) -> Piece:
        """Adds another tensor of the result's shape."""
        piece, (rows, columns) = Piece(), self.windows.result
        weights, address = self._diagonals[act]
        piece.loads.append(Load(memory=Buffer.WEIGHTS, buffer_address=turn * WEIGHTS, address=address, stride=1))
        for n, block in enumerate(range(*tile.blocks)):
            begin = block * rows * columns + tile.rows[0] * columns + tile.columns[0]
            piece.loads.append(
                Load(
                    memory=Buffer.DATA, buffer_address=turn * DATA + n * tile.pixels, rows=tile.height,
                    columns=tile.width, stride=columns, address=other + begin,
                )
            )  # fmt: skip
        result = tile.number * tile.pixels
        at_once = weights.repeat if result > IN_FLIGHT else 1
        step = Gemm(outer=at_once, inner=result, to_inner=1, from_inner=1)
        for _ in range(weights.repeat // at_once):
            piece.computed += self._looped([MicroOp(at, turn * DATA, turn * WEIGHTS)], step)
        return piece

    def _piece(self, address: int, tile: Tile, at: int, turn: int, pair: Pair, copies: int) -> Piece:
        """The products with a pair's blocks of those that each block of the result reads."""
        piece, windows, weights, (begin, end) = Piece(), self.windows, self.weights, pair
        spans = windows.span(0, *_sized(tile.rows)), windows.span(1, *_sized(tile.columns))
        columns, plane = spans[1].extent, spans[0].extent * spans[1].extent
        own = dict[int, Pair]()
        for block in range(*tile.blocks):
            low, high = weights.reads[block]
            own[block] = (min(low + begin, high), min(low + end, high))
        held = sorted({each for pair in own.values() for each in range(*pair)})
        where = {block: turn * DATA + n * plane for n, block in enumerate(held)}
        piece.loads += [data_load(address, block, windows.data, spans, where[block]) for block in held]
        tiles_at = dict[int, int]()
        used = 0
        for block, (low, high) in own.items():
            if weights.single:
                tiles_at[block] = turn * WEIGHTS
                continue
            tiles_at[block] = turn * WEIGHTS + used
            used += (high - low) * self.elements
        piece.loads += self._weight_loads(own, begin, turn)
        for index, tap in enumerate(windows.taps(columns)):
            for depth, some in groupby(own, key=lambda block: own[block][1] - own[block][0]):
                if not depth:
                    continue
                firsts = [
                    MicroOp(
                        at + (block - tile.blocks[0]) * tile.pixels, where[own[block][0]] + tap,
                        tiles_at[block] + (0 if weights.single else index),
                    )
                    for block in some
                ]  # fmt: skip
                step = Gemm(
                    outer=depth * weights.repeat, from_outer=plane if depth > 1 else 0,
                    weights_outer=self.elements if depth > 1 else 0,
                )  # fmt: skip
                if copies == 1:
                    row = [_moved(each, x, x * windows.stride[1]) for each in firsts for x in range(tile.width)]
                    rows = {"to_inner": tile.width, "from_inner": windows.stride[0] * columns}
                    piece.computed += self._looped(row, replace(step, inner=tile.height, **rows))
                else:
                    pixels = [
                        _moved(each, y * tile.width + x, y * windows.stride[0] * columns + x * windows.stride[1])
                        for each in firsts
                        for y, x in np.ndindex(tile.height, tile.width)
                    ]
                    piece.computed += self._in_turns(pixels, step, copies, tile.number * tile.pixels)
        return piece

    def _in_turns(self, some: Sequence[MicroOp], step: Gemm, copies: int, apart: int) -> Iterator[Load | Gemm | Alu]:
        """Yields a step whose outer loop adds to one copy of the sums after the other; copies lie so far `apart`."""
        whole, rest = divmod(step.outer, copies)
        moved = {"to_inner": apart, "from_inner": step.from_outer, "weights_inner": step.weights_outer}
        if whole:
            far = {"from_outer": copies * step.from_outer, "weights_outer": copies * step.weights_outer}
            far = far if whole > 1 else {"from_outer": 0, "weights_outer": 0}
            yield from self._looped(some, replace(step, outer=whole, inner=copies, **moved, **far))
        if rest:
            done = whole * copies
            last = [_moved(each, 0, done * step.from_outer, done * step.weights_outer) for each in some]
            alone = {"outer": 1, "from_outer": 0, "weights_outer": 0}
            yield from self._looped(last, replace(step, inner=rest, **moved, **alone))

    def _weight_loads(self, own: dict[int, Pair], begin: int, turn: int) -> Iterator[Load]:
        """The loads of the tiles of some blocks, each with all elements of its windows."""
        if self.weights.single:
            yield Load(memory=Buffer.WEIGHTS, buffer_address=turn * WEIGHTS, address=self._tiles, stride=1)
            return
        firsts, at = self.weights.first, turn * WEIGHTS
        for depth, grouped in groupby(own, key=lambda block: own[block][1] - own[block][0]):
            some = list(grouped)
            if not depth:
                continue
            lies = [(firsts[block] + begin) * self.elements for block in some]
            even_steps = len({after - before for before, after in pairwise(lies)}) <= 1
            stride = lies[1] - lies[0] if len(lies) > 1 else depth * self.elements
            for n, address in enumerate(lies):
                if even_steps and n:
                    break
                yield Load(
                    memory=Buffer.WEIGHTS, buffer_address=at + n * depth * self.elements, stride=stride,
                    address=self._tiles + address, rows=len(some) if even_steps else 1, columns=depth * self.elements,
                )  # fmt: skip
            at += len(some) * depth * self.elements


def _moved(each: MicroOp, to: int, source: int, weights: int = 0) -> MicroOp:
    """A micro-op that addresses what lies so far behind."""
    return MicroOp(each.to + to, each.source + source, each.weights + weights)


def _sized(pair: Pair) -> tuple[int, int]:
    return pair[0], pair[1] - pair[0]


def with_micro_ops(held: MicroOps, some: Sequence[MicroOp], step: Gemm | Alu) -> list[Load | Gemm | Alu]:
    """An instruction with its micro-ops, and the load that brings them where they are not on the chip."""
    load, first, end = held.use(some)
    return [*load, replace(step, first=first, end=end)]

"""What commands take by the costs that Gemmini's sources publish; there is no memory behind the bus, and no latency.

    the array  feeds a row of A in a cycle, at least 4 rows for each product and 16 for new weights (ExecuteController)
    the bus    moves 16 bytes in a cycle; rows with the stride 0 are read once (dma_buswidth, LoadController)
    the way    out of the accumulator takes a row of 16 in a cycle

Moves in, products and moves out of neighbouring loops overlap: a loop takes as long as the longest of its products, the
next loop's moves in, and the last one's moves out. A fence waits for all of them.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from qmlir.backends.hardware.gemmini.tiles import Tile, Windows, blocks
from qmlir.backends.hardware.gemmini.words import ACCUMULATOR, DIM, Configured, Function, fields

BUS, LEAST_ROWS = 16, 4


@dataclass(frozen=True)
class Work:
    """Cycles of the three engines, and products of the array."""

    load: int = 0
    array: int = 0
    store: int = 0
    products: int = 0


@dataclass(frozen=True)
class Costs:
    """What a program takes.

    cycles    all of it
    products  that the array computes, those with padding and with zeros between groups among them
    """

    cycles: int
    products: int

    @property
    def share(self) -> float:
        """The share of the products that the array could compute in that time."""
        return self.products / (self.cycles * DIM * DIM) if self.cycles else 0.0


def costs_of(commands: Iterable[Sequence[int]]) -> Costs:
    """The costs of a program of commands."""
    cycles, products, waiting = 0, 0, list[Work]()
    held, strides = dict[str, int](), [0, 0, 0]
    for number, first, second in commands:
        function = Function(number)
        if function is Function.FENCE:
            cycles += _overlapped(waiting)
            products += sum(work.products for work in waiting)
            waiting = []
        elif function is Function.CONFIG:
            if first & 3 == Configured.IN.value:
                given = fields(Configured.IN, first, second)
                strides[given["which"]] = given["stride"]
        elif function is Function.CONV:
            waiting.append(_convolution(held | fields(function, first, second)))
        elif function is Function.LOOP:
            waiting.append(_matrices(held | fields(function, first, second)))
        elif function in _MOVES:
            waiting.append(_move(function, fields(function, first, second), strides))
        else:
            held |= fields(function, first, second)
    return Costs(cycles + _overlapped(waiting), products + sum(work.products for work in waiting))


_MOVES = {Function.MOVE_IN: 0, Function.MOVE_IN_2: 1, Function.MOVE_IN_3: 2, Function.MOVE_OUT: 0}


def _overlapped(works: Sequence[Work]) -> int:
    """The cycles of works that follow each other, each of which moves in before it computes, and out behind."""
    none = Work()
    before, after = [none, none, *works], [*works, none, none]
    return sum(
        max(last.store, own.array, following.load)
        for last, own, following in zip(before, [none, *works, none], after, strict=True)
    )


def _beats(size: int) -> int:
    return -(-size // BUS)


def _move(function: Function, given: dict[str, int], strides: Sequence[int]) -> Work:
    width = 4 if given["local"] & ACCUMULATOR and function is not Function.MOVE_OUT else 1
    rows = given["local_rows"]
    if function is Function.MOVE_OUT:
        return Work(store=rows * blocks(given["local_columns"]))
    once = strides[_MOVES[function]] == 0
    return Work(load=max(rows, _beats(given["local_columns"] * width)) if once else
                rows * _beats(given["local_columns"] * width))  # fmt: skip


def _convolution(v: dict[str, int]) -> Work:
    """A loop_conv_ws without the forms that the encoder does not write."""
    kernel = v["kernel_rows"], v["kernel_columns"]
    of = Windows(v["own_rows"], v["own_columns"], v["own_inputs"], v["own_outputs"], kernel,
                 (v["stride"], v["stride"]), v["dilation"], max(v["pixels"], 1))  # fmt: skip
    tall, wide = Tile(of.rows, of.columns, of.inputs, of.outputs).extent(of)
    load = (tall - v["above"] - v["below"]) * (wide - v["left"] - v["right"]) * _beats(of.inputs)
    load += kernel[0] * kernel[1] * of.inputs * _beats(of.outputs)
    results = of.rows * of.columns * blocks(of.outputs)
    if v["bias"]:
        load += max(results, _beats(4 * of.outputs))
    chunks = [min(DIM, of.columns - n) for n in range(0, of.columns, DIM)]
    streamed = of.rows * sum(max(n, LEAST_ROWS) for n in chunks)
    streamed += max(0, DIM - max(chunks[0], LEAST_ROWS))  # new weights go in beside the first rows
    passes = kernel[0] * -(-kernel[1] // of.pixels) * blocks(of.inputs) * blocks(of.outputs)
    products = kernel[0] * kernel[1] * of.inputs * of.outputs * of.rows * of.columns
    return Work(load, passes * streamed, results if v["output"] else 0, products)


def _matrices(v: dict[str, int]) -> Work:
    rows, columns, terms = (v[axis] * DIM - v[f"pad_{axis}"] for axis in "ijk")
    sums = rows * v["j"]
    if v["addition"]:
        return Work(load=2 * sums, store=sums)
    load = rows * _beats(terms) + terms * _beats(columns)
    load += max(sums, _beats(4 * columns)) if v["d"] else 0
    array = v["i"] * v["j"] * v["k"] * DIM
    return Work(load, array, sums if v["c"] else 0, rows * columns * terms)

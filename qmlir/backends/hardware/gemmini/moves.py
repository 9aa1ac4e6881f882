"""Commands for what is computed while data move: maxima of windows, changes of scale, and copies."""

from collections.abc import Iterator, Sequence
from math import prod

import numpy as np

from qmlir.backends.hardware.gemmini.tiles import HALF, HALF_SUMS, blocks
from qmlir.backends.hardware.gemmini.words import ACCUMULATOR, BLOCKS_IN, DIM, Command, Configured, Function, command
from qmlir.devices.model.layer import Layer, Movement, PlacedLayer, Pool

ONE = 0x3F800000

PADDING = b"\x80" * (BLOCKS_IN * DIM)
"""A pixel that is no maximum."""

MOST_WINDOW, MOST_IMAGE = 3, 255
"""Rows and columns of a window, and of the image that a pool reads at once."""


def refuses(layer: Layer, step: Pool) -> str | None:
    """Why Gemmini cannot compute a pool."""
    if step.average:
        return "Gemmini computes maxima, no means"
    (rows, columns), (down, right) = step.window, step.stride
    if rows != columns or down != right:
        return f"windows and strides of pools are squares, got {rows}x{columns} and {down}x{right}"
    if max(rows, down) > MOST_WINDOW or step.dilation != (1, 1):
        return f"windows and strides of pools are at most {MOST_WINDOW}, without dilation, got {max(rows, down)}"
    return None


def maxima(placed: PlacedLayer, step: Pool) -> Iterator[Command]:
    """A maximum pool: a part of the image comes in with its padding, and goes out through the pool."""
    images, out_rows, out_columns, channels = placed.layer.output.shape
    size, stride = step.window[0], step.stride[0]
    together = min(BLOCKS_IN, blocks(channels))
    wide = min(out_columns, (MOST_IMAGE - size) // stride + 1)
    span = (wide - 1) * stride + size
    tall = max(1, min(out_rows, ((min(HALF // (together * span), MOST_IMAGE) - size) // stride + 1)))
    half = 0
    for image in range(images):
        for y in range(0, out_rows, tall):
            for x in range(0, out_columns, wide):
                shape = min(tall, out_rows - y), min(wide, out_columns - x)
                for channel in range(0, channels, together * DIM):
                    yield from _maximum(placed, step, half, image, (y, x), shape, channel)
                    half = HALF - half


def _maximum(
    placed: PlacedLayer, step: Pool, half: int, image: int, first: tuple[int, int], shape: tuple[int, int], channel: int
) -> Iterator[Command]:
    """The maxima of some windows and up to 64 channels; `half` is where their part of the image goes."""
    _, rows, columns, channels = placed.layer.inputs[0].shape
    _, out_rows, out_columns, _ = placed.layer.output.shape
    size, stride = step.window[0], step.stride[0]
    tall, wide = ((n - 1) * stride + size for n in shape)
    top, left = first[0] * stride - step.padding[0], first[1] * stride - step.padding[2]
    own, area = min(BLOCKS_IN * DIM, channels - channel), tall * wide
    for which, pitch in ((0, channels), (1, 0)):
        yield command(Configured.IN, which=which, stride=pitch, scale=ONE, block_stride=area, pixels=1)
    for row in range(tall):
        column = 0
        while column < wide:
            y, x = top + row, left + column
            inside = 0 <= y < rows and 0 <= x < columns
            end = wide
            if 0 <= y < rows and x < columns:  # up to the image's first column, or to its last one
                end = min(wide, -left if x < 0 else columns - left)
            n = min(DIM, end - column)
            address = placed.inputs[0] + ((image * rows + y) * columns + x) * channels + channel
            where = {"local": half + row * wide + column, "local_rows": n, "local_columns": own}
            if inside:
                yield command(Function.MOVE_IN, address=address, **where)
            else:
                yield command(Function.MOVE_IN_2, address=placed.constants[0], **where)
            column += n
    lines = [(0, shape[0])] if out_columns <= MOST_IMAGE else [(n, 1) for n in range(shape[0])]
    for line, count in lines:
        yield command(
            Configured.OUT, pool_stride=stride, pool_size=size, result_columns=out_columns if count > 1 else 0,
            pool_rows=count, pool_columns=shape[1], rows=(count - 1) * stride + size, columns=wide, stride=channels,
            scale=ONE,
        )  # fmt: skip
        for block in range(blocks(own)):
            pixel = (image * out_rows + first[0] + line) * out_columns + first[1]
            yield command(
                Function.MOVE_OUT, address=placed.output + pixel * channels + channel + block * DIM,
                local=half + block * area + line * stride * wide, local_columns=min(DIM, own - block * DIM),
            )  # fmt: skip


def rescaled(source: int, target: int, size: int, out: Command) -> Iterator[Command]:
    """So many elements through the accumulator, rescaled on their way out: rows of 16, and what is left."""
    yield command(Configured.IN, stride=DIM, small=1, scale=ONE, block_stride=DIM, pixels=1)
    yield out
    whole, local = size // DIM, 0
    pieces = [(n * DIM, min(DIM, whole - n), DIM) for n in range(0, whole, DIM)]
    pieces += [(whole * DIM, 1, size % DIM)] if size % DIM else []
    for first, rows, columns in pieces:
        where = {"local": ACCUMULATOR + local, "local_rows": rows, "local_columns": columns}
        yield command(Function.MOVE_IN, address=source + first, **where)
        yield command(Function.MOVE_OUT, address=target + first, **where)
        local = (local + DIM) % (2 * HALF_SUMS)


def immovable(step: Movement) -> str | None:
    """Why Gemmini's moves cannot do a movement."""
    match step.kind:
        case "reshape" | "concat":
            return None
        case "slice" if step.numbers["strides"][-1] == 1:
            return None
        case "slice":
            return f"neighbours of a slice lie 1 element apart, got {step.numbers['strides'][-1]}"
        case kind:
            return f"Gemmini's moves copy, join and cut out, got {kind}"


def moved(placed: PlacedLayer, step: Movement) -> Iterator[Command]:
    """Copies, through the scratchpad."""
    *given, result = step.shapes
    match step.kind:
        case "concat":
            (axis,), first = step.numbers["axis"], 0
            for source, shape in zip(placed.inputs, given, strict=True):
                yield from _box(source, placed.output + first, shape, _pitches(shape), _pitches(result))
                first += prod(shape[axis:])
        case "slice":
            whole = _pitches(given[0])
            first = sum(n * pitch for n, pitch in zip(step.numbers["offsets"], whole, strict=True))
            apart = [n * pitch for n, pitch in zip(step.numbers["strides"], whole, strict=True)]
            yield from _box(placed.inputs[0] + first, placed.output, result, apart, _pitches(result))
        case _:
            size = prod(result)
            yield from _box(placed.inputs[0], placed.output, (size,), (1,), (1,))


def _pitches(shape: Sequence[int]) -> list[int]:
    """The bytes between neighbours of each dimension."""
    return [prod(shape[axis + 1 :]) for axis in range(len(shape))]


def _box(
    source: int, target: int, shape: Sequence[int], source_pitches: Sequence[int], target_pitches: Sequence[int]
) -> Iterator[Command]:
    """Copies a box of bytes: matrices of rows, each of which is in one piece on both sides."""
    axes, run = list(zip(shape, source_pitches, target_pitches, strict=True)), 1
    while axes and (axes[-1][0] == 1 or axes[-1][1] == axes[-1][2] == run):
        run *= axes.pop()[0]
    rows, into, out = axes.pop() if axes and axes[-1][1] > 0 else (1, run, run)  # a stride of a move is positive
    if rows == 1 and run >= DIM:  # a single row becomes rows of 16
        yield from _matrix(source, target, run // DIM, DIM, DIM, DIM)
        source, target, run = source + run // DIM * DIM, target + run // DIM * DIM, run % DIM
    if run:
        for place in np.ndindex(*(n for n, _, _ in axes)):
            before = sum(n * pitch for n, (_, pitch, _) in zip(place, axes, strict=True))
            after = sum(n * pitch for n, (_, _, pitch) in zip(place, axes, strict=True))
            yield from _matrix(source + before, target + after, rows, run, into, out)


def _matrix(source: int, target: int, rows: int, columns: int, into: int, out: int) -> Iterator[Command]:
    """Copies rows of bytes, which lie `into` bytes apart before and `out` bytes apart after."""
    yield command(Configured.IN, stride=into, scale=ONE, block_stride=DIM, pixels=1)
    yield command(Configured.OUT, stride=out, scale=ONE)
    for n, (row, column) in enumerate((y, x) for y in range(0, rows, DIM) for x in range(0, columns, DIM)):
        local = n * DIM % (2 * HALF)
        where = {"local": local, "local_rows": min(DIM, rows - row), "local_columns": min(DIM, columns - column)}
        yield command(Function.MOVE_IN, address=source + row * into + column, **where)
        yield command(Function.MOVE_OUT, address=target + row * out + column, **where)

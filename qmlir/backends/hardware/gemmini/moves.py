"""Commands for what is computed while data move: maxima of windows, changes of scale, and copies."""

from collections.abc import Iterator

from qmlir.backends.hardware.gemmini.tiles import HALF, HALF_SUMS, blocks
from qmlir.backends.hardware.gemmini.words import ACCUMULATOR, BLOCKS_IN, DIM, Command, Configured, Function, command
from qmlir.devices.model.layer import Layer, PlacedLayer, Pool

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
    """So many elements through the accumulator, rescaled on their way out."""
    yield command(Configured.IN, stride=DIM, small=1, scale=ONE, block_stride=DIM, pixels=1)
    yield out
    yield from _through(source, target, size, ACCUMULATOR, HALF_SUMS)


def copied(source: int, target: int, size: int) -> Iterator[Command]:
    """So many bytes through the scratchpad, as they are."""
    yield command(Configured.IN, stride=DIM, scale=ONE, block_stride=DIM, pixels=1)
    yield command(Configured.OUT, stride=DIM, scale=ONE)
    yield from _through(source, target, size, 0, HALF)


def _through(source: int, target: int, size: int, local: int, half: int) -> Iterator[Command]:
    """Moves bytes in and out, 16 rows of 16 at a time, by one half of the memory after the other."""
    whole, row = size // DIM, 0
    pieces = [(n * DIM, min(DIM, whole - n), DIM) for n in range(0, whole, DIM)]
    pieces += [(whole * DIM, 1, size % DIM)] if size % DIM else []
    for first, rows, columns in pieces:
        where = {"local": local + row, "local_rows": rows, "local_columns": columns}
        yield command(Function.MOVE_IN, address=source + first, **where)
        yield command(Function.MOVE_OUT, address=target + first, **where)
        row = (row + DIM) % (2 * half)

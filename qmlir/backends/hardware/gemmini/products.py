"""Commands for products: convolutions by loop_conv_ws, matrices and sums by loop_ws."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from qmlir.backends.hardware.gemmini.tiles import HALF, HALF_SUMS, Tile, Windows, blocks, tile_of
from qmlir.backends.hardware.gemmini.words import DIM, Command, Configured, Function, command
from qmlir.devices.model.layer import Convolution, Layer, PlacedLayer
from qmlir.numerics import Array

ONE = 0x3F800000
"""The bits of the float32 1."""

_BLOCKS, _SUMS = HALF // DIM, HALF_SUMS // DIM
"""How many blocks of operands, and of sums, a loop has."""


@dataclass(frozen=True)
class Part:
    """Output channels of a convolution, with the input channels that they read.

    weights  int8 [rows, columns, inputs, outputs]
    at       where they begin in the layer's weights
    """

    first_input: int
    first_output: int
    weights: Array
    at: int


def refuses(layer: Layer, step: Convolution) -> str | None:
    """Why Gemmini cannot compute a convolution."""
    if step.weight_zero_point or step.zero_point:
        return f"zero points are 0, got {step.weight_zero_point or step.zero_point}"
    if step.sum_bits > 32:
        return f"sums take at most 32 bits, got {step.sum_bits}"
    if step.dilation[0] != step.dilation[1]:
        return f"rows and columns have 1 dilation, got {step.dilation[0]}x{step.dilation[1]}"
    if max(*step.dilation, *step.stride, *step.padding) > 255:
        return f"strides, dilations and padding are at most 255, got {max(*step.dilation, *step.stride, *step.padding)}"
    if step.bias is not None and not -(1 << 31) <= int(step.bias.min()) <= int(step.bias.max()) < 1 << 31:
        return "a bias has 32 bits"
    if not _is_product(layer, step) and any(tile_of(_windows(layer, step, part)) is None for part in parts(step)):
        rows, columns = step.kernel
        return f"a window of {rows}x{columns} with the weights of 16 channels fits half of the scratchpad"
    return None


def constants(layer: Layer, step: Convolution) -> list[bytes]:
    """The weights, of one part after the other, and the bias."""
    weights = b"".join(part.weights.tobytes() for part in parts(step))
    return [weights] if step.bias is None else [weights, step.bias.astype("<i4").tobytes()]


def parts(step: Convolution) -> list[Part]:
    """A convolution in parts: small groups become one of up to 16 channels, with zeros between them."""
    weights = step.weights.astype(np.int8).transpose(1, 2, 3, 0)
    rows, columns, inputs, outputs = weights.shape
    each, found, at = outputs // step.groups, list[Part](), 0
    together = max(1, DIM // max(inputs, each)) if step.groups > 1 else 1
    for first in range(0, step.groups, together):
        groups = range(first, min(first + together, step.groups))
        own = np.zeros((rows, columns, len(groups) * inputs, len(groups) * each), np.int8)
        for n, group in enumerate(groups):
            of_group = weights[..., group * each : (group + 1) * each]
            own[:, :, n * inputs : (n + 1) * inputs, n * each : (n + 1) * each] = of_group
        found.append(Part(first * inputs, first * each, own, at))
        at += own.size
    return found


def _is_product(layer: Layer, step: Convolution) -> bool:
    """Whether a convolution is a product of matrices: each image is one pixel."""
    return layer.inputs[0].shape[1:3] == (1, 1) and step.kernel == (1, 1) and step.groups == 1 and not any(step.padding)


def _flat(layer: Layer, step: Convolution) -> bool:
    """Whether pixels may lie in one row: windows are of one pixel, and each is read."""
    images, rows, columns, _ = layer.inputs[0].shape
    plain = step.kernel == step.stride == (1, 1) and not any(step.padding)
    return plain and images * rows * columns < 1 << 16


def _windows(layer: Layer, step: Convolution, part: Part) -> Windows:
    images, rows, columns, _ = layer.output.shape
    if _flat(layer, step):
        rows, columns = 1, images * rows * columns
    inputs, outputs = part.weights.shape[2:]
    pixels = min(DIM // inputs, step.kernel[1]) if inputs <= DIM and step.dilation[1] == 1 else 1
    return Windows(rows, columns, inputs, outputs, step.kernel, step.stride, step.dilation[0], max(pixels, 1))


def convolution(placed: PlacedLayer, step: Convolution, out: Command) -> Iterator[Command]:
    """The commands of a convolution; `out` says how sums go out."""
    layer = placed.layer
    if _is_product(layer, step):
        yield from _product(placed, step, out)
        return
    yield command(Configured.EXECUTE, weights_stay=1, a_stride=step.stride[1], c_stride=1)
    yield out
    images = 1 if _flat(layer, step) else layer.inputs[0].shape[0]
    for image in range(images):
        for part in parts(step):
            yield from _part(placed, step, part, image)


def _part(placed: PlacedLayer, step: Convolution, part: Part, image: int) -> Iterator[Command]:
    """The loops of a part of one image, a tile each; sums over many channels stay in the accumulator."""
    layer = placed.layer
    of = _windows(layer, step, part)
    tile = tile_of(of)
    assert tile is not None
    for output in range(0, of.outputs, tile.outputs):
        for row in range(0, of.rows, tile.rows):
            for column in range(0, of.columns, tile.columns):
                for first in range(0, of.inputs, tile.inputs):
                    own = Tile(
                        min(tile.rows, of.rows - row), min(tile.columns, of.columns - column),
                        min(tile.inputs, of.inputs - first), min(tile.outputs, of.outputs - output),
                    )  # fmt: skip
                    yield from _Loop(placed, step, part, of, own, image, row, column, first, output).commands()


@dataclass(frozen=True)
class _Loop:
    """One loop_conv_ws: a tile, and where it begins."""

    placed: PlacedLayer
    step: Convolution
    part: Part
    of: Windows
    tile: Tile
    image: int
    row: int
    column: int
    input: int
    output: int

    def commands(self) -> Iterator[Command]:
        """The loop's commands."""
        of, tile, step = self.of, self.tile, self.step
        _, rows, columns, channels = self.placed.layer.inputs[0].shape
        if _flat(self.placed.layer, step):
            rows, columns = of.rows, of.columns
        outputs = self.placed.layer.output.shape[3]
        tall, wide = tile.extent(of)
        y, x = self.row * of.stride[0] - step.padding[0], self.column * of.stride[1] - step.padding[2]
        above, below = _outside(y, tall, rows)
        left, right = _outside(x, wide, columns)
        pixel = (self.image * rows + max(y, 0)) * columns + max(x, 0)
        source = self.placed.inputs[0] + pixel * channels + self.part.first_input + self.input
        weights = self.placed.constants[0] + self.part.at + self.input * of.outputs + self.output
        output = self.part.first_output + self.output
        result = (self.image * of.rows + self.row) * of.columns + self.column
        has_bias = step.bias is not None
        bias = self.placed.constants[1] + 4 * output if has_bias else weights  # without one, not read
        begins, ends = self.input == 0, self.input + tile.inputs == of.inputs
        yield command(
            Function.CONV_1, images=1, in_rows=rows, in_channels=of.inputs, out_channels=of.outputs, out_rows=of.rows,
            pooled_rows=of.rows, out_columns=of.columns, stride=of.stride[1], padding=max(step.padding),
        )  # fmt: skip
        yield command(
            Function.CONV_2, kernel=of.kernel[1], pooled_columns=of.columns, own_images=1, own_pooled_rows=tile.rows,
            own_pooled_columns=tile.columns, own_outputs=tile.outputs,
        )  # fmt: skip
        yield command(
            Function.CONV_3, kernel_rows=of.kernel[0], kernel_columns=of.kernel[1], own_inputs=tile.inputs, left=left,
            right=right, above=above, below=below, in_columns=columns,
        )  # fmt: skip
        yield command(
            Function.CONV_4, own_rows=tile.rows, dilation=of.dilation, in_stride=channels, weight_stride=of.outputs,
            out_stride=outputs, own_columns=tile.columns,
        )  # fmt: skip
        target = self.placed.output + result * outputs + output
        yield command(Function.CONV_5, weights=weights, output=target if ends else 0)
        yield command(Function.CONV_6, bias=bias if begins else 0, input=source)
        yield command(Function.CONV, no_bias=int(not has_bias), pixels=of.pixels, no_pool=1)


def _outside(first: int, size: int, whole: int) -> tuple[int, int]:
    """How many of `size` rows from `first` on lie before an image of `whole` rows, and behind it."""
    before = min(max(-first, 0), size)
    return before, min(max(first + size - whole, 0), size - before)


# ---------------------------------------------------------------------------------------------------------------
# Products of matrices


def _into(which: int, stride: int, *, small: int = 0, scale: int = ONE) -> Command:
    """How one of the three moves goes in."""
    return command(Configured.IN, which=which, stride=stride, small=small, scale=scale, block_stride=DIM, pixels=1)


def _product(placed: PlacedLayer, step: Convolution, out: Command) -> Iterator[Command]:
    """A fully connected layer: the images are the rows of the first matrix."""
    images, _, _, inputs = placed.layer.inputs[0].shape
    outputs, weights = placed.layer.output.shape[3], placed.constants[0]
    bias = placed.constants[1] if step.bias is not None else 0
    yield command(Configured.EXECUTE, weights_stay=1, a_stride=1, c_stride=1)
    yield out
    yield from (_into(0, inputs), _into(1, outputs), _into(2, 0))
    for row in range(0, images, DIM):
        source = placed.inputs[0] + row * inputs
        target = placed.output + row * outputs
        size = min(DIM, images - row), outputs, inputs
        yield from _matrices(size, (source, inputs), (weights, outputs), bias, (target, outputs))


def _matrices(
    size: tuple[int, int, int], a: tuple[int, int], b: tuple[int, int], bias: int, c: tuple[int, int]
) -> Iterator[Command]:
    """Loops for up to 16 rows of a product.

    Args:
        size: Rows, columns and terms.
        a: The address and the stride of the first matrix; with the stride 0, each loop reads the same terms.
        b: Those of the second matrix.
        c: Those of the result.
        bias: The address of int32 for each column; 0 if there are none.
    """
    rows, columns, terms = size
    width = min(blocks(columns), _SUMS)
    depth = min(blocks(terms), _BLOCKS // (1 + width))
    for column in range(0, columns, width * DIM):
        for term in range(0, terms, depth * DIM):
            own = min(width * DIM, columns - column), min(depth * DIM, terms - term)
            begins, ends = term == 0, term + own[1] == terms
            yield _sizes(rows, *own)
            yield command(Function.LOOP_AB, a=a[0] + (term if a[1] else 0), b=b[0] + term * b[1] + column)
            yield command(
                Function.LOOP_DC, d=bias + 4 * column if begins and bias else 0, c=c[0] + column if ends else 0
            )
            yield command(Function.LOOP_AB_STRIDES, a_stride=a[1], b_stride=b[1])
            yield command(Function.LOOP_DC_STRIDES, c_stride=c[1])
            yield command(Function.LOOP, adds=int(bool(bias) or not begins))


def _sizes(rows: int, columns: int, terms: int) -> Command:
    """The sizes of a loop in blocks, and what their last ones lack."""
    i, j, k = blocks(rows), blocks(columns), blocks(terms)
    lacks = {"pad_i": i * DIM - rows, "pad_j": j * DIM - columns, "pad_k": k * DIM - terms}
    return command(Function.LOOP_SIZES, i=i, j=j, k=k, **lacks)


def _terms(pixels: int, channels: int) -> int:
    """How many pixels of an image a loop sums."""
    return min(pixels, _BLOCKS // (1 + min(blocks(channels), _SUMS)) * DIM)


def ones(layer: Layer) -> bytes:
    """The first matrix of a sum over an image: as many ones as a loop sums pixels."""
    _, rows, columns, channels = layer.inputs[0].shape
    return b"\1" * _terms(rows * columns, channels)


def image_sum(placed: PlacedLayer, out: Command) -> Iterator[Command]:
    """The sum of each channel of each image: a row of ones times the image."""
    images, rows, columns, channels = placed.layer.inputs[0].shape
    pixels = rows * columns
    yield command(Configured.EXECUTE, weights_stay=1, a_stride=1, c_stride=1)
    yield out
    yield from (_into(0, 0), _into(1, channels), _into(2, 0))
    for image in range(images):
        source = placed.inputs[0] + image * pixels * channels
        target = placed.output + image * channels
        yield from _matrices((1, channels, pixels), (placed.constants[0], 0), (source, channels), 0, (target, 0))


def addition(inputs: Sequence[int], target: int, size: int, out: Command, scale: int = ONE) -> Iterator[Command]:
    """The sum of two tensors of so many bytes, as matrices of 16 columns; the first one is rescaled on its way."""
    yield command(Configured.EXECUTE, weights_stay=1, a_stride=1, c_stride=1)
    yield out
    yield from (_into(0, DIM, small=1, scale=scale), _into(1, DIM, small=1), _into(2, 0))
    whole = size // DIM
    spans = [(first * DIM, min(HALF_SUMS, whole - first), DIM) for first in range(0, whole, HALF_SUMS)]
    spans += [(whole * DIM, 1, size % DIM)] if size % DIM else []
    for first, rows, columns in spans:
        yield _sizes(rows, columns, 1)
        yield command(Function.LOOP_AB, a=inputs[0] + first, b=inputs[1] + first)
        yield command(Function.LOOP_DC, c=target + first)
        yield command(Function.LOOP_AB_STRIDES, a_stride=DIM, b_stride=DIM)
        yield command(Function.LOOP_DC_STRIDES, c_stride=DIM)
        yield command(Function.LOOP, addition=1)

"""Layers of networks as programs for NVDLA small: writes of its registers, and what they need in memory.

A word has 64 bits: what a driver does (program.py's `Kind`) in bits 48 and up, the byte address of a register in bits
32 to 47, and 32 bits of value. A program begins after a reset. Addresses in memory count from `BASE`, where the memory
of NVIDIA's own test bench begins.

Convolutions of groups become one job for each 8 channels, with zeros as weights between groups; sums and means of
images are convolutions with ones. Data that does not fit the convolution buffer is divided into strips of rows.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from qmlir.backends.hardware.nvdla import jobs
from qmlir.backends.hardware.nvdla.driver import driver_source
from qmlir.backends.hardware.nvdla.finishing import FACTOR_BITS, MOST_RIGHT, finishing
from qmlir.backends.hardware.nvdla.jobs import Cube, Driver, Job
from qmlir.backends.hardware.nvdla.layouts import ATOM, atoms, cube_bytes, to_surfaces, weight_bytes
from qmlir.backends.hardware.nvdla.pools import averaging, pool_jobs, reciprocals
from qmlir.backends.hardware.nvdla.replay import network_traces
from qmlir.backends.hardware.nvdla.sums import sum_of
from qmlir.backends.hardware.nvdla.words import BASE, word
from qmlir.devices.model.agreement import AtMost, OneOf
from qmlir.devices.model.encoder import EncodedNetwork, LayerEncoder
from qmlir.devices.model.layer import (
    Addition,
    Convolution,
    ImageSum,
    Layer,
    Movement,
    PlacedLayer,
    Pool,
    Requantization,
    Tensor,
)
from qmlir.numerics import Array

MOST_KERNEL, MOST_STRIDE, MOST_DILATION, MOST_BEFORE, MOST_BEHIND = 32, 8, 32, 31, 63
"""Of a convolution, by its registers: rows of a window, strides, dilations, padding before the data and behind it."""

MOST_WINDOW, MOST_STEP, MOST_MARGIN = 8, 16, 7
"""Of a pool: rows of a window, as NVIDIA's manual allows, strides and padding, by its registers."""

_WINDOWED, _POOLED = ("conv2d", "depthwise"), ("maxpool", "avgpool")


class NVDLAEncoder(LayerEncoder):
    """Encodes layers as steps of NVDLA's driver."""

    word_bits: ClassVar[int] = 64
    forms: ClassVar[Mapping[str, str]] = {"registers": ".c", "trace": ""}
    made_for: ClassVar[Sequence[str]] = ("nvdla-small",)
    hardware: ClassVar[Mapping[str, object]] = {
        **{key: ATOM for key in ("array.lanes.k", "array.lanes.n", "array.depthwise.lanes.c")},
        "array.overflow": "saturate",
        "memory.cbuf.bytes": jobs.BANKS * jobs.BANK_BYTES,
        "memory.cbuf.banks": jobs.BANKS,
        "layout.channels": ATOM,
        "layout.weights": {"n": ATOM, "k": ATOM},
        "quant.types": ["i8"],
        "quant.scale": "mult-shift",
        "quant.round": "half-away",
        "quant.multiplier_bits": AtMost(FACTOR_BITS),
        "quant.shift.max": AtMost(MOST_RIGHT),
        "quant.shift.per": "layer",
        "quant.bias.type": OneOf(("i16", "i32")),
        "quant.bias.when": "post",
        "ops.add.multiplier_bits": AtMost(8),
        **{f"ops.{kind}.kernel_max": AtMost(MOST_KERNEL) for kind in _WINDOWED},
        **{f"ops.{kind}.stride_max": AtMost(MOST_STRIDE) for kind in _WINDOWED},
        **{f"ops.{kind}.dilation_max": AtMost(MOST_DILATION) for kind in _WINDOWED},
        **{f"ops.{kind}.padding_max": AtMost(MOST_BEFORE) for kind in _WINDOWED},
        **{f"ops.{kind}.kernel_max": AtMost(MOST_WINDOW) for kind in _POOLED},
        **{f"ops.{kind}.stride_max": AtMost(MOST_STEP) for kind in _POOLED},
        **{f"ops.{kind}.padding_max": AtMost(MOST_MARGIN) for kind in _POOLED},
    }

    def refuses(self, layer: Layer) -> str | None:
        if any(tensor.shape[0] != 1 for tensor in (*layer.inputs, layer.output)):
            return f"NVDLA computes one image at a time, got {layer.output.shape[0]}"
        if any(tensor.bits != 8 for tensor in (*layer.inputs, layer.output)):
            return "elements of NVDLA small have 8 bits"
        largest = max(max(tensor.shape) for tensor in (*layer.inputs, layer.output))
        if largest > 8192:
            return f"rows, columns and channels are at most 8192 each, got {largest}"
        found = _made(layer)
        return found if isinstance(found, str) else None

    def size(self, tensor: Tensor) -> int:
        return tensor.shape[0] * cube_bytes(*tensor.shape[1:]) * tensor.bits // 8

    def contents(self, tensor: Tensor) -> bytes:
        assert tensor.contents is not None
        return b"".join(to_surfaces(image) for image in tensor.contents)

    def constants(self, layer: Layer) -> Sequence[bytes]:
        found = _made(layer)
        assert not isinstance(found, str)
        return found.constants()

    def encode(self, layers: Iterator[PlacedLayer]) -> Iterator[Sequence[int]]:
        driver = Driver()
        for placed in layers:
            found = _made(placed.layer)
            assert not isinstance(found, str)
            constants = [BASE + address for address in placed.constants]
            cubes = [
                Cube.whole(BASE + address, *tensor.shape[1:])
                for address, tensor in zip(
                    (*placed.inputs, placed.output), (*placed.layer.inputs, placed.layer.output), strict=True
                )
            ]
            yield [word(step) for job in found.jobs(cubes, constants) for step in driver.run(job)]

    def files(self, form: str, network: EncodedNetwork) -> Iterator[tuple[str, str]]:
        if form == "registers":
            yield "", driver_source(network)
            return
        for trace in network_traces(network):
            yield from trace.texts()


@dataclass(frozen=True)
class _Made:
    """What becomes of a layer.

    constants  gives what it needs in memory beside its tensors
    jobs       from the tensors that it reads and writes, and the addresses of the constants, to its jobs
    """

    constants: Callable[[], Sequence[bytes]]
    jobs: Callable[[Sequence[Cube], Sequence[int]], Iterator[Job]]


def _made(layer: Layer) -> _Made | str:
    """What becomes of a layer; why NVDLA cannot compute it, as a sentence."""
    match layer.steps:
        case (Convolution() as convolution, Requantization() as scale):
            return _convolution(convolution, scale, layer)
        case (ImageSum() as total, Requantization() as scale):
            return _convolution(_image_sum(layer.inputs[0], total.zero_point), scale, layer)
        case (Pool() as pool,):
            return _pool(pool, layer)
        case (Addition() as addition,):
            found = sum_of(addition, layer)
            return found if isinstance(found, str) else _Made(found.constants, found.jobs)
        case (Requantization() as scale,):
            return _pass(scale, layer)
        case (Movement(kind="reshape"),):
            return _flattening(layer)
        case _:
            steps = ", ".join(type(step).__name__.lower() for step in layer.steps)
            return f"NVDLA computes no layer of {steps}"


# ---------------------------------------------------------------------------------------------------------------
# Convolutions


def _convolution(convolution: Convolution, scale: Requantization, layer: Layer) -> _Made | str:
    if convolution.weight_zero_point:
        return f"weights have the zero point 0, got {convolution.weight_zero_point}"
    if convolution.sum_bits != 32:
        return f"sums have 32 bits, got {convolution.sum_bits}"
    if (beyond := _beyond(convolution)) is not None:
        return beyond
    if scale.input_zero_point:
        return f"sums have the zero point 0, got {scale.input_zero_point}"
    outputs = len(convolution.weights)
    bias = np.zeros(outputs, np.int64) if convolution.bias is None else convolution.bias
    # Padding contributes nothing, so its elements are the zero point, which is subtracted with the bias.
    bias = bias - convolution.zero_point * convolution.weights.astype(np.int64).sum((1, 2, 3))
    finish = finishing(scale, bias)
    if isinstance(finish, str):
        return finish
    blocks = _blocks(convolution, layer.inputs[0].shape[3])
    # Windows of one row leave out rows between them, which need not be fetched: lines that far apart are the data.
    apart = convolution.stride[0] if convolution.kernel[0] == 1 and not any(convolution.padding[:2]) else 1
    rows = layer.output.shape[1] if apart > 1 else layer.inputs[0].shape[1]
    convolution = replace(convolution, stride=(convolution.stride[0] // apart, convolution.stride[1]))
    strips = [_strips(convolution, block.weights, layer, rows) for block in blocks]
    for found in strips:
        if isinstance(found, str):
            return found

    def constants() -> Sequence[bytes]:
        return [b"".join(weight_bytes(block.weights) for block in blocks), *finish.constants]

    def work(cubes: Sequence[Cube], addresses: Sequence[int]) -> Iterator[Job]:
        data, out = cubes
        data = replace(data, rows=rows, line=data.line * apart)
        at, operands = addresses[0], addresses[1:]
        for block, parts in zip(blocks, strips, strict=True):
            assert not isinstance(parts, str)
            size = atoms(block.weights.size) * ATOM
            own = jobs.Convolution(
                data.part(channels=block.inputs), out.part(channels=block.outputs), at, size,
                convolution.kernel, convolution.stride, convolution.dilation, convolution.padding,
                convolution.zero_point, 0, 0, finish.at(operands, block.outputs.start),
            )  # fmt: skip
            at += size
            for strip in parts:
                yield strip.of(own)

    return _Made(constants, work)


@dataclass(frozen=True)
class _Block:
    """Channels that a job reads and writes, and the weights [outputs, rows, columns, inputs] between them."""

    inputs: range
    outputs: range
    weights: Array


def _blocks(convolution: Convolution, channels: int) -> list[_Block]:
    """A convolution by blocks of whole groups that begin at multiples of 8 channels, zeros between the groups."""
    weights, groups = convolution.weights, convolution.groups
    outputs, inputs = len(weights) // groups, channels // groups
    together = next((n for n in range(1, groups) if not n * outputs % ATOM and not n * inputs % ATOM), groups)
    found: list[_Block] = []
    for first in range(0, groups, together):
        number = min(together, groups - first)
        dense = np.zeros((number * outputs, *weights.shape[1:3], number * inputs), np.int8)
        for n in range(number):
            own = weights[(first + n) * outputs : (first + n + 1) * outputs]
            dense[n * outputs : (n + 1) * outputs, :, :, n * inputs : (n + 1) * inputs] = own
        read = range(first * inputs, (first + number) * inputs)
        found.append(_Block(read, range(first * outputs, (first + number) * outputs), dense))
    return found


@dataclass(frozen=True)
class _Strip:
    """Rows of a convolution that are computed at once: those of the data and of the result, padding, and banks."""

    read: range
    written: range
    above: int
    below: int
    data_banks: int
    weight_banks: int

    def of(self, job: jobs.Convolution) -> jobs.Convolution:
        """The job of these rows alone."""
        left, right = job.padding[2:]
        return replace(
            job, source=job.source.part(rows=self.read), target=job.target.part(rows=self.written),
            padding=(self.above, self.below, left, right), data_banks=self.data_banks, weight_banks=self.weight_banks,
        )  # fmt: skip


def _strips(convolution: Convolution, weights: Array, layer: Layer, rows: int) -> list[_Strip] | str:
    """As few strips of rows of the data as possible, which fit the convolution buffer beside 8 kernels."""
    columns, out_rows = layer.inputs[0].shape[2], layer.output.shape[1]
    channels = weights.shape[3]
    entries = columns * atoms(channels)
    group = weights[:ATOM].size
    for number in range(1, out_rows + 1):
        height = -(-out_rows // number)
        found = [
            _strip(convolution, range(first, min(first + height, out_rows)), rows, entries, weights.size, group)
            for first in range(0, out_rows, height)
        ]
        if all(found):
            return [strip for strip in found if strip is not None]
    need = f"the rows of a window, of {entries * ATOM} bytes each, and 8 kernels, of {group} bytes"
    return f"{need}, fit {jobs.BANKS} banks of {jobs.BANK_BYTES} bytes"


def _strip(
    convolution: Convolution, written: range, rows: int, entries: int, weights: int, group: int
) -> _Strip | None:
    """The strip that writes some rows; None if it does not fit."""
    begin = written.start * convolution.stride[0] - convolution.padding[0]
    reach = (convolution.kernel[0] - 1) * convolution.dilation[0]
    end = (written.stop - 1) * convolution.stride[0] - convolution.padding[0] + reach + 1
    read = range(min(max(begin, 0), rows - 1), max(min(end, rows), 1))
    read = read if len(read) else range(rows - 1, rows)
    banks = jobs.fits((len(read), entries), weights, group)
    above, below = read.start - begin, end - read.stop
    if banks is None or above < 0 or below < 0:
        return None
    return _Strip(read, written, above, below, *banks)


def _beyond(convolution: Convolution) -> str | None:
    """Why registers do not have a convolution's window; None if they do."""
    top, bottom, left, right = convolution.padding
    for what, got, most in (
        ("windows have at most {} rows and columns", max(convolution.kernel), MOST_KERNEL),
        ("strides are at most {}", max(convolution.stride), MOST_STRIDE),
        ("dilations are at most {}", max(convolution.dilation), MOST_DILATION),
        ("rows above and columns left of the data are at most {}", max(top, left), MOST_BEFORE),
        ("rows below and columns right of the data are at most {}", max(bottom, right), MOST_BEHIND),
        ("a kernel has at most {} weights", convolution.weights[0].size * convolution.groups, 1 << 18),
    ):
        if got > most:
            return f"{what.format(most)}, got {got}"
    return None


def _ones(channels: int, window: tuple[int, int], zero_point: int, pool: Pool | None = None) -> Convolution:
    """The convolution that sums the windows of each channel."""
    weights, one, none = np.ones((channels, *window, 1), np.int8), (1, 1), (0, 0, 0, 0)
    stride, padding = (one, none) if pool is None else (pool.stride, pool.padding)
    return Convolution(weights, 0, None, zero_point, channels, stride, one, padding, 32)


def _image_sum(tensor: Tensor, zero_point: int) -> Convolution:
    """The convolution that sums each channel of an image."""
    _, rows, columns, channels = tensor.shape
    return _ones(channels, (rows, columns), zero_point)


# ---------------------------------------------------------------------------------------------------------------
# Pools


def _pool(pool: Pool, layer: Layer) -> _Made | str:
    if tuple(pool.dilation) != (1, 1):
        return f"pools have no dilations, got {max(pool.dilation)}"
    if pool.average and any(pool.padding) and not pool.counts_padding:
        return "means count the elements of the padding"
    by = reciprocals(pool.window) if pool.average else None
    fits = max(pool.window) <= MOST_WINDOW and max(pool.stride) <= MOST_STEP
    small = fits and max(pool.padding) <= MOST_MARGIN
    if small and (not pool.average or by is not None):

        def work(cubes: Sequence[Cube], _: Sequence[int]) -> Iterator[Job]:
            data, out = cubes
            whole = jobs.Pool(data, out, pool.window, pool.stride, pool.padding, by, pool.zero_point)
            return pool_jobs(whole)

        return _Made(tuple, work)
    if not pool.average:
        return (
            f"maximum pools have windows of at most {MOST_WINDOW} rows and columns, padding of at most {MOST_MARGIN} "
            f"and strides of at most {MOST_STEP}, "
            f"got {'x'.join(map(str, pool.window))}, {max(pool.padding)} and {max(pool.stride)}"
        )
    if any(pool.padding) and pool.zero_point:
        return f"means of windows that are no power of two count padding as 0, got {pool.zero_point}"
    scale = averaging(pool.window[0] * pool.window[1])
    if scale is None:
        return f"no factor of 16 bits gives the means of {pool.window[0]}x{pool.window[1]} elements"
    return _convolution(_ones(layer.inputs[0].shape[3], pool.window, 0, pool), scale, layer)


# ---------------------------------------------------------------------------------------------------------------
# Passes through SDP


def _pass(scale: Requantization, layer: Layer) -> _Made | str:
    outputs = layer.output.shape[3]
    finish = finishing(replace(scale, input_zero_point=0), np.full(outputs, -scale.input_zero_point, np.int64))
    if isinstance(finish, str):
        return finish

    def work(cubes: Sequence[Cube], addresses: Sequence[int]) -> Iterator[Job]:
        data, out = cubes
        yield jobs.Pass(data, out, finish.at(addresses, 0))

    return _Made(lambda: finish.constants, work)


def _flattening(layer: Layer) -> _Made | str:
    """The elements of an image as the channels of one pixel: rows, columns and channels, in whole surfaces."""
    _, rows, columns, channels = layer.inputs[0].shape
    if layer.output.shape[1:3] != (1, 1):
        return "an image is reshaped to the channels of one pixel"
    if channels % ATOM:
        return f"an image that is reshaped has a multiple of {ATOM} channels, got {channels}"
    if rows * columns > 8192:
        return f"an image that is reshaped has at most 8192 pixels, got {rows * columns}"

    def work(cubes: Sequence[Cube], _: Sequence[int]) -> Iterator[Job]:
        data, out = cubes
        # Each pixel is a row of one column. A surface becomes every so many of the result's.
        pixels = replace(data, rows=rows * columns, columns=1, line=ATOM)
        for first in range(0, channels, ATOM):
            surface = pixels.part(channels=range(first, first + ATOM))
            target = replace(surface, address=out.address + first, line=channels, surface=rows * columns * channels)
            yield jobs.Pass(surface, target, jobs.Finish())

    return _Made(tuple, work)

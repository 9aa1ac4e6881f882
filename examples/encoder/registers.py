"""Writes of registers: the instructions of a made-up device whose unit of work is a layer, and that device in software.

A word is a write, register << 32 | value; writing `START` computes. The device computes at most `OUTPUTS` channels of a
convolution at a time, so that a layer with more becomes several runs. Tensors lie in surfaces of 8 channels, each of
which is rows x columns x 8 bytes.

    CONVOLVE  sums of products with int8 weights [outputs, rows, columns, channels], an int32 bias [outputs], then the
              factors int32 [outputs, 2]: clamp((sum * multiplier + 2^(shift - 1)) >> shift) with bounds of 8 bits
    MAXIMUM   the maximum of windows
    FLATTEN   all elements of an image as the channels of one pixel, in the order rows, columns, channels
"""

from collections.abc import Iterator, Sequence
from enum import IntEnum

import numpy as np

from qmlir.devices.model.encoder import LayerEncoder
from qmlir.devices.model.layer import Convolution, Layer, Movement, PlacedLayer, Pool, Requantization, Tensor

SURFACE, OUTPUTS = 8, 16


class Register(IntEnum):
    """Registers by their numbers; those with two or four numbers hold a byte for each, the first one lowest."""

    SOURCE, TARGET, ROWS, COLUMNS, CHANNELS, OUT_ROWS, OUT_COLUMNS, OUT_CHANNELS = range(8)
    KERNEL, STRIDE, PADDING, WEIGHTS, BIAS, FACTORS, BOUNDS, START = range(8, 16)


class Work(IntEnum):
    """What `START` starts."""

    CONVOLVE, MAXIMUM, FLATTEN = range(1, 4)


class Registers(LayerEncoder):
    """Encodes layers as writes of registers."""

    word_bits = 64

    def refuses(self, layer: Layer) -> str | None:
        if any(tensor.shape[0] != 1 or tensor.bits != 8 for tensor in (*layer.inputs, layer.output)):
            return "registers take one image of 8 bits an element"
        match layer.steps:
            case (Convolution() as convolution, Requantization()):
                return _beyond(convolution.kernel, convolution.stride, convolution.padding, convolution.dilation) or (
                    f"registers have no groups, got {convolution.groups}" if convolution.groups != 1 else None
                )
            case (Pool(average=False) as pool,):
                return _beyond(pool.window, pool.stride, pool.padding, pool.dilation)
            case (Movement(kind="reshape"),) if layer.output.shape[1:3] == (1, 1):
                return None
            case _:
                steps = ", ".join(type(step).__name__.lower() for step in layer.steps)
                return f"registers take a convolution with its change of scale, a maximum or a flattening, got {steps}"

    def size(self, tensor: Tensor) -> int:
        images, rows, columns, channels = tensor.shape
        return images * rows * columns * -(-channels // SURFACE) * SURFACE * tensor.bits // 8

    def constants(self, layer: Layer) -> Sequence[bytes]:
        match layer.steps:
            case (Convolution() as convolution, Requantization() as scale):
                outputs = len(convolution.weights)
                bias = np.zeros(outputs) if convolution.bias is None else convolution.bias
                factors = np.empty((outputs, 2), "<i4")
                factors[:, 0], factors[:, 1] = scale.multipliers, 31 - scale.shifts
                return convolution.weights.astype(np.int8).tobytes(), bias.astype("<i4").tobytes(), factors.tobytes()
            case _:
                return ()

    def encode(self, layers: Iterator[PlacedLayer]) -> Iterator[Sequence[int]]:
        for placed in layers:
            yield [write for run in _runs(placed) for write in run]


def _beyond(
    kernel: Sequence[int], stride: Sequence[int], padding: Sequence[int], dilation: Sequence[int]
) -> str | None:
    if tuple(dilation) != (1, 1):
        return f"registers have no dilations, got {dilation[0]}"
    most = max(*kernel, *stride, *padding)
    return f"registers have a byte for each number of a window, got {most}" if most > 255 else None


def _write(register: Register, *values: int) -> int:
    """A write of a number of 32 bits, or of bytes."""
    value = values[0] if len(values) == 1 else sum((value & 0xFF) << 8 * n for n, value in enumerate(values))
    return register << 32 | value & 0xFFFFFFFF


def _runs(placed: PlacedLayer) -> Iterator[list[int]]:
    """Yields the writes of each run that computes a part of a layer."""
    layer = placed.layer
    (_, rows, columns, channels), (_, out_rows, out_columns, outputs) = layer.inputs[0].shape, layer.output.shape
    writes = [_write(Register.SOURCE, placed.inputs[0]), _write(Register.ROWS, rows), _write(Register.COLUMNS, columns)]
    writes += [_write(Register.CHANNELS, channels), _write(Register.OUT_ROWS, out_rows)]
    writes.append(_write(Register.OUT_COLUMNS, out_columns))
    match layer.steps:
        case (Convolution() as convolution, Requantization() as scale):
            writes += [_write(Register.KERNEL, *convolution.kernel), _write(Register.STRIDE, *convolution.stride)]
            writes += [
                _write(Register.PADDING, *convolution.padding),
                _write(Register.BOUNDS, scale.lower, scale.upper),
            ]
            weights, bias, factors = placed.constants
            for first in range(0, outputs, OUTPUTS):
                part = [_write(Register.WEIGHTS, weights + first * convolution.weights[0].size)]
                part += [_write(Register.BIAS, bias + 4 * first), _write(Register.FACTORS, factors + 8 * first)]
                part.append(_write(Register.TARGET, placed.output + first * out_rows * out_columns))
                part.append(_write(Register.OUT_CHANNELS, min(OUTPUTS, outputs - first)))
                yield [*(writes if not first else ()), *part, _write(Register.START, Work.CONVOLVE)]
        case (Pool() as pool,):
            writes += [_write(Register.KERNEL, *pool.window), _write(Register.STRIDE, *pool.stride)]
            writes += [_write(Register.PADDING, *pool.padding), _write(Register.TARGET, placed.output)]
            yield [*writes, _write(Register.OUT_CHANNELS, outputs), _write(Register.START, Work.MAXIMUM)]
        case _:
            writes += [_write(Register.TARGET, placed.output), _write(Register.OUT_CHANNELS, outputs)]
            yield [*writes, _write(Register.START, Work.FLATTEN)]


# ---------------------------------------------------------------------------------------------------------------
# The made-up device: what hardware would do, from the words and the memory alone


class Machine:
    """The device: registers, and a memory of bytes."""

    def __init__(self, size: int):
        self.memory = np.zeros(size, np.uint8)
        self.registers = dict.fromkeys(Register, 0)

    def run(self, words: Sequence[int]) -> None:
        """Carries out writes, one after the other."""
        for word in words:
            register = Register(word >> 32)
            self.registers[register] = word & 0xFFFFFFFF
            if register is Register.START:
                self._start(Work(self.registers[register]))

    def put(self, address: int, image: np.ndarray) -> None:
        """Writes an image [rows, columns, channels] of int8 to memory, in surfaces."""
        rows, columns, channels = image.shape
        padded = np.zeros((rows, columns, -(-channels // SURFACE) * SURFACE), np.int8)
        padded[:, :, :channels] = image
        surfaces = padded.reshape(rows, columns, -1, SURFACE).transpose(2, 0, 1, 3)
        self.memory[address : address + surfaces.size] = surfaces.reshape(-1).view(np.uint8)

    def get(self, address: int, rows: int, columns: int, channels: int) -> np.ndarray:
        """Reads an image [rows, columns, channels] of int8 from surfaces."""
        blocks = -(-channels // SURFACE)
        held = self._numbers(address, rows * columns * blocks * SURFACE, np.int8)
        return (
            held.reshape(blocks, rows, columns, SURFACE)
            .transpose(1, 2, 0, 3)
            .reshape(rows, columns, -1)[:, :, :channels]
        )

    def _numbers(self, address: int, how_many: int, dtype: str | type) -> np.ndarray:
        return self.memory[address : address + how_many * np.dtype(dtype).itemsize].view(dtype)

    def _bytes(self, register: Register, number: int, *, signed: bool = False) -> list[int]:
        parts = [self.registers[register] >> 8 * n & 0xFF for n in range(number)]
        return [part - (256 if signed and part > 127 else 0) for part in parts]

    def _start(self, work: Work) -> None:
        held = self.registers
        rows, columns, channels = held[Register.ROWS], held[Register.COLUMNS], held[Register.CHANNELS]
        image = self.get(held[Register.SOURCE], rows, columns, channels)
        match work:
            case Work.CONVOLVE:
                result = self._convolved(image.astype(np.int64))
            case Work.MAXIMUM:
                result = self._windows(image, -128).max(axis=(2, 3))
            case Work.FLATTEN:
                result = image.reshape(1, 1, -1)
        self.put(held[Register.TARGET], result.astype(np.int8))

    def _windows(self, image: np.ndarray, outside: int) -> np.ndarray:
        """The windows [out rows, out columns, rows, columns, channels] of an image with padding."""
        (rows, columns), (down, right) = self._bytes(Register.KERNEL, 2), self._bytes(Register.STRIDE, 2)
        top, bottom, left, after = self._bytes(Register.PADDING, 4)
        padded = np.pad(image, ((top, bottom), (left, after), (0, 0)), constant_values=outside)
        places = [
            (y * down, x * right)
            for y in range(self.registers[Register.OUT_ROWS])
            for x in range(self.registers[Register.OUT_COLUMNS])
        ]
        windows = np.stack([padded[y : y + rows, x : x + columns] for y, x in places])
        return windows.reshape(self.registers[Register.OUT_ROWS], -1, rows, columns, image.shape[2])

    def _convolved(self, image: np.ndarray) -> np.ndarray:
        held, outputs = self.registers, self.registers[Register.OUT_CHANNELS]
        kernel = [outputs, *self._bytes(Register.KERNEL, 2), image.shape[2]]
        weights = self._numbers(held[Register.WEIGHTS], int(np.prod(kernel)), np.int8).reshape(kernel)
        bias = self._numbers(held[Register.BIAS], outputs, "<i4")
        factors = self._numbers(held[Register.FACTORS], 2 * outputs, "<i4").reshape(outputs, 2).astype(np.int64)
        sums = np.einsum("yxrsc,orsc->yxo", self._windows(image, 0), weights.astype(np.int64)) + bias
        lower, upper = self._bytes(Register.BOUNDS, 2, signed=True)
        return ((sums * factors[:, 0] + (1 << factors[:, 1] - 1)) >> factors[:, 1]).clip(lower, upper)

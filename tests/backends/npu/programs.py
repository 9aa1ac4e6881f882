"""Programs written by hand for the device `nmp`: one convolution, brought in, computed, finished and brought out."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.stream import Port, Program, Segment, assemble, flat
from qmlir.devices import Device, load_device
from qmlir.isa.encoding import Place

Array = npt.NDArray[Any]

DEVICE = load_device("nmp")
ACT, WGT, ACC, DRAM = range(4)
INPUT, WEIGHTS, BIAS, TABLE, OUTPUT = 0x0, 0x1000, 0x2000, 0x2400, 0x3000


def tiled(weights: Array, n: int, k: int) -> bytes:
    """Weights [O, KH, KW, C] in tiles n by k, padded with zeros."""
    matrix = weights.reshape(weights.shape[0], -1)
    rows, columns = -(-matrix.shape[0] // n), -(-matrix.shape[1] // k)
    padded = np.zeros((rows * n, columns * k), weights.dtype)
    padded[: matrix.shape[0], : matrix.shape[1]] = matrix
    return padded.reshape(rows, n, columns, k).transpose(0, 2, 1, 3).tobytes()


@dataclass(frozen=True)
class Layer:
    """A convolution 3x3, padded by one, on 6x5 pixels of 4 channels to 8, then a shift by 7 and a clamp from 0."""

    weights: Array
    bias: Array
    shift: int = 7

    @staticmethod
    def random(seed: int = 0) -> "Layer":
        rng = np.random.default_rng(seed)
        weights = rng.integers(-127, 128, (8, 3, 3, 4)).astype(np.int8)
        return Layer(weights, rng.integers(-2000, 2000, 8).astype(np.int32))

    def expected(self, x: Array) -> Array:
        """The layer in plain numpy."""
        padded = np.pad(x.astype(np.int64), ((1, 1), (1, 1), (0, 0)))
        windows = np.lib.stride_tricks.sliding_window_view(padded, (3, 3), axis=(0, 1))
        sums = np.einsum("rckij,oijk->rco", windows, self.weights.astype(np.int64)) + self.bias
        return np.clip(sums + (1 << self.shift - 1) >> self.shift, 0, 127).astype(np.int8)

    def text(self) -> str:
        """The program in assembly."""
        whole = "rows=1 planes=1 source_row=0 source_plane=0 target_row=0 target_plane=0"
        size = len(tiled(self.weights, 16, 32))
        return f"""
            exec mark layer=0
            load move source=dram:{INPUT:#x} target=act:0x0 size=120 {whole}
            load move source=dram:{WEIGHTS:#x} target=wgt:0x0 size={size} {whole}
            load move source=dram:{BIAS:#x} target=acc:0x4000 size=32 {whole}
            load move source=dram:{TABLE:#x} target=acc:0x4040 size=8 {whole}
            exec convolve data=act:0x0 weights=wgt:0x0 bias=acc:0x4000 sums=acc:0x0 init=bias data_bits=8 \
weight_bits=8 sum_bits=32 bias_bits=32 bias_shift=0 zero_point=0 weight_zero_point=0 \
rows=6 columns=5 channels=4 row_pitch=20 pixel_pitch=4 \
out_rows=6 out_columns=5 kernel_rows=3 kernel_columns=3 stride_rows=1 stride_columns=1 dilation_rows=1 \
dilation_columns=1 top=1 left=1 out_channels=8 after load:3
            post set-context ctx=1 step=requantize bits=8 contract=4 input_zero_point=0 zero_point=0 lower=0 upper=127 \
per_channel=0 table=acc:0x4040
            post post ctx=1 source=acc:0x0 source_bits=32 rows=6 columns=5 channels=8 source_row=160 source_pixel=32 \
target=act:0x1000 target_row=40 target_pixel=8 after exec:2 load:4
            store move source=act:0x1000 target=dram:{OUTPUT:#x} size=240 {whole} after post:2
            exec end status=0
        """

    def program(self, text: str | None = None, device: Device = DEVICE) -> Program:
        """The program with its data."""
        table = np.array([1 << 30, 1 - self.shift], "<i4").tobytes()
        segments: Sequence[Segment] = (
            Segment(Place(DRAM, WEIGHTS), tiled(self.weights, 16, 32)),
            Segment(Place(DRAM, BIAS), self.bias.tobytes()),
            Segment(Place(DRAM, TABLE), table),
        )
        return Program(
            flat(device),
            assemble(self.text() if text is None else text, device),
            segments,
            (Port("x", Place(DRAM, INPUT), (6, 5, 4), "i8"),),
            (Port("y", Place(DRAM, OUTPUT), (6, 5, 8), "i8"),),
            ("conv",),
        )


def image(seed: int = 1) -> Array:
    """An input."""
    return np.random.default_rng(seed).integers(-128, 128, (6, 5, 4)).astype(np.int8)

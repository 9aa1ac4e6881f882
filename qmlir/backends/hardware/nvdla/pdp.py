"""PDP: maxima, minima and averages of windows."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from qmlir.backends.hardware.nvdla.arithmetic import Ints, rounded, signed, wrapped
from qmlir.backends.hardware.nvdla.memory import ATOM, Cube, Memory
from qmlir.backends.hardware.nvdla.units import Settings

AVERAGE, MAXIMUM, MINIMUM = range(3)

KERNEL = 8
"""The most rows and columns of a window."""

BUFFER = 128
"""Columns of the result that the buffer of lines holds where windows do not overlap in rows."""


@dataclass(frozen=True)
class Pooling:
    """A layer of PDP and, unless its data come from SDP, of PDP_RDMA."""

    pdp: Settings
    rdma: Settings | None

    @property
    def flying(self) -> bool:
        """Whether the data come from SDP, not from memory."""
        return self.pdp["FLYING_MODE"] == 0

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, rows and columns of the data."""
        pdp = self.pdp
        return pdp["CUBE_IN_CHANNEL"] + 1, pdp["CUBE_IN_HEIGHT"] + 1, pdp["CUBE_IN_WIDTH"] + 1

    @property
    def out(self) -> tuple[int, int, int]:
        """Channels, rows and columns of the result."""
        pdp = self.pdp
        return pdp["CUBE_OUT_CHANNEL"] + 1, pdp["CUBE_OUT_HEIGHT"] + 1, pdp["CUBE_OUT_WIDTH"] + 1

    @property
    def kernel(self) -> tuple[int, int]:
        """Rows and columns of a window."""
        return self.pdp["KERNEL_HEIGHT"] + 1, self.pdp["KERNEL_WIDTH"] + 1

    @property
    def strides(self) -> tuple[int, int]:
        """Rows and columns from a window to the next."""
        return self.pdp["KERNEL_STRIDE_HEIGHT"] + 1, self.pdp["KERNEL_STRIDE_WIDTH"] + 1

    @property
    def begins_another(self) -> bool:
        """Whether PDP begins a window behind the last one, whose rows are there in part, and never ends it.

        It does where that window begins above or in the first row. The next layer of PDP then waits for ever.
        """
        down, top, count = self.strides[0], self.pdp["PAD_TOP"], self.out[1]
        return (count - 1) * down + self.kernel[0] < self.shape[1] + top and count * down <= top

    def check(self) -> None:
        """Refuses what PDP of nv_small does wrong or waits for for ever, and units that were told differently.

        Raises:
            QmlirError: As said, naming the register.
        """
        pdp, rdma = self.pdp, self.rdma
        pdp.needs("INPUT_DATA", 0, "nv_small has int8 only")
        pdp.needs("DST_RAM_TYPE", 1, "nv_small has one memory")
        if pdp["POOLING_METHOD"] > MINIMUM:
            pdp.refuse("the method must be 0 (average), 1 (maximum) or 2 (minimum)", "POOLING_METHOD")
        pdp.agrees("CUBE_OUT_CHANNEL", pdp, "CUBE_IN_CHANNEL")
        if rdma is not None:
            for name in ("CUBE_IN_WIDTH", "CUBE_IN_HEIGHT", "CUBE_IN_CHANNEL", "INPUT_DATA", "SPLIT_NUM"):
                rdma.agrees(name, pdp)
            rdma.needs("SRC_RAM_TYPE", 1, "nv_small has one memory")
            rdma.agrees("KERNEL_WIDTH", pdp)
            rdma.agrees("KERNEL_STRIDE_WIDTH", pdp)
        for name in ("KERNEL_WIDTH", "KERNEL_HEIGHT"):
            if pdp[name] + 1 > KERNEL:
                pdp.refuse(f"windows have at most {KERNEL} rows and columns", name)
        axes = ("TOP", "BOTTOM", "HEIGHT"), ("LEFT", "RIGHT", "WIDTH")
        sizes = zip(axes, self.kernel, self.strides, self.shape[1:], self.out[1:], strict=True)
        for (before, after, axis), kernel, stride, size, count in sizes:
            exact = (count - 1) * stride + kernel - size - pdp[f"PAD_{before}"]
            if pdp[f"PAD_{before}"] >= kernel:
                pdp.refuse(f"padding must be less than the window of {kernel}", f"PAD_{before}")
            if max(exact, 0) != pdp[f"PAD_{after}"] or exact >= kernel:
                pdp.refuse(f"the windows end {exact} past the data, and padding must be just that", f"PAD_{after}")
            if exact <= -stride:
                got = f"{-exact} behind windows that are {stride} apart"
                pdp.refuse(
                    "rows and columns behind the last window must be too few for another", f"CUBE_OUT_{axis}", got
                )
        if self.begins_another and self.shape[0] > ATOM:
            need = "rows behind the last window must not be those of one that begins above or in the first row"
            pdp.refuse(f"{need}, which would go on in the next 8 channels", "CUBE_OUT_HEIGHT")
        self._check_width()

    def _check_width(self) -> None:
        """Checks that each part of the columns fits the buffer of lines, and that the parts are the whole."""
        pdp, parts = self.pdp, self.pdp["SPLIT_NUM"] + 1
        lines = -(-self.kernel[0] // self.strides[0])
        most = BUFFER >> (lines - 1).bit_length()
        widths = [self.out[2]]
        if parts > 1:
            for unit, side, whole in self._sides():
                first, middle, last = (unit[f"PARTIAL_WIDTH_{side}_{part}"] + 1 for part in ("FIRST", "MID", "LAST"))
                total = first + middle * (parts - 2) + last
                if total != whole:
                    unit.refuse(f"parts must have {whole} columns together", f"PARTIAL_WIDTH_{side}_FIRST", total)
                if side == "OUT":
                    widths = [first, last, *([middle] if parts > 2 else [])]
        if max(widths) > most:
            need = f"at most {most} columns of a result fit into the buffer for {lines} windows above each other"
            pdp.refuse(f"{need}, or the device waits for ever", "CUBE_OUT_WIDTH", max(widths))

    def _sides(self) -> list[tuple[Settings, str, int]]:
        readers = [] if self.rdma is None else [(self.rdma, "IN", self.shape[2])]
        return [(self.pdp, "IN", self.shape[2]), (self.pdp, "OUT", self.out[2]), *readers]

    def run(self, memory: Memory, data: NDArray[np.int8] | None) -> None:
        """Computes and writes the result.

        data  what comes from SDP: int8 [surfaces, rows, columns, 8], or None
        """
        x = self._source(memory) if data is None else data
        method = self.pdp["POOLING_METHOD"]
        if method == AVERAGE:
            y = self._average(x.astype(np.int64))
        else:
            none, best = (-128, np.maximum) if method == MAXIMUM else (127, np.minimum)
            y = self._windows(x, none, best)
        self.target().write(memory, y.astype(np.int8))

    def _source(self, memory: Memory) -> NDArray[np.int8]:
        assert self.rdma is not None
        rdma, (channels, rows, columns) = self.rdma, self.shape
        address = rdma.address("SRC_BASE_ADDR_LOW", "SRC_BASE_ADDR_HIGH")
        line, surface = rdma["SRC_LINE_STRIDE"], rdma["SRC_SURFACE_STRIDE"]
        cube = Cube(address, columns, rows, channels, line, surface, rdma.where("SRC_LINE_STRIDE"))
        cube.check()
        return cube.read(memory)

    def target(self) -> Cube:
        """Returns where the result is written.

        Raises:
            QmlirError: The address or a stride is no multiple of 8.
        """
        pdp, (channels, rows, columns) = self.pdp, self.out
        address = pdp.address("DST_BASE_ADDR_LOW", "DST_BASE_ADDR_HIGH")
        line, surface = pdp["DST_LINE_STRIDE"], pdp["DST_SURFACE_STRIDE"]
        cube = Cube(address, columns, rows, channels, line, surface, pdp.where("DST_LINE_STRIDE"))
        cube.check()
        return cube

    def _padded(self, x: NDArray[np.integer], value: int, axis: int) -> NDArray[np.integer]:
        """Returns the data with padding along rows (axis 0) or columns (axis 1), cut where the windows end."""
        before = self.pdp["PAD_TOP"], self.pdp["PAD_LEFT"]
        length = (self.out[1 + axis] - 1) * self.strides[axis] + self.kernel[axis]
        after = max(length - before[axis] - x.shape[1 + axis], 0)
        pads = [(0, 0), (0, 0), (0, 0), (0, 0)]
        pads[1 + axis] = before[axis], after
        return np.pad(x, pads, constant_values=value).take(range(length), axis=1 + axis)

    def _windows(self, x: NDArray[np.int8], none: int, best: np.ufunc) -> NDArray[np.int8]:
        """Returns the best element of each window; padding never is."""
        for axis in (1, 0):
            padded = self._padded(x, none, axis)
            x = best.reduce([self._at(padded, k, axis) for k in range(self.kernel[axis])])
        return x

    def _at(self, x: NDArray[np.integer], k: int, axis: int) -> NDArray[np.integer]:
        """Returns element k of each window along an axis."""
        stride, count = self.strides[axis], self.out[1 + axis]
        places = slice(k, k + (count - 1) * stride + 1, stride)
        return x[:, places] if axis == 0 else x[:, :, places]

    def _average(self, x: Ints) -> Ints:
        """Returns averages: a row's sum has 11 bits, a window's 14, and two roundings follow; nothing saturates.

        Padding counts as PAD_VALUE_n, n elements in a row of a window, and as PAD_VALUE_n times the columns of a window
        for n rows; the bit above the 14 that these need is there.
        """
        pads = [0, *(signed(self.pdp[f"PAD_VALUE_{n}X"], 19) for n in range(1, KERNEL))]
        beside = np.array([pads[n] for n in self._missing(1)])
        x = wrapped(self._sums(x, 1) + beside[:, None], 11)
        above = wrapped(np.array([pads[n] * self.kernel[1] for n in self._missing(0)]), 14)
        x = wrapped(self._sums(x, 0), 14) + above[:, None, None]
        mean = _fraction(wrapped(x * self.pdp["RECIP_KERNEL_WIDTH"], 31), 11)
        return _fraction(mean * self.pdp["RECIP_KERNEL_HEIGHT"], 8)

    def _sums(self, x: Ints, axis: int) -> Ints:
        """Returns the sums of windows along an axis, without their padding."""
        padded = self._padded(x, 0, axis)
        return np.sum([self._at(padded, k, axis) for k in range(self.kernel[axis])], axis=0)

    def _missing(self, axis: int) -> list[int]:
        """Returns how many rows or columns of each window are padding."""
        before = (self.pdp["PAD_TOP"], self.pdp["PAD_LEFT"])[axis]
        size, kernel, stride = self.shape[1 + axis], self.kernel[axis], self.strides[axis]
        starts = [n * stride - before for n in range(self.out[1 + axis])]
        return [kernel - (min(start + kernel, size) - max(start, 0)) for start in starts]


def _fraction(products: Ints, bits: int) -> Ints:
    """Returns products / 2^16, halves away from zero, in so many bits.

    What is not negative keeps one bit less before it is rounded.
    """
    above = products >> 16 & (1 << bits - 1) - 1
    positive = above + (products >> 15 & 1)
    return wrapped(np.where(products < 0, rounded(products, 16), positive), bits)

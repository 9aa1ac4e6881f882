"""Direct convolution: CDMA fetches data and weights, CSC arranges them, CMAC multiplies, CACC sums and shortens.

The sums are exact. The accumulators have 34 bits and saturate, which no convolution reaches that ends: the weights of a
kernel must fit into 31 banks, so a sum has fewer than 2^17 products of 15 bits.
"""

from dataclasses import dataclass

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

from qmlir.backends.hardware.nvdla.arithmetic import Ints, rounded, saturated, signed
from qmlir.backends.hardware.nvdla.memory import ATOM, Cube, Memory
from qmlir.backends.hardware.nvdla.units import Settings

BANKS, BANK_ENTRIES = 32, 512

R8, ORDERS = (
    0,
    {
        (0, 1, 2, 3): (0xC, 0x10),
        (2, 1, 0, 3): (0xD, 0x11, 0x1A),
        (1, 2, 3, 0): (0xE, 0x12, 0x1B),
        (3, 2, 1, 0): (0xF, 0x13),
    },
)
"""Formats of pixels: one of a byte, and, by the byte that each channel is in, those of four bytes."""

_CHANNEL_BYTES = {format: order for order, formats in ORDERS.items() for format in formats}


@dataclass(frozen=True)
class Convolution:
    """A layer of CDMA, CSC, CMAC and CACC, checked: what follows from their registers."""

    cdma: Settings
    csc: Settings
    cacc: Settings

    @property
    def pixels(self) -> bool:
        """Whether the data are pixels in rows, not surfaces of 8 channels."""
        return self.cdma["DATAIN_FORMAT"] == 1

    @property
    def columns(self) -> int:
        """Columns of the data."""
        return self.cdma["DATAIN_WIDTH"] + 1

    @property
    def rows(self) -> int:
        """Rows of the data."""
        return self.cdma["DATAIN_HEIGHT"] + 1

    @property
    def channels(self) -> int:
        """Channels of the data; of pixels, the bytes of one."""
        return self.cdma["DATAIN_CHANNEL"] + 1

    @property
    def kernel(self) -> tuple[int, int, int, int]:
        """Kernels, their rows, columns and channels; a row of a kernel for pixels is one column of all its bytes."""
        csc = self.csc
        rows, columns = csc["WEIGHT_HEIGHT_EXT"] + 1, csc["WEIGHT_WIDTH_EXT"] + 1
        return csc["WEIGHT_KERNEL"] + 1, rows, columns, csc["WEIGHT_CHANNEL_EXT"] + 1

    @property
    def out(self) -> tuple[int, int, int]:
        """Channels, rows and columns of the result."""
        csc = self.csc
        return csc["DATAOUT_CHANNEL"] + 1, csc["DATAOUT_HEIGHT"] + 1, csc["DATAOUT_WIDTH"] + 1

    @property
    def strides(self) -> tuple[int, int]:
        """Rows and columns from a window to the next."""
        return self.csc["CONV_Y_STRIDE_EXT"] + 1, self.csc["CONV_X_STRIDE_EXT"] + 1

    @property
    def dilations(self) -> tuple[int, int]:
        """Rows and columns from an element of a kernel to the next."""
        return self.csc["Y_DILATION_EXT"] + 1, self.csc["X_DILATION_EXT"] + 1

    @property
    def entries(self) -> int:
        """Entries of 8 bytes that a row of the data takes in the buffer."""
        if self.pixels:
            padded = self.columns + self.cdma["PAD_LEFT"] + self.cdma["PAD_RIGHT"]
            return -(-padded * self.channels // ATOM)
        return self.columns * -(-self.channels // ATOM)

    def check(self) -> None:
        """Refuses what nv_small does not have, what it would wait for for ever, and units that were told differently.

        Raises:
            QmlirError: As said, naming the register.
        """
        cdma, csc, cacc = self.cdma, self.csc, self.cacc
        for unit in (cdma, csc):
            unit.needs("CONV_MODE", 0, "nv_small has no Winograd")
            unit.needs("IN_PRECISION", 0, "nv_small has int8 only")
            unit.needs("PROC_PRECISION", 0, "nv_small has int8 only")
            unit.needs("BATCHES", 0, "nv_small has no batches")
            unit.needs("WEIGHT_FORMAT", 0, "nv_small has no compressed weights")
            for name in ("DATA_REUSE", "WEIGHT_REUSE"):
                unit.needs(name, 0, "data and weights of the layer before are not modelled")
        csc.needs("Y_EXTENSION", 0, "rows that are computed together are not modelled")
        cdma.needs("DATAIN_RAM_TYPE", 1, "nv_small has one memory")
        cdma.needs("WEIGHT_RAM_TYPE", 1, "nv_small has one memory")
        same = ("DATAIN_FORMAT", "DATAIN_WIDTH_EXT", "DATAIN_HEIGHT_EXT", "ENTRIES", "WEIGHT_KERNEL", "WEIGHT_BYTES")
        for name in (*same, "PAD_LEFT", "PAD_TOP", "DATA_BANK", "WEIGHT_BANK"):
            cdma.agrees(name, csc)
        cdma.agrees("DATAIN_WIDTH", cdma, "DATAIN_WIDTH_EXT")
        cdma.agrees("DATAIN_HEIGHT", cdma, "DATAIN_HEIGHT_EXT")
        for name in ("DATAOUT_WIDTH", "DATAOUT_HEIGHT", "DATAOUT_CHANNEL"):
            csc.agrees(name, cacc)
        csc.agrees("DATAOUT_CHANNEL", csc, "WEIGHT_KERNEL")
        self._check_format()
        self._check_buffer()
        self._check_windows()

    @property
    def left(self) -> str | None:
        """What the layer leaves in the buffer, which another convolution would find there, or None."""
        count, rows, columns, channels = self.kernel
        size = -(-count * rows * columns * channels // ATOM) * ATOM
        kept = [name for name in ("SKIP_DATA_RLS", "SKIP_WEIGHT_RLS") if self.csc[name]]
        if kept:
            return f"{' and '.join(kept)} in the layer before"
        if self.csc["RLS_SLICES"] != self.rows - 1:
            return f"RLS_SLICES = {self.csc['RLS_SLICES']} for {self.rows} rows in the layer before"
        if self.cdma["WEIGHT_BYTES"] != size:
            return f"WEIGHT_BYTES = {self.cdma['WEIGHT_BYTES']} for {size} in the layer before"
        return None

    def _check_format(self) -> None:
        cdma, csc = self.cdma, self.csc
        if not self.pixels:
            cdma.agrees("DATAIN_CHANNEL", csc, "DATAIN_CHANNEL_EXT")
            csc.agrees("DATAIN_CHANNEL_EXT", csc, "WEIGHT_CHANNEL_EXT")
            packed = self.columns * ATOM
            if cdma["LINE_PACKED"] and cdma["LINE_STRIDE"] != packed:
                cdma.refuse(f"packed lines are {packed} bytes apart", "LINE_STRIDE")
            if cdma["SURF_PACKED"] and self.channels > ATOM and cdma["SURF_STRIDE"] != cdma["LINE_STRIDE"] * self.rows:
                cdma.refuse(f"packed surfaces are {cdma['LINE_STRIDE'] * self.rows} bytes apart", "SURF_STRIDE")
            return
        pixel = 1 if cdma["PIXEL_FORMAT"] == R8 else 4 if cdma["PIXEL_FORMAT"] in _CHANNEL_BYTES else 0
        if not pixel:
            cdma.refuse("pixels must be of one byte (0x0) or of four (0xc to 0x13, 0x1a, 0x1b)", "PIXEL_FORMAT")
        cdma.needs("DATAIN_CHANNEL", pixel - 1, "the format of the pixels says so")
        csc.needs("WEIGHT_WIDTH_EXT", 0, "kernels for pixels have the bytes of a row as channels")
        if self.kernel[3] % pixel:
            csc.refuse(f"kernels must take whole pixels of {pixel} bytes", "WEIGHT_CHANNEL_EXT", self.kernel[3])
        for name in ("X_DILATION_EXT", "Y_DILATION_EXT"):
            csc.needs(name, 0, "there are no dilations for pixels")
        for name in ("PIXEL_MAPPING", "PIXEL_X_OFFSET", "PIXEL_Y_OFFSET"):
            cdma.needs(name, 0, "pixels must begin at the address and lie in rows")
        cdma.agrees("PAD_VALUE", csc)

    def _check_buffer(self) -> None:
        cdma, csc = self.cdma, self.csc
        count, rows, columns, channels = self.kernel
        kernel = rows * columns * channels
        data, weights = cdma["DATA_BANK"] + 1, cdma["WEIGHT_BANK"] + 1
        if data + weights > BANKS:
            cdma.refuse(f"the buffer has {BANKS} banks", "WEIGHT_BANK", f"{data} for data and {weights} for weights")
        cdma.needs("ENTRIES", self.entries - 1, f"a row takes {self.entries} entries")
        if self.entries * self.rows > data * BANK_ENTRIES:
            got = f"{self.rows} rows of {self.entries} entries for {data} banks of {BANK_ENTRIES}"
            cdma.refuse("all rows must fit into the banks of data, or the device waits for ever", "DATA_BANK", got)
        cdma.needs("BYTE_PER_KERNEL", kernel - 1, f"a kernel has {kernel} bytes")
        group = min(count, ATOM) * kernel
        if group > weights * BANK_ENTRIES * ATOM:
            got = f"{group} bytes for {weights} banks of {BANK_ENTRIES * ATOM}"
            cdma.refuse(
                "8 kernels must fit into the banks of weights, or the device waits for ever", "WEIGHT_BANK", got
            )
        if cdma["WEIGHT_BYTES"] % ATOM or cdma["WEIGHT_BYTES"] < count * kernel:
            cdma.refuse(f"{count * kernel} bytes of weights need as many, in a multiple of 8", "WEIGHT_BYTES")
        csc.needs("ATOMICS", self.out[1] * self.out[2] - 1, "it is the number of pixels of the result, less one")

    def _check_windows(self) -> None:
        """Checks that windows end where the right and the bottom padding say."""
        cdma = self.cdma
        _, rows, columns, channels = self.kernel
        width = channels // self.channels if self.pixels else (columns - 1) * self.dilations[1] + 1
        spans = (rows - 1) * self.dilations[0] + 1, width
        sides = ("PAD_TOP", "PAD_BOTTOM", self.rows), ("PAD_LEFT", "PAD_RIGHT", self.columns)
        for (before, after, size), span, stride, count in zip(sides, spans, self.strides, self.out[1:], strict=True):
            missing = (count - 1) * stride + span - cdma[before] - size
            if missing > cdma[after]:
                cdma.refuse(f"windows reach {missing} past the data", after)

    def sums(self, memory: Memory) -> Ints:
        """Returns what CACC sends to SDP: int64 [surfaces of 8 channels, rows, columns, 8], within 32 bits.

        Lanes past the last channel are 0.
        """
        data = self._pixels(memory) if self.pixels else self._feature(memory)
        weights = self._weights(memory)
        count, rows, columns, _ = self.kernel
        _, out_rows, out_columns = self.out
        (row_stride, column_stride), (row_step, column_step) = self.strides, self.dilations
        if self.pixels:
            column_stride = 1  # `_pixels` has a column for each window
        sums = np.zeros((count, out_rows * out_columns))
        for r in range(rows):
            for c in range(columns):
                y = slice(r * row_step, r * row_step + (out_rows - 1) * row_stride + 1, row_stride)
                x = slice(c * column_step, c * column_step + (out_columns - 1) * column_stride + 1, column_stride)
                sums += weights[:, r, c] @ data[:, y, x].reshape(len(data), -1)
        surfaces = np.zeros((-(-count // ATOM) * ATOM, out_rows, out_columns), np.int64)
        surfaces[:count] = sums.reshape(count, out_rows, out_columns)
        return self._clipped(surfaces.reshape(-1, ATOM, out_rows, out_columns).transpose(0, 2, 3, 1))

    def _clipped(self, sums: Ints) -> Ints:
        """Returns the sums shortened by CLIP_TRUNCATE bits.

        Only 16 bits below the point are looked at: of a negative sum that is a half in them, the rest is lost, and the
        half counts as one.
        """
        shift = self.cacc["CLIP_TRUNCATE"]
        if shift > 16:
            sums, shift = sums >> shift - 16, 16
        return saturated(rounded(sums, shift), 32)

    def _feature(self, memory: Memory) -> NDArray[np.float64]:
        """Returns the padded data [channels, rows, columns], as long as the windows reach."""
        cdma = self.cdma
        address = cdma.address("DATAIN_ADDR_LOW_0", "DATAIN_ADDR_HIGH_0")
        cube = Cube(
            *(address, self.columns, self.rows, self.channels, cdma["LINE_STRIDE"], cdma["SURF_STRIDE"]),
            where=cdma.where("LINE_STRIDE"),
        )
        cube.check()
        values = cube.read(memory)
        values = values.transpose(0, 3, 1, 2).reshape(-1, self.rows, self.columns)[: self.channels]
        if cdma["CVT_EN"]:
            offsets = np.full((self.channels, 1, 1), signed(cdma["CVT_OFFSET"], 16))
            values = self._converted(values.astype(np.int64), offsets)
        _, rows, columns, _ = self.kernel
        (_, out_rows, out_columns), (row_stride, column_stride) = self.out, self.strides
        height = (out_rows - 1) * row_stride + (rows - 1) * self.dilations[0] + 1
        width = (out_columns - 1) * column_stride + (columns - 1) * self.dilations[1] + 1
        return self._padded(values, height, width)

    def _padded(self, values: NDArray[np.int8], height: int, width: int) -> NDArray[np.float64]:
        """Returns data [channels, height, width] with the padding value around int8 [channels, rows, columns]."""
        padded = np.full((len(values), height, width), float(signed(self.csc["PAD_VALUE"], 8)))
        top, left = self.cdma["PAD_TOP"], self.cdma["PAD_LEFT"]
        inside = padded[:, top : top + self.rows, left : left + self.columns]
        inside[...] = values[:, : inside.shape[1], : inside.shape[2]]
        return padded

    def _pixels(self, memory: Memory) -> NDArray[np.float64]:
        """Returns the data [bytes of a row of a window, rows, windows of a row]: each window's own, side by side."""
        cdma, pixel = self.cdma, self.channels
        address = cdma.address("DATAIN_ADDR_LOW_0", "DATAIN_ADDR_HIGH_0")
        line, size = cdma["LINE_STRIDE"], self.columns * pixel
        if address % ATOM or line % ATOM:
            cdma.refuse("the address and the line stride must be multiples of 8 bytes", "LINE_STRIDE")
        data = memory.read(address, (self.rows - 1) * line + size)
        image = as_strided(data, (self.rows, self.columns, pixel), (line, pixel, 1))
        order = _CHANNEL_BYTES.get(cdma["PIXEL_FORMAT"], (0,))
        # The override says that pixels have a sign.
        values = (image.view(np.int8) if cdma["PIXEL_SIGN_OVERRIDE"] else image)[..., list(order)].transpose(2, 0, 1)
        if cdma["CVT_EN"]:
            means = [signed(cdma[name], 16) for name in ("MEAN_RY", "MEAN_GU", "MEAN_BV", "MEAN_AX")]
            offsets = means[:pixel] if cdma["MEAN_FORMAT"] else [signed(cdma["CVT_OFFSET"], 16)] * pixel
            values = self._converted(values.astype(np.int64), np.array(offsets).reshape(pixel, 1, 1))
        _, rows, _, taps = self.kernel
        (_, out_rows, out_columns), (row_stride, column_stride) = self.out, self.strides
        height, width = (out_rows - 1) * row_stride + rows, (out_columns - 1) * column_stride + taps // pixel
        padded = self._padded(values.astype(np.int8), height, width).transpose(1, 2, 0).reshape(height, width * pixel)
        step = padded.itemsize
        strides = (step, padded.strides[0], column_stride * pixel * step)
        return as_strided(padded, (taps, height, out_columns), strides)

    def _converted(self, values: Ints, offsets: Ints) -> NDArray[np.int8]:
        """Returns what the conversion of CDMA makes of values [channels, rows, columns]."""
        products = (values - offsets) * signed(self.cdma["CVT_SCALE"], 16)
        return saturated(rounded(products, self.cdma["CVT_TRUNCATE"]), 8).astype(np.int8)

    def _weights(self, memory: Memory) -> NDArray[np.float64]:
        """Returns the weights [kernels, rows, columns, channels].

        In memory they are groups of 8 kernels; in a group blocks of 8 channels; in a block rows, columns, kernels,
        channels. The last group and the last block are as narrow as they are.
        """
        count, rows, columns, channels = self.kernel
        address = self.cdma.address("WEIGHT_ADDR_LOW", "WEIGHT_ADDR_HIGH")
        if address % ATOM:
            self.cdma.refuse("the address must be a multiple of 8", "WEIGHT_ADDR_LOW", hex(address))
        data = memory.read(address, count * rows * columns * channels).view(np.int8)
        weights = np.empty((count, rows, columns, channels))
        whole = count - count % ATOM
        for first, last in ((0, whole), (whole, count)):
            kernels = min(last - first, ATOM)
            if kernels:
                size = rows * columns * channels
                groups = data[first * size : last * size].reshape(-1, kernels * size)
                weights[first:last] = _ordered(groups, kernels, rows, columns, channels)
        return weights


def _ordered(groups: NDArray[np.int8], kernels: int, rows: int, columns: int, channels: int) -> NDArray[np.int8]:
    """Returns the weights [kernels of all groups, rows, columns, channels] of groups [groups, bytes of a group]."""
    count, blocks = len(groups), channels // ATOM
    whole = blocks * rows * columns * kernels * ATOM
    parts = groups[:, :whole].reshape(count, blocks, rows, columns, kernels, ATOM).transpose(0, 4, 2, 3, 1, 5)
    rest = groups[:, whole:].reshape(count, rows, columns, kernels, channels % ATOM).transpose(0, 3, 1, 2, 4)
    shape = (count * kernels, rows, columns)
    return np.concatenate([parts.reshape(*shape, blocks * ATOM), rest.reshape(*shape, channels % ATOM)], axis=3)

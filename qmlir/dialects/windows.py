"""The geometry of a window that slides over the two spatial axes of a channels-last tensor [N, H, W, C].

Convolutions and pools of the float level and of the integer level share it: properties, output sizes and a numpy view
of the windows.
"""

import abc
from collections.abc import Iterator
from functools import lru_cache

import numpy as np
from xdsl.dialects.builtin import I64, DenseArrayBase, IntegerAttr, i64
from xdsl.irdl import prop_def
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.interfaces import Array, Shape, TensorOp
from qmlir.ir.samples import Axes, kept_axis

ONES = DenseArrayBase.from_list(i64, [1, 1])
NO_PADDING = DenseArrayBase.from_list(i64, [0, 0, 0, 0])


def ints(values: tuple[int, ...] | list[int]) -> DenseArrayBase[I64]:
    """Builds `array<i64: …>` from Python ints."""
    return DenseArrayBase.from_list(i64, list(values))


WITHIN_IMAGES = (1, 2, 3)
"""The axes of images [N, H, W, C] within one image."""


class WindowOp(TensorOp, abc.ABC):
    """Base of the operations with a sliding window.

    strides, dilations   rows, columns
    padding              top, bottom, left, right; padded elements have the real value zero if the operation sums,
                         and are ignored if it takes a maximum

    (W1) two strides and two dilations of at least 1, four paddings of at least 0
    (W2) the input has rank 4, and the window fits into the padded input
    """

    strides = prop_def(DenseArrayBase.constr(i64), default_value=ONES)
    padding = prop_def(DenseArrayBase.constr(i64), default_value=NO_PADDING)
    dilations = prop_def(DenseArrayBase.constr(i64), default_value=ONES)

    def stride_values(self) -> tuple[int, int]:
        """Returns the strides (rows, columns)."""
        return pair(self.strides)

    def dilation_values(self) -> tuple[int, int]:
        """Returns the dilations (rows, columns)."""
        return pair(self.dilations)

    def padding_values(self) -> tuple[int, int, int, int]:
        """Returns the padding (top, bottom, left, right)."""
        top, bottom, left, right = _values(self.padding)
        return top, bottom, left, right

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, WITHIN_IMAGES)

    def window_output(self, image: Shape, window: tuple[int, int]) -> tuple[int, int]:
        """Returns (rows, columns) of the output for an input [N, H, W, C] and a window of the given rows and columns.

        Raises:
            VerifyException: (W1) or (W2) does not hold.
        """
        if (len(_values(self.strides)), len(_values(self.dilations)), len(_values(self.padding))) != (2, 2, 4):  # W1
            raise VerifyException(
                f"'{self.name}' needs 2 strides, 2 dilations and 4 paddings (top, bottom, left, right), "
                f"got {len(self.strides)}, {len(self.dilations)} and {len(self.padding)}"
            )
        if min(self.stride_values() + self.dilation_values()) < 1 or min(self.padding_values()) < 0:  # W1
            raise VerifyException(f"'{self.name}' needs strides and dilations of at least 1 and no negative padding")
        if len(image) != 4:  # W2
            raise VerifyException(f"'{self.name}' needs an input of rank 4 [N, H, W, C], got rank {len(image)}")
        top, bottom, left, right = self.padding_values()
        sizes: list[int] = []
        for size, pad, extent, stride, dilation in zip(
            image[1:3], (top + bottom, left + right), window, self.stride_values(), self.dilation_values(), strict=True
        ):
            span = (extent - 1) * dilation + 1
            if size + pad < span:  # W2
                raise VerifyException(f"'{self.name}' window spans {span} but the padded input has only {size + pad}")
            sizes.append((size + pad - span) // stride + 1)
        return sizes[0], sizes[1]

    def taps_inside(self, image: Shape, window: tuple[int, int]) -> tuple[Array, Array]:
        """Returns the number of rows and of columns of each window that lie inside the image: int64 [OH] and [OW]."""
        top, _, left, _ = self.padding_values()
        counts: list[Array] = []
        for size, before, extent, outputs, stride, dilation in zip(
            image[1:3],
            (top, left),
            window,
            self.window_output(image, window),
            self.stride_values(),
            self.dilation_values(),
            strict=True,
        ):
            first = np.arange(outputs, dtype=np.int64)[:, None] * stride - before
            taps = first + np.arange(extent, dtype=np.int64) * dilation
            counts.append(np.count_nonzero((taps >= 0) & (taps < size), axis=1))
        return counts[0], counts[1]

    def padded(self, x: Array, fill: float) -> Array:
        """Returns `x` [N, H, W, C] padded with `fill`."""
        top, bottom, left, right = self.padding_values()
        if not (top or bottom or left or right):
            return x
        batch, rows, columns, channels = x.shape
        padded = np.full((batch, top + rows + bottom, left + columns + right, channels), fill, x.dtype)
        padded[:, top : top + rows, left : left + columns] = x
        return padded

    def windows(self, x: Array, window: tuple[int, int], fill: float) -> Array:
        """Returns a read-only view [N, OH, OW, KH, KW, C] of the windows of `x` [N, H, W, C], padded with `fill`."""
        rows, columns = self.window_output(x.shape, window)
        padded = self.padded(x, fill)
        batch, _, _, channels = padded.shape
        per_image, per_row, per_column, per_channel = padded.strides
        (sh, sw), (dh, dw) = self.stride_values(), self.dilation_values()
        return np.lib.stride_tricks.as_strided(
            padded,
            (batch, rows, columns, *window, channels),
            (per_image, sh * per_row, sw * per_column, dh * per_row, dw * per_column, per_channel),
            writeable=False,
        )

    def taps(self, x: Array, window: tuple[int, int], fill: float) -> Iterator[Array]:
        """Yields for each tap (window element), in row-major order, its input at each output: views [N, OH, OW, C]."""
        windows = self.windows(x, window, fill)
        for i, j in np.ndindex(*window):
            yield windows[:, :, :, i, j]

    def maximum(self, x: Array, window: tuple[int, int], fill: float) -> Array:
        """Returns the greatest element of each window of `x`, padded with `fill`, [N, OH, OW, C]."""
        first, *others = self.taps(x, window, fill)
        greatest = first.copy()
        for tap in others:
            np.maximum(greatest, tap, out=greatest)
        return greatest


def _values(array: DenseArrayBase[I64]) -> tuple[int, ...]:
    return _unpacked(array.data.data)


# `evaluate` unpacks the same few arrays thousands of times. Bytes cache their hash; attributes recompute it each time.
@lru_cache(maxsize=1024)
def _unpacked(data: bytes) -> tuple[int, ...]:
    return tuple(np.frombuffer(data, np.int64).tolist())


def pair(array: DenseArrayBase[I64]) -> tuple[int, int]:
    """Returns the two integers of an array: (rows, columns)."""
    rows, columns = _values(array)
    return rows, columns


class GroupedWindowOp(WindowOp, abc.ABC):
    """Base of the convolutions whose channels may be divided into groups with separate weights.

    groups   G: the output channels g·O/G … (g+1)·O/G − 1 depend only on the input channels g·C/G … (g+1)·C/G − 1

    Groups are a property, instead of a slice, a convolution and a concat for each group. A grouped convolution of the
    source model thus stays a single operation with a single name, ledger entry and kernel, which reads each channel in
    place. Otherwise a layer with 32 groups would be some 70 operations.

    (W3) w is [O, KH, KW, C/G] for an input [N, H, W, C], and G divides C and O
    """

    groups = prop_def(IntegerAttr.constr(i64), default_value=IntegerAttr(1, i64))

    def group_count(self) -> int:
        """Returns G, the number of groups."""
        return self.groups.value.data

    def check_convolution(self, x: Shape, w: Shape) -> None:
        """Raises VerifyException unless x is [N, H, W, C] and w [O, KH, KW, C/G]."""
        groups = self.group_count()
        if groups < 1 or len(w) != 4 or len(x) != 4 or w[3] * groups != x[3] or w[0] % groups:  # W3
            inputs, outputs = ("C", "") if groups == 1 else (f"C/{groups}", f" and O a multiple of {groups}")
            raise VerifyException(
                f"'{self.name}' needs weights [O, KH, KW, {inputs}] with the input's channels {list(x)[3:]}{outputs}, "
                f"got {list(w)}"
            )


def check_depthwise(op: WindowOp, x: Shape, w: Shape) -> None:
    """Raises VerifyException unless x is [N, H, W, C] and w [1, KH, KW, C·m]."""
    if len(w) != 4 or len(x) != 4 or w[0] != 1 or x[3] == 0 or w[3] % x[3]:
        raise VerifyException(
            f"'{op.name}' needs weights [1, KH, KW, C·m] for the input's channels {list(x)[3:]}, got {list(w)}"
        )

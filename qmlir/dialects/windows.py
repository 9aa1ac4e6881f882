"""The geometry of a window that slides over two spatial axes of a channels-last tensor [N, H, W, C].

Shared by convolutions and pools of the float and of the integer level: properties, output sizes and a numpy view
of the windows.
"""

import abc

import numpy as np
from xdsl.dialects.builtin import DenseArrayBase, I64, i64
from xdsl.irdl import prop_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.interfaces import Array, Shape, TensorOp

ONES = DenseArrayBase.from_list(i64, [1, 1])
NO_PADDING = DenseArrayBase.from_list(i64, [0, 0, 0, 0])


def ints(values: tuple[int, ...] | list[int]) -> DenseArrayBase[I64]:
    """`array<i64: …>` from Python ints."""
    return DenseArrayBase.from_list(i64, list(values))


class WindowOp(TensorOp, abc.ABC):
    """An operation with a sliding window.

    strides, dilations   rows, columns
    padding              top, bottom, left, right; padded elements count as the real value zero where the
                         operation sums and as absent where it takes a maximum

    (W1) strides and dilations are at least 1, padding at least 0
    (W2) the input has rank 4 and the window fits into it once padded
    """

    strides = prop_def(DenseArrayBase.constr(i64), default_value=ONES)
    padding = prop_def(DenseArrayBase.constr(i64), default_value=NO_PADDING)
    dilations = prop_def(DenseArrayBase.constr(i64), default_value=ONES)

    def stride_values(self) -> tuple[int, int]:
        """Strides (rows, columns)."""
        return _pair(self.strides)

    def dilation_values(self) -> tuple[int, int]:
        """Dilations (rows, columns)."""
        return _pair(self.dilations)

    def padding_values(self) -> tuple[int, int, int, int]:
        """Padding (top, bottom, left, right)."""
        top, bottom, left, right = self.padding.get_values()
        return top, bottom, left, right

    def window_output(self, image: Shape, window: tuple[int, int]) -> tuple[int, int]:
        """Rows and columns of the output for an input [N, H, W, C] and a window of the given rows and columns."""
        if len(self.strides) != 2 or len(self.dilations) != 2 or len(self.padding) != 4:
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

    def windows(self, x: Array, window: tuple[int, int], fill: float) -> Array:
        """A read-only view [N, OH, OW, KH, KW, C] of the windows of `x` [N, H, W, C], padded with `fill`."""
        top, bottom, left, right = self.padding_values()
        padded = np.pad(x, ((0, 0), (top, bottom), (left, right), (0, 0)), constant_values=fill)
        (sh, sw), (dh, dw) = self.stride_values(), self.dilation_values()
        spans = ((window[0] - 1) * dh + 1, (window[1] - 1) * dw + 1)
        view = np.lib.stride_tricks.sliding_window_view(padded, spans, (1, 2))  # [N, ., ., C, span, span]
        return view[:, ::sh, ::sw, :, ::dh, ::dw].transpose(0, 1, 2, 4, 5, 3)


def _pair(values: DenseArrayBase[I64]) -> tuple[int, int]:
    rows, columns = values.get_values()
    return rows, columns

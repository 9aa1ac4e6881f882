"""The geometry of a contraction as numbers: the input of the tile search, and what the windows of a tile cover."""

from dataclasses import dataclass

from qmlir.transforms.npu.regions import Rest


@dataclass(frozen=True)
class Inside:
    """Which tensors of a layer stay in a memory inside the device, instead of in the external memory.

    rest      the memory that staying tensors, its own or others, leave to its tiles; None if no tensor stays
    data      whether the data of the contraction stays
    result    whether the result stays
    operands  how many of the other tensors stay that the operations after the contraction read
    """

    rest: Rest | None = None
    data: bool = False
    result: bool = False
    operands: int = 0


@dataclass(frozen=True)
class Work:
    """A contraction on one image and one group of its channels; also the windows of a pool.

    rows, columns, channels              shape of the data
    out_rows, out_columns, out_channels  shape of the result; a depthwise convolution has as many channels as the data
    kernel, stride, dilation             rows, columns
    before                               padding above the first row and left of the first column
    data_bits, weight_bits, sum_bits     widths of an element
    bias_bits                            width of a number of the bias
    result_bits                          width of an element of the result, and of the results between the steps after
    posts                                requantizations and lookups after the sums
    operands                             sums and products with another tensor after the sums
    per_channel                          whether a requantization has a factor for each channel
    inside                               which of its tensors stay inside the device
    """

    rows: int
    columns: int
    channels: int
    out_rows: int
    out_columns: int
    out_channels: int
    kernel: tuple[int, int] = (1, 1)
    stride: tuple[int, int] = (1, 1)
    dilation: tuple[int, int] = (1, 1)
    before: tuple[int, int] = (0, 0)
    depthwise: bool = False
    data_bits: int = 8
    weight_bits: int = 8
    sum_bits: int = 32
    bias_bits: int = 32
    result_bits: int = 8
    posts: int = 1
    operands: int = 0
    per_channel: bool = False
    inside: Inside = Inside()

    @property
    def taps(self) -> int:
        """The number of elements of the window."""
        return self.kernel[0] * self.kernel[1]

    def seen(self, axis: int, outputs: range) -> tuple[range, int]:
        """What windows cover along an axis.

        Args:
            axis: 0 for rows, 1 for columns.
            outputs: Indices of the result along the axis.

        Returns:
            Indices of the data, and how far before the first of them the first window starts (its padding).
        """
        size = (self.rows, self.columns)[axis]
        first = outputs.start * self.stride[axis] - self.before[axis]
        end = (outputs.stop - 1) * self.stride[axis] - self.before[axis] + self.reach(axis)
        low = min(max(first, 0), size - 1)
        seen = range(low, max(min(end, size), low + 1))
        return seen, seen.start - first

    def most_seen(self, axis: int, outputs: int) -> int:
        """The most indices of the data that `outputs` windows cover along an axis."""
        return min((outputs - 1) * self.stride[axis] + self.reach(axis), (self.rows, self.columns)[axis])

    def reach(self, axis: int) -> int:
        """The extent of a window along an axis, from its first element to behind its last."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

"""What a contraction computes, as numbers: what the tile search goes by, and what the windows of a tile see."""

from dataclasses import dataclass

from qmlir.transforms.npu.regions import Rest


@dataclass(frozen=True)
class Inside:
    """Which tensors of a layer stay in a memory inside the device, instead of in the external one.

    rest      what tensors that stay, its own or others, leave to its tiles; None where none stays
    data      whether what its windows see does
    result    whether its result does
    operands  how many of the tensors do that what follows reads beside that
    """

    rest: Rest | None = None
    data: bool = False
    result: bool = False
    operands: int = 0


@dataclass(frozen=True)
class Work:
    """A contraction on one image, and one group of its channels; of a pool, what its windows see.

    rows, columns, channels              of the data
    out_rows, out_columns, out_channels  of the result; a depthwise convolution has as many channels as the data
    kernel, stride, dilation             rows, columns
    before                               padding above the first row and left of the first column
    data_bits, weight_bits, sum_bits     of an element
    bias_bits                            of a number of the bias
    result_bits                          of an element, and of those between the steps that follow
    posts                                changes of scale and lookups that follow the sums
    operands                             sums and products with another tensor that follow
    per_channel                          whether a change of scale has a factor for each channel
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
        """Elements of the window."""
        return self.kernel[0] * self.kernel[1]

    def seen(self, axis: int, outputs: range) -> tuple[range, int]:
        """What windows see along an axis: indices of the data, and how far before these the first window starts."""
        size = (self.rows, self.columns)[axis]
        first = outputs.start * self.stride[axis] - self.before[axis]
        end = (outputs.stop - 1) * self.stride[axis] - self.before[axis] + self.reach(axis)
        low = min(max(first, 0), size - 1)
        seen = range(low, max(min(end, size), low + 1))
        return seen, seen.start - first

    def most_seen(self, axis: int, outputs: int) -> int:
        """How many indices of the data so many windows see at most."""
        return min((outputs - 1) * self.stride[axis] + self.reach(axis), (self.rows, self.columns)[axis])

    def reach(self, axis: int) -> int:
        """From the first to behind the last element of a window."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

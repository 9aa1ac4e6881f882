"""Windows of a layer as VTA computes them: which vectors they read, and parts of the result whose data fit.

A part is a rectangle of the result in some blocks of channels. Its data are brought with their padding, so that each
element of a window is a step from the place of the result, the same for all of them.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from qmlir.backends.hardware.vta.epilogue import Refusal
from qmlir.backends.hardware.vta.instructions import Buffer, Load, Store
from qmlir.devices.model.layer import Pair, Sides

MOST_PADDING = 15


@dataclass(frozen=True)
class Span:
    """What a range of results reads along rows or columns.

    first   the first element of the tensor
    size    the elements of the tensor
    before  elements of padding before them
    behind  elements of padding behind them
    """

    first: int
    size: int
    before: int
    behind: int

    @property
    def extent(self) -> int:
        """All elements."""
        return self.before + self.size + self.behind


@dataclass(frozen=True)
class Windows:
    """The windows of a tensor.

    data      rows and columns of the tensor
    result    rows and columns of the result, which has an element for each window
    kernel    rows and columns of a window
    """

    data: Pair
    result: Pair
    kernel: Pair
    stride: Pair
    dilation: Pair
    padding: Sides

    def check_padding(self) -> None:
        """Refuses padding that loads do not have.

        Raises:
            Refusal: There is such padding.
        """
        if (most := max(self.padding)) > MOST_PADDING:
            raise Refusal(f"VTA's loads have at most {MOST_PADDING} rows and columns of padding, got {most}")

    def reach(self, axis: int) -> int:
        """Elements from the first to the last one of a window."""
        return (self.kernel[axis] - 1) * self.dilation[axis] + 1

    def span(self, axis: int, first: int, size: int) -> Span:
        """What `size` results from `first` on read along an axis."""
        begin = first * self.stride[axis] - self.padding[2 * axis]
        end = begin + (size - 1) * self.stride[axis] + self.reach(axis)
        low, high = max(begin, 0), min(end, self.data[axis])
        return Span(low, high - low, low - begin, end - high)

    def all_read(self, high: int, wide: int) -> bool:
        """Whether each part of so many rows and columns reads an element of the tensor, not padding alone."""
        return all(
            self.span(axis, first, min(size, self.result[axis] - first)).size > 0
            for axis, size in ((0, high), (1, wide))
            for first in range(0, self.result[axis], size)
        )

    def extent(self, axis: int, size: int) -> int:
        """Elements that `size` results read along an axis, with padding."""
        return (size - 1) * self.stride[axis] + self.reach(axis)

    def taps(self, columns: int) -> list[int]:
        """How far the elements of a window lie behind its first one, in vectors, where a row has so many columns."""
        return [
            row * self.dilation[0] * columns + column * self.dilation[1]
            for row in range(self.kernel[0])
            for column in range(self.kernel[1])
        ]


@dataclass(frozen=True)
class Tile:
    """A part of the result: blocks, rows and columns, each from the first to the one behind the last."""

    blocks: Pair
    rows: Pair
    columns: Pair

    @property
    def height(self) -> int:
        """Its rows."""
        return self.rows[1] - self.rows[0]

    @property
    def width(self) -> int:
        """Its columns."""
        return self.columns[1] - self.columns[0]

    @property
    def pixels(self) -> int:
        """Vectors of a block."""
        return self.height * self.width

    @property
    def number(self) -> int:
        """Its blocks."""
        return self.blocks[1] - self.blocks[0]


def tiles(shape: tuple[int, int, int], sizes: tuple[int, int, int]) -> Iterator[Tile]:
    """Yields the tiles of so many blocks, rows and columns, which make up a result of such a shape."""

    def ranges(whole: int, size: int) -> list[Pair]:
        return [(first, min(first + size, whole)) for first in range(0, whole, size)]

    blocks, rows, columns = (ranges(whole, size) for whole, size in zip(shape, sizes, strict=True))
    return (Tile(some, high, wide) for some in blocks for high in rows for wide in columns)


def even(whole: int) -> list[int]:
    """Sizes of parts into which a length can be divided, each with the next smaller number of parts."""
    found, parts = list[int](), 1
    while not found or found[-1] > 1:
        size = -(-whole // parts)
        found.append(size)
        parts = -(-whole // (size - 1)) if size > 1 else parts
    return found


def data_load(address: int, plane: int, data: Pair, spans: Sequence[Span], at: int) -> Load:
    """The load of a window of a block, with padding, to a place of the data's buffer."""
    rows, columns = spans
    return Load(
        memory=Buffer.DATA, buffer_address=at, rows=rows.size, columns=columns.size, stride=data[1],
        address=address + plane * data[0] * data[1] + rows.first * data[1] + columns.first,
        above=rows.before, below=rows.behind, left=columns.before, right=columns.behind,
    )  # fmt: skip


def stores(tile: Tile, result: Pair, at: int, address: int) -> list[Store]:
    """The stores of a part of the result, which lies block by block from `at` on in the result buffer."""
    rows, columns = result
    return [
        Store(
            buffer_address=at + n * tile.pixels, rows=tile.height, columns=tile.width, stride=columns,
            address=address + (block * rows + tile.rows[0]) * columns + tile.columns[0],
        )
        for n, block in enumerate(range(*tile.blocks))
    ]  # fmt: skip

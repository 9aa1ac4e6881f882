"""What a sliding window meets, as arrays."""

import numpy as np
import numpy.typing as npt

from qmlir.isa.commands import Pool, Window

Int64s = npt.NDArray[np.int64]


def tap(data: Int64s, command: Window | Pool, i: int, j: int, outside: int = 0) -> Int64s:
    """What tap (i, j) meets at each output position.

    Args:
        data: int64 [networks, rows, columns, channels].
        command: Says where the window is at each position.
        i: Row of the tap.
        j: Column of the tap.
        outside: What stands for elements outside.

    Returns:
        int64 [networks, out_rows, out_columns, channels].
    """
    networks, _, _, channels = data.shape
    taken = np.full((networks, command.out_rows, command.out_columns, channels), outside, np.int64)
    first_row, first_column = i * command.dilation_rows - command.top, j * command.dilation_columns - command.left
    to_rows, from_rows = _inside(first_row, command.stride_rows, command.out_rows, command.rows)
    to_columns, from_columns = _inside(first_column, command.stride_columns, command.out_columns, command.columns)
    taken[:, to_rows, to_columns] = data[:, from_rows, from_columns]
    return taken


def _inside(first: int, stride: int, count: int, size: int) -> tuple[slice, slice]:
    """Of positions first, first + stride, … those in [0, size): their numbers, and where they are."""
    begin = max(-(first // stride), 0)
    end = max(min((size - 1 - first) // stride + 1, count), begin)
    start = first + begin * stride
    return slice(begin, end), slice(start, start + (end - begin) * stride, stride) if end > begin else slice(0, 0)

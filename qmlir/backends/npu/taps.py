"""Gathers the elements that a sliding window covers; a tap is a position (row, column) of the window."""

import numpy as np
import numpy.typing as npt

from qmlir.isa.commands import Pool, Window

Int64s = npt.NDArray[np.int64]


def tap(data: Int64s, command: Window | Pool, i: int, j: int, outside: int = 0) -> Int64s:
    """The elements at tap (i, j) of the window, for each output position.

    Args:
        data: int64 [networks, rows, columns, channels].
        command: The command with the window's strides, dilations and padding.
        i: Row of the tap.
        j: Column of the tap.
        outside: The value of elements outside the data.

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
    """Selects the positions first, first + stride, … that lie in [0, size).

    Returns:
        The indices of the selected positions, and the positions themselves.
    """
    begin = max(-(first // stride), 0)
    end = max(min((size - 1 - first) // stride + 1, count), begin)
    start = first + begin * stride
    return slice(begin, end), slice(start, start + (end - begin) * stride, stride) if end > begin else slice(0, 0)

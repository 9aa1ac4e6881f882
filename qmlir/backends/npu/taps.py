"""What a sliding window meets, as arrays."""

import numpy as np
import numpy.typing as npt

from qmlir.isa.commands import Pool, Window

Int64s = npt.NDArray[np.int64]


def tap(data: Int64s, command: Window | Pool, i: int, j: int, outside: int = 0) -> Int64s:
    """What tap (i, j) meets at each output position, int64 [out_rows, out_columns, channels]."""
    rows = np.arange(command.out_rows) * command.stride_rows + i * command.dilation_rows - command.top
    columns = np.arange(command.out_columns) * command.stride_columns + j * command.dilation_columns - command.left
    inside_rows, inside_columns = (rows >= 0) & (rows < command.rows), (columns >= 0) & (columns < command.columns)
    taken = np.full((command.out_rows, command.out_columns, command.channels), outside, np.int64)
    where = np.ix_(inside_rows, inside_columns)
    taken[where] = data[np.ix_(rows[inside_rows], columns[inside_columns])]
    return taken

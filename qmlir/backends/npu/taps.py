"""What a sliding window meets, as arrays."""

import numpy as np
import numpy.typing as npt

from qmlir.backends.npu.machine import MAX_ELEMENTS
from qmlir.backends.npu.memories import Fault
from qmlir.isa.commands import Pool, Window

Int64s = npt.NDArray[np.int64]

MAX_TAPS = 1 << 12
"""A window has at most so many elements."""


def check_window(command: Window | Pool) -> None:
    """Raises Fault if a window is out of all bounds: no program needs it, and it would take for ever."""
    taps = command.kernel_rows * command.kernel_columns
    if not 1 <= taps <= MAX_TAPS:
        raise Fault(f"a window must have 1 to {MAX_TAPS} elements", got=str(taps))
    if not min(command.stride_rows, command.stride_columns, command.dilation_rows, command.dilation_columns):
        raise Fault("strides and dilations must be at least 1", got="0")
    elements = command.out_rows * command.out_columns * command.channels
    if not elements:
        raise Fault("a window must have places", got=f"{command.out_rows} rows, {command.out_columns} columns")
    if elements > MAX_ELEMENTS or elements * taps > 16 * MAX_ELEMENTS:
        raise Fault(f"a window must meet at most {MAX_ELEMENTS} elements, 16 times", got=f"{elements}, {taps} times")


def tap(data: Int64s, command: Window | Pool, i: int, j: int, outside: int = 0) -> Int64s:
    """What tap (i, j) meets at each output position, int64 [out_rows, out_columns, channels]."""
    rows = np.arange(command.out_rows) * command.stride_rows + i * command.dilation_rows - command.top
    columns = np.arange(command.out_columns) * command.stride_columns + j * command.dilation_columns - command.left
    inside_rows, inside_columns = (rows >= 0) & (rows < command.rows), (columns >= 0) & (columns < command.columns)
    taken = np.full((command.out_rows, command.out_columns, command.channels), outside, np.int64)
    where = np.ix_(inside_rows, inside_columns)
    taken[where] = data[np.ix_(rows[inside_rows], columns[inside_columns])]
    return taken

"""The bytes of blocks as runs without gaps: races are found by them, and results that would overwrite operands."""

import numpy as np

from qmlir.isa.blocks import Block
from qmlir.numerics import Int64s


def runs_of(block: Block) -> Int64s:
    """The bytes of a block as [begin, end) pairs; bytes without a gap between them form one pair."""
    start, size = block.place.address, block.size
    rows, planes = np.arange(block.rows, dtype=np.int64), np.arange(block.planes, dtype=np.int64)
    if block.rows == 1 or block.row_pitch == size:
        size *= block.rows
        rows = rows[:1]
        if block.planes == 1 or block.plane_pitch == size:
            size *= block.planes
            planes = planes[:1]
    begins = (start + planes[:, None] * block.plane_pitch + rows * block.row_pitch).reshape(-1)
    return np.stack([begins, begins + size], axis=1)


def meet(a: Block, b: Block) -> bool:
    """Whether two blocks have a byte in common."""
    if a.place.memory != b.place.memory or a.empty or b.empty:
        return False
    if a.end <= b.place.address or b.end <= a.place.address:
        return False
    ours, theirs = runs_of(a), runs_of(b)
    theirs = theirs[np.argsort(theirs[:, 0])]
    before = np.searchsorted(theirs[:, 0], ours[:, 1])  # how many of their runs begin before each of ours ends
    ends = np.maximum.accumulate(theirs[:, 1])
    return bool((before > 0).any() and (ends[before[before > 0] - 1] > ours[before > 0, 0]).any())


def is_apart(block: Block) -> bool:
    """Whether no byte of a block is in it twice."""
    plane = (block.rows - 1) * block.row_pitch + block.size
    if (block.rows == 1 or block.row_pitch >= block.size) and (block.planes == 1 or block.plane_pitch >= plane):
        return True
    runs = runs_of(block)
    runs = runs[np.argsort(runs[:, 0])]
    return bool((runs[1:, 0] >= runs[:-1, 1]).all())

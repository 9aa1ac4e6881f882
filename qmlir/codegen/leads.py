"""Leads: how far the result of a kernel must begin before an operand for both to share memory.

A kernel computes its result from the first element to the last. Where it also reads an operand from the first element
to the last, it can write the result over what it has read already. Both then lie in one memory, the result some bytes
before the operand, its *lead*:

    bytes of the memory      0    lead
    operand                  .....xxxxxxxxxxxxxxxxxxxx
    result                   yyyyyyyyyyyyyyyyyyyy.....
                                 ↑ the step that writes here leaves what later steps read

A lead of 0 is a result in place. A longer lead is as good as the least one, and the size of the result is a lead of any
kernel, because the two lie apart then. The least lead follows from what each step of the outermost loop reads and
writes (`least_lead`).
"""

from collections.abc import Sequence

import numpy as np

APART = -1
"""The lead of an operand that shares no memory with the result."""


def least_lead(written: Sequence[int], read: Sequence[int], *, buffered: bool) -> int:
    """Returns the least lead of a result before an operand, in bytes.

    Args:
        written: For each step, the end of the bytes of the result that are written when the step is done.
        read: For each step, the first byte of the operand that the step reads.
        buffered: Whether a step reads all that it needs of the operand before it writes.
    """
    if not len(written):
        return 0
    ends = np.maximum.accumulate(np.asarray(written, np.int64))
    needed = np.minimum.accumulate(np.asarray(read, np.int64)[::-1])[::-1]  # by this step and the steps behind it
    if buffered:
        ends, needed = ends[:-1], needed[1:]
    return int(max((ends - needed).max(initial=0), 0))

"""Stripes: the bytes of its operands and of its result that a kernel touches while it computes some of its items.

Kernels on images compute row by row, and kernels on elements run by run. Such a kernel computes its result in steps.
Step t writes a stripe of the result, and reads some stripes of an operand:

    result     bytes [t · size, (t + 1) · size)
    operand    stripes [t · stride − origin, t · stride − origin + extent) of so many bytes each, as far as they exist

A call of the kernel computes any steps that follow one another. So the calls of a chain of layers can take turns, a few
steps each, and of the tensors between them only the stripes exist at a time that have been written and not yet read
for the last time (transforms/loops/stripe_calls.py).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Attribute

Bytes = tuple[int, int]
"""Bytes of a buffer from the first number to before the second."""


@dataclass(frozen=True)
class Reads:
    """The stripes of an operand that a step reads: the bytes of a stripe, and the numbers of the formula above."""

    size: int
    stride: int = 1
    origin: int = 0
    extent: int = 1

    def bytes(self, begin: int, end: int, whole: int) -> Bytes:
        """The bytes that steps [begin, end) read of an operand that has `whole` bytes."""
        first = (begin * self.stride - self.origin) * self.size
        last = ((end - 1) * self.stride - self.origin + self.extent) * self.size
        return min(max(first, 0), whole), min(max(last, 0), whole)


@dataclass(frozen=True)
class Stripes:
    """The steps of a kernel.

    items   items of the kernel's outermost loop that are a step
    size    the bytes of the result that a step writes
    reads   the operands that steps read by stripes, by position; others are read as a whole
    """

    items: int
    size: int
    reads: Mapping[int, Reads]

    def written(self, begin: int, end: int, whole: int) -> Bytes:
        """The bytes that steps [begin, end) write of a result that has `whole` bytes."""
        return min(begin * self.size, whole), min(end * self.size, whole)

    def steps(self, end: int) -> int:
        """How many steps it takes until the first `end` bytes of the result are written."""
        return -(-end // self.size)

    def attribute(self) -> Attribute:
        """The same as an attribute: the items, the size, and five numbers for each operand that is read by stripes."""
        numbers = [self.items, self.size]
        for operand, reads in self.reads.items():
            numbers += [operand, reads.size, reads.stride, reads.origin, reads.extent]
        return DenseArrayBase.from_list(i64, numbers)

    @staticmethod
    def of(attribute: Attribute | None) -> "Stripes | None":
        """The steps that an attribute describes; None if there is none."""
        if not isinstance(attribute, DenseArrayBase):
            return None
        values: Sequence[Any] = cast("DenseArrayBase[Any]", attribute).get_values()
        items, size, *rest = map(int, values)
        reads = {rest[i]: Reads(*rest[i + 1 : i + 5]) for i in range(0, len(rest), 5)}
        return Stripes(items, size, reads)

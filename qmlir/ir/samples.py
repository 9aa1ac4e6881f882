"""Where the samples of a batch lie in a tensor, and how operations keep them apart.

A network is a function of one sample: its inputs begin with a dimension of size 1. In a batch of n samples, each tensor
that depends on the sample has an axis that is n times as long, and along which the samples follow one another:

    image  [1, 8, 8, 3]  →  [n, 8, 8, 3]     the axis is 0
    rows   [16, 64]      →  [n · 16, 64]     the axis is 0, and each sample has 16 rows

`TensorOp.sample_axis` returns the axis of an operation's results for the axes of its operands. Operations fall into few
kinds, for which this file has the rule: elements combined with others at the same place (`aligned_axis`), elements
combined along some axes of the first operand (`kept_axis`), and axes of size 1 that join others (`moved_axis`).
"""

from collections.abc import Collection, Sequence
from math import prod

Axes = Sequence[int | None]
"""The axis of the samples of each operand; None for an operand that is the same for all samples."""

Shape = tuple[int, ...]


class MixesSamples(Exception):
    """Raised by an operation that does not keep samples apart; the text says what it does, without a subject."""


def only_first(axes: Axes) -> int:
    """Returns the axis of the first operand's samples; all other operands must be the same for all samples."""
    first, *others = axes
    if first is None or any(axis is not None for axis in others):
        raise MixesSamples("reads another operand than the first that depends on the sample")
    return first


def kept_axis(axes: Axes, combined: Collection[int]) -> int:
    """Returns the axis of results that have the first operand's axes, where elements along some are combined.

    Args:
        axes: The axes of the operands; only the first operand depends on the sample.
        combined: The axes of the first operand along which elements are combined, moved or added.
    """
    axis = only_first(axes)
    if axis in combined:
        raise MixesSamples("works along the axis on which the samples lie")
    return axis


def aligned_axis(axes: Axes, shapes: Sequence[Shape]) -> int:
    """Returns the axis of a result whose operands broadcast: their samples lie at the same place of it."""
    rank = max(map(len, shapes))
    found = {(rank - len(s) + a, s[a]) for a, s in zip(axes, shapes, strict=True) if a is not None}
    if len(found) != 1:
        raise MixesSamples("has operands whose samples lie along different axes")
    ((place, _),) = found
    own = [
        shape[place - rank]
        for axis, shape in zip(axes, shapes, strict=True)
        if axis is None and len(shape) >= rank - place
    ]
    if any(size != 1 for size in own):
        raise MixesSamples("combines the samples with a tensor that has elements along their axis")
    return place


def moved_axis(axis: int, before: Shape, after: Shape) -> int:
    """Returns the axis of the samples of a tensor seen under another shape: as many elements stand in front of it."""
    outside = prod(before[:axis])
    for place in range(len(after)):
        if prod(after[:place]) == outside:
            return place
    raise MixesSamples("leaves no axis for the samples")


def matmul_axis(axes: Axes, lhs: Shape, rhs: Shape) -> int:
    """Returns the axis of a matrix product's samples: in a leading dimension, or among the rows or the columns."""
    rank, (left, right) = max(len(lhs), len(rhs)), axes
    if right is None and left == len(lhs) - 2:
        return rank - 2
    if left is None and right == len(rhs) - 1:
        return rank - 1
    if left in (len(lhs) - 1, len(lhs) - 2) or right in (len(rhs) - 1, len(rhs) - 2):
        raise MixesSamples("sums over samples, or multiplies samples with each other")
    return aligned_axis(axes, [lhs, rhs])

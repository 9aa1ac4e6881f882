"""Where the samples of a batch lie in a tensor, and how operations keep them apart.

A network is a function of one sample: its inputs begin with a dimension of size 1. In a batch of n samples, each tensor
that depends on the sample has an axis that is n times as long, and along which the samples follow one another:

    image  [1, 8, 8, 3]  →  [n, 8, 8, 3]     the axis is 0
    rows   [16, 64]      →  [n · 16, 64]     the axis is 0, and each sample has 16 rows

The elements of a sample need not be neighbours along the axis. Where a model puts positions before samples, as the
attention of PyTorch does, the axis holds the first element of each sample, then the second of each. The `outer`
elements of such an axis are how often the samples follow one another: 1 where each sample has its elements together.

    positions [6, n, 64]  →  rows [6 · n, 64]   the axis is 0, and there are 6 outer elements

`TensorOp.sample_axis` returns the axis of an operation's results for the axes of its operands. Operations fall into few
kinds, for which this file has the rule: elements combined with others at the same place (`aligned_axis`), elements
combined along some axes of the first operand (`kept_axis`), and axes that join others or come from them (`moved_axis`).
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


def moved_axis(axis: int, outer: int, before: Shape, after: Shape, samples: int = 1) -> tuple[int, int]:
    """Returns the axis and the outer elements of the samples of a tensor that is seen under another shape.

    As many elements stand in front of the samples. For several samples there is one such axis. For one sample, any may
    be it: a dimension of size 1 is preferred, then the rows of a matrix, as layers read them.

    Args:
        axis: The axis of the samples.
        outer: The elements along that axis in front of those of the first sample and the next.
        before: The shape of the tensor.
        after: The other shape.
        samples: The number of samples that the shapes hold.
    """
    outside = prod(before[:axis]) * outer
    fits: dict[int, int] = {}
    for place, size in enumerate(after):
        front = prod(after[:place])
        if front and outside % front == 0 and size % (outside // front * samples) == 0 and size:
            fits[place] = outside // front
    if not fits:
        raise MixesSamples("leaves no axis for the samples")
    ones = [place for place, own in fits.items() if own == 1 and after[place] == samples]
    rows = [0] if len(after) == 2 and 0 in fits else []
    inner = [place for place, own in fits.items() if own == 1]
    place = next(iter([*ones, *rows, *inner, *fits]))
    return place, fits[place]


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

"""Permutations of dimensions in the convention of `nn.transpose`: dimension i of the result is p[i] of the operand."""

from collections.abc import Sequence
from itertools import pairwise
from math import prod

from qmlir.ir.interfaces import Shape

Permutation = tuple[int, ...]


def inverse(p: Permutation) -> Permutation:
    """The permutation that undoes p."""
    return tuple(p.index(i) for i in range(len(p)))


def composed(first: Permutation, then: Permutation) -> Permutation:
    """The permutation that equals transposing by `first` and then by `then`."""
    return tuple(first[i] for i in then)


def transposed(shape: Sequence[int], p: Permutation) -> Shape:
    """The shape of a tensor of the given shape after a transpose by p."""
    return tuple(shape[i] for i in p)


def is_identity(p: Permutation) -> bool:
    """Whether a permutation moves no dimension."""
    return p == tuple(range(len(p)))


def moves_no_data(shape: Sequence[int], p: Permutation) -> bool:
    """Whether a transpose moves only dimensions of size 1, so that a reshape has the same effect."""
    kept = [i for i in p if shape[i] != 1]
    return kept == sorted(kept)


def to_channels_last(p: Permutation) -> bool:
    """Whether a permutation is [N, C, …] → [N, …, C] with rank 3 or more."""
    return len(p) > 2 and p == (0, *range(2, len(p)), 1)


def reshape_first(shape: Shape, p: Permutation, target: Shape) -> tuple[Shape, Permutation] | None:
    """(other, q) with reshape(transpose(a, p), target) = transpose(reshape(a, other), q), or None if there is none.

    The equation has a solution if each dimension of the target, or each group of them, comes from dimensions that are
    adjacent and in order in `a`:

        a [N, H, W, C] → [N, C, H, W] → [N, C, H·W]   is   a → [N, H·W, C] → [N, C, H·W]
        a [N, H, W, C] → [N, C, H, W] → [N, C·H·W]    is not

    Args:
        shape: The shape of `a`.
        p: The permutation.
        target: The shape of the result of the reshape.
    """
    if 0 in shape:
        return None
    if (groups := _groups(shape, p, target)) is None:
        return None
    order = sorted(range(len(groups)), key=lambda g: groups[g][0])
    other: list[int] = []
    place: dict[int, int] = {}  # dimension of the target → dimension of the reshaped `a`
    for g in order:
        for dimension in groups[g][1]:
            place[dimension] = len(other)
            other.append(target[dimension])
    return tuple(other), tuple(place[i] for i in range(len(target)))


def _groups(shape: Shape, p: Permutation, target: Shape) -> list[tuple[int, list[int]]] | None:
    """The target's dimensions in groups, each as (first dimension in `a`, target's dimensions), or None.

    None means that the dimensions of a group are not adjacent and in order in `a`.
    """
    groups: list[tuple[int, list[int]]] = []
    # Leading dimensions that neither operation changes, such as the batch, each form a group.
    lead = 0
    while lead < min(len(p), len(target)) and p[lead] == lead and shape[lead] == target[lead]:
        groups.append((lead, [lead]))
        lead += 1
    sources = [i for i in p[lead:] if shape[i] != 1]  # dimensions of `a` in the transpose's order
    rank = {dimension: position for position, dimension in enumerate(sorted(sources))}
    waiting = list(range(lead, len(target)))
    while sources:
        taken, made = [sources.pop(0)], [waiting.pop(0)]
        while prod(shape[i] for i in taken) != prod(target[i] for i in made):
            if prod(shape[i] for i in taken) < prod(target[i] for i in made):
                taken.append(sources.pop(0))
            else:
                made.append(waiting.pop(0))
        if any(rank[b] != rank[a] + 1 for a, b in pairwise(taken)):
            return None
        if not sources:
            made += waiting  # trailing dimensions of size 1
            waiting = []
        groups.append((taken[0], made))
    if waiting:  # `a` has only dimensions of size 1 left
        groups.append((len(shape), waiting))
    return groups

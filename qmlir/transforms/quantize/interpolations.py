"""Interpolations that a quantized model spells out as sums on floats are interpolations again.

ONNX's operators say less than the tables of `nn.resize`, so its exporter writes, along each axis,

    Add(Mul(Gather(x, taps₀), weights₀), Mul(Gather(x, taps₁), weights₁)), …

which is what `nn.resize` means on floats, sum by sum. Between casts it has an integer form, which products and sums
without ranges of their own have not: a network that was written and is read again has the same bits.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i64
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects.interfaces import Array, shape_of
from qmlir.dialects.nn import AddOp, GatherOp, MulOp, ResizeOp, SliceOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.indexing import places
from qmlir.dialects.weights import WeightsAttr
from qmlir.rewriting import replace
from qmlir.transforms.nn.matching import constant_of, float_constant_of, used_once


class _Term(NamedTuple):
    """One neighbour of each element, times constant weights.

    x           what the neighbours are elements of
    axis, taps  where each of them stands; None where it is the element itself
    weights     a constant's; None where no product is taken
    operations  what computes the term
    """

    x: SSAValue
    axis: int | None
    taps: Array | None
    weights: Array | None
    operations: Sequence[Operation]


class NameInterpolation(RewritePattern):
    """A sum of weighted neighbours along one axis → nn.resize along that axis."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: AddOp, rewriter: PatternRewriter) -> None:
        (found, absorbed), readers = _interpolation(op), [use.operation for use in op.y.uses]
        # Of several sums within each other the outermost counts.
        within = any(isinstance(reader, AddOp) and _interpolation(reader)[0] for reader in readers)
        if found is not None and not within:
            x, axis, taps, weights = found
            replace(rewriter, op, _resize(x, [axis], [taps], [weights]), absorbing=absorbed)


class JoinInterpolations(RewritePattern):
    """nn.resize of nn.resize along other axes → one along all of them: rounded once where it is quantized."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ResizeOp, rewriter: PatternRewriter) -> None:
        first = op.x.owner
        if not isinstance(first, ResizeOp) or not used_once(first) or not is_float(op.x):
            return
        tables = [*first.tables(), *op.tables()]
        axes = [axis for axis, _, _ in tables]
        if len(set(axes)) == len(axes):
            joined = _resize(first.x, axes, [taps for _, taps, _ in tables], [weights for _, _, weights in tables])
            replace(rewriter, op, joined, absorbing=[first])


def _resize(x: SSAValue, axes: Sequence[int], taps: Sequence[Array], weights: Sequence[Array]) -> ResizeOp:
    properties = {
        "axes": DenseArrayBase.from_list(i64, list(axes)),
        "taps": ArrayAttr([WeightsAttr(t) for t in taps]),
        "weights": ArrayAttr([WeightsAttr(w) for w in weights]),
    }
    return ResizeOp.make([x], properties)


def _interpolation(op: AddOp) -> tuple[tuple[SSAValue, int, Array, Array] | None, Sequence[Operation]]:
    """The operand, axis, taps and weights, [O, T], of the interpolation that a sum is, and what else computes it."""
    terms, sums = _terms(op)
    axes = {t.axis for t in terms if t.axis is not None}
    if len({t.x for t in terms}) != 1 or all(t.weights is None for t in terms):
        return None, []
    x = terms[0].x
    axes = axes or _of_one_element(op, x, [t.weights for t in terms])
    if len(axes) != 1:
        return None, []
    (axis,) = axes
    weights = [w for t in terms if (w := _along(t.weights, axis, shape_of(op.y))) is not None]
    if len(weights) < len(terms):
        return None, []
    itself = np.arange(shape_of(x)[axis])
    taps = np.stack([itself if t.taps is None else t.taps for t in terms], axis=1)
    return (x, axis, taps, np.stack(weights, axis=1)), [*(o for t in terms for o in t.operations), *sums]


def _of_one_element(op: AddOp, x: SSAValue, weights: Sequence[Array | None]) -> set[int]:
    """An axis of one element, whose neighbours are all that element: nothing is taken, the parts sum up to 1.

    Any such axis gives the same numbers, but an interpolation has only one table for each.
    """
    parts = [np.ones(1) if w is None else w.astype(np.float64) for w in weights]
    if any(p.size != 1 for p in parts) or abs(sum(float(p.reshape(())) for p in parts) - 1) > 1e-6:
        return set()
    around = [x.owner, *(use.operation for use in op.y.uses)]
    taken = [axis for other in around if isinstance(other, ResizeOp) for axis, _, _ in other.tables()]
    return set([axis for axis, length in enumerate(shape_of(x)) if length == 1 and axis not in taken][:1])


def _terms(op: AddOp) -> tuple[list[_Term], list[AddOp]]:
    """The terms of ((t₀ + t₁) + t₂) + … in order, and the sums within; no terms if `op` is no such sum."""
    sums: list[AddOp] = []
    terms: list[_Term] = []
    total: SSAValue = op.y
    while isinstance(add := total.owner, AddOp) and add.bounds() == (None, None) and (add is op or used_once(add)):
        if (term := _term(add.rhs)) is None:
            return [], []
        terms.insert(0, term)
        sums.insert(0, add)
        total = add.lhs
    # The first neighbour may be the element itself, all of it.
    first = _term(total) or _Term(total, None, None, None, [])
    return ([first, *terms], sums[:-1]) if terms else ([], [])


def _term(value: SSAValue) -> _Term | None:
    product, weights = value.owner, None
    operations: list[Operation] = []
    if isinstance(product, MulOp) and product.bounds() == (None, None) and used_once(product):
        if (constant := float_constant_of(product.rhs)) is None:
            return None
        weights, value = constant.value.array, product.lhs
        operations.append(product)
    mover = value.owner
    if isinstance(mover, GatherOp | SliceOp) and used_once(mover) and is_float(value):
        if (found := _taken(mover)) is not None:
            return _Term(mover.x, *found, weights, [mover, *operations])
    return _Term(value, None, None, weights, operations) if operations else None


def _taken(op: GatherOp | SliceOp) -> tuple[int, Array] | None:
    """The one axis along which an operation takes elements, and which; a gather in equal steps is a slice."""
    x = shape_of(op.x)
    if isinstance(op, SliceOp):
        steps = list(zip(op.offsets.get_values(), op.sizes.get_values(), op.strides.get_values(), strict=True))
        axes = [a for a, step in enumerate(steps) if step != (0, x[a], 1)]
        if len(axes) != 1:
            return None
        offset, size, stride = steps[axes[0]]
        return axes[0], offset + stride * np.arange(size)
    axis, indices = op.axis.value.data, constant_of(op.indices)
    if indices is None or indices.value.array.ndim != 1:
        return None
    return axis, places(indices.value.array, x[axis]).astype(np.int64)


def _along(weights: Array | None, axis: int, shape: Sequence[int]) -> Array | None:
    """Weights, f64, of each element of an axis, 1 where there are none; None where they differ along another."""
    if weights is None:
        return np.ones(shape[axis])
    extents = (*[1] * (len(shape) - weights.ndim), *weights.shape)
    if len(extents) != len(shape) or any(n != 1 for other, n in enumerate(extents) if other != axis):
        return None
    return np.broadcast_to(weights.reshape(-1).astype(np.float64), (shape[axis],)).copy()

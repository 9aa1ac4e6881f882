"""Patterns that replace what a quantized model spells out as several operators by one operation."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i64
from xdsl.ir import Operation, SSAValue
from xdsl.pattern_rewriter import PatternRewriter, RewritePattern, op_type_rewrite_pattern

from qmlir.dialects import nn
from qmlir.dialects.nn import AddOp, GatherOp, MulOp, ResizeOp, SliceOp
from qmlir.dialects.nn.base import is_float
from qmlir.dialects.nn.elementwise import BinaryOp
from qmlir.dialects.nn.indexing import places
from qmlir.dialects.nn.queries import constant_of, float_constant_of, used_once
from qmlir.ir.interfaces import Array, shape_of
from qmlir.ir.rewriting import replace
from qmlir.ir.weights import WeightsAttr

# ---------------------------------------------------------------------------------------------------------------
# Patterns that replace an interpolation that a quantized model spells out as sums on floats by one `nn.resize`.
#
# ONNX's operators cannot state the tables of `nn.resize`, so its exporter writes, along each axis,
#
#     Add(Mul(Gather(x, taps₀), weights₀), Mul(Gather(x, taps₁), weights₁)), …
#
# where taps are the indices of each element's neighbours. That is what `nn.resize` means on floats, sum by sum. Between
# casts `nn.resize` has an integer form. The products and sums have no integer form, as they have no ranges of their
# own. So a network that is exported and read again gives the same bits.


class _Term(NamedTuple):
    """A term of an interpolation: a neighbour of each element, times constant weights.

    x           the tensor that the neighbours are elements of
    axis, taps  the axis, and the index of each neighbour along it; None if the neighbour is the element itself
    weights     the values of a constant; None if there is no product
    operations  the operations that compute the term
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
        # Of nested sums the outermost counts.
        within = any(isinstance(reader, AddOp) and _interpolation(reader)[0] for reader in readers)
        if found is not None and not within:
            x, axis, taps, weights = found
            replace(rewriter, op, _resize(x, [axis], [taps], [weights]), absorbing=absorbed)


class JoinInterpolations(RewritePattern):
    """nn.resize of nn.resize along other axes → an nn.resize along all of them: rounded once where it is quantized."""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: ResizeOp, rewriter: PatternRewriter) -> None:
        first = op.x.owner
        if not isinstance(first, ResizeOp) or not used_once(first) or not is_float(op.x):
            return
        tables, taken = [*first.tables(), *op.tables()], [axis for axis, _, _ in first.tables()]
        # One element is its own neighbour along any axis of length 1, so another such axis may have its table.
        spare = (axis for axis, length in enumerate(shape_of(op.x)) if length == 1 and axis not in taken)
        axes = [*taken, *(next(spare, a) if a in taken and shape_of(op.x)[a] == 1 else a for a, _, _ in op.tables())]
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
    """The operand, axis, taps [O, T] and weights [O, T] of a sum that is an interpolation, and its other operations."""
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
    """An axis of length 1, if all neighbours are its only element and the weights sum up to 1; empty without such.

    Any such axis gives the same numbers, but an axis that an nn.resize before or behind interpolates is skipped: a
    joined nn.resize has only one table for each axis.
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
    # The first term may be the element itself, without a weight.
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
    """The only axis along which an operation takes elements, and their indices; a slice is a gather in equal steps."""
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
    """The weight of each element of an axis, f64, 1 without weights; None if weights differ along another axis."""
    if weights is None:
        return np.ones(shape[axis])
    extents = (*[1] * (len(shape) - weights.ndim), *weights.shape)
    if len(extents) != len(shape) or any(n != 1 for other, n in enumerate(extents) if other != axis):
        return None
    return np.broadcast_to(weights.reshape(-1).astype(np.float64), (shape[axis],)).copy()


# ---------------------------------------------------------------------------------------------------------------
# ONNX lacks some operations of nn, so its exporter writes
#
#     (a − b) · (a − b)                nn.squared_difference
#     where(x < 0, x · slope, x)       nn.prelu, whose slopes are wider than x
#
# Each form is exactly what the operation means on floats. Between casts the operation has an integer form, a table; the
# operators within the form have no integer form, as their tensors have no ranges of their own. So a network that is
# exported and read again gives the same bits.


class NameSquaredDifference(RewritePattern):
    """(a − b) · (a − b) → nn.squared_difference(a, b)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.MulOp, rewriter: PatternRewriter) -> None:
        difference = op.lhs.owner
        if not _is_plain(op) or op.lhs != op.rhs or not isinstance(difference, nn.SubOp) or not _is_plain(difference):
            return
        if all(use.operation is op for use in difference.y.uses):
            squared = nn.SquaredDifferenceOp.make([difference.lhs, difference.rhs])
            replace(rewriter, op, squared, absorbing=[difference])


class NamePRelu(RewritePattern):
    """where(x < 0, x · slope, x) → nn.prelu(x, slope)"""

    @op_type_rewrite_pattern
    def match_and_rewrite(self, op: nn.WhereOp, rewriter: PatternRewriter) -> None:
        x, negative, product = op.rhs, op.condition.owner, op.lhs.owner
        if not isinstance(negative, nn.LessOp) or negative.lhs != x or not used_once(negative):
            return
        zero = float_constant_of(negative.rhs)
        if zero is None or np.any(zero.value.array) or zero.value.array.size != 1:
            return
        if isinstance(product, nn.MulOp) and _is_plain(product) and used_once(product) and x in product.operands:
            slope = product.rhs if product.lhs == x else product.lhs
            replace(rewriter, op, nn.PReluOp.make([x, slope]), absorbing=[negative, product])


def _is_plain(op: BinaryOp) -> bool:
    """Whether an operation computes f32 and has no fused clamp."""
    return is_float(op.y) and op.bounds() == (None, None)


SPELLED = (NameSquaredDifference(), NamePRelu())
"""All patterns of this module."""

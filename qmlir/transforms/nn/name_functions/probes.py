"""Probes: the values that the operations between two tensors compute from a few chosen values of the first tensor.

Two spellings of a function have the same values. So the values are a normal form of all spellings: of every
association, power, quotient, order of sums, shift of an exponent and form of a variance that algebra knows. Whether an
analytic function of several numbers is another one is known from its values at a few points without relation.

The operations are computed by their own formulas, in float64, on tensors with few elements: an axis along which no
constant varies is as long as a mean along it needs to be to tell axes apart. A sum along it is the mean times the
number of elements that the axis really has. So it takes no longer for large tensors.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod

import numpy as np
from xdsl.dialects.builtin import BFloat16Type, Float16Type, Float32Type, Float64Type, i1
from xdsl.ir import Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.nn.elementwise import PointwiseOp
from qmlir.dialects.nn.normalization import ExponentialsOp
from qmlir.dialects.nn.queries import constant_of
from qmlir.dialects.nn.reduction import ReductionOp
from qmlir.ir.interfaces import Array, element_of, shape_of
from qmlir.numerics.elementary.lanes import Lanes
from qmlir.transforms.nn.name_functions.axes import Axes, Dimensions, FinerAxes, Layout, Unreadable

FEW = 5
"""The most elements along an axis along which no constant varies."""

MOST = 1 << 19
"""The most elements of all probes of a tensor together."""

MOST_AXES = 9
"""The most axes of a tensor."""

REDUCED = (nn.ReduceMeanOp, nn.ReduceSumOp, nn.ReduceMaxOp, nn.ReduceMinOp, nn.GlobalAveragePoolOp)
EXPONENTIALS = (nn.SoftmaxOp, nn.LogSoftmaxOp)
MOVED = (nn.ReshapeOp, nn.TransposeOp, nn.BroadcastOp, nn.CastOp)
"""Operations that compute nothing, as far as real numbers go."""


def is_readable(op: Operation) -> bool:
    """Whether probes can pass through an operation: it computes real numbers or conditions element by element."""
    kinds = (PointwiseOp, *REDUCED, *EXPONENTIALS, *MOVED)
    return isinstance(op, kinds) and all(map(_is_real, op.operands)) and all(map(_is_real, op.results))


def _is_real(value: SSAValue) -> bool:
    element = element_of(value)
    return element == i1 or isinstance(element, Float32Type | Float64Type | Float16Type | BFloat16Type)


@dataclass(frozen=True)
class Points:
    """Values of one tensor at all probes.

    layout  the axes of each dimension
    array   [probes, *axes]; 1 element along an axis along which the values do not differ
    """

    layout: Layout
    array: Array


@dataclass(frozen=True)
class Probed:
    """What the operations between two tensors do.

    axes     the axes of the first tensor
    x        the probes, [probes, *axes]
    y        the results, with the layout of the last tensor
    reduced  the axes along which some operation reduces, ascending
    """

    axes: Axes
    x: Array
    y: Points
    reduced: tuple[int, ...]

    def mean(self, array: Array) -> Array:
        """The mean along the reduced axes."""
        return array.mean(axis=tuple(a + 1 for a in self.reduced), keepdims=True)

    def varying(self, array: Array) -> Array:
        """The median along each axis along which no constant varies, since all elements have to be the same there."""
        axes = tuple(a + 1 for a in range(len(self.axes.sizes)) if a not in self.axes.whole)
        return np.median(array, axis=axes, keepdims=True)

    @property
    def count(self) -> int:
        """The number of elements along the reduced axes."""
        return prod(self.axes.sizes[a] for a in self.reduced)


def probe(
    base: SSAValue, end: SSAValue, cone: Sequence[Operation], settings: Sequence[tuple[float, float]],
    axes: Axes | None = None, few: int = FEW,
) -> Probed:  # fmt: skip
    """Computes `end` from random values of `base`; each probe is there with both signs, negative ones behind.

    Args:
        base: The tensor from which all of `end` is computed.
        end: The result of the last operation.
        cone: The operations between them, in order.
        settings: The mean and the deviation of each probe.
        axes: The axes of `base`, if they are known.
        few: The most elements along an axis along which no constant varies.

    Raises:
        Unreadable: An operation moves elements in a way that cannot be followed.
    """
    axes = axes or Axes.of(shape_of(base))
    while True:
        extents = [size if a in axes.whole else min(size, few) for a, size in enumerate(axes.sizes)]
        if 2 * len(settings) * prod(extents) > MOST or 0 in extents or len(extents) > MOST_AXES:
            raise Unreadable
        noise = _noise((len(settings), *extents))
        first = np.stack([mean + deviation * row for (mean, deviation), row in zip(settings, noise, strict=True)])
        try:
            return _Reader(axes).read(base, end, cone, np.concatenate([first, -first]))
        except FinerAxes as finer:
            axes = finer.axes


@lru_cache(64)
def _noise(shape: tuple[int, ...]) -> Array:
    """Numbers of mean 0 and deviation 1, of which neighbours along each axis differ, so that no variance is tiny."""
    places = np.indices(shape).reshape(len(shape), -1)
    steps = np.sqrt([2.0, 5, 3, 7, 11, 13, 17, 19, 23, 29][: len(shape)])
    spread = (steps @ places % 1 - 0.5) * 3.4
    return (spread + 0.2 * np.random.default_rng(1).normal(size=spread.size)).reshape(shape)


def probe_pointwise(base: SSAValue, end: SSAValue, cone: Sequence[Operation], points: Array) -> Probed:
    """Computes `end` from tensors whose elements all are the same, one of the given points.

    Raises:
        Unreadable: An operation reduces, or a constant has several values.
    """
    axes = Axes.of(shape_of(base))
    while True:
        x = points.reshape(-1, *[1] * len(axes.sizes))
        try:
            found = _Reader(axes).read(base, end, cone, x)
        except FinerAxes as finer:
            if finer.axes.whole:
                raise Unreadable from finer
            axes = finer.axes
            continue
        if found.reduced:
            raise Unreadable
        return found


class _Reader:
    """Computes tensors from probes."""

    def __init__(self, axes: Axes):
        self.dimensions = Dimensions(axes)
        self.points: dict[SSAValue, Points] = {}
        self.reduced: set[int] = set()

    def read(self, base: SSAValue, end: SSAValue, cone: Sequence[Operation], x: Array) -> Probed:
        axes = self.dimensions.axes
        self.points[base] = Points(axes.layout, x)
        with np.errstate(all="ignore"):
            for op in cone:
                computed = self._computed(op)
                self.points[op.results[0]] = Points(computed.layout, _in_range(computed.array))
        return Probed(axes, x, self.points[end], tuple(sorted(self.reduced)))

    def _computed(self, op: Operation) -> Points:
        match op:
            case PointwiseOp():
                return self._pointwise(op)
            case nn.ReshapeOp():
                x = self._read(op.x)
                return Points(self.dimensions.reshaped(x.layout, shape_of(op.y)), x.array)
            case nn.TransposeOp():
                x = self._read(op.x)
                return Points(tuple(x.layout[p] for p in op.permutation.get_values()), x.array)
            case nn.BroadcastOp():
                return self._broadcast(op)
            case nn.CastOp():
                x = self._read(op.x)
                return Points(x.layout, x.array != 0 if element_of(op.y) == i1 else x.array.astype(np.float64))
            case _:
                return self._along(op)

    def _read(self, value: SSAValue) -> Points:
        """The points of a tensor. A constant of one value has that value at each point, and may be broadcast.

        Raises:
            Unreadable: A constant has several values.
        """
        if value in self.points:
            return self.points[value]
        shape = shape_of(value)
        array = _squeezed(value, len(shape))
        if array.size > 1:
            raise Unreadable
        layout = tuple(map(self.dimensions.repeated, shape))
        return Points(layout, array.reshape((1,) * (1 + len(self.dimensions.axes.sizes))))

    def _broadcast(self, op: nn.BroadcastOp) -> Points:
        x, shape = self._read(op.x), shape_of(op.y)
        own = ((),) * (len(shape) - len(x.layout)) + x.layout
        return Points(tuple(a or self.dimensions.repeated(n) for a, n in zip(own, shape, strict=True)), x.array)

    def _pointwise(self, op: PointwiseOp) -> Points:
        shape = shape_of(op.results[0])
        layout: Layout = ((),) * len(shape)
        constants = {v: _squeezed(v, len(shape)) for v in op.operands if v not in self.points}
        for value in op.operands:
            if (found := self.points.get(value)) is not None:
                own = ((),) * (len(shape) - len(found.layout)) + found.layout
                layout = tuple(self.dimensions.merged(a, b) for a, b in zip(layout, own, strict=True))
        varying = [any(c.shape[i] > 1 for c in constants.values()) for i in range(len(shape))]
        layout = tuple(
            axes or (self._guessed(i - len(shape), n) if varying[i] else self.dimensions.repeated(n))
            for i, (axes, n) in enumerate(zip(layout, shape, strict=True))
        )
        arrays = [self._constant(constants[v], layout) if v in constants else self.points[v].array for v in op.operands]
        return Points(layout, op.formula(*map(Lanes, arrays)).array)

    def _guessed(self, dimension: int, size: int) -> tuple[int, ...]:
        """The axes of a dimension along which only a constant varies: those of the base's dimension in its place.

        If the guess is wrong, what follows is unreadable.
        """
        layout = self.dimensions.axes.layout
        axes = layout[dimension] if -dimension <= len(layout) else ()
        if prod(map(self.dimensions.size, axes)) != size:
            raise Unreadable
        return axes

    def _constant(self, array: Array, layout: Layout) -> Array:
        """The values of a constant along the axes of a layout, [1, *axes]."""
        axes = [a for size, own in zip(array.shape, layout, strict=True) if size > 1 for a in own]
        if self.dimensions.real(axes) != axes:
            raise Unreadable
        if not self.dimensions.axes.whole.issuperset(axes):
            raise FinerAxes(self.dimensions.axes.keeping(axes))
        sizes = self.dimensions.axes.sizes
        ordered = array.reshape([sizes[a] for a in axes]).transpose(np.argsort(axes))
        return ordered.reshape(1, *(size if a in axes else 1 for a, size in enumerate(sizes)))

    def _along(self, op: Operation) -> Points:
        """A reduction, or a softmax, along dimensions."""
        x, over = self._read(op.operands[0]), [1, 2]
        if isinstance(op, ReductionOp):
            over = [*op.axes.get_values()]
        elif isinstance(op, ExponentialsOp):
            over = [op.axis.value.data]
        axes = [a for dimension in over for a in x.layout[dimension]]
        real = self.dimensions.real(axes)
        self.reduced.update(real)
        along, count = tuple(a + 1 for a in real), prod(map(self.dimensions.size, axes))
        if isinstance(op, ExponentialsOp):
            shifted = x.array - x.array.max(axis=along, keepdims=True)
            total = count * np.exp(shifted).mean(axis=along, keepdims=True)
            return Points(x.layout, op.parts(shifted, np.exp(shifted), total))
        layout = tuple(() if i in over else axes for i, axes in enumerate(x.layout))
        match op:
            case nn.ReduceMaxOp():
                return Points(layout, x.array.max(axis=along, keepdims=True))
            case nn.ReduceMinOp():
                return Points(layout, x.array.min(axis=along, keepdims=True))
            case _:
                factor = count if isinstance(op, nn.ReduceSumOp) else 1
                return Points(layout, factor * x.array.mean(axis=along, keepdims=True))


def _in_range(array: Array) -> Array:
    """Numbers with the range, not the digits, of f32: where a model's own form overflows, its values say nothing."""
    if array.dtype.kind != "f":
        return array
    size = np.abs(array)
    beyond = np.where(size > np.finfo(np.float32).max, np.copysign(np.inf, array), array)
    return np.where(size < np.finfo(np.float32).smallest_subnormal, 0.0, beyond)


def _squeezed(value: SSAValue, rank: int) -> Array:
    """A constant with so many dimensions, of which those along which it does not vary have size 1.

    Raises:
        Unreadable: It has no elements.
    """
    constant = constant_of(value)
    assert constant is not None
    array = constant.value.array
    if not array.size:
        raise Unreadable
    array = array if array.dtype.kind == "b" else array.astype(np.float64)
    array = array.reshape((1,) * (rank - array.ndim) + array.shape)
    for dimension, size in enumerate(array.shape):
        first = array.take([0], dimension)
        if size > 1 and (array == first).all():
            array = first
    return array

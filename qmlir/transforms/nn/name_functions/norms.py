"""Names of functions of all elements along axes: layer and RMS normalization, L2 norms, softmax and its logarithm."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from math import prod, sqrt

import numpy as np
from xdsl.dialects.builtin import FloatAttr, IntegerAttr, f32, i64
from xdsl.ir import Attribute, Operation, SSAValue

from qmlir.dialects import nn
from qmlir.dialects.windows import ints
from qmlir.ir.interfaces import Array, shape_of
from qmlir.transforms.nn.name_functions.axes import Layout, Unreadable
from qmlir.transforms.nn.name_functions.cones import Cone, Named, constant_along
from qmlir.transforms.nn.name_functions.functions import CLOSE
from qmlir.transforms.nn.name_functions.hinges import BENT
from qmlir.transforms.nn.name_functions.probes import EXPONENTIALS, REDUCED, Probed, is_readable, probe

SETTINGS = ((0, 1), (0, 1e-4), (0, 1e-2), (1, 1), (-3, 3), (0, 40), (2, 2), (0, 1e3))
"""Means and deviations of the probes. The first two tell the least and the greatest part of a sum of squares apart."""

SHARES = ((0, 1), (0, 40), (0, 1e3), (0, 1e6))
"""Means and deviations of probes whose softmax comes up to 1 in one place, however many there are."""

LEAST_SHARE = 1e-35
"""A share of which no digits count; float32 has none from 1e-45 on."""

OUTSIDE = 1.01e-6
"""The greatest number that may be added to a deviation, not to a variance, to count as an epsilon."""

LEAST_EPSILON = 1e-24
"""The epsilon of a normalization that keeps only zeros from being divided by zero."""

_EXPONENTIAL = {nn.ExpOp, nn.LogOp, *EXPONENTIALS}
_SUMS = {nn.ReduceSumOp, nn.ReduceMeanOp, nn.GlobalAveragePoolOp, *EXPONENTIALS}
_ROOTS = {nn.SqrtOp, nn.RsqrtOp, nn.PowOp}
"""Operations without which there is no softmax, and no normalization."""


def name_norm(cone: Cone) -> Named | None:
    """The operations that compute a cone's end from its base as a normalization or a softmax, if they do."""
    kinds = {type(op) for op in cone.operations}
    if nn.IsNaNOp in kinds:  # its operand is not a number in a row that a mask hides, which no probe has
        return None
    if not (kinds & _EXPONENTIAL and kinds & _SUMS) and not (kinds & _ROOTS and kinds & set(REDUCED)):
        return None
    try:
        probed = probe(cone.base, cone.end, cone.operations, SETTINGS)
    except Unreadable:
        return None
    if not probed.reduced or probed.y.array.dtype.kind != "f":
        return None
    axes = {a for dimension in probed.y.layout for a in dimension}
    writing = _Writing(cone, probed)
    if axes == set(range(len(probed.axes.sizes))):
        if (found := _softmax(writing)) is not None:
            return found if not kinds & BENT or _reaches_one(cone, probed) else None
        return _normalization(writing)
    if axes == set(range(len(probed.axes.sizes))) - set(probed.reduced) and not _has_extreme(cone):
        return _log_sum_exp(writing)
    return None


# ---------------------------------------------------------------------------------------------------------------
# Whether values are those of a softmax or of a normalization, and with which parameters.


def _softmax(writing: "_Writing") -> Named | None:
    probed = writing.probed
    x, y = probed.x, probed.y.array
    shifted = x - x.max(axis=tuple(a + 1 for a in probed.reduced), keepdims=True)
    with np.errstate(all="ignore"):
        share = np.log(y)
    for kind, logarithm in ((nn.LogSoftmaxOp, y), (nn.SoftmaxOp, share)):
        with np.errstate(all="ignore"):
            centred, own = (v[:1] - probed.mean(v[:1]) for v in (logarithm, x))
            factor = float((centred * own).sum() / (own * own).sum())
        if not np.isfinite(factor) or factor == 0:
            continue
        scaled = x * factor
        shifted = scaled - scaled.max(axis=tuple(a + 1 for a in probed.reduced), keepdims=True)
        total = probed.count * probed.mean(np.exp(shifted))
        wanted = shifted - np.log(total) if kind is nn.LogSoftmaxOp else np.exp(shifted) / total
        # Of small shares the digits count, too: a logarithm behind may read them.
        if _is_near(y, wanted, 1.0 if kind is nn.LogSoftmaxOp else LEAST_SHARE):
            factor = 1.0 if abs(factor - 1) <= CLOSE else factor
            return Named(1 + (factor != 1), True, partial(writing.softmax, kind, factor))
    return None


def _reaches_one(cone: Cone, probed: Probed) -> bool:
    """Whether values are those of a softmax where an element has a share of 1, too.

    Each element of the probes stands for several, and has its part of their share: what cuts off larger ones is seen
    only where all elements are there.
    """
    axes = probed.axes.keeping(probed.reduced)
    try:
        every = probe(cone.base, cone.end, cone.operations, SHARES, axes, few=1)
    except Unreadable:
        return False
    return _softmax(_Writing(cone, every)) is not None


def _has_extreme(cone: Cone) -> bool:
    """Whether exponents are less a greatest element already, in a cone or in the few operations before it."""
    before: list[SSAValue] = [cone.base]
    for value in before:
        if isinstance(op := value.owner, Operation) and is_readable(op) and len(before) < 16:
            before += op.operands
    owners = [value.owner for value in before]
    return any(isinstance(op, nn.ReduceMaxOp | nn.ReduceMinOp) for op in (*owners, *cone.operations))


def _log_sum_exp(writing: "_Writing") -> Named | None:
    """log Σ exp(x), computed against the greatest element: exponentials up to 1, and a logarithm of at least 1."""
    probed = writing.probed
    greatest = probed.x.max(axis=tuple(a + 1 for a in probed.reduced), keepdims=True)
    wanted = greatest + np.log(probed.count * probed.mean(np.exp(probed.x - greatest)))
    return Named(0, False, writing.log_sum_exp) if _is_near(probed.y.array, wanted, 1.0) else None


def _is_near(values: Array, wanted: Array, size: Array | float) -> bool:
    """Whether values are the wanted ones, as far as they are finite: a model's own form may overflow."""
    finite = np.isfinite(values)
    if finite.mean() < 0.5:
        return False
    near = np.abs(values - wanted) <= CLOSE * np.maximum(np.abs(wanted), 0.1 * size)
    return bool((near | ~finite).all())


@dataclass(frozen=True)
class _Fit:
    """y = gain · d / √(square + epsilon) + offset, where `square` is the mean of d²."""

    kind: type[nn.LayerNormOp | nn.RMSNormOp | nn.LpNormalizationOp]
    epsilon: float
    gain: Array
    offset: Array

    @property
    def has_gain(self) -> bool:
        """Whether the gain is not 1."""
        return bool(np.abs(self.gain - 1).max() > CLOSE)

    @property
    def has_offset(self) -> bool:
        """Whether the offset is not 0."""
        return bool(np.any(self.offset))

    def named(self, count: int) -> "_Fit":
        """The same as a multiple of x / √Σ d² over `count` elements, if it is one but no RMS normalization itself."""
        if self.kind is not nn.RMSNormOp or self.epsilon or self.gain.size > 1 or not self.has_gain:
            return self
        return _Fit(nn.LpNormalizationOp, 0.0, self.gain * sqrt(count), self.offset)


def _normalization(writing: "_Writing") -> Named | None:
    probed = writing.probed
    half = len(SETTINGS)
    y = np.broadcast_to(probed.y.array, probed.x.shape)
    offset = probed.varying((y[:1] + y[half : half + 1]) / 2)
    less_mean = probed.x - probed.mean(probed.x)
    for kind, d in ((nn.LayerNormOp, less_mean), (nn.RMSNormOp, probed.x)):
        square = probed.mean(d * d)
        with np.errstate(all="ignore"):
            ratio = d[:2] / (y[:2] - offset)
        for epsilon, gain, outside in (_epsilon_of_variance(ratio, square), _epsilon_of_deviation(ratio, square)):
            gain = probed.varying(gain)
            if not (epsilon >= 0 and np.isfinite(gain).all()):
                continue
            # Numbers such as 1/3 are rounded in a model, which counts the more the larger means are beside deviations.
            size = np.abs(gain).max() * (1 + 0.02 * probed.mean(probed.x**2) / square)
            root = np.sqrt(square) + outside if outside else np.sqrt(square + epsilon)
            if _is_near(y, gain * d / root + offset, size):
                epsilon = next((c for c in writing.cone.numbers() if abs(c - epsilon) <= 0.01 * c), epsilon)
                offset = np.where(np.abs(offset) < 1e-6 * np.abs(gain).max(), 0, offset)
                fit = _Fit(kind, epsilon, gain, offset).named(probed.count)
                return Named(
                    1 + fit.has_gain + fit.has_offset,
                    not (fit.has_gain or fit.has_offset),
                    partial(writing.normalization, fit),
                )
    return None


def _epsilon_of_variance(ratio: Array, square: Array) -> tuple[float, Array, float]:
    """The epsilon and the gain with ratio² = (square + epsilon) / gain², from a large and a small probe."""
    with np.errstate(all="ignore"):
        slope = (ratio[:1] ** 2 - ratio[1:] ** 2) / (square[:1] - square[1:2])
        gain = np.sign(ratio[:1]) / np.sqrt(slope)
        epsilon = float(np.median(ratio[1:] ** 2 / slope - square[1:2]))
    return (0.0 if abs(epsilon) < 1e-14 else epsilon), gain, 0.0


def _epsilon_of_deviation(ratio: Array, square: Array) -> tuple[float, Array, float]:
    """The epsilon and the gain of a normalization that divides by the deviation plus a number, and that number.

    The square of that number is the epsilon: it has the same effect where deviations are 0, and none where they are
    large.
    """
    deviation = np.sqrt(square)
    with np.errstate(all="ignore"):
        slope = (np.abs(ratio[:1]) - np.abs(ratio[1:])) / (deviation[:1] - deviation[1:2])
        gain = np.sign(ratio[:1]) / slope
        outside = float(np.median(np.abs(ratio[1:]) / slope - deviation[1:2]))
    return (outside**2 if 0 < outside <= OUTSIDE else -1.0), gain, outside


# ---------------------------------------------------------------------------------------------------------------
# The operations of a name: what is normalized together has to lie along one dimension, or along the last dimensions.


@dataclass(frozen=True)
class _Tensor:
    """A tensor, and the axes of its dimensions."""

    value: SSAValue
    layout: Layout


class _Writing:
    """Writes operations that take the place of a cone."""

    def __init__(self, cone: Cone, probed: Probed):
        self.cone, self.probed = cone, probed
        self.operations: list[Operation] = []
        self._ends = probed.y.layout, probed.axes.sizes

    def _add(
        self, kind: type[Operation], operands: Sequence[SSAValue], properties: Mapping[str, Attribute] | None = None
    ) -> SSAValue:
        self.operations.append(kind.make(operands, properties or {}))  # type: ignore[attr-defined]
        return self.operations[-1].results[0]

    def _times(self, kind: type[nn.MulOp | nn.AddOp], value: SSAValue, array: Array) -> SSAValue:
        """A product or a sum with a constant."""
        constant = nn.ConstantOp(np.asarray(array, np.float32))
        self.operations.append(constant)
        return self._add(kind, [value, constant.y])

    def softmax(self, kind: type[nn.SoftmaxOp | nn.LogSoftmaxOp], factor: float) -> list[Operation]:
        """A softmax, or its logarithm, of a multiple of the base."""
        x = self.cone.base if factor == 1 else self._times(nn.MulOp, self.cone.base, np.array(factor))
        self._end(self._along_one(kind, x, {}))
        return self.operations

    def normalization(self, fit: _Fit) -> list[Operation]:
        """A normalization, and perhaps a gain and an offset."""
        if fit.kind is nn.LpNormalizationOp:
            normed = self._along_one(fit.kind, self.cone.base, {"p": IntegerAttr(2, i64)})
        else:
            epsilon = FloatAttr(fit.epsilon or LEAST_EPSILON, f32)
            normed = self._along_last(fit.kind, self.cone.base, {"epsilon": epsilon})
        value = self._end(normed)
        if fit.has_gain:
            value = self._times(nn.MulOp, value, constant_along(fit.gain, *self._ends))
        if fit.has_offset:
            value = self._times(nn.AddOp, value, constant_along(fit.offset, *self._ends))
        return self.operations

    def log_sum_exp(self) -> list[Operation]:
        """m + log Σ exp(x − m), where m is the greatest element, or 0 where that is infinite."""
        x, layout = self.cone.base, self.probed.axes.layout
        reduced = [i for i, axes in enumerate(layout) if set(axes) & set(self.probed.reduced)]
        if tuple(a for i in reduced for a in layout[i]) != self.probed.reduced:
            layout = tuple((a,) for a in range(len(self.probed.axes.sizes)))
            x, reduced = self._moved(_Tensor(x, self.probed.axes.layout), layout).value, list(self.probed.reduced)
        axes, most = {"axes": ints(reduced)}, float(np.finfo(np.float32).max)
        greatest = self._add(nn.ReduceMaxOp, [x], axes)
        m = self._add(nn.ClampOp, [greatest], {"min": FloatAttr(-most, f32), "max": FloatAttr(most, f32)})
        powers = self._add(nn.ExpOp, [self._add(nn.SubOp, [x, m])])
        logarithm = self._add(nn.LogOp, [self._add(nn.ReduceSumOp, [powers], axes)])
        kept = tuple(() if i in reduced else axes for i, axes in enumerate(layout))
        self._end(_Tensor(self._add(nn.AddOp, [logarithm, m]), kept))
        return self.operations

    def _along_one(self, kind: type[Operation], x: SSAValue, properties: Mapping[str, Attribute]) -> _Tensor:
        """An operation along one dimension, which has all reduced axes."""
        layout, reduced = self.probed.axes.layout, self.probed.reduced
        if reduced not in layout:
            kept = [(a,) for a in range(len(self.probed.axes.sizes)) if a not in reduced]
            moved = self._moved(_Tensor(x, layout), (*kept, reduced))
            x, layout = moved.value, moved.layout
        axis = IntegerAttr(layout.index(reduced), i64)
        return _Tensor(self._add(kind, [x], {"axis": axis, **properties}), layout)

    def _along_last(self, kind: type[Operation], x: SSAValue, properties: Mapping[str, Attribute]) -> _Tensor:
        """An operation along the last dimensions, which have all reduced axes and no other."""
        layout, reduced = self.probed.axes.layout, self.probed.reduced
        first = next(i for i, axes in enumerate(layout) if set(axes) & set(reduced))
        if tuple(a for axes in layout[first:] for a in axes) != reduced:
            kept = [(a,) for a in range(len(self.probed.axes.sizes)) if a not in reduced]
            moved = self._moved(_Tensor(x, layout), (*kept, *((a,) for a in reduced)))
            x, layout, first = moved.value, moved.layout, len(kept)
        return _Tensor(self._add(kind, [x], {"axis": IntegerAttr(first, i64), **properties}), layout)

    def _end(self, result: _Tensor) -> SSAValue:
        """A tensor with the dimensions of the cone's end."""
        moved = self._moved(result, self.probed.y.layout)
        if shape_of(moved.value) == shape_of(self.cone.end):
            return moved.value
        return self._add(nn.ReshapeOp, [moved.value], {"shape": ints(shape_of(self.cone.end))})

    def _moved(self, x: _Tensor, layout: Layout) -> _Tensor:
        """A tensor with another layout, by a reshape, a transpose and a reshape as far as they are needed."""
        sizes = self.probed.axes.sizes
        old, new = ([a for axes in side for a in axes] for side in (x.layout, layout))
        value = x.value
        if old != new:
            value = self._reshaped(value, [sizes[a] for a in old])
            value = self._add(nn.TransposeOp, [value], {"permutation": ints([old.index(a) for a in new])})
        return _Tensor(self._reshaped(value, [prod(sizes[a] for a in axes) for axes in layout]), layout)

    def _reshaped(self, x: SSAValue, shape: Sequence[int]) -> SSAValue:
        return x if shape_of(x) == tuple(shape) else self._add(nn.ReshapeOp, [x], {"shape": ints(tuple(shape))})

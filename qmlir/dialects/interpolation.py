"""Interpolation: the base of its operations, and the places where a runtime reads an image."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i64
from xdsl.irdl import prop_def
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.interfaces import Array, Shape, TensorOp
from qmlir.ir.samples import Axes, kept_axis
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import Float32s

# ---------------------------------------------------------------------------------------------------------------
# The base of interpolation operations: separable weighted sums of neighbours, for the float and integer levels.


class InterpolationOp(TensorOp, abc.ABC):
    """Base of the operations that replace each element by a weighted sum of neighbours, along one axis after another.

    Each axis has two tables of shape [O, T]: `taps`, the indices of the T neighbours of each output element, and their
    `weights`. The size of the axis becomes O:

        y[…, o, …] = 0 + weights[o, 0] · x[…, taps[o, 0], …] + weights[o, 1] · x[…, taps[o, 1], …] + …

    The axes are processed in the order of `axes`.

    (I1) the axes lie within the operand's rank and are distinct
    (I2) each axis has taps of i64 and weights of the dtype `WEIGHTS`, with the same shape [O, T]
    (I3) taps lie inside the axis
    """

    WEIGHTS: ClassVar[str]
    """The dtype of the weights."""

    axes = prop_def(DenseArrayBase.constr(i64))
    taps = prop_def(ArrayAttr[WeightsAttr])
    weights = prop_def(ArrayAttr[WeightsAttr])

    def tables(self) -> list[tuple[int, Array, Array]]:
        """Returns (axis, taps, weights) for each axis."""
        taps, weights = ([t.array for t in tables] for tables in (self.taps, self.weights))
        return list(zip(self.axes.get_values(), taps, weights, strict=True))

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, self.axes.get_values())

    def interpolated_shape(self, x: Shape) -> Shape:
        """Returns the result's shape; raises VerifyException if the tables do not fit the operand's shape."""
        axes = self.axes.get_values()
        if len(set(axes)) != len(axes) or any(not 0 <= a < len(x) for a in axes):  # I1
            raise VerifyException(f"'{self.name}' needs different axes of {list(x)}, got {list(axes)}")
        if not len(axes) == len(self.taps) == len(self.weights):  # I2
            raise VerifyException(f"'{self.name}' needs taps and weights for each of its {len(axes)} axes")
        sizes = list(x)
        for axis, taps, weights in self.tables():
            kinds = taps.dtype.name, weights.dtype.name
            if taps.ndim != 2 or taps.shape != weights.shape or kinds != ("int64", self.WEIGHTS):  # I2
                raise VerifyException(
                    f"'{self.name}' needs taps [O, T] of int64 and weights [O, T] of {self.WEIGHTS} along axis {axis}, "
                    f"got {kinds[0]} {list(taps.shape)} and {kinds[1]} {list(weights.shape)}"
                )
            if taps.size and not (0 <= taps.min() and taps.max() < x[axis]):  # I3
                raise VerifyException(f"'{self.name}' reads outside axis {axis} of {list(x)}")
            sizes[axis] = len(taps)
        return tuple(sizes)

    def interpolated(self, x: Array) -> Array:
        """Computes the sums sequentially in the operand's dtype; weights are first converted to that dtype."""
        for axis, taps, weights in self.tables():
            shape = [*x.shape]
            shape[axis] = len(taps)
            total = np.zeros(shape, x.dtype)
            for t in range(taps.shape[1]):
                weight = weights[:, t].astype(x.dtype).reshape(-1, *[1] * (x.ndim - axis - 1))
                total += weight * np.take(x, taps[:, t], axis=axis)
            x = total
        return x


# ---------------------------------------------------------------------------------------------------------------
# Source positions for resizing an image, as TFLite computes them, along a single axis.
#
# A "place" is the position of an output element on the axis of the input.


Table = tuple[Array, Array]
"""The two input elements next to each place, int64 [O, 2], and their weights [O, 2]."""

PLACE_BITS = 10
"""The number of fractional bits of a place that is computed in integers."""


@dataclass(frozen=True)
class Places:
    """The places of `size` output elements on an axis of `length` input elements.

    align_corners       whether the first and the last elements of input and output coincide
    half_pixel_centers  whether positions are measured between the centres of elements, at index + 1/2
    """

    length: int
    size: int
    align_corners: bool
    half_pixel_centers: bool

    def step(self) -> np.float32:
        """Returns the distance from one place to the next, in input elements."""
        if self.align_corners and self.size > 1:
            return np.float32(self.length - 1) / np.float32(self.size - 1)
        return np.float32(self.length) / np.float32(self.size)

    def real(self) -> Float32s:
        """Returns the places, float32 [O]; the first and last places may lie outside the input."""
        at = np.arange(self.size, dtype=np.float32)
        if self.half_pixel_centers:
            return (at + np.float32(0.5)) * self.step() - np.float32(0.5)
        return at * self.step()

    def linear(self) -> Table:
        """Returns neighbours and f64 weights; the weights are exact for the float32 places."""
        at = self.real()
        low = np.floor(at)
        fraction = (at - low).astype(np.float64)
        return self._taps(low), np.stack([1 - fraction, fraction], axis=1)

    def linear_in_float32(self) -> Table:
        """Returns neighbours and float32 weights; for a place below 0, both neighbours are element 0."""
        at = self.real()
        low = np.floor(at)
        fraction = at - np.maximum(low, 0)
        return self._taps(low), np.stack([np.float32(1) - fraction, fraction], axis=1)

    def fixed(self) -> Table:
        """Returns neighbours and integer weights in steps of 2^−`PLACE_BITS`, for places computed in integers."""
        one, aligned = 1 << PLACE_BITS, self.align_corners and self.size > 1
        length, size = (self.length - 1, self.size - 1) if aligned else (self.length, self.size)
        step = (one * length + size // 2) // size
        at = np.arange(self.size, dtype=np.int64) * step
        if self.half_pixel_centers:
            at = at + step // 2 - (one >> 1)
        low = np.maximum(at, 0) >> PLACE_BITS
        fraction = np.maximum(at, 0) & one - 1
        return self._taps(low), np.stack([one - fraction, fraction], axis=1)

    def rounded(self, bits: int) -> Table:
        """Returns neighbours and integer weights in steps of 2^−bits, for the real places clipped to the input."""
        at = np.clip(self.real(), 0, np.float32(self.length - 1))
        low = np.floor(at)
        fraction = np.rint((at - low) * np.float32(1 << bits)).astype(np.int64)
        return self._taps(low), np.stack([(1 << bits) - fraction, fraction], axis=1)

    def _taps(self, low: Array) -> Array:
        return np.stack([np.clip(low + i, 0, self.length - 1) for i in (0, 1)], axis=1).astype(np.int64)


EPSILON = 1e-6
"""How far a place may lie from TFLite's, which is a float32 number, in parts of the length."""


def recognized(axes: Sequence[tuple[int, Array, Array]]) -> list[Places] | None:
    """The places between which neighbours and weights interpolate, in one mode on all axes; None if TFLite has none.

    Neighbours and weights that TFLite's operator has come first; those of other formats, whose places are float64
    numbers and whose neighbours may be written otherwise, are those of places that are equal to float32 precision.

    Args:
        axes: The length of each axis, and its neighbours and weights [O, T].
    """
    for fits in (_equals, _approximates):
        for half, align in product((False, True), repeat=2):
            found = [Places(length, len(taps), align, half) for length, taps, _ in axes]
            if all(fits(places, taps, weights) for places, (_, taps, weights) in zip(found, axes, strict=True)):
                return found
    return None


def _equals(places: Places, taps: Array, weights: Array) -> bool:
    return taps.shape[1] == 2 and all(map(np.array_equal, places.linear(), (taps, weights)))


def _approximates(places: Places, taps: Array, weights: Array) -> bool:
    """Whether each row of weights stands for a place between two neighbouring elements, which is that of `places`."""
    low, high = (f(np.where(weights != 0, taps, end), axis=1) for f, end in ((np.min, taps.max()), (np.max, 0)))
    if not np.allclose(weights.sum(axis=1), 1, rtol=0, atol=EPSILON) or (weights < 0).any() or (high - low > 1).any():
        return False
    inside = np.clip(places.real().astype(np.float64), 0, places.length - 1)
    return np.allclose((weights * taps).sum(axis=1), inside, rtol=0, atol=EPSILON * places.length)

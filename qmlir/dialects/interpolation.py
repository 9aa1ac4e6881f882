"""The base of interpolation operations: separable weighted sums of neighbours, for the float and integer levels."""

import abc
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, i64
from xdsl.irdl import prop_def
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.interfaces import Array, Shape, TensorOp
from qmlir.ir.weights import WeightsAttr


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

"""Interpolation: images of another size, and images read at computed places."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import ArrayAttr, DenseArrayBase, TensorType, i64
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.interfaces import Array, Shape, shape_of
from qmlir.dialects.nn.base import Elements, NNOp
from qmlir.dialects.weights import WeightsAttr


@irdl_op_definition
class ResizeOp(NNOp):
    """Every element a weighted sum of neighbours, along one axis after another.

    Along the axis a with the tables `taps` and `weights` [O, T], the size becomes O:

        y[…, o, …] = 0 + weights[o, 0] · x[…, taps[o, 0], …] + weights[o, 1] · x[…, taps[o, 1], …] + …

    The first axis comes first. Weights are rounded to the element type, then each product and each sum.

    (C1) the axes are the operand's and differ
    (C2) each axis has taps, i64, and weights, f64, of one shape [O, T]
    (C3) taps lie inside the axis
    """

    name = "nn.resize"
    x = operand_def(TensorType)
    axes = prop_def(DenseArrayBase.constr(i64))
    taps = prop_def(ArrayAttr[WeightsAttr])
    weights = prop_def(ArrayAttr[WeightsAttr])
    y = result_def(TensorType)

    ELEMENTS: ClassVar[Elements] = Elements.FLOATS

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def tables(self) -> list[tuple[int, Array, Array]]:
        """(axis, taps, weights) for each axis."""
        taps, weights = ([t.array for t in tables] for tables in (self.taps, self.weights))
        return list(zip(self.axes.get_values(), taps, weights, strict=True))

    def infer_shapes(self) -> Sequence[Shape]:
        x, axes = shape_of(self.x), self.axes.get_values()
        if len(set(axes)) != len(axes) or any(not 0 <= a < len(x) for a in axes):  # C1
            raise VerifyException(f"'{self.name}' needs different axes of {list(x)}, got {list(axes)}")
        if not len(axes) == len(self.taps) == len(self.weights):  # C2
            raise VerifyException(f"'{self.name}' needs taps and weights for each of its {len(axes)} axes")
        sizes = list(x)
        for axis, taps, weights in self.tables():
            if taps.ndim != 2 or taps.shape != weights.shape or (taps.dtype, weights.dtype) != (np.int64, np.float64):
                raise VerifyException(  # C2
                    f"'{self.name}' needs taps [O, T] of i64 and weights [O, T] of f64 along axis {axis}, got "
                    f"{taps.dtype} {list(taps.shape)} and {weights.dtype} {list(weights.shape)}"
                )
            if taps.size and not (0 <= taps.min() and taps.max() < x[axis]):  # C3
                raise VerifyException(f"'{self.name}' reads outside axis {axis} of {list(x)}")
            sizes[axis] = len(taps)
        return [tuple(sizes)]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (y,) = inputs
        for axis, taps, weights in self.tables():
            shape = [*y.shape]
            shape[axis] = len(taps)
            total = np.zeros(shape, y.dtype)
            for t in range(taps.shape[1]):
                weight = weights[:, t].astype(y.dtype).reshape(-1, *[1] * (y.ndim - axis - 1))
                total += weight * np.take(y, taps[:, t], axis=axis)
            y = total
        return (y,)

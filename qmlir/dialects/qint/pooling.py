"""Integer pooling over the two spatial axes of [N, H, W, C]."""

import abc
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, IntegerAttr, TensorType, i32, i64
from xdsl.ir import Attribute
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.qint.base import ZERO, AccumulatingOp, QIntOp
from qmlir.dialects.windows import WindowOp, pair
from qmlir.ir.interfaces import Array, Shape, element_of, shape_of


class PoolOp(QIntOp, WindowOp, abc.ABC):
    """A pool over a sliding window that keeps the input's scale; x [N,H,W,C], y [N,OH,OW,C].

    (C1) the window is two positive extents
    """

    x = operand_def(TensorType)
    window = prop_def(DenseArrayBase.constr(i64))
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def window_values(self) -> tuple[int, int]:
        """The window's (rows, columns)."""
        return pair(self.window)

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [element_of(self.x)]

    def infer_shapes(self) -> Sequence[Shape]:
        x = shape_of(self.x)
        if len(self.window) != 2 or min(self.window.get_values()) < 1:  # C1
            raise VerifyException(
                f"'{self.name}' needs a window of two positive extents, got {self.window.get_values()}"
            )
        rows, columns = self.window_output(x, self.window_values())
        return [(x[0], rows, columns, x[3])]


@irdl_op_definition
class MaxPool2DOp(PoolOp):
    """y = the maximum over the window without padded elements; for no elements, the type's least value."""

    name = "qint.max_pool2d"

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (self.maximum(x, self.window_values(), np.iinfo(x.dtype).min),)


@irdl_op_definition
class AveragePool2DOp(PoolOp):
    """y = Σ (x + offset) / count − offset, rounded to nearest with halves away from −offset; the scale does not change.

    The sum runs over the stored integers. `count` is the number of window elements inside the image; with
    `count_include_pad` it is the size of the window, and each padded element counts as `zero_point`. This is TFLite's
    contract for average pools; `offset` is 128 for data that the source model stores as u8. The mean of no elements
    is 0.
    """

    name = "qint.average_pool2d"
    zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    offset = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    count_include_pad = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    def counts(self) -> Array:
        """The divisor of each output position, int64 [OH, OW]."""
        rows, columns = self.taps_inside(shape_of(self.x), self.window_values())
        if bool(self.count_include_pad):
            return np.full((len(rows), len(columns)), np.prod(self.window_values()))
        return np.maximum(rows[:, None] * columns, 1)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        fill = self.zero_point.value.data if bool(self.count_include_pad) else 0
        counts, offset = self.counts()[None, :, :, None], self.offset.value.data
        total = sum(self.taps(x.astype(np.int64), self.window_values(), fill)) + offset * counts
        half = counts // 2
        magnitude = (np.abs(total) + half) // counts
        return ((np.sign(total) * magnitude - offset).astype(x.dtype),)


@irdl_op_definition
class GlobalSumPoolOp(AccumulatingOp):
    """acc[n,0,0,c] = Σ_{h,w} (x[n,h,w,c] − zero_point), i32; a requantization after it divides by the image's size.

    x [N,H,W,C], acc [N,1,1,C].

    (C1) x has rank 4
    """

    name = "qint.global_sum_pool"
    x = operand_def(TensorType)
    zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    acc = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($acc)"

    def infer_shapes(self) -> Sequence[Shape]:
        x = shape_of(self.x)
        if len(x) != 4:  # C1
            raise VerifyException(f"'{self.name}' needs an input of rank 4 [N, H, W, C], got rank {len(x)}")
        return [(x[0], 1, 1, x[3])]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0].astype(np.int32) - np.int32(self.zero_point.value.data)
        return (x.sum(axis=(1, 2), keepdims=True, dtype=np.int32),)

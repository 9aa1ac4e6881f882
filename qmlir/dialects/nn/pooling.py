"""Pooling over the two spatial axes of [N, H, W, C]."""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
from xdsl.dialects.builtin import BoolAttr, DenseArrayBase, TensorType, i64
from xdsl.ir import Attribute
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import Elements, NNOp, is_quantized
from qmlir.dialects.quant.rules import FreeScale, SameScale
from qmlir.dialects.windows import WindowOp, pair
from qmlir.ir.interfaces import Array, Shape, shape_of


class WindowPoolOp(NNOp, WindowOp, abc.ABC):
    """An operation that reduces the elements of a sliding window; x [N,H,W,C], y [N,OH,OW,C].

    (C1) the window is two positive extents, and each padding is smaller than the extent of the dilated window
    (C2) on quantized types each window has an element inside the image: a dilated window may step over the whole image,
         and neither the maximum (−∞) nor the mean (NaN) of no elements has a stored integer
    """

    x = operand_def(TensorType)
    window = prop_def(DenseArrayBase.constr(i64))
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def window_values(self) -> tuple[int, int]:
        """The window's (rows, columns)."""
        return pair(self.window)

    def infer_shapes(self) -> Sequence[Shape]:
        x = shape_of(self.x)
        if len(self.window) != 2 or min(self.window.get_values()) < 1:  # C1
            raise VerifyException(
                f"'{self.name}' needs a window of two positive extents, got {self.window.get_values()}"
            )
        output = self.window_output(x, self.window_values())
        spans = [(k - 1) * d + 1 for k, d in zip(self.window_values(), self.dilation_values(), strict=True)]
        if any(pad >= span for pad, span in zip(self.padding_values(), np.repeat(spans, 2), strict=True)):  # C1
            raise VerifyException(f"'{self.name}' padding must be smaller than its window, got {self.padding_values()}")
        if is_quantized(self.x) and not all(n.all() for n in self.taps_inside(x, self.window_values())):  # C2
            raise VerifyException(
                f"'{self.name}' on quantized values has windows that lie beside the image: window "
                f"{self.window_values()}, padding {self.padding_values()}, dilations {self.dilation_values()}"
            )
        return [(x[0], *output, x[3])]


class PoolOp(WindowPoolOp, abc.ABC):
    """A pool whose result has the scale and zero point of its input."""

    traits = traits_def(SameScale())


@irdl_op_definition
class MaxPool2DOp(PoolOp):
    """y = the maximum over the window; padded elements are ignored."""

    name = "nn.max_pool2d"
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (self.maximum(x, self.window_values(), least(x.dtype)),)


@irdl_op_definition
class MaxPoolIndices2DOp(WindowPoolOp):
    """y = the position of the window's maximum in the image: row · W + column of its first greatest element.

    i64 [N,OH,OW,C]. Padded elements and NaNs are ignored; a window without any other element yields −1.
    """

    name = "nn.max_pool2d_indices"
    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS

    def result_element(self, data: Attribute) -> Attribute:
        return i64

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        rows, columns = x.shape[1:3]
        places = np.arange(rows * columns, dtype=np.int64).reshape(1, rows, columns, 1)
        best = np.zeros(self.infer_shapes()[0], x.dtype)
        found = np.full(best.shape, -1, np.int64)
        taps = zip(
            self.taps(x, self.window_values(), 0),
            self.taps(places, self.window_values(), -1),
            strict=True,
        )
        for tap, place in taps:
            greater = (place >= 0) & ((tap > best) | ((found < 0) & (tap == tap)))
            best, found = np.where(greater, tap, best), np.where(greater, place, found)
        return (found,)


def least(dtype: np.dtype[Any]) -> float:
    """The identity of max in a dtype: −∞ for floats, the least integer for integers."""
    return -np.inf if dtype.kind == "f" else int(np.iinfo(dtype).min)


@irdl_op_definition
class AveragePool2DOp(PoolOp):
    """y = the sum over the window divided by the number of window elements inside the image.

    With `count_include_pad`, the divisor is the size of the window at every position.
    """

    name = "nn.average_pool2d"
    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED
    count_include_pad = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    def counts(self) -> Array:
        """The divisor of each output position, int64 [OH, OW]."""
        rows, columns = self.taps_inside(shape_of(self.x), self.window_values())
        if bool(self.count_include_pad):
            return np.full((len(rows), len(columns)), np.prod(self.window_values()))
        return rows[:, None] * columns

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        total = np.zeros(self.infer_shapes()[0], x.dtype)
        for tap in self.taps(x, self.window_values(), 0.0):
            total += tap
        with np.errstate(invalid="ignore"):  # the mean of no elements is NaN
            return (total / self.counts()[None, :, :, None].astype(x.dtype),)


@irdl_op_definition
class GlobalAveragePoolOp(NNOp):
    """y[n,0,0,c] = the mean of x[n,:,:,c].

    x [N,H,W,C], y [N,1,1,C]. The result has its own scale, because a mean has a narrower range than its input.

    (C1) x has rank 4 and its images are not empty
    """

    name = "nn.global_average_pool"
    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED
    x = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(FreeScale())
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        x = shape_of(self.x)
        if len(x) != 4:  # C1
            raise VerifyException(f"'{self.name}' needs an input of rank 4 [N, H, W, C], got rank {len(x)}")
        if 0 in x[1:3]:  # C1
            raise VerifyException(f"'{self.name}' has nothing to average in images of shape {list(x)}")
        return [(x[0], 1, 1, x[3])]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        rows = x.reshape(x.shape[0], x.shape[1] * x.shape[2], x.shape[3])
        # np.add.accumulate adds in order; np.sum would add pairwise.
        total = np.add.accumulate(rows, axis=1, dtype=x.dtype)[:, -1]
        return ((total / x.dtype.type(rows.shape[1]))[:, None, None, :],)

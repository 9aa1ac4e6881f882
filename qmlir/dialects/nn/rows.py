"""Rows with scales of their own: the largest magnitude of each row, and the row divided by it.

A row lies along the last axis. One scale for all rows leaves few steps for small rows; a row divided by its own largest
magnitude fills 8 bits, whatever the data are. The magnitude goes on beside the quotients, as data:

    y = m · ((x / m) ∗ w)
"""

import abc
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import DenseArrayBase, TensorType, i64
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import Elements, NNOp, bound
from qmlir.dialects.nn.elementwise import DivOp, MulOp
from qmlir.dialects.nn.functions import AbsOp, ClampOp
from qmlir.dialects.nn.quantizable import ALL_STORAGES, Scales, Sums, uniform, widest
from qmlir.dialects.nn.reduction import ReduceMaxOp
from qmlir.dialects.quant.rules import FixedScale, FreeScale
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, ComposedOp, Shape, TensorOp, UnaryTensorOp, shape_of
from qmlir.ir.samples import Axes, aligned_axis, kept_axis

LEAST = np.float32(2.0**-126)
"""The least divisor: a row of zeros stays zeros."""


SAME = 2.0**-20
"""The share by which a scale may be beside the inverse of a whole number, as one that was rounded to f32 is."""


class OfRowsOp(UnaryTensorOp, NNOp, ComposedOp, abc.ABC):
    """An operation on the rows of x, which lie along its last axis.

    (C1) x has rank 1 or more, and its last axis is not empty
    """

    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED
    INTEGER_FORM: ClassVar[tuple[str, ...]] = ALL_STORAGES

    def infer_shapes(self) -> Sequence[Shape]:
        shape = shape_of(self.x)
        if not shape or not shape[-1]:  # C1
            raise VerifyException(f"'{self.name}' needs rows with elements along the last axis, got {list(shape)}")
        return [shape]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [len(shape_of(self.x)) - 1])

    def reads_as_stored(self, index: int) -> bool:
        return True

    def largest(self) -> tuple[AbsOp, ReduceMaxOp]:
        """New operations that compute the largest magnitude of each row."""
        magnitudes, axes = AbsOp.make([self.x]), [len(shape_of(self.x)) - 1]
        return magnitudes, ReduceMaxOp.make([magnitudes.y], {"axes": DenseArrayBase.from_list(i64, axes)})


@irdl_op_definition
class RowMagnitudesOp(OfRowsOp):
    """y[…, 0] = max over i of |x[…, i]|; NaN if any is NaN. x [B…, N], y [B…, 1].

    (C1) x has rank 1 or more, and its last axis is not empty
    """

    name = "nn.row_magnitudes"

    traits = traits_def(FreeScale())

    def infer_shapes(self) -> Sequence[Shape]:
        (shape,) = super().infer_shapes()
        return [(*shape[:-1], 1)]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (np.abs(inputs[0]).max(axis=-1, keepdims=True),)

    def parts(self) -> Sequence[TensorOp]:
        return self.largest()

    def is_accumulator(self, value: Any) -> bool:
        return value is self.y

    def sums(self) -> Sums:
        return Sums.up_to(widest(uniform(self.x)), "a magnitude")

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales(self.x) / scales(self.y)


@irdl_op_definition
class DivideRowsOp(OfRowsOp):
    """y[…, i] = x[…, i] / max(max over j of |x[…, j]|, 2^−126), in [−1, 1]. x, y [B…, N].

    The integer form multiplies by the reciprocal of the row's magnitude, and rounds once, half up. A whole number of
    steps stands for 1: there is no integer form for other scales.

    (C1) x has rank 1 or more, and its last axis is not empty
    """

    name = "nn.divide_rows"

    traits = traits_def(FixedScale(1 / 127, zero_point=0, symmetric_scale=1 / 127, int16_scale=1 / 32767))

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        with np.errstate(all="ignore"):
            return (x / np.maximum(np.abs(x).max(axis=-1, keepdims=True), x.dtype.type(LEAST)),)

    def parts(self) -> Sequence[TensorOp]:
        magnitudes, largest = self.largest()
        divisor = ClampOp.make([largest.y], {"min": bound(float(LEAST))})
        return magnitudes, largest, divisor, DivOp.make([self.x, divisor.y])

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales.dtype(1) / scales(self.y)

    def check_integer_form(self) -> None:
        if uniform(self.y).zero_point or uniform(self.y).storage_width > 16:
            raise UnsupportedError("its quotients have up to 16 bits, and the zero point 0")
        one = self.stored_one()
        scale, most = uniform(self.y).scale, uniform(self.y).storage_max
        if abs(1 / scale - one) > one * SAME or one > most + 1:
            raise UnsupportedError(
                f"its quotients have a scale of 1 / N, N a whole number up to {most + 1}, not {scale:g}"
            )

    def stored_one(self) -> int:
        """The whole number of steps next to the quotient 1."""
        return max(round(1 / uniform(self.y).scale), 1)


@irdl_op_definition
class MultiplyRowsOp(NNOp, ComposedOp):
    """y[…, i] = x[…, i] · m[…, 0]. x, y [B…, N], m [B…, 1].

    The integer form takes sums of 32 bits and magnitudes as they are, and rounds their product once.

    (C1) m has the shape of x, with 1 element along the last axis
    """

    name = "nn.multiply_rows"
    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED
    INTEGER_FORM: ClassVar[tuple[str, ...]] = ALL_STORAGES

    x = operand_def(TensorType)
    m = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(FreeScale())
    assembly_format = "$x `,` $m attr-dict `:` type($x) `,` type($m) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        shape = shape_of(self.x)
        if not shape or shape_of(self.m) != (*shape[:-1], 1):  # C1
            got = list(shape_of(self.m))
            raise VerifyException(f"'{self.name}' needs a magnitude for each row of {list(shape)}, got {got}")
        return [shape]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis([aligned_axis(axes, [shape_of(self.x), shape_of(self.m)])], [len(shape_of(self.x)) - 1])

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x, m = inputs
        with np.errstate(all="ignore"):
            return (x * m,)

    def parts(self) -> Sequence[TensorOp]:
        return (MulOp.make([self.x, self.m]),)

    def reads_as_stored(self, index: int) -> bool:
        return True

    def sums(self) -> Sums:
        return Sums.up_to(widest(uniform(self.x)) * widest(uniform(self.m)), "a product")

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales(self.x) * scales(self.m) / scales(self.y)

"""The integers of rows with scales of their own: largest magnitudes of rows, and quotients by them."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import IntegerAttr, TensorType, i32
from xdsl.ir import Attribute
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.qint.requantize import ZERO, QIntOp, less_zero_point, width_of
from qmlir.ir.interfaces import Array, Shape, element_of, shape_of
from qmlir.ir.samples import Axes, kept_axis
from qmlir.ir.types import dtype_of
from qmlir.numerics.elementary.lanes import I64, DType, Lanes, N


def magnitude(x: N, zero_point: int, dtype: DType = I64) -> N:
    """|x − zero_point|, computed in the type `dtype`, which holds it."""
    d = less_zero_point(x, zero_point, dtype)
    return d.maximum(0 - d)


class OfRowsOp(QIntOp, abc.ABC):
    """An operation on the rows of x, which lie along its last axis, and on their largest magnitudes.

    (S1) x has 8 to 32 bits, rank 1 or more, and elements along its last axis
    """

    x = operand_def(TensorType)
    zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [len(shape_of(self.x)) - 1])

    def infer_shapes(self) -> Sequence[Shape]:
        shape = shape_of(self.x)
        if not shape or not shape[-1] or width_of(self.x) > 32:  # S1
            raise VerifyException(f"'{self.name}' needs rows of up to 32 bits with elements, got {self.x.type}")
        return [shape]

    def largest(self, x: Array) -> Array:
        """The largest magnitude of each row, i64."""
        return magnitude(Lanes(x), self.zero_point.value.data).array.max(axis=-1, keepdims=True)


MOST = (1 << 31) - 1
"""The largest magnitude that i32 holds."""


@irdl_op_definition
class RowMagnitudesOp(OfRowsOp):
    """y[…, 0] = min(max over i of |x[…, i] − zero_point|, 2^31 − 1). x [B…, N], y [B…, 1] i32.

    (S1) x has 8 to 32 bits, rank 1 or more, and elements along its last axis
    """

    name = "qint.row_magnitudes"

    def infer_shapes(self) -> Sequence[Shape]:
        (shape,) = super().infer_shapes()
        return [(*shape[:-1], 1)]

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [i32]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (self.largest(inputs[0]).clip(max=MOST).astype("i4"),)


@dataclass(frozen=True)
class DividedRows:
    """The formula of `DivideRowsOp`: the reciprocal of a row's magnitude, and each element."""

    zero_point: int
    limit: int
    fraction: int
    storage: DType

    def reciprocal(self, most: N) -> N:
        """limit · 2^fraction divided by a magnitude, an i64, rounded down; a magnitude of 0 counts as 1."""
        return most.same(self.limit << self.fraction).truncated_quotient(most.maximum(1))

    def element(self, x: N, reciprocal: N) -> N:
        """The stored quotient of an element."""
        product = less_zero_point(x, self.zero_point, I64) * reciprocal
        return ((product + (1 << self.fraction - 1)) >> self.fraction).to(self.storage)


SHORT = 31
"""The bits of `limit` and the fraction where x has at most 16 bits and `limit` 8: a reciprocal fits 32 bits."""

LONG = 62
"""The bits of `limit` and the fraction elsewhere."""


@irdl_op_definition
class DivideRowsOp(OfRowsOp):
    """y[…, i] = half_up((x[…, i] − zero_point) · R · 2^−k), R = floor(limit · 2^k / max(M, 1)), in [−limit, limit].

    M = max over j of |x[…, j] − zero_point|. x, y [B…, N]. k is such that limit · 2^k has 31 bits where x has at most
    16 bits and `limit` at most 8, and else 62 bits. As M · R is at most limit · 2^k, no quotient is beyond `limit`.

    (S1) x has 8 to 32 bits, rank 1 or more, and elements along its last axis
    (S2) `limit` is in [1, 2^15), and y has 8 or 16 bits, which hold it
    """

    name = "qint.divide_rows"
    limit = prop_def(IntegerAttr.constr(i32))

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [None]

    @property
    def is_short(self) -> bool:
        """Whether a reciprocal fits 32 bits."""
        return width_of(self.x) <= 16 and self.limit.value.data < 1 << 8

    def formula(self) -> DividedRows:
        """The arithmetic."""
        limit = self.limit.value.data
        bits = SHORT if self.is_short else LONG
        fraction = bits - limit.bit_length()
        return DividedRows(self.zero_point.value.data, limit, fraction, dtype_of(element_of(self.y)))

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        formula = self.formula()
        return (formula.element(Lanes(inputs[0]), formula.reciprocal(Lanes(self.largest(inputs[0])))).array,)

    def verify_(self) -> None:
        super().verify_()
        width, limit = width_of(self.y), self.limit.value.data
        if width not in (8, 16) or not 1 <= limit < 1 << width - 1:  # S2
            raise VerifyException(
                f"'{self.name}' needs a limit in [1, 2^15) that {element_of(self.y)} holds, got {limit}"
            )

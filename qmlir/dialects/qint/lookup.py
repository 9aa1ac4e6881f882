"""Lookup tables: functions of narrow integers as full tables, or as breakpoints (knots) joined by straight lines."""

import abc
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType, i8, i16
from xdsl.ir import Attribute
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.qint.base import QIntOp
from qmlir.ir.interfaces import Array, Shape, broadcast_shape, element_of, shape_of
from qmlir.ir.weights import WeightsAttr
from qmlir.numerics import tables


class TableOp(QIntOp, abc.ABC):
    """A function of each element of x, given by a table whose entries have the result's type."""

    x = operand_def(TensorType)
    table = prop_def(WeightsAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x `,` $table attr-dict `:` type($x) `->` type($y)"

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [self.table.type.element_type]

    def infer_shapes(self) -> Sequence[Shape]:
        return [shape_of(self.x)]


@irdl_op_definition
class LookupOp(TableOp):
    """y[i] = table[x[i] + half], where `half` is half the number of table entries.

    (L1) x is i8 and the table has 256 entries, or x is i16 and the table has 65,536; they have the result's type
    """

    name = "qint.lookup"

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (self.table.array[inputs[0].astype(np.int64) + self.half],)

    @property
    def half(self) -> int:
        """The number of entries for negative x."""
        return len(self.table.array) // 2

    def verify_(self) -> None:
        if (element_of(self.x), self.table.array.shape) not in ((i8, (256,)), (i16, (65536,))):  # L1
            raise VerifyException(
                f"'{self.name}' needs i8 data and 256 entries or i16 and 65536, "
                f"got {element_of(self.x)} and {self.table.type}"
            )
        super().verify_()


@irdl_op_definition
class InterpolatedLookupOp(TableOp):
    """y = t[k] + ((t[k+1] − t[k])·f + 64 >> 7), where x + 2^15 = 2^7·k + f and f is in [0, 2^7).

    The table t has a breakpoint (knot) at every 128th integer from −2^15 to 2^15; y is linear between breakpoints.

    (L1) x is i16 and the table has 513 entries of i16
    """

    name = "qint.interpolated_lookup"

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (tables.interpolated(self.table.array, inputs[0]),)

    def verify_(self) -> None:
        table = self.table
        if element_of(self.x) != i16 or table.array.shape != (tables.KNOTS,) or table.array.dtype != np.int16:  # L1
            raise VerifyException(
                f"'{self.name}' needs i16 data and {tables.KNOTS} entries of i16, "
                f"got {element_of(self.x)} and {table.type}"
            )
        super().verify_()


@irdl_op_definition
class PairLookupOp(QIntOp):
    """y[i] = table[lhs[i] + 128, rhs[i] + 128], for any function of two i8 elements; shapes broadcast.

    (A1) the shapes broadcast
    (L4) lhs and rhs are i8, and the table has 256 by 256 entries of the result's type
    """

    name = "qint.pair_lookup"
    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    table = prop_def(WeightsAttr)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$lhs `,` $rhs `,` $table attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def infer_elements(self) -> Sequence[Attribute | None]:
        return [self.table.type.element_type]

    def infer_shapes(self) -> Sequence[Shape]:
        return [broadcast_shape(self, shape_of(self.lhs), shape_of(self.rhs))]  # A1

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        lhs, rhs = (x.astype(np.int64) + 128 for x in inputs)
        return (self.table.array[lhs, rhs],)

    def verify_(self) -> None:
        if {element_of(self.lhs), element_of(self.rhs)} != {i8} or self.table.array.shape != (256, 256):  # L4
            raise VerifyException(
                f"'{self.name}' needs i8 data and 256 by 256 entries, got {element_of(self.lhs)}, "
                f"{element_of(self.rhs)} and {self.table.type}"
            )
        super().verify_()

"""TOSA's table lookups, gathers and scatters."""

from xdsl.dialects.builtin import i8, i16, i32, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import irdl_op_definition, operand_def, result_def

from qmlir.ir.upstream.tosa.base import TENSOR, TosaOp, element, fits, known, sizes

TABLES: dict[Attribute, tuple[int, Attribute, Attribute]] = {i8: (256, i8, i8), i16: (513, i16, i32)}
"""Element type of the data → number of table entries, element type of the table, element type of the result."""


@irdl_op_definition
class TableOp(TosaOp):
    """Looks up each element in a table: y = table[x + 128] for i8, linear interpolation for i16.

    For i16, the high 9 bits select two neighbouring entries of 513, and the low 7 bits interpolate; the result is i32.

    (L1) for i8 data, the table has 256 i8 entries, and the result is i8; for i16 data, the table has 513 i16 entries,
         and the result is i32
    (L2) operand and result have the same shape
    """

    name = "tosa.table"
    input1 = operand_def(TENSOR)
    table = operand_def(TENSOR)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        kind = element(self.input1)
        rows = TABLES.get(kind)
        if rows is None:  # L1
            self.fail(f"needs data of element type i8 or i16, got {self.input1.type}")
        entries, of_table, of_result = rows
        self.check_element(of_table, table=self.table)  # L1
        self.check_element(of_result, result=self.output)  # L1
        if not fits(sizes(self.table), (entries,)):  # L1
            self.fail(f"needs a table of {entries} entries for {kind}, got {self.table.type}")
        shape = sizes(self.input1)
        if shape is not None:
            self.check_result(shape)  # L2


def check_indices(op: TosaOp, indices: SSAValue) -> None:
    """Checks that indices are i32 or i64 (TOSA 1.1)."""
    if element(indices) not in (i32, i64):
        op.fail(f"needs indices of element type i32 or i64, got {indices.type}")


@irdl_op_definition
class GatherOp(TosaOp):
    """Gathers rows of a tensor: y[n,w,c] = values[n, indices[n,w], c].

    (L1) values [N,K,C], indices [N,W] of i32 or i64, output [N,W,C] of the values' element type
    """

    name = "tosa.gather"
    values = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    output = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_rank(3, values=self.values, result=self.output)  # L1
        self.check_rank(2, indices=self.indices)  # L1
        check_indices(self, self.indices)  # L1
        self.check_element(element(self.values), result=self.output)  # L1
        values, indices = sizes(self.values), sizes(self.indices)
        if values is None or indices is None:
            return
        if not fits(values[:1], indices[:1]):  # L1
            self.fail(f"needs indices for each batch of values, got {self.indices.type} and {self.values.type}")
        self.check_result((values[0] if known(values[0]) else indices[0], indices[1], values[2]))  # L1


@irdl_op_definition
class ScatterOp(TosaOp):
    """Returns values_in with rows replaced: values_out[n, indices[n,w], c] = input[n,w,c].

    (L1) values_in and values_out [N,K,C], indices [N,W] of i32 or i64, input [N,W,C]; K is at least W; values_in,
         input and values_out have the same element type
    """

    name = "tosa.scatter"
    values_in = operand_def(TENSOR)
    indices = operand_def(TENSOR)
    input = operand_def(TENSOR)
    values_out = result_def(TENSOR)

    def verify_(self) -> None:
        self.check_rank(3, values_in=self.values_in, input=self.input, values_out=self.values_out)  # L1
        self.check_rank(2, indices=self.indices)  # L1
        check_indices(self, self.indices)  # L1
        self.check_element(element(self.values_in), input=self.input, values_out=self.values_out)  # L1
        values, indices, given = sizes(self.values_in), sizes(self.indices), sizes(self.input)
        if values is None or indices is None or given is None:
            return
        self.check_result(values)  # L1
        if not fits(given, (values[0], indices[1], values[2])) or not fits(indices[:1], values[:1]):  # L1
            self.fail(f"needs an input [N, W, C] for indices [N, W], got {self.input.type} and {self.indices.type}")
        if known(values[1]) and known(indices[1]) and values[1] < indices[1]:  # L1
            self.fail(f"has no place for {indices[1]} elements in {self.values_in.type}")

"""Matrices in registers: load, multiply, store.

A processor with a matrix unit keeps small matrices in registers of their own and multiplies two of them by one
instruction. The IR holds such a matrix as a 2-D vector. On x86 the unit is AMX, whose registers hold up to 16 rows of
up to 64 bytes.
"""

from typing import ClassVar

from xdsl.dialects.builtin import IndexType, MemRefType, VectorType, i8, i32
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.types import is_memref, is_vector
from qmlir.numerics import Array

MOST_ROWS, MOST_BYTES = 16, 64
"""The largest matrix that a register holds: rows, and bytes of a row."""

_INDEX = IndexType()


def matrix_shape(type: Attribute) -> tuple[int, int] | None:
    """Rows and columns of a static 2-D vector of i8 or i32 that fits a register; None for other types."""
    if not is_vector(type) or type.get_num_dims() != 2 or type.get_num_scalable_dims():
        return None
    rows, columns = type.get_shape()
    if type.element_type not in (i8, i32):
        return None
    size = columns * (4 if type.element_type == i32 else 1)
    return (rows, columns) if 0 < rows <= MOST_ROWS and 0 < size <= MOST_BYTES and size % 4 == 0 else None


def _require_matrix(name: str, type: Attribute) -> tuple[int, int]:
    """The shape of a matrix type; raises VerifyException for another type."""
    if (shape := matrix_shape(type)) is None:
        need = f"a 2-D vector of i8 or i32 with at most {MOST_ROWS} rows of at most {MOST_BYTES} bytes, a multiple of 4"
        raise VerifyException(f"{name} must be {need}, got {type}")
    return shape


def _require_row(buffer: Attribute, matrix: Attribute) -> None:
    """Raises VerifyException unless a buffer is a 1-D memref of a matrix's elements."""
    assert is_memref(buffer)
    assert is_vector(matrix)
    if buffer.get_num_dims() != 1 or buffer.element_type != matrix.element_type:
        raise VerifyException(f"the memref must be 1-D, of {matrix.element_type}, got {buffer}")


@irdl_op_definition
class LoadMatrixOp(IRDLOperation):
    """Loads the rows of a matrix: result[r, c] = x[at + r·apart + c].

        %a = simd.load_matrix %x[%at], %apart : memref<?xi8>, vector<16x64xi8>

    (C1) the result is a matrix that a register holds (see `matrix_shape`);
    (C2) x is a 1-D memref of the matrix's element type.

    `apart` is a number of elements; 0 repeats one row. On x86 the operation is tileloadd.
    """

    name = "simd.load_matrix"

    x = operand_def(MemRefType.constr())
    at = operand_def(_INDEX)
    apart = operand_def(_INDEX)
    result = result_def(VectorType.constr(AnyAttr()))

    traits = traits_def(MemoryReadEffect())
    assembly_format = "$x `[` $at `]` `,` $apart attr-dict `:` type($x) `,` type($result)"

    def __init__(self, x: SSAValue, at: SSAValue, apart: SSAValue, type: Attribute):
        super().__init__(operands=[x, at, apart], result_types=[type])

    def verify_(self) -> None:
        _require_matrix("the result", self.result.type)  # C1
        _require_row(self.x.type, self.result.type)  # C2

    @staticmethod
    def evaluate(x: Array, at: int, apart: int, shape: tuple[int, int]) -> Array:
        """Computes the result, of the given shape: x int8 or int32 [n] → the same type."""
        rows, columns = shape
        places = [at + r * apart for r in range(rows)]
        return x[[[place + c for c in range(columns)] for place in places]]


@irdl_op_definition
class StoreMatrixOp(IRDLOperation):
    """Stores the rows of a matrix: y[at + r·apart + c] = matrix[r, c].

        simd.store_matrix %sums, %y[%at], %apart : vector<16x16xi32>, memref<?xi32>

    (C1) the value is a matrix that a register holds (see `matrix_shape`);
    (C2) y is a 1-D memref of the matrix's element type.

    `apart` is a number of elements. Rows that overlap leave undefined elements. On x86 the operation is tilestored.
    """

    name = "simd.store_matrix"

    matrix = operand_def(VectorType.constr(AnyAttr()))
    y = operand_def(MemRefType.constr())
    at = operand_def(_INDEX)
    apart = operand_def(_INDEX)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$matrix `,` $y `[` $at `]` `,` $apart attr-dict `:` type($matrix) `,` type($y)"

    def __init__(self, matrix: SSAValue, y: SSAValue, at: SSAValue, apart: SSAValue):
        super().__init__(operands=[matrix, y, at, apart])

    def verify_(self) -> None:
        _require_matrix("the value", self.matrix.type)  # C1
        _require_row(self.y.type, self.matrix.type)  # C2


@irdl_op_definition
class DotI8MatricesOp(IRDLOperation):
    """Adds a product of matrices of signed bytes: acc[i, j] + Σ_k Σ_{t<4} a[i, 4k+t]·b[k, 4j+t] mod 2^32.

        %r = simd.dot_i8_matrices %acc, %a, %b : vector<16x16xi32>, vector<16x64xi8>, vector<16x64xi8>

    A row of `b` holds four rows of the right-hand matrix, interleaved: four neighbouring bytes belong to one column.

    (C1) `acc` and the result are one type, a matrix of i32 with M rows and N columns;
    (C2) `a` is a matrix of i8 with M rows and 4·K columns;
    (C3) `b` is a matrix of i8 with K rows and 4·N columns;
    (C4) `acc`, `a` and `b` are three values: a processor's instruction refuses one register in two places.

    All sums are exact modulo 2^32, so their order does not matter. On x86 the operation is tdpbssd.
    """

    name = "simd.dot_i8_matrices"

    ACC: ClassVar = VarConstraint("ACC", VectorType.constr(i32))

    acc = operand_def(ACC)  # C1
    a = operand_def(VectorType.constr(i8))
    b = operand_def(VectorType.constr(i8))
    result = result_def(ACC)

    traits = traits_def(Pure())
    assembly_format = "$acc `,` $a `,` $b attr-dict `:` type($acc) `,` type($a) `,` type($b)"

    def __init__(self, acc: SSAValue, a: SSAValue, b: SSAValue):
        super().__init__(operands=[acc, a, b], result_types=[acc.type])

    def verify_(self) -> None:
        rows, columns = _require_matrix("acc", self.acc.type)  # C1
        height, width = _require_matrix("a", self.a.type)
        steps, across = _require_matrix("b", self.b.type)
        if (height, width) != (rows, 4 * steps):  # C2
            need = f"the {rows} rows of acc and 4 columns for each of the {steps} rows of b"
            raise VerifyException(f"a must have {need}, got {self.a.type}")
        if across != 4 * columns:  # C3
            raise VerifyException(f"b must have 4 columns for each of the {columns} of acc, got {self.b.type}")
        if self.a is self.b:  # C4; acc has another type
            raise VerifyException("a and b must be two values")

    @staticmethod
    def evaluate(acc: Array, a: Array, b: Array) -> Array:
        """Computes the result: acc int32 [m, n], a int8 [m, 4k], b int8 [k, 4n] → int32 [m, n]."""
        steps, columns = b.shape[0], acc.shape[1]
        right = b.reshape(steps, columns, 4).transpose(0, 2, 1).reshape(4 * steps, columns)
        return (acc + a.astype("i8") @ right.astype("i8")).astype("i4")


@irdl_op_definition
class PrefetchOp(IRDLOperation):
    """Asks for the cache line of x[at], which will be read soon.

        simd.prefetch %w[%at] : memref<?xi8>

    (C1) x is a 1-D memref.

    The element may lie beyond the end of x: nothing is read. On x86 the operation is prefetcht1.
    """

    name = "simd.prefetch"

    x = operand_def(MemRefType.constr())
    at = operand_def(_INDEX)

    traits = traits_def(MemoryWriteEffect())
    assembly_format = "$x `[` $at `]` attr-dict `:` type($x)"

    def __init__(self, x: SSAValue, at: SSAValue):
        super().__init__(operands=[x, at])

    def verify_(self) -> None:
        if not is_memref(self.x.type) or self.x.type.get_num_dims() != 1:  # C1
            raise VerifyException(f"x must be a 1-D memref, got {self.x.type}")

"""Sums over the lanes of vectors."""

from typing import ClassVar

from xdsl.dialects.builtin import VectorType, i8, i32
from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, VarConstraint, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.types import is_vector
from qmlir.numerics import Array


@irdl_op_definition
class DotI8Op(IRDLOperation):
    """Adds the dot product of two vectors of bytes to a scalar: acc + Σ a[i]·b[i] mod 2^32.

        %r = simd.dot_i8 %acc, %a, %b : vector<16xi8>

    (C1) `acc` and the result are i32;
    (C2) `a` and `b` are one type, a 1-D vector of i8.

    With Arm's MVE the operation is vmladava.
    """

    name = "simd.dot_i8"

    BYTES: ClassVar = VarConstraint("BYTES", VectorType.constr(i8))

    acc = operand_def(i32)  # C1
    a = operand_def(BYTES)  # C2
    b = operand_def(BYTES)
    result = result_def(i32)

    traits = traits_def(Pure())
    assembly_format = "$acc `,` $a `,` $b attr-dict `:` type($a)"

    def __init__(self, acc: SSAValue, a: SSAValue, b: SSAValue):
        super().__init__(operands=[acc, a, b], result_types=[i32])

    def verify_(self) -> None:
        type = self.a.type
        if not is_vector(type) or type.get_num_dims() != 1 or type.get_num_scalable_dims():  # C2
            raise VerifyException(f"a and b must be 1-D vectors, got {type}")

    @staticmethod
    def evaluate(acc: Array, a: Array, b: Array) -> Array:
        """Computes the result: acc int32 [1], a and b int8 [n] → int32 [1]."""
        return (acc + (a.astype("i8") * b.astype("i8")).sum()).astype("i4")

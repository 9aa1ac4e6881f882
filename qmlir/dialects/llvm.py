"""xDSL's llvm dialect, completed: operations of upstream's that xDSL 0.74 lacks, under upstream's names and syntax.

Enters: nothing. Leaves: `LLVM`, to be registered in place of xDSL's dialect of the same name. When xDSL gains one of
these, delete it here.
"""

from abc import ABC
from typing import ClassVar

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    ArrayAttr,
    IntAttr,
    SignlessIntegerConstraint,
    VectorType,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import (
    AnyAttr,
    IRDLOperation,
    RangeOf,
    VarConstraint,
    irdl_op_definition,
    operand_def,
    result_def,
    traits_def,
)
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.loops import is_vector

_INTEGERS = SignlessIntegerConstraint | VectorType.constr(SignlessIntegerConstraint)
_FLOATS = AnyFloatConstr | VectorType.constr(AnyFloatConstr)


def _lanes(type: Attribute) -> tuple[int, ...]:
    return type.get_shape() if isinstance(type, VectorType) else ()


class FloatIntegerCastOp(IRDLOperation, ABC):
    """A conversion between a float and an integer, or lane by lane.

    (C1) operand and result have as many lanes.
    """

    traits = traits_def(NoMemoryEffect())
    assembly_format = "$arg attr-dict `:` type($arg) `to` type($result)"

    def verify_(self) -> None:
        source, result = self.operands[0].type, self.results[0].type
        if _lanes(source) != _lanes(result):  # C1
            raise VerifyException(f"operand and result must have as many lanes, got {source} and {result}")


class FloatToIntegerOp(FloatIntegerCastOp, ABC):
    """Rounds toward zero; a value that does not fit the result is poison."""

    arg = operand_def(_FLOATS)
    result = result_def(_INTEGERS)

    def __init__(self, arg: SSAValue, result_type: Attribute):
        super().__init__(operands=[arg], result_types=[result_type])


@irdl_op_definition
class FPToSIOp(FloatToIntegerOp):
    """Float to signed integer."""

    name = "llvm.fptosi"


@irdl_op_definition
class FPToUIOp(FloatToIntegerOp):
    """Float to unsigned integer."""

    name = "llvm.fptoui"


@irdl_op_definition
class UIToFPOp(FloatIntegerCastOp):
    """Unsigned integer to float, rounded to nearest, ties to even."""

    name = "llvm.uitofp"
    arg = operand_def(_INTEGERS)
    result = result_def(_FLOATS)

    def __init__(self, arg: SSAValue, result_type: Attribute):
        super().__init__(operands=[arg], result_types=[result_type])


@irdl_op_definition
class ExtractElementOp(IRDLOperation):
    """One lane of a vector; an index outside it is poison."""

    name = "llvm.extractelement"

    ELEMENT: ClassVar = VarConstraint("ELEMENT", AnyAttr())

    vector = operand_def(VectorType.constr(ELEMENT, shape=ArrayAttr.constr(RangeOf(IntAttr).of_length(1))))
    index = operand_def(SignlessIntegerConstraint)
    result = result_def(ELEMENT)

    traits = traits_def(NoMemoryEffect())
    assembly_format = "$vector `[` $index `:` type($index) `]` attr-dict `:` type($vector)"

    def __init__(self, vector: SSAValue, index: SSAValue):
        assert is_vector(vector.type)
        super().__init__(operands=[vector, index], result_types=[vector.type.element_type])


LLVM = Dialect(
    "llvm",
    [*llvm.LLVM.operations, FPToSIOp, FPToUIOp, UIToFPOp, ExtractElementOp],
    [*llvm.LLVM.attributes],
)

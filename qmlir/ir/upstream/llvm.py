"""xDSL's llvm dialect, completed: upstream operations that xDSL 0.74 lacks, with upstream's names and syntax.

The module adds missing operations, float comparisons and selections on vectors, and integer arithmetic with upstream's
overflow flags `#llvm.overflow<…>`; xDSL prints these flags as an i32, which mlir-opt rejects in generic form.

The module exports `LLVM`, which is registered in place of xDSL's dialect of the same name. When xDSL gains one of these
operations, delete it here.
"""

from abc import ABC
from typing import ClassVar

from xdsl.dialects import llvm
from xdsl.dialects.builtin import (
    AnyFloatConstr,
    ArrayAttr,
    IntAttr,
    IntegerAttr,
    SignlessIntegerConstraint,
    VectorType,
    i1,
    i64,
)
from xdsl.ir import Attribute, ParametrizedAttribute, SSAValue, TypeAttribute
from xdsl.irdl import (
    AnyAttr,
    EqAttrConstraint,
    IRDLOperation,
    ParsePropInAttrDict,
    RangeOf,
    VarConstraint,
    irdl_attr_definition,
    irdl_op_definition,
    operand_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import NoMemoryEffect
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.types import is_vector
from qmlir.ir.upstream import completed, named

_INTEGERS = SignlessIntegerConstraint | VectorType.constr(SignlessIntegerConstraint)
_FLOATS = AnyFloatConstr | VectorType.constr(AnyFloatConstr)
_BITS = EqAttrConstraint(i1) | VectorType.constr(EqAttrConstraint(i1))


def _lanes(type: Attribute) -> tuple[int, ...]:
    return type.get_shape() if isinstance(type, VectorType) else ()


class FloatIntegerCastOp(IRDLOperation, ABC):
    """Base of the conversions between float and integer, of scalars or of each lane of a vector.

    (C1) operand and result have the same number of lanes.
    """

    traits = traits_def(NoMemoryEffect())
    assembly_format = "$arg attr-dict `:` type($arg) `to` type($result)"

    def __init__(self, arg: SSAValue, result_type: Attribute):
        super().__init__(operands=[arg], result_types=[result_type])

    def verify_(self) -> None:
        source, result = self.operands[0].type, self.results[0].type
        if _lanes(source) != _lanes(result):  # C1
            raise VerifyException(f"operand and result must have as many lanes, got {source} and {result}")


class FloatToIntegerOp(FloatIntegerCastOp, ABC):
    """Base of the conversions from float to integer, rounded toward zero; a value that does not fit gives poison."""

    arg = operand_def(_FLOATS)
    result = result_def(_INTEGERS)


FPToSIOp = named("llvm.fptosi", FloatToIntegerOp, "Converts a float to a signed integer.")
FPToUIOp = named("llvm.fptoui", FloatToIntegerOp, "Converts a float to an unsigned integer.")


@irdl_op_definition
class UIToFPOp(FloatIntegerCastOp):
    """Converts an unsigned integer to a float, rounded to nearest, ties to even."""

    name = "llvm.uitofp"
    arg = operand_def(_INTEGERS)
    result = result_def(_FLOATS)


@irdl_op_definition
class ExtractElementOp(IRDLOperation):
    """Extracts a lane of a vector; an index outside the vector gives poison."""

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


class OverflowingOp(IRDLOperation, ABC):
    """Base of integer arithmetic modulo 2^bits, per lane on vectors; poison if an overflow flag forbids the wrap."""

    T: ClassVar = VarConstraint("T", _INTEGERS)

    lhs = operand_def(T)
    rhs = operand_def(T)
    res = result_def(T)
    overflow_flags = prop_def(llvm.OverflowAttr, prop_name="overflowFlags", default_value=llvm.OverflowAttr("none"))

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(NoMemoryEffect())
    assembly_format = "$lhs `,` $rhs (`overflow` `` $overflowFlags^)? attr-dict `:` type($res)"

    def __init__(self, lhs: SSAValue, rhs: SSAValue, overflow: llvm.OverflowAttr | None = None):
        super().__init__(operands=[lhs, rhs], result_types=[lhs.type], properties={"overflowFlags": overflow})


AddOp = named("llvm.add", OverflowingOp, "lhs + rhs.")
SubOp = named("llvm.sub", OverflowingOp, "lhs − rhs.")
MulOp = named("llvm.mul", OverflowingOp, "lhs · rhs.")
ShlOp = named("llvm.shl", OverflowingOp, "lhs · 2^rhs.")


@irdl_op_definition
class FCmpOp(IRDLOperation):
    """Compares floats, per lane on vectors.

    (C1) the result is an i1, or a vector of i1 with as many lanes as the operands
    """

    name = "llvm.fcmp"

    T: ClassVar = VarConstraint("T", _FLOATS)

    lhs = operand_def(T)
    rhs = operand_def(T)
    res = result_def(_BITS)
    predicate = prop_def(IntegerAttr.constr(i64))
    fastmath_flags = prop_def(llvm.FastMathAttr, prop_name="fastmathFlags", default_value=llvm.FastMathAttr(None))

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(NoMemoryEffect())

    def __init__(
        self, predicate: llvm.FCmpPredicateFlag, lhs: SSAValue, rhs: SSAValue, fastmath: llvm.FastMathAttr | None = None
    ):
        result = VectorType(i1, lhs.type.get_shape()) if is_vector(lhs.type) else i1
        properties = {"predicate": IntegerAttr(predicate.to_int(), i64), "fastmathFlags": fastmath}
        super().__init__(operands=[lhs, rhs], result_types=[result], properties=properties)

    @classmethod
    def parse(cls, parser: Parser) -> "FCmpOp":
        at = parser.pos
        spelled = parser.parse_str_literal()
        try:
            predicate = llvm.FCmpPredicateFlag(spelled)
        except ValueError:
            parser.raise_error(f"expected a predicate of {', '.join(llvm.FCmpPredicateFlag)}, got {spelled}", at)
        lhs = parser.parse_unresolved_operand()
        parser.parse_punctuation(",")
        rhs = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        type = parser.parse_type()
        operands = parser.resolve_operands([lhs, rhs], [type, type], at)
        op = cls(predicate, operands[0], operands[1])
        if (flags := attributes.pop("fastmathFlags", None)) is not None:
            op.properties["fastmathFlags"] = flags
        op.attributes.update(attributes)
        return op

    def print(self, printer: Printer) -> None:
        printer.print_string(f' "{llvm.FCmpPredicateFlag.from_int(self.predicate.value.data)}" ')
        printer.print_operand(self.lhs)
        printer.print_string(", ")
        printer.print_operand(self.rhs)
        flags = {"fastmathFlags": self.fastmath_flags} if self.fastmath_flags.data else {}
        printer.print_op_attributes({**flags, **self.attributes})
        printer.print_string(" : ")
        printer.print_attribute(self.lhs.type)

    def verify_(self) -> None:
        if _lanes(self.lhs.type) != _lanes(self.res.type):  # C1
            raise VerifyException(
                f"operands and result must have as many lanes, got {self.lhs.type} and {self.res.type}"
            )
        if not 0 <= self.predicate.value.data < len(llvm.FCmpPredicateFlag):
            raise VerifyException(f"there is no predicate {self.predicate.value.data}")


@irdl_op_definition
class SelectOp(IRDLOperation):
    """Selects one of two values, or, with a vector of conditions, one of two lanes at each position.

    (C1) a vector of conditions has as many lanes as the result
    """

    name = "llvm.select"

    T: ClassVar = VarConstraint("T", AnyAttr())

    cond = operand_def(_BITS)
    lhs = operand_def(T)
    rhs = operand_def(T)
    res = result_def(T)
    fastmath_flags = prop_def(llvm.FastMathAttr, prop_name="fastmathFlags", default_value=llvm.FastMathAttr(None))

    irdl_options = (ParsePropInAttrDict(),)
    traits = traits_def(NoMemoryEffect())
    assembly_format = "$cond `,` $lhs `,` $rhs attr-dict `:` type($cond) `,` type($res)"

    def __init__(self, cond: SSAValue, lhs: SSAValue, rhs: SSAValue):
        super().__init__(operands=[cond, lhs, rhs], result_types=[lhs.type])

    def verify_(self) -> None:
        if is_vector(self.cond.type) and _lanes(self.cond.type) != _lanes(self.res.type):  # C1
            raise VerifyException(f"conditions and lanes must be as many, got {self.cond.type} and {self.res.type}")


@irdl_attr_definition
class X86AMXType(ParametrizedAttribute, TypeAttribute):
    """`!llvm.x86_amx`: a matrix register of x86; the operations on it give its rows and the bytes of a row."""

    name = "llvm.x86_amx"


LLVM = completed(
    llvm.LLVM,
    [FPToSIOp, FPToUIOp, UIToFPOp, ExtractElementOp, AddOp, SubOp, MulOp, ShlOp, FCmpOp, SelectOp],
    [X86AMXType],
)

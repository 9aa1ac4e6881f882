"""xDSL's arith dialect, completed: conversions that also take vectors and tensors, as upstream's do.

xDSL 0.74 has `arith.extsi` and the other conversions for scalars only. CPU kernels convert whole vectors, and the pass
`lower-quant-ops` converts whole tensors. The operations below have upstream's names, syntax and rules. The module
exports `ARITH`, which is registered in place of xDSL's dialect of the same name. When xDSL's own conversions take
vectors and tensors, delete this file.
"""

from abc import ABC
from typing import ClassVar

from typing_extensions import TypeIs
from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, AnyFloatConstr, SignlessIntegerConstraint, TensorType, VectorType
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.types import is_integer, is_vector
from qmlir.ir.upstream import completed, named

_INTEGERS = (
    SignlessIntegerConstraint
    | VectorType.constr(SignlessIntegerConstraint)
    | TensorType.constr(SignlessIntegerConstraint)
)
_FLOATS = AnyFloatConstr | VectorType.constr(AnyFloatConstr) | TensorType.constr(AnyFloatConstr)


def _is_tensor(type: Attribute) -> TypeIs[TensorType[Attribute]]:
    return isinstance(type, TensorType)


def _container(type: Attribute) -> tuple[str, tuple[int, ...]]:
    """Returns the kind (vector or tensor type name) and the shape of a type; ("", ()) for a scalar."""
    return (type.name, type.get_shape()) if is_vector(type) or _is_tensor(type) else ("", ())


def _bits(type: Attribute) -> int:
    element = type.element_type if is_vector(type) or _is_tensor(type) else type
    if is_integer(element):
        return element.width.data
    assert isinstance(element, AnyFloat)
    return element.bitwidth


class ConversionOp(IRDLOperation, ABC):
    """Base of the conversions of a scalar, or of each element of a vector or tensor, to another type.

    (C1) operand and result are both scalars, both vectors or both tensors, and have the same shape
    (C2) an extension widens, a truncation narrows
    """

    traits = traits_def(Pure())
    assembly_format = "$input attr-dict `:` type($input) `to` type($result)"

    WIDENS: ClassVar[bool | None] = None
    """Whether the result must have more bits (True) or fewer bits (False) than the operand; None allows any width."""

    def __init__(self, input: SSAValue, result_type: Attribute):
        super().__init__(operands=[input], result_types=[result_type])

    def verify_(self) -> None:
        source, result = self.operands[0].type, self.results[0].type
        if _container(source) != _container(result):  # C1
            raise VerifyException(f"'{self.name}' must keep the lanes, got {source} to {result}")
        if self.WIDENS is True and _bits(result) <= _bits(source):  # C2
            raise VerifyException(f"'{self.name}' must widen, got {source} to {result}")
        if self.WIDENS is False and _bits(result) >= _bits(source):  # C2
            raise VerifyException(f"'{self.name}' must narrow, got {source} to {result}")


class IntegerConversionOp(ConversionOp, ABC):
    """Base of the conversions of an integer to another width."""

    input = operand_def(_INTEGERS)
    result = result_def(_INTEGERS)


class IntegerToFloatOp(ConversionOp, ABC):
    """Base of the conversions of an integer to a float, rounded to nearest, ties to even."""

    input = operand_def(_INTEGERS)
    result = result_def(_FLOATS)


class FloatToIntegerOp(ConversionOp, ABC):
    """Base of the conversions of a float to an integer, rounded toward zero; poison if the result does not fit."""

    input = operand_def(_FLOATS)
    result = result_def(_INTEGERS)


class ExtensionOp(IntegerConversionOp, ABC):
    """Base of the conversions of an integer to more bits."""

    WIDENS: ClassVar = True


@irdl_op_definition
class TruncIOp(IntegerConversionOp):
    """Truncates an integer: drops its leading bits."""

    name = "arith.trunci"
    WIDENS: ClassVar = False


ExtSIOp = named("arith.extsi", ExtensionOp, "Sign-extends an integer.")
ExtUIOp = named("arith.extui", ExtensionOp, "Zero-extends an integer.")
SIToFPOp = named("arith.sitofp", IntegerToFloatOp, "Converts a signed integer to a float.")
UIToFPOp = named("arith.uitofp", IntegerToFloatOp, "Converts an unsigned integer to a float.")
FPToSIOp = named("arith.fptosi", FloatToIntegerOp, "Converts a float to a signed integer.")
FPToUIOp = named("arith.fptoui", FloatToIntegerOp, "Converts a float to an unsigned integer.")

COMPLETED = (ExtSIOp, ExtUIOp, TruncIOp, SIToFPOp, UIToFPOp, FPToSIOp, FPToUIOp)
"""The operations of this file that replace xDSL's operations of the same name."""

ARITH = completed(arith.Arith, COMPLETED)

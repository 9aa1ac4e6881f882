"""xDSL's tensor dialect, with a `tensor.reshape` that also takes tensors of unknown rank and size, as upstream's does.

The module exports `TENSOR`, which is registered in place of xDSL's dialect of the same name. When xDSL's own operation
takes such tensors, delete this file.
"""

import math
from collections.abc import Sequence
from typing import cast

from xdsl.dialects import tensor
from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyTensorTypeConstr,
    AnyUnrankedTensorTypeConstr,
    IndexType,
    SignlessIntegerConstraint,
    TensorType,
    UnrankedTensorType,
)
from xdsl.ir import Attribute, SSAValue
from xdsl.irdl import BaseAttr, IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from qmlir.ir.upstream import completed

_TENSOR = AnyTensorTypeConstr | AnyUnrankedTensorTypeConstr


def _of_elements(type: Attribute) -> TensorType[Attribute] | UnrankedTensorType[Attribute]:
    assert isinstance(type, TensorType | UnrankedTensorType)
    return cast(TensorType[Attribute] | UnrankedTensorType[Attribute], type)


def _static(shape: Sequence[int]) -> bool:
    return DYNAMIC_INDEX not in shape


@irdl_op_definition
class ReshapeOp(IRDLOperation):
    """Gives the same elements, in the same order, another shape, which is an operand.

        %1 = tensor.reshape %0(%shape) : (tensor<*xf32>, tensor<1xindex>) -> tensor<?xf32>

    (C1) source and result have the same element type
    (C2) the shape is a 1-D tensor; if the result is ranked, the length of the shape is static and equals that rank
    (C3) source and result have the same number of elements, if both have static shapes
    """

    name = "tensor.reshape"

    source = operand_def(_TENSOR)
    shape = operand_def(TensorType.constr(SignlessIntegerConstraint | BaseAttr(IndexType)))
    result = result_def(_TENSOR)

    traits = traits_def(Pure())
    assembly_format = "$source `(` $shape `)` attr-dict `:` `(` type($source) `,` type($shape) `)` `->` type($result)"

    def __init__(self, source: SSAValue, shape: SSAValue, result_type: Attribute):
        super().__init__(operands=[source, shape], result_types=[result_type])

    def verify_(self) -> None:
        source, result = _of_elements(self.source.type), _of_elements(self.result.type)
        if source.element_type != result.element_type:  # C1
            raise VerifyException(
                "element types of source and destination tensor types should be the same: "
                f"got {source.element_type} and {result.element_type}"
            )
        lengths = cast(TensorType[Attribute], self.shape.type).get_shape()
        if len(lengths) != 1:  # C2
            raise VerifyException(f"the shape must be a 1-D tensor, got {self.shape.type}")
        if not isinstance(result, TensorType):
            return
        if not _static(lengths):  # C2
            raise VerifyException("cannot use shape operand with dynamic length to reshape to statically-ranked tensor")
        if lengths[0] != result.get_num_dims():  # C2
            raise VerifyException(
                "length of shape operand differs from the result's tensor rank: "
                f"got {lengths[0]} and {result.get_num_dims()}"
            )
        if isinstance(source, TensorType) and _static(source.get_shape()) and _static(result.get_shape()):
            before, after = math.prod(source.get_shape()), math.prod(result.get_shape())
            if before != after:  # C3
                raise VerifyException(
                    f"source and destination tensor should have the same number of elements: got {before} and {after}"
                )


TENSOR = completed(tensor.Tensor, [ReshapeOp])

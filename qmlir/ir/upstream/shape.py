"""The part of upstream's shape dialect that the pass `lower-quant-ops` needs: shapes as tensors of indices.

The shape of a tensor of unknown rank is a value, `tensor<?xindex>`, with a size for each dimension. The operations have
upstream's names, syntax and meaning. Upstream's types `!shape.shape` and `!shape.size`, which can hold an error, are
missing, so these operations cannot fail at run time. xDSL 0.74 has no shape dialect; when it gets one, delete this
file.
"""

from xdsl.dialects.builtin import (
    DYNAMIC_INDEX,
    AnyTensorTypeConstr,
    AnyUnrankedTensorTypeConstr,
    IndexType,
    TensorType,
)
from xdsl.ir import Attribute, Dialect, SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

EXTENTS = TensorType(IndexType(), [DYNAMIC_INDEX])
"""A shape of any rank: `tensor<?xindex>`."""

_EXTENTS = TensorType.constr(IndexType())
_TENSOR = AnyTensorTypeConstr | AnyUnrankedTensorTypeConstr


def _check_extents(op: IRDLOperation, what: str, type: Attribute) -> None:
    if not isinstance(type, TensorType) or type.get_num_dims() != 1:
        raise VerifyException(f"'{op.name}' {what} must be a 1-D tensor of index, got {type}")


@irdl_op_definition
class ShapeOfOp(IRDLOperation):
    """Returns the sizes of a tensor's dimensions, in order.

        %s = shape.shape_of %x : tensor<*xi8> -> tensor<?xindex>

    (C1) the result is a 1-D tensor of index
    """

    name = "shape.shape_of"

    arg = operand_def(_TENSOR)
    result = result_def(_EXTENTS)  # C1

    traits = traits_def(Pure())
    assembly_format = "$arg attr-dict `:` type($arg) `->` type($result)"

    def __init__(self, arg: SSAValue):
        super().__init__(operands=[arg], result_types=[EXTENTS])

    def verify_(self) -> None:
        _check_extents(self, "result", self.result.type)


@irdl_op_definition
class NumElementsOp(IRDLOperation):
    """Returns the product of a shape's sizes; 1 for rank 0.

        %n = shape.num_elements %s : tensor<?xindex> -> index

    (C1) the shape is a 1-D tensor of index
    """

    name = "shape.num_elements"

    shape = operand_def(_EXTENTS)  # C1
    result = result_def(IndexType)

    traits = traits_def(Pure())
    assembly_format = "$shape attr-dict `:` type($shape) `->` type($result)"

    def __init__(self, shape: SSAValue):
        super().__init__(operands=[shape], result_types=[IndexType()])

    def verify_(self) -> None:
        _check_extents(self, "shape", self.shape.type)


@irdl_op_definition
class SplitAtOp(IRDLOperation):
    """Splits a shape before dimension `index` into the dimensions before it, and the dimensions from it on.

        %head, %tail = "shape.split_at"(%s, %i) : (tensor<?xindex>, index) -> (tensor<?xindex>, tensor<?xindex>)

    (C1) the shape and its parts are 1-D tensors of index

    `index` lies between minus the rank and the rank; a negative index counts from the end. As in upstream, there is no
    custom syntax.
    """

    name = "shape.split_at"

    operand = operand_def(_EXTENTS)  # C1
    index = operand_def(IndexType)
    head = result_def(_EXTENTS)
    tail = result_def(_EXTENTS)

    traits = traits_def(Pure())

    def __init__(self, operand: SSAValue, index: SSAValue):
        super().__init__(operands=[operand, index], result_types=[EXTENTS, EXTENTS])
        self.head.name_hint, self.tail.name_hint = "head", "tail"

    def verify_(self) -> None:
        for what, value in (("operand", self.operand), ("head", self.head), ("tail", self.tail)):
            _check_extents(self, what, value.type)


SHAPE = Dialect("shape", [ShapeOfOp, NumElementsOp, SplitAtOp])

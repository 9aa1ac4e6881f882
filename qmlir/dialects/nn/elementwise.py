"""Elementwise operations of two operands, broadcast as in numpy."""

import abc
from collections.abc import Sequence

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, result_def, traits_def

from qmlir.dialects.interfaces import Array, Shape, broadcast_shape, shape_of
from qmlir.dialects.nn.base import Clamped
from qmlir.dialects.quant.rules import FreeScale


class BinaryOp(Clamped, abc.ABC):
    """An elementwise operation of two tensors, then the clamp.

    (C1) the shapes broadcast
    """

    lhs = operand_def(TensorType)
    rhs = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(FreeScale())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$lhs `,` $rhs attr-dict `:` type($lhs) `,` type($rhs) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        return [broadcast_shape(self, shape_of(self.lhs), shape_of(self.rhs))]  # C1


@irdl_op_definition
class AddOp(BinaryOp):
    """y = lhs + rhs, then the clamp."""

    name = "nn.add"

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (self.clamp(inputs[0] + inputs[1]),)


@irdl_op_definition
class MulOp(BinaryOp):
    """y = lhs · rhs, then the clamp."""

    name = "nn.mul"

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (self.clamp(inputs[0] * inputs[1]),)

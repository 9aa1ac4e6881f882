"""Resizing of images by interpolation."""

from collections.abc import Sequence
from typing import ClassVar

from xdsl.dialects.builtin import TensorType
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, result_def, traits_def

from qmlir.dialects.interpolation import InterpolationOp
from qmlir.dialects.nn.base import Elements, NNOp
from qmlir.dialects.quant.rules import FreeScale
from qmlir.ir.interfaces import Array, Shape, shape_of


@irdl_op_definition
class ResizeOp(NNOp, InterpolationOp):
    """A resize: each element is a weighted sum of neighbours, one axis after another (dialects/interpolation.py).

    The f64 weights are rounded to the element type; then each product and each sum is rounded to it.
    """

    name = "nn.resize"
    x = operand_def(TensorType)
    y = result_def(TensorType)

    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED
    WEIGHTS: ClassVar[str] = "float64"

    traits = traits_def(FreeScale())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        return [self.interpolated_shape(shape_of(self.x))]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (self.interpolated(inputs[0]),)

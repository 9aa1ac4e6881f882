"""Integer interpolation."""

from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, i32
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def

from qmlir.dialects.interfaces import Array, Shape, shape_of
from qmlir.dialects.interpolation import InterpolationOp
from qmlir.dialects.qint.base import ZERO, AccumulatingOp


@irdl_op_definition
class ResizeOp(AccumulatingOp, InterpolationOp):
    """acc = the weighted sums of x − zero_point, i32, along one axis after another (dialects/interpolation.py).

    The weights, i32, are multiples of a power of two, by which a requantization then divides.
    """

    name = "qint.resize"
    x = operand_def(TensorType)
    zero_point = prop_def(IntegerAttr.constr(i32), default_value=ZERO)
    acc = result_def(TensorType)

    WEIGHTS: ClassVar[str] = "int32"

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($acc)"

    def infer_shapes(self) -> Sequence[Shape]:
        return [self.interpolated_shape(shape_of(self.x))]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        return (self.interpolated(inputs[0].astype(np.int32) - np.int32(self.zero_point.value.data)),)

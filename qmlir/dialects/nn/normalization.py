"""Normalizations along an axis."""

from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, prop_def, result_def, traits_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.elementary.exponential import exp
from qmlir.dialects.elementary.lanes import Lanes
from qmlir.dialects.interfaces import Array, Shape, shape_of
from qmlir.dialects.nn.base import NNOp
from qmlir.dialects.quant.rules import FixedScale


@irdl_op_definition
class SoftmaxOp(NNOp):
    """y = exp(x − m) / Σ exp(x − m) along `axis`, m the maximum there.

    Computed in f64, the sum in index order, and rounded once to f32.

    (C1) the axis lies within the rank and is not empty
    """

    name = "nn.softmax"
    x = operand_def(TensorType)
    axis = prop_def(IntegerAttr.constr(i64))
    y = result_def(TensorType)

    traits = traits_def(FixedScale(1 / 256, zero_point=-128, symmetric_scale=1 / 128))
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        shape, axis = shape_of(self.x), self.axis.value.data
        if not 0 <= axis < len(shape):  # C1
            raise VerifyException(f"'{self.name}' axis must lie in [0, {len(shape)}), got {axis}")
        if shape[axis] == 0:  # C1
            raise VerifyException(f"'{self.name}' has nothing to sum along axis {axis} of {list(shape)}")
        return [shape]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        axis = self.axis.value.data
        x = inputs[0].astype(np.float64)
        e = exp(Lanes(x - x.max(axis=axis, keepdims=True))).array
        # accumulate adds in order, where sum would pair elements.
        total = np.take(np.add.accumulate(e, axis=axis), [-1], axis=axis)
        return ((e / total).astype(np.float32),)

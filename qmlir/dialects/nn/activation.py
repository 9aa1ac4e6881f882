"""Functions of one element: activations, and the change of scale."""

import abc
from collections.abc import Sequence

import numpy as np
from xdsl.dialects.builtin import TensorType
from xdsl.irdl import ParsePropInAttrDict, irdl_op_definition, operand_def, result_def, traits_def

from qmlir.dialects.interfaces import Array, ScalarOp, Shape, shape_of
from qmlir.dialects.nn.base import Clamped, NNOp
from qmlir.dialects.quant import numerics
from qmlir.dialects.quant.rules import FixedScale, FreeScale


class UnaryOp(NNOp, ScalarOp, abc.ABC):
    """y[i] = f(x[i]); float values are computed in f64 and rounded once to f32."""

    x = operand_def(TensorType)
    y = result_def(TensorType)

    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$x attr-dict `:` type($x) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        return [shape_of(self.x)]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        return (self.scalar(x.astype(np.float64)).astype(np.float32),)


@irdl_op_definition
class ReluOp(UnaryOp):
    """relu(x) = max(x, 0)."""

    name = "nn.relu"
    traits = traits_def(FreeScale())

    def scalar(self, x: Array) -> Array:
        return np.maximum(x, 0.0)


@irdl_op_definition
class ClampOp(UnaryOp, Clamped):
    """clamp(x) = min(max(x, `min`), `max`); either bound may be absent."""

    name = "nn.clamp"
    traits = traits_def(FreeScale())

    def scalar(self, x: Array) -> Array:
        low, high = self.bounds()
        x = x if low is None else np.maximum(x, low)
        return x if high is None else np.minimum(x, high)


@irdl_op_definition
class SigmoidOp(UnaryOp):
    """sigmoid(x) = 1 / (1 + exp(−x))."""

    name = "nn.sigmoid"
    traits = traits_def(FixedScale(1 / 256, zero_point=-128, symmetric_scale=1 / 128))

    def scalar(self, x: Array) -> Array:
        return numerics.sigmoid(x)


@irdl_op_definition
class TanhOp(UnaryOp):
    """tanh(x) = (exp(x) − exp(−x)) / (exp(x) + exp(−x))."""

    name = "nn.tanh"
    traits = traits_def(FixedScale(1 / 128, zero_point=0, symmetric_scale=1 / 128))

    def scalar(self, x: Array) -> Array:
        return numerics.tanh(x)


@irdl_op_definition
class RequantizeOp(UnaryOp):
    """The same real values under another quantized type; the identity on f32."""

    name = "nn.requantize"
    traits = traits_def(FreeScale())

    def scalar(self, x: Array) -> Array:
        return x

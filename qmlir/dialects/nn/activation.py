"""Activations: functions of one element that networks apply between layers, and the change of scale."""

import abc
import math

from xdsl.dialects.builtin import AnyFloat, BoolAttr, FloatAttr
from xdsl.irdl import irdl_op_definition, prop_def, traits_def

from qmlir.dialects.nn.base import Clamped
from qmlir.dialects.nn.elementary import FreeFunctionOp, SignOfOp, UnitFunctionOp
from qmlir.dialects.nn.pointwise import FunctionOp, StepOp
from qmlir.dialects.quant.rules import FixedScale, FreeScale
from qmlir.numerics.elementary.error_function import erfc
from qmlir.numerics.elementary.exponential import expm1, sigmoid, softplus, tanh
from qmlir.numerics.elementary.lanes import N

Real = FloatAttr[AnyFloat]


class ProbabilityOp(FunctionOp, abc.ABC):
    """A function with results in [0, 1]."""

    traits = traits_def(FixedScale(1 / 256, zero_point=-128, symmetric_scale=1 / 128))


@irdl_op_definition
class ReluOp(SignOfOp):
    """relu(x) = max(x, 0)."""

    name = "nn.relu"

    def function(self, x: N) -> N:
        return x.maximum(0.0)

    def formula(self, *operands: N) -> N:
        (x,) = operands
        return x.maximum(0.0) if x.is_float else self.integer(x)

    def integer(self, x: N) -> N:
        return x if self.unsigned else x.maximum(0)


@irdl_op_definition
class ClampOp(FreeFunctionOp, Clamped):
    """clamp(x) = min(max(x, `min`), `max`); either bound may be absent."""

    name = "nn.clamp"

    def function(self, x: N) -> N:
        return self.clamped(x)

    def formula(self, *operands: N) -> N:
        return self.clamped(*operands)


@irdl_op_definition
class SigmoidOp(ProbabilityOp):
    """sigmoid(x) = 1 / (1 + exp(−x))."""

    name = "nn.sigmoid"

    def function(self, x: N) -> N:
        return sigmoid(x)


@irdl_op_definition
class TanhOp(UnitFunctionOp):
    """tanh(x) = (exp(x) − exp(−x)) / (exp(x) + exp(−x))."""

    name = "nn.tanh"

    def function(self, x: N) -> N:
        return tanh(x)


@irdl_op_definition
class RequantizeOp(FreeFunctionOp):
    """The same real values under another quantized type; the identity on floats."""

    name = "nn.requantize"

    def function(self, x: N) -> N:
        return x


@irdl_op_definition
class GeluOp(FreeFunctionOp):
    """gelu(x) = x · Φ(x), Φ the normal distribution; with `tanh` x · sigmoid(2·√(2/π)·(x + 0.044715·x³))."""

    name = "nn.gelu"
    tanh = prop_def(BoolAttr, default_value=BoolAttr.from_bool(False))

    def function(self, x: N) -> N:
        if bool(self.tanh):
            return x * sigmoid(2 * math.sqrt(2 / math.pi) * (x + 0.044715 * (x * x * x)))
        return 0.5 * x * erfc(-math.sqrt(0.5) * x)


@irdl_op_definition
class HardSigmoidOp(ProbabilityOp):
    """max(0, min(1, `alpha` · x + `beta`))."""

    name = "nn.hard_sigmoid"
    alpha = prop_def(Real)
    beta = prop_def(Real)

    def function(self, x: N) -> N:
        return (x * self.alpha.value.data + self.beta.value.data).maximum(0.0).minimum(1.0)


@irdl_op_definition
class HardSwishOp(FreeFunctionOp):
    """x · max(0, min(1, x / 6 + 1/2))."""

    name = "nn.hard_swish"

    def function(self, x: N) -> N:
        return x * (x / 6.0 + 0.5).maximum(0.0).minimum(1.0)


@irdl_op_definition
class LeakyReluOp(FreeFunctionOp):
    """x where it is not negative, else `alpha` · x."""

    name = "nn.leaky_relu"
    alpha = prop_def(Real)

    def function(self, x: N) -> N:
        return x.less(0.0).choose(x * self.alpha.value.data, x)


@irdl_op_definition
class EluOp(FreeFunctionOp):
    """x where it is not negative, else `alpha` · (e^x − 1)."""

    name = "nn.elu"
    alpha = prop_def(Real)

    def function(self, x: N) -> N:
        return x.less(0.0).choose(expm1(x) * self.alpha.value.data, x)


@irdl_op_definition
class SeluOp(FreeFunctionOp):
    """`gamma` · x where x is not negative, else `gamma` · `alpha` · (e^x − 1)."""

    name = "nn.selu"
    alpha = prop_def(Real)
    gamma = prop_def(Real)

    def function(self, x: N) -> N:
        return x.less(0.0).choose(expm1(x) * self.alpha.value.data, x) * self.gamma.value.data


@irdl_op_definition
class CeluOp(FreeFunctionOp):
    """x where it is not negative, else `alpha` · (e^(x / alpha) − 1)."""

    name = "nn.celu"
    alpha = prop_def(Real)

    def function(self, x: N) -> N:
        alpha = self.alpha.value.data
        return x.maximum(0.0) + (expm1(x / alpha) * alpha).minimum(0.0)


@irdl_op_definition
class SoftplusOp(FreeFunctionOp):
    """log(1 + e^x)."""

    name = "nn.softplus"

    def function(self, x: N) -> N:
        return softplus(x)


@irdl_op_definition
class SoftsignOp(UnitFunctionOp):
    """x / (1 + |x|)."""

    name = "nn.softsign"

    def function(self, x: N) -> N:
        return x / (1.0 + x.magnitude())


@irdl_op_definition
class MishOp(FreeFunctionOp):
    """x · tanh(log(1 + e^x))."""

    name = "nn.mish"

    def function(self, x: N) -> N:
        return x * tanh(softplus(x))


@irdl_op_definition
class SwishOp(FreeFunctionOp):
    """x · sigmoid(`alpha` · x)."""

    name = "nn.swish"
    alpha = prop_def(Real)

    def function(self, x: N) -> N:
        return x * sigmoid(x * self.alpha.value.data)


class ThresholdOp(StepOp, abc.ABC):
    """A function that jumps at a threshold."""

    traits = traits_def(FreeScale())


@irdl_op_definition
class ThresholdedReluOp(ThresholdOp):
    """x where it is above `alpha`, else 0."""

    name = "nn.thresholded_relu"
    alpha = prop_def(Real)

    def function(self, x: N) -> N:
        return x.same(self.alpha.value.data).less(x).choose(x, x * 0.0)


@irdl_op_definition
class ShrinkOp(ThresholdOp):
    """x + `bias` below −`threshold`, x − `bias` above `threshold`, else 0."""

    name = "nn.shrink"
    bias = prop_def(Real)
    threshold = prop_def(Real)

    def function(self, x: N) -> N:
        bias, threshold = self.bias.value.data, self.threshold.value.data
        above = x.same(threshold).less(x).choose(x - bias, x.same(0.0))
        return x.less(-threshold).choose(x + bias, above)

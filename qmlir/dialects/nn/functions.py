"""Functions of one element: activations and elementary functions."""

import abc
import math
from typing import Any, ClassVar

import numpy.typing as npt
from xdsl.dialects.builtin import AnyFloat, BoolAttr, FloatAttr
from xdsl.irdl import irdl_op_definition, prop_def, traits_def

from qmlir.dialects.nn.base import Clamped, Elements
from qmlir.dialects.nn.elementwise import FunctionOp, StepOp
from qmlir.dialects.nn.quantizable import ALL_STORAGES, Scales, uniform
from qmlir.dialects.quant.rules import FixedScale, FreeScale
from qmlir.errors import UnsupportedError
from qmlir.numerics.elementary import exponential, trigonometric
from qmlir.numerics.elementary.exponential import erfc, expm1, sigmoid, softplus, tanh
from qmlir.numerics.elementary.lanes import F32, N

# ---------------------------------------------------------------------------------------------------------------
# Elementary functions of one element: signs and roundings, roots, exponentials, angles.


class SignOfOp(FunctionOp, abc.ABC):
    """A function that is also defined on integers, with an integer formula of its own."""

    ELEMENTS: ClassVar[Elements] = Elements.NUMBERS | Elements.QUANTIZED

    traits = traits_def(FreeScale())

    def formula(self, *operands: N) -> N:
        (x,) = operands
        return super().formula(x) if x.is_float else self.integer(x)

    @abc.abstractmethod
    def integer(self, x: N) -> N:
        """The function on an integer value."""


@irdl_op_definition
class AbsOp(SignOfOp):
    """|x|; for the least integer of a type, that integer itself."""

    name = "nn.abs"

    def function(self, x: N) -> N:
        return x.magnitude()

    def integer(self, x: N) -> N:
        return x if self.unsigned else x.magnitude()


@irdl_op_definition
class NegOp(SignOfOp):
    """−x; for the least integer of a type, that integer itself."""

    name = "nn.neg"

    def function(self, x: N) -> N:
        return x.negative()

    def integer(self, x: N) -> N:
        return x.negative()


@irdl_op_definition
class SignOp(SignOfOp, StepOp):
    """−1, 0 or 1 where x is below, equal to or above 0; NaN stays NaN."""

    name = "nn.sign"
    traits = traits_def(FixedScale(1 / 128, zero_point=0, symmetric_scale=1 / 128))

    def function(self, x: N) -> N:
        return x.less(0.0).choose(-1.0, x.same(0.0).less(x).choose(1.0, x))

    def integer(self, x: N) -> N:
        above = x.same(0).less(x, unsigned=self.unsigned).choose(1, x)
        return above if self.unsigned else x.less(0).choose(-1, above)


class RoundingOp(StepOp, abc.ABC):
    """A rounding to a whole number."""

    traits = traits_def(FreeScale())


@irdl_op_definition
class FloorOp(RoundingOp):
    """The greatest whole number not above x."""

    name = "nn.floor"

    def function(self, x: N) -> N:
        return x.floor()


@irdl_op_definition
class CeilOp(RoundingOp):
    """The least whole number not below x."""

    name = "nn.ceil"

    def function(self, x: N) -> N:
        return x.ceiling()


@irdl_op_definition
class RoundOp(RoundingOp):
    """The nearest whole number, ties to even."""

    name = "nn.round"

    def function(self, x: N) -> N:
        return x.round_even()


class FreeFunctionOp(FunctionOp, abc.ABC):
    """A function whose result is quantized by its own observed range."""

    traits = traits_def(FreeScale())


class UnitFunctionOp(FunctionOp, abc.ABC):
    """A function with results in [−1, 1]."""

    traits = traits_def(FixedScale(1 / 128, zero_point=0, symmetric_scale=1 / 128))


@irdl_op_definition
class SqrtOp(FreeFunctionOp):
    """√x; NaN below 0."""

    name = "nn.sqrt"

    DOMAIN: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def function(self, x: N) -> N:
        return x.square_root()


@irdl_op_definition
class ReciprocalOp(FreeFunctionOp):
    """1 / x."""

    name = "nn.reciprocal"

    def function(self, x: N) -> N:
        return 1.0 / x


@irdl_op_definition
class RsqrtOp(FreeFunctionOp):
    """1 / √x; ∞ at 0, NaN below 0."""

    name = "nn.rsqrt"

    DOMAIN: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def function(self, x: N) -> N:
        return 1.0 / x.square_root()


@irdl_op_definition
class ExpOp(FreeFunctionOp):
    """e^x."""

    name = "nn.exp"

    def function(self, x: N) -> N:
        return exponential.exp_unbounded(x)


@irdl_op_definition
class LogOp(FreeFunctionOp):
    """The natural logarithm; −∞ at 0, NaN below 0."""

    name = "nn.log"

    DOMAIN: ClassVar[tuple[float, float]] = (0.0, math.inf)

    def function(self, x: N) -> N:
        return exponential.log(x)


@irdl_op_definition
class ErfOp(UnitFunctionOp):
    """The error function 2/√π · ∫₀ˣ e^(−t²) dt."""

    name = "nn.erf"

    def function(self, x: N) -> N:
        return exponential.erf(x)

    def formula(self, *operands: N) -> N:
        (x,) = operands
        return exponential.erf_single(x) if x.dtype == F32 else super().formula(x)


@irdl_op_definition
class AsinOp(FreeFunctionOp):
    """The arc sine; NaN beyond ±1."""

    name = "nn.asin"

    DOMAIN: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def function(self, x: N) -> N:
        return trigonometric.asin(x)


@irdl_op_definition
class AcosOp(FreeFunctionOp):
    """The arc cosine; NaN beyond ±1."""

    name = "nn.acos"

    DOMAIN: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def function(self, x: N) -> N:
        return trigonometric.acos(x)


@irdl_op_definition
class AtanOp(FreeFunctionOp):
    """The arc tangent."""

    name = "nn.atan"

    def function(self, x: N) -> N:
        return trigonometric.atan(x)


@irdl_op_definition
class SinhOp(FreeFunctionOp):
    """(e^x − e^−x) / 2."""

    name = "nn.sinh"

    def function(self, x: N) -> N:
        return exponential.sinh(x)


@irdl_op_definition
class CoshOp(FreeFunctionOp):
    """(e^x + e^−x) / 2."""

    name = "nn.cosh"

    def function(self, x: N) -> N:
        return exponential.cosh(x)


@irdl_op_definition
class AsinhOp(FreeFunctionOp):
    """log(x + √(x² + 1))."""

    name = "nn.asinh"

    def function(self, x: N) -> N:
        return exponential.asinh(x)


@irdl_op_definition
class AcoshOp(FreeFunctionOp):
    """log(x + √(x² − 1)); NaN below 1."""

    name = "nn.acosh"

    DOMAIN: ClassVar[tuple[float, float]] = (1.0, math.inf)

    def function(self, x: N) -> N:
        return exponential.acosh(x)


@irdl_op_definition
class AtanhOp(FreeFunctionOp):
    """log((1 + x)/(1 − x)) / 2; ±∞ at ±1, NaN beyond."""

    name = "nn.atanh"

    DOMAIN: ClassVar[tuple[float, float]] = (-1.0, 1.0)

    def function(self, x: N) -> N:
        return exponential.atanh(x)


class AngleOp(FunctionOp, abc.ABC):
    """A function of an angle, on f32 and quantized data.

    f64 is not supported: an exact argument reduction would need as many bits of π as the exponent range has.
    """

    ELEMENTS: ClassVar[Elements] = Elements.F32 | Elements.QUANTIZED


@irdl_op_definition
class SinOp(AngleOp, UnitFunctionOp):
    """The sine."""

    name = "nn.sin"

    def function(self, x: N) -> N:
        return trigonometric.sin(x)


@irdl_op_definition
class CosOp(AngleOp, UnitFunctionOp):
    """The cosine."""

    name = "nn.cos"

    def function(self, x: N) -> N:
        return trigonometric.cos(x)


@irdl_op_definition
class TanOp(AngleOp, FreeFunctionOp):
    """The tangent."""

    name = "nn.tan"

    def function(self, x: N) -> N:
        return trigonometric.tan(x)


# ---------------------------------------------------------------------------------------------------------------
# Activations: functions of one element that networks apply between layers, and the change of scale.


Real = FloatAttr[AnyFloat]


class ProbabilityOp(FunctionOp, abc.ABC):
    """A function with results in [0, 1]."""

    traits = traits_def(FixedScale(1 / 256, zero_point=-128, symmetric_scale=1 / 128))


class LinearOp(FunctionOp, abc.ABC):
    """A function that is linear between its bounds: its integer form is a clamped requantization, without a table."""

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales(self.x) / scales(self.y)


@irdl_op_definition
class ReluOp(SignOfOp, LinearOp):
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
class ClampOp(FreeFunctionOp, LinearOp, Clamped):
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
class RequantizeOp(FreeFunctionOp, LinearOp):
    """The same real values under another quantized type; the identity on floats.

    The integer form requires that 32-bit data have zero point 0.
    """

    name = "nn.requantize"

    INTEGER_FORM: ClassVar[tuple[str, ...]] = ALL_STORAGES

    def check_integer_form(self) -> None:
        if uniform(self.x).storage_width == 32 and any(uniform(self.x).zero_points):
            raise UnsupportedError("32-bit data with a zero point have no integer form")

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


@irdl_op_definition
class BinarizeOp(ThresholdOp):
    """1 where x is above `threshold`, else 0."""

    name = "nn.binarize"
    threshold = prop_def(Real)

    def function(self, x: N) -> N:
        return x.same(self.threshold.value.data).less(x).choose(1.0, x.same(0.0))


FUNCTIONS: tuple[type[FunctionOp], ...] = tuple(
    found
    for found in list(globals().values())
    if isinstance(found, type) and issubclass(found, FunctionOp) and "name" in vars(found)
)
"""Every function of one element. Targets, runtimes and formats that treat all alike go through this tuple."""

"""Elementary functions of one element: signs and roundings, roots, exponentials, angles."""

import abc
import math
from typing import ClassVar

from xdsl.irdl import irdl_op_definition, traits_def

from qmlir.dialects.nn.base import Elements
from qmlir.dialects.nn.pointwise import FunctionOp, StepOp
from qmlir.dialects.quant.rules import FixedScale, FreeScale
from qmlir.numerics.elementary import error_function, exponential, trigonometric
from qmlir.numerics.elementary.lanes import N


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
        return error_function.erf(x)


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


@irdl_op_definition
class SinOp(UnitFunctionOp):
    """The sine, on f32 and quantized data.

    f64 is not supported: an exact argument reduction would need as many bits of π as the exponent range has.
    """

    name = "nn.sin"

    ELEMENTS: ClassVar[Elements] = Elements.F32 | Elements.QUANTIZED

    def function(self, x: N) -> N:
        return trigonometric.sin(x)


@irdl_op_definition
class CosOp(UnitFunctionOp):
    """The cosine, on f32 and quantized data.

    f64 is not supported: an exact argument reduction would need as many bits of π as the exponent range has.
    """

    name = "nn.cos"

    ELEMENTS: ClassVar[Elements] = Elements.F32 | Elements.QUANTIZED

    def function(self, x: N) -> N:
        return trigonometric.cos(x)


@irdl_op_definition
class TanOp(FreeFunctionOp):
    """The tangent, on f32 and quantized data.

    f64 is not supported: an exact argument reduction would need as many bits of π as the exponent range has.
    """

    name = "nn.tan"

    ELEMENTS: ClassVar[Elements] = Elements.F32 | Elements.QUANTIZED

    def function(self, x: N) -> N:
        return trigonometric.tan(x)

"""Normalizations along an axis, computed in f64 with sums in index order and rounded once."""

import abc
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from math import ceil, log2, sqrt
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt
from xdsl.dialects.builtin import AnyFloat, FloatAttr, IntegerAttr, i32, i64
from xdsl.irdl import irdl_op_definition, prop_def, traits_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import AxisOp, Elements, NNOp
from qmlir.dialects.nn.elementwise import OperandPairOp
from qmlir.dialects.nn.quantizable import NARROW, Scales, computed_storage, uniform
from qmlir.dialects.quant.rules import FixedScale, FreeScale
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, Shape, UnaryTensorOp, element_of, shape_of
from qmlir.ir.samples import Axes, kept_axis
from qmlir.numerics.elementary.exponential import exp_by_four, log, power
from qmlir.numerics.elementary.gemmlowp import LOGARITHM_BITS, half_away, inverse_root, product
from qmlir.numerics.elementary.lanes import I32, I64, Lanes, N
from qmlir.numerics.power_quotients import PowerQuotient
from qmlir.numerics.root_quotients import RootQuotient


def check_share(op: "SoftmaxOp | LpNormalizationOp", least: int) -> None:
    """Checks the scale of a result in [−1, 1].

    Raises:
        UnsupportedError: The scale is not between 2^least and 1.
    """
    scale = uniform(op.y).scale
    if not 2.0**least <= scale <= 1:
        raise UnsupportedError(f"its result's scale {scale:g} is not between 2^{least} and 1", code="factor")


def half_range(element: UniformType) -> int:
    """Half the number of integers of the type in which a storage type is computed: 2^7 or 2^15."""
    return 1 << int(computed_storage(element.storage)[1:]) - 1


def largest_difference(element: UniformType) -> int:
    """The largest |q − zero point| over the integers of the type in which a storage type is computed."""
    half = half_range(element)
    point = element.zero_point - (half if element.storage_max >= half else 0)
    return max(half + point, half - 1 - point)


class ExponentialsOp(AxisOp, abc.ABC):
    """A normalization by the sum of exponentials along `axis`; m is the maximum along the axis.

    (C1) the axis lies within the rank and is not empty
    """

    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    @abc.abstractmethod
    def parts(self, shifted: Array, e: Array, total: Array) -> Array:
        """The f64 result, from x − m, exp(x − m) and the sums of exp(x − m) along the axis."""

    def infer_shapes(self) -> Sequence[Shape]:
        shape, axis = shape_of(self.x), self.axis.value.data
        if self.split()[1] == 0:  # C1
            raise VerifyException(f"'{self.name}' has nothing to sum along axis {axis} of {list(shape)}")
        return [shape]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        axis = self.axis.value.data
        x = inputs[0].astype(np.float64)
        shifted = x - x.max(axis=axis, keepdims=True)
        e = exp_by_four(Lanes(shifted)).array
        # np.add.accumulate adds in order; np.sum would add pairwise.
        total = np.take(np.add.accumulate(e, axis=axis), [-1], axis=axis)
        return (self.parts(shifted, e, total).astype(inputs[0].dtype),)


@irdl_op_definition
class SoftmaxOp(ExponentialsOp):
    """y = exp(x − m) / Σ exp(x − m) along `axis`, where m is the maximum along the axis.

    (C1) the axis lies within the rank and is not empty

    The integer form requires a result's scale between 2^−19 and 1 and at most `MOST_SHARES` elements along the axis.
    """

    name = "nn.softmax"
    traits = traits_def(FixedScale(1 / 256, zero_point=-128, symmetric_scale=1 / 128, least_scale=2.0**-19))

    MOST_SHARES: ClassVar[int] = 1 << 18
    """The most elements along the axis on quantized types: their exponentials are summed in 62 bits."""

    def check_integer_form(self) -> None:
        check_share(self, -19)
        if (count := self.split()[1]) > self.MOST_SHARES:
            raise UnsupportedError(f"its sum of {count} exponentials does not fit 62 bits", code="accumulator")

    def parts(self, shifted: Array, e: Array, total: Array) -> Array:
        return e / total


@irdl_op_definition
class LogSoftmaxOp(ExponentialsOp):
    """y = x − m − log Σ exp(x − m) along `axis`, where m is the maximum along the axis.

    This form never takes the logarithm of a softmax that has underflowed to 0. The range of a quantized result reaches
    down to the least observed value, or to −16 if no range was observed.

    (C1) the axis lies within the rank and is not empty
    """

    name = "nn.log_softmax"
    traits = traits_def(
        FixedScale(16 / 256, zero_point=127, symmetric_scale=16 / 128, int16_scale=16 / 32768, bounded=False)
    )

    def parts(self, shifted: Array, e: Array, total: Array) -> Array:
        return shifted - log(Lanes(total)).array

    def fraction_bits(self) -> int:
        """The fraction bits of the i32 sums: as many as the least value of the result leaves room for."""
        result = uniform(self.y)
        least = result.scale * (result.zero_point - result.storage_min)
        whole = ceil(log2(least)) if least > 1 else 0
        return max(0, min(LOGARITHM_BITS, 31 - whole))

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales.dtype(2.0 ** -self.fraction_bits()) / scales(self.y)


class NormalizationOp(AxisOp, abc.ABC):
    """x divided by a norm or deviation of the elements normalized together, computed in f64 and rounded once.

    (C1) the axis lies within the rank and there are elements along it
    """

    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED

    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    traits = traits_def(FreeScale())

    @abc.abstractmethod
    def normalized(self, x: Array) -> Array:
        """The f64 result for an f64 array [before, along, behind]."""

    @abc.abstractmethod
    def quotient(self) -> RootQuotient:
        """The division by a root that the integer form computes."""

    def check_integer_form(self) -> None:
        scale = uniform(self.y).scale
        self.quotient().check(f"its result's scale {scale:g}")

    def infer_shapes(self) -> Sequence[Shape]:
        shape, axis = shape_of(self.x), self.axis.value.data
        if self.split()[1] == 0:  # C1
            raise VerifyException(f"'{self.name}' has nothing to normalize along axis {axis} of {list(shape)}")
        return [shape]

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        (x,) = inputs
        with np.errstate(all="ignore"):
            y = self.normalized(x.astype(np.float64).reshape(self.split()))
            return (y.astype(x.dtype).reshape(x.shape),)


def in_order(x: Array) -> Array:
    """Sums over the middle of three dimensions in index order, [before, 1, behind]."""
    return np.add.accumulate(x, axis=1)[:, -1:]


class OverTrailingOp(NormalizationOp, abc.ABC):
    """A normalization over all dimensions from `axis` on.

    (C2) epsilon is not negative
    """

    epsilon = prop_def(FloatAttr[AnyFloat])

    def split(self) -> tuple[int, int, int]:
        before, along, behind = super().split()
        return before, along * behind, 1

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, range(self.axis.value.data, len(shape_of(self.x))))

    def infer_shapes(self) -> Sequence[Shape]:
        if not self.epsilon.value.data >= 0:  # C2
            raise VerifyException(f"'{self.name}' needs an epsilon that is not negative, got {self.epsilon.value.data}")
        return super().infer_shapes()

    def epsilon_in_steps(self) -> Fraction:
        """epsilon in squares of the data's scale."""
        return Fraction(self.epsilon.value.data) / Fraction(uniform(self.x).scale) ** 2


@irdl_op_definition
class LayerNormOp(OverTrailingOp):
    """y = (x − m) / √(v + epsilon), m the mean and v = mean((x − m)²) over the dimensions from `axis` on.

    An elementwise scale and bias are separate nn.mul and nn.add operations.

    (C1) the axis lies within the rank, and the dimensions from it on are not empty
    (C2) epsilon is not negative
    """

    name = "nn.layer_norm"

    def normalized(self, x: Array) -> Array:
        less_mean = x - in_order(x) / x.shape[1]
        variance = in_order(less_mean * less_mean) / x.shape[1]
        return less_mean / np.sqrt(variance + self.epsilon.value.data)

    def quotient(self) -> RootQuotient:
        """d = x − m, D = n · Σx² − (Σx)² = n² · v, M = n / s_y; no zero point of x plays a part."""
        count = self.split()[1]
        return RootQuotient(
            most=(count * half_range(uniform(self.x))) ** 2,
            least=max(count - 1, 1),  # where one element is a step off the others
            epsilon=count**2 * self.epsilon_in_steps(),
            factor=count / uniform(self.y).scale,
            reach=sqrt(max(count - 1, 1)) / count,  # that of one element against all others
        )


@irdl_op_definition
class RMSNormOp(OverTrailingOp):
    """y = x / √(mean(x²) + epsilon), the mean over the dimensions from `axis` on.

    (C1) the axis lies within the rank, and the dimensions from it on are not empty
    (C2) epsilon is not negative
    """

    name = "nn.rms_norm"

    def normalized(self, x: Array) -> Array:
        return x / np.sqrt(in_order(x * x) / x.shape[1] + self.epsilon.value.data)

    def quotient(self) -> RootQuotient:
        """d = x, D = Σx² = n · mean(x²), M = √n / s_y."""
        count = self.split()[1]
        return RootQuotient(
            most=count * largest_difference(uniform(self.x)) ** 2,
            least=1,
            epsilon=count * self.epsilon_in_steps(),
            factor=sqrt(count) / uniform(self.y).scale,
            reach=1.0,
        )


@irdl_op_definition
class LpNormalizationOp(NormalizationOp):
    """y = x / Σ |x| along `axis` for p = 1, x / √Σ x² for p = 2; 0 where all elements are 0.

    (C1) the axis lies within the rank and there are elements along it
    (C2) p is 1 or 2

    The integer form requires p = 2 and a result's scale between 2^−16 and 1, on data of 16 bits between 2^−24 and 1.
    """

    name = "nn.lp_normalization"

    p = prop_def(IntegerAttr.constr(i64))

    def infer_shapes(self) -> Sequence[Shape]:
        if self.p.value.data not in (1, 2):  # C2
            raise VerifyException(f"'{self.name}' needs p to be 1 or 2, got {self.p.value.data}")
        return super().infer_shapes()

    def normalized(self, x: Array) -> Array:
        size = np.sqrt(in_order(x * x)) if self.p.value.data == 2 else in_order(np.abs(x))
        return x / np.where(size == 0, 1.0, size)

    def check_integer_form(self) -> None:
        if self.p.value.data != 2:
            raise UnsupportedError("its division by a sum of magnitudes has no integer form on this target")
        check_share(self, -16 if computed_storage(uniform(self.x).storage) == "i8" else -24)
        super().check_integer_form()

    def quotient(self) -> RootQuotient:
        """d = x, D = Σx², M = 1 / s_y."""
        most = self.split()[1] * largest_difference(uniform(self.x)) ** 2
        return RootQuotient(most, least=1, epsilon=Fraction(0), factor=1 / uniform(self.y).scale, reach=1.0)


@dataclass(frozen=True)
class LocalResponse:
    """Computes x / (bias + scale · total)^beta in f64 from an element x and a sum of squares `total`."""

    scale: float
    bias: float
    beta: float

    def __call__(self, x: N, total: N) -> N:
        return x / power(total * self.scale + self.bias, x.same(self.beta))


@irdl_op_definition
class LocalResponseNormalizationOp(UnaryTensorOp, NNOp):
    """y = x / (bias + alpha / size · Σ x²)^beta, the sum over up to `size` channels around the element's own channel.

    x [N,…,C]. The window of channel c begins at channel c − (size − 1) div 2; channels outside x are left out. The
    result is computed in f64 and rounded once.

    (C1) x has channels and size is at least 1
    """

    name = "nn.local_response_normalization"
    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW
    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED

    size = prop_def(IntegerAttr.constr(i64))
    alpha = prop_def(FloatAttr[AnyFloat])
    beta = prop_def(FloatAttr[AnyFloat])
    bias = prop_def(FloatAttr[AnyFloat])

    traits = traits_def(FreeScale())

    def infer_shapes(self) -> Sequence[Shape]:
        shape = shape_of(self.x)
        if not shape or self.size.value.data < 1:  # C1
            raise VerifyException(
                f"'{self.name}' needs channels and a size of at least 1, got {list(shape)} and {self.size.value.data}"
            )
        return [shape]

    def sample_axis(self, axes: Axes) -> int:
        return kept_axis(axes, [len(shape_of(self.x)) - 1])

    def neighbours(self) -> tuple[int, int]:
        """The numbers of channels before and after its own that the sum of a channel includes."""
        size = self.size.value.data
        return (size - 1) // 2, size // 2

    def quotient(self) -> PowerQuotient:
        """The division by a power that the integer form computes, in stored integers."""
        data, result = uniform(self.x), uniform(self.y)
        count, scale = min(self.size.value.data, shape_of(self.x)[-1]), Fraction(data.scale)
        return PowerQuotient(
            most=count * largest_difference(data) ** 2,
            unit=Fraction(self.alpha.value.data) / self.size.value.data * scale**2,
            bias=Fraction(self.bias.value.data),
            beta=self.beta.value.data,
            factor=data.scale / result.scale,
            accuracy=int(computed_storage(result.storage)[1:]),
        )

    def check_integer_form(self) -> None:
        self.quotient().check()

    def formula(self) -> "LocalResponse":
        """The function from an element and its sum of squares to the result."""
        return LocalResponse(self.alpha.value.data / self.size.value.data, self.bias.value.data, self.beta.value.data)

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        x = inputs[0].astype(np.float64)
        before, after = self.neighbours()
        channels = x.shape[-1]
        squares = np.pad(x * x, [*[(0, 0)] * (x.ndim - 1), (before, after)])
        total = np.zeros_like(x)
        for offset in range(before + after + 1):
            total += squares[..., offset : offset + channels]
        return (self.formula()(Lanes(x), Lanes(total)).array.astype(inputs[0].dtype),)


@irdl_op_definition
class RootQuotientOp(OperandPairOp):
    """y = lhs / √rhs on integers of 32 bits, as gemmlowp computes it; a divisor below 1 counts as 1.

    1 / √rhs is r · 2^−b, where r has 31 bits and comes from five steps of Newton's method. The product of lhs and r is
    rounded half up when 31 bits are dropped, and then half away from zero by the bits that b leaves.

    (C1) the shapes broadcast
    (C2) the elements are i32
    """

    name = "nn.root_quotient"
    ELEMENTS: ClassVar[Elements] = Elements.SIGNED
    WHY_FLOAT: ClassVar[str] = "it computes on plain integers only"

    def verify_(self) -> None:
        super().verify_()
        if element_of(self.lhs) != i32:  # C2
            raise VerifyException(f"'{self.name}' computes on i32, got {element_of(self.lhs)}")

    def formula(self, *operands: N) -> N:
        lhs, rhs = operands
        root, bits = inverse_root(rhs.to(I64).maximum(1))
        return half_away(product(lhs.to(I64), root), bits).to(I32)

"""Attention behind its scores: a softmax, and the matrix product that it weights."""

from collections.abc import Sequence
from fractions import Fraction
from math import ceil, log
from typing import Any, ClassVar

import numpy.typing as npt
from xdsl.dialects.builtin import IntegerAttr, TensorType, i64
from xdsl.irdl import irdl_op_definition, operand_def, result_def, traits_def
from xdsl.utils.exceptions import VerifyException

from qmlir.dialects.nn.base import Elements, NNOp
from qmlir.dialects.nn.contraction import MatMulOp
from qmlir.dialects.nn.normalization import SoftmaxOp
from qmlir.dialects.nn.quantizable import ACCUMULATOR_MAX, NARROW, Scales, Sums, uniform, widest
from qmlir.dialects.quant.rules import FreeScale
from qmlir.errors import UnsupportedError
from qmlir.ir.interfaces import Array, ComposedOp, Shape, matmul_shape, shape_of
from qmlir.ir.samples import Axes, matmul_axis

MOST_WEIGHT = (1 << 15) - 1
"""The finest exponentials: 1 in steps of 2^−15, less a step."""

LEAST_WEIGHT = (1 << 8) - 1
"""The coarsest exponentials, in steps of which 1 is an integer of 8 bits."""

BEHIND = log(2 * MOST_WEIGHT)
"""How far a score lies below the greatest of its row if its exponential is rounded to 0, whatever its steps are."""

BITS = 61
"""Bits of the dividend of the quotients."""

FRACTIONS = 10, 24
"""The fewest and the most fraction bits of the factor between the sums and the result."""


@irdl_op_definition
class AttendOp(NNOp, ComposedOp):
    """y[…,m,n] = Σ_k p[…,m,k] · v[…,k,n], where p is the softmax of x along its last axis.

    x [B…,M,K], v [B…,K,N], y [B…,M,N]; the leading dimensions broadcast. Composed of nn.softmax and nn.matmul; the
    integer form never stores p. With e = exp(x − m), m the maximum of a row, it is

        y = (Σ_k e[k] · v[k]) / Σ_k e[k]

    The exponentials are rounded to multiples of 1/`weight`: as many steps as sums of 32 bits hold. Both sums are
    exact, and one division rounds. The operands may have different storage types.

    (C1) both operands have rank 2 or more, agree on K, and K is not 0
    (C2) the leading dimensions broadcast
    """

    name = "nn.attend"
    ELEMENTS: ClassVar[Elements] = Elements.FLOATS | Elements.QUANTIZED
    INTEGER_FORM: ClassVar[tuple[str, ...]] = NARROW

    x = operand_def(TensorType)
    v = operand_def(TensorType)
    y = result_def(TensorType)

    traits = traits_def(FreeScale())
    assembly_format = "$x `,` $v attr-dict `:` type($x) `,` type($v) `->` type($y)"

    def infer_shapes(self) -> Sequence[Shape]:
        # C2, and of C1 the ranks and K:
        shape = matmul_shape(self, shape_of(self.x), shape_of(self.v))
        if not shape_of(self.x)[-1]:  # C1
            raise VerifyException(f"'{self.name}' has nothing to sum along the last axis of {list(shape_of(self.x))}")
        return [shape]

    def sample_axis(self, axes: Axes) -> int:
        return matmul_axis(axes, shape_of(self.x), shape_of(self.v))

    def parts(self) -> tuple[SoftmaxOp, MatMulOp]:
        softmax = SoftmaxOp.make([self.x], {"axis": IntegerAttr(len(shape_of(self.x)) - 1, i64)})
        return softmax, MatMulOp.make([softmax.y, self.v])

    def evaluate(self, *inputs: Array) -> tuple[Array, ...]:
        softmax, product = self.parts()
        try:
            return product.evaluate(*softmax.evaluate(inputs[0]), inputs[1])
        finally:
            product.erase()
            softmax.erase()

    def reads_as_stored(self, index: int) -> bool:
        return index == 0

    # -- the integer form ------------------------------------------------------------------------------------------

    def weight(self) -> int:
        """The integer that the exponential of a row's greatest score becomes: 32 bits hold the sums of products.

        Beside words that leave exponentials fewer digits than their own, these have all digits, and sums 64 bits.
        """
        most = max(widest(uniform(self.v)), 1)
        fits = ACCUMULATOR_MAX // (shape_of(self.x)[-1] * most)
        if uniform(self.v).storage_width > 8 and fits < most:
            return MOST_WEIGHT
        return max(min(fits, MOST_WEIGHT), LEAST_WEIGHT)

    def sums(self) -> Sums:
        bound = shape_of(self.x)[-1] * self.weight() * widest(uniform(self.v))
        return Sums.up_to(bound, "a sum of products")

    def ratios(self, scales: Scales) -> npt.NDArray[Any]:
        return scales(self.v) / scales(self.y)

    def offset(self) -> int:
        """A number that no quotient, in steps of the result, reaches below or above 0."""
        factor = Fraction(float(self.factors()[0])) + Fraction(1, 2 << FRACTIONS[0])  # as it may be rounded
        reach = ceil(widest(uniform(self.v)) * factor) + 1
        return 1 << reach.bit_length()

    def fraction(self) -> int:
        """The fraction bits of the factor between the scales: as many as the dividends leave room for.

        A dividend is below twice the sum of a row's exponentials, times twice the offset.
        """
        total = shape_of(self.x)[-1] * self.weight()
        return min(BITS - total.bit_length() - self.offset().bit_length() - 1, FRACTIONS[1])

    def unit(self) -> int:
        """The factor between the scales of v and the result, with `fraction` fraction bits."""
        return round(Fraction(float(self.factors()[0])) * (1 << self.fraction()))

    def check_integer_form(self) -> None:
        factor = float(self.factors()[0])
        if not factor < 1 << 18 or self.offset() > 1 << 19:
            raise UnsupportedError(
                f"its scales are a factor of {factor:g} apart, too far for a division", code="factor"
            )
        if self.fraction() < FRACTIONS[0] or not self.unit():
            count = shape_of(self.x)[-1]
            raise UnsupportedError(f"its sums of {count} products do not fit {BITS} bits", code="accumulator")

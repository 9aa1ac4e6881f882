"""Formulas of qint operations against exact arithmetic, where the integer oracle draws too few numbers."""

from fractions import Fraction

import numpy as np
import pytest

from qmlir.dialects.qint.elementwise import FloatAdd
from qmlir.dialects.qint.requantize import Narrow
from qmlir.numerics.elementary.lanes import I64, Lanes


@pytest.mark.slow
def test_float_addition_rounds_each_bracket_once() -> None:
    ratios, constant = (float(np.float32(0.37)), float(np.float32(1.61))), float(np.float32(-3.3))
    lhs, rhs = np.meshgrid(np.arange(-128, 128), np.arange(-128, 128))
    inner = [np.float32(Fraction(ratios[1]) * int(b) + Fraction(constant)) for b in np.arange(-128, 128)]
    outer = [[Fraction(ratios[0]) * int(a) + Fraction(float(i)) for a in lhs[0]] for i in inner]
    expected = [[int(np.rint(np.float32(number))) for number in row] for row in outer]
    add = FloatAdd(0, Narrow(0, -(1 << 31), (1 << 31) - 1, I64))
    got = add(*(Lanes(np.asarray(x)) for x in (lhs, rhs, *ratios, constant)))
    assert got.array.tolist() == expected

"""Quotients of integers without an integer division, which processors do not have for vectors."""

from qmlir.numerics.elementary.lanes import F64, I32, I64, N

MARGIN = 2.0**-20
"""What is taken off an estimated quotient, so that it does not exceed the quotient."""


def moderate_quotient(n: N, d: N) -> N:
    """⌊n / d⌋ of i64, for 0 ≤ n < 2^62, 0 < d < 2^62 and n / d < 2^30.

    The quotient is estimated in f64, where two conversions and a division round: the estimate is off by less than
    2^30 · 2^−51 = 2^−21. With `MARGIN` taken off, it lies below n / d, by less than 2^−19, so its whole part q is the
    quotient or one less: one less if and only if n − (q + 1) · d ≥ 0. That difference lies in [−d, d), so its sign bit
    decides.
    """
    above = (n.to(F64) / d.to(F64) - MARGIN).to(I32).to(I64) + 1
    return above + (n - above * d >> 63)

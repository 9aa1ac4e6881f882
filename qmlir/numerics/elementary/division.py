"""Quotients of integers by one divisor, without divisions for each: processors have no integer division of vectors."""

from qmlir.numerics.elementary.gemmlowp import leading_zeros
from qmlir.numerics.elementary.lanes import I32, I64, N

MARGIN = 1 << 32
"""What is taken off an estimated quotient in steps of 2^−41: 2^−9, so that it does not exceed the quotient."""


def reciprocal(d: N) -> tuple[N, N]:
    """Returns (r, s) for divisions by d of i64 with `divided`: about 2^61 / m, where m has the leading 31 bits of d.

    d lies in [2^10, 2^62), r in (2^30, 2^31).
    """
    beyond = d >> 31
    extra = beyond.equals(0).choose(0, 32 - leading_zeros(beyond))
    leading = d >> extra
    missing = leading_zeros(leading) - 1
    m = leading << missing
    return m.same(1 << 61).truncated_quotient(m).minimum((1 << 31) - 1), extra - missing + 20


def divided(n: N, d: N, r: N, s: N) -> N:
    """Returns ⌊n / d⌋ of i64, for (r, s) of `reciprocal` and 0 ≤ n / d < 2^20.

    With b the bits of d, s = b − 11. Let k = ⌊n / 2^s⌋, which is below 2^31. Then k · r · 2^−41 estimates n / d:
    cutting off d makes it larger by at most 2^−10, and cutting off n, rounding r down and limiting r make it smaller by
    at most 2^−10 each. With the margin of 2^−9 taken off, the estimate lies below n / d, by less than 2^−7. So its
    whole part q is the quotient or one less: one less if and only if n − (q + 1) · d ≥ 0. That difference lies in
    [−d, d), so its sign bit decides.
    """
    k = n.logical_shift(s).to(I32).to(I64)  # both factors have 32 bits, which makes the product one instruction
    above = (k * r.to(I32).to(I64) + ((1 << 41) - MARGIN)).logical_shift(41)
    return above + (n - above * d >> 63)

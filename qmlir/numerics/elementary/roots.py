"""Inverse square roots of integers of up to 62 bits, to 29 bits, without floats."""

from qmlir.numerics.elementary.lanes import N

PAIRS = (32, 16, 8, 4, 2)
"""Numbers of leading bits that may be shifted out together; all are even, so that a root loses half of them."""

SLOPE, START = 327149583, 2290047081
"""A line that differs from 1 / √t by at most 1/11 of it for t in [1, 4]: START − SLOPE · t, in steps of 2^−31."""

STEPS = 4
"""Steps of Newton's method; each squares the relative error and multiplies it by 3/2."""


def inverse_root(x: N) -> tuple[N, N]:
    """Returns (r, b) with 1 / √x = r · 2^(−31 − b) to within 2^−29 of it, for x of i64 in [1, 2^62).

    r lies in [2^30 − 2, 2^31), b in [0, 30]. x · 4^(30 − b) is t · 2^60 with t in [1, 4), of which the leading 32 bits
    are kept. From a line that approximates 1 / √t, Newton's method takes four steps r · (3 − t · r²) / 2.
    """
    pairs = x.same(0)
    for bits in PAIRS:
        room = x.less(1 << 62 - bits)
        x = room.choose(x << bits, x)
        pairs = room.choose(pairs + (bits >> 1), pairs)
    t = x >> 30
    r = START - (t * SLOPE >> 30)
    for _ in range(STEPS):
        square = r * r >> 31
        twice = (3 << 61) - t * square >> 31
        r = r * twice + (1 << 30) >> 31
    return r.minimum((1 << 31) - 1), 30 - pairs

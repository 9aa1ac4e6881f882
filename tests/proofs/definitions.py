"""What roundings mean, as facts about integers: y is x · 2^−bits rounded.

Each definition says which integers y are right, and says it without the arithmetic by which y is computed. It has a few
bits more than x, and demands that y · 2^bits fits them, so that nothing wraps around.
"""

import z3

from tests.proofs.bits import Term, Truth


def _above(x: Term, y: Term, bits: int) -> tuple[Term, Truth]:
    """How far y · 2^bits is above x, and whether it fits."""
    width = x.size() + 4
    wide, own = z3.SignExt(4, x), z3.SignExt(width - y.size(), y)
    shifted, most = own << bits, 1 << width - 3
    fits = z3.And(shifted >> bits == own, shifted < most, shifted > -most)
    return shifted - wide, fits


def down(x: Term, y: Term, bits: int) -> Truth:
    """y is the greatest integer that is not above x · 2^−bits."""
    above, fits = _above(x, y, bits)
    return z3.And(fits, above <= 0, above > -(1 << bits))


def half_up(x: Term, y: Term, bits: int) -> Truth:
    """y is the nearest integer, and of two that are as near the greater one."""
    above, fits = _above(x, y, bits)
    return z3.And(fits, 2 * above <= 1 << bits, 2 * above > -(1 << bits))


def half_away(x: Term, y: Term, bits: int) -> Truth:
    """y is the nearest integer, and of two that are as near the one of the greater magnitude."""
    above, fits = _above(x, y, bits)
    outward: Term = z3.If(x >= 0, above, -above)
    return z3.And(fits, 2 * outward <= 1 << bits, 2 * outward > -(1 << bits))


def half_even(x: Term, y: Term, bits: int) -> Truth:
    """y is the nearest integer, and of two that are as near the even one."""
    above, fits = _above(x, y, bits)
    nearest = z3.And(2 * above <= 1 << bits, 2 * above >= -(1 << bits))
    tie = z3.Or(2 * above == 1 << bits, 2 * above == -(1 << bits)) if bits else z3.BoolVal(False)
    return z3.And(fits, nearest, z3.Implies(tie, y & 1 == 0))


def clamped(x: Term, y: Term, bits: int) -> Truth:
    """y is the integer of `bits` bits that is nearest to x."""
    low, high = -(1 << bits - 1), (1 << bits - 1) - 1
    return z3.SignExt(x.size() - y.size(), y) == z3.If(x < low, low, z3.If(x > high, high, x))

"""The rounding contracts on Python's integers: round(a · m · 2^(s − 31)), and what they round off.

The definitions are those of docs/numerics.md. `narrow` raises an error where a step would not fit its width, so that a
result is a proof for these numbers; every contract rises with a, so the ends of an interval prove all of it.
"""

from collections.abc import Callable, Mapping
from fractions import Fraction

WIDE = (1 << 47) - 1
"""The largest accumulator of contracts for 64-bit sums."""


class OverflowsError(Exception):
    """Raised for a number that its width does not hold."""


def narrow(value: int, bits: int = 64) -> int:
    """Returns the value; raises OverflowsError if a signed integer of this width does not hold it."""
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise OverflowsError(f"{value} does not fit {bits} bits")
    return value


def _half_up(x: int, bits: int) -> int:
    return narrow(x + (1 << bits >> 1)) >> bits


def _half_away(x: int, bits: int) -> int:
    rounded = (abs(x) + (1 << bits >> 1)) >> bits
    return rounded if x >= 0 else -rounded


def _half_even(x: int, bits: int) -> int:
    below, rest = x >> bits, x & (1 << bits) - 1
    half = 1 << bits >> 1
    return below + (rest > half or (rest == half and bits > 0 and below % 2 == 1))


def _saturated(x: int) -> int:
    return min(max(x, -(1 << 31)), (1 << 31) - 1)


def _high(a: int, m: int, s: int) -> int:
    """The first step of the two-step contracts."""
    return _half_up(narrow(_saturated(narrow(a << max(s, 0))) * m), 31)


def _double(a: int, m: int, s: int) -> int:
    return _half_away(_high(a, m, s), max(-s, 0))


def _within(limit: int, rule: Callable[[int, int, int], int]) -> Callable[[int, int, int], int]:
    def limited(a: int, m: int, s: int) -> int:
        if abs(a) > limit:
            raise OverflowsError(f"{a} is beyond the contract's limit of {limit}")
        return rule(a, m, s)

    return limited


def _reduced(m: int) -> int:
    return min((m + (1 << 15)) >> 16, (1 << 15) - 1)


CONTRACTS: Mapping[str, Callable[[int, int, int], int]] = {
    "single": _within(3 << 30, lambda a, m, s: _half_up(narrow(a * m), 31 - s)),
    "shift": _within(3 << 30, lambda a, m, s: _half_up(narrow(a * m), 31 - s)),
    "away": _within(3 << 30, lambda a, m, s: _half_away(narrow(a * m), 31 - s)),
    "away16": _within(3 << 30, lambda a, m, s: _half_away(narrow(a * m), 31 - s)),
    "even": _within(3 << 30, lambda a, m, s: _half_even(narrow(a * m), 31 - s)),
    "double": _within(1 << 31, _double),
    "double64": _within(WIDE, lambda a, m, s: _double(_saturated(a), m, s)),
    "upup": _within(1 << 31, lambda a, m, s: _half_up(_high(a, m, s), max(-s, 0))),
    "updown": _within(1 << 31, lambda a, m, s: _high(a, m, s) >> max(-s, 0)),
    # These split the product: its high part has 31 bits less, and the low 16 bits of a are multiplied by themselves.
    "single64": _within(WIDE, lambda a, m, s: narrow((a * m + (1 << 31 - s >> 1)) >> (31 - s))),
    "away64": _within(WIDE, lambda a, m, s: narrow(_half_away(a * m, 31 - s))),
    "reduced16": _within(WIDE, lambda a, m, s: _half_up(narrow(a * _reduced(m)), 15 - s)),
}
"""The contracts on integers; those that round in floats are not among them."""

LIMITS = {
    **dict.fromkeys(("single", "shift", "away", "away16", "even"), 3 << 30),
    **dict.fromkeys(("double", "upup", "updown"), 1 << 31),
    **dict.fromkeys(("double64", "single64", "away64", "reduced16"), WIDE),
}
"""The largest accumulator of each contract."""


def rounded_off(contract: str, m: int, s: int, magnitude: int) -> Fraction:
    """The largest difference of a · m · 2^(s − 31) and the rounded product, for |a| ≤ `magnitude`."""
    right = max(-s, 0)
    if m == 0:
        return Fraction(0)
    # What a saturated first step cuts off; 32 bits end at 2^31 − 1 above zero.
    lost = Fraction(max(magnitude * (1 << max(s, 0)) - (1 << 31) + 1, 0) * m, 1 << 31 + right)
    if contract in ("double", "double64", "upup"):
        return Fraction(1, 2) + (Fraction(1, 2 << right) if right else 0) + lost
    if contract == "updown":
        return 1 - Fraction(1, 2 << right) + lost
    if contract == "reduced16":
        return Fraction(1, 2) + magnitude * Fraction(abs((_reduced(m) << 16) - m)) * Fraction(2) ** (s - 31)
    return Fraction(1, 2)

"""The rounding contracts on Python's integers: round(a · m · 2^(s − 31)), and what they round off.

The definitions are those of docs/numerics.md. `narrow` raises an error where a step would not fit its width, so that a
result is a proof for these numbers; every contract rises with a, so the ends of an interval prove all of it.
"""

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from itertools import chain

from qmlir.checker.ranges import Channels, Range, in_channel, spread
from qmlir.checker.unproven import UnprovenError

WIDE = (1 << 47) - 1
"""The largest accumulator of contracts for 64-bit sums."""


def narrow(value: int, bits: int = 64) -> int:
    """Returns the value; raises UnprovenError if a signed integer of this width does not hold it."""
    if not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise UnprovenError(f"{value}, beyond {bits} bits")
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


def _reduced(m: int) -> int:
    return min((m + (1 << 15)) >> 16, (1 << 15) - 1)


Contract = Callable[[int, int, int], int]


def _within(name: str) -> Contract:
    limit, rule = _FORMULAS[name]

    def limited(a: int, m: int, s: int) -> int:
        if abs(a) > limit:
            need = f"must have accumulators that contract {name} takes, within ±{limit}"
            raise UnprovenError(str(a), need, remedy="choose a contract for 64-bit accumulators, or a lower precision")
        return rule(a, m, s)

    return limited


_FORMULAS: Mapping[str, tuple[int, Contract]] = {
    "single": (3 << 30, lambda a, m, s: _half_up(narrow(a * m), 31 - s)),
    "shift": (3 << 30, lambda a, m, s: _half_up(narrow(a * m), 31 - s)),
    "away": (3 << 30, lambda a, m, s: _half_away(narrow(a * m), 31 - s)),
    "away16": (3 << 30, lambda a, m, s: _half_away(narrow(a * m), 31 - s)),
    "even": (3 << 30, lambda a, m, s: _half_even(narrow(a * m), 31 - s)),
    "double": (1 << 31, _double),
    "double64": (WIDE, lambda a, m, s: _double(_saturated(a), m, s)),
    "upup": (1 << 31, lambda a, m, s: _half_up(_high(a, m, s), max(-s, 0))),
    "updown": (1 << 31, lambda a, m, s: _high(a, m, s) >> max(-s, 0)),
    # These split the product: its high part has 31 bits less, and the low 16 bits of a are multiplied by themselves.
    "single64": (WIDE, lambda a, m, s: narrow((a * m + (1 << 31 - s >> 1)) >> (31 - s))),
    "away64": (WIDE, lambda a, m, s: narrow(_half_away(a * m, 31 - s))),
    "reduced16": (WIDE, lambda a, m, s: _half_up(narrow(a * _reduced(m)), 15 - s)),
}
"""The contracts on integers, each with its largest accumulator; those that round in floats are not among them."""

CONTRACTS: Mapping[str, Contract] = {name: _within(name) for name in _FORMULAS}
"""The formulas, which refuse accumulators beyond the contract's limit."""

LIMITS: Mapping[str, int] = {name: limit for name, (limit, _) in _FORMULAS.items()}
"""The largest accumulator of each contract."""

SCALES_REMEDY = (
    "quantize for a device that shifts far enough: "
    "--set quant.scale=mult-shift --set quant.round=half-up --set quant.shift.max=62"
)
"""The remedy where a device changes scales in floats."""


def contract_of(name: str) -> Contract:
    """The contract of this name.

    Raises:
        UnprovenError: It rounds in floats.
    """
    if name not in CONTRACTS:
        got = f"contract {name}, which rounds in float32"
        raise UnprovenError(got, "must change scales by integer instructions", remedy=SCALES_REMEDY)
    return CONTRACTS[name]


def requantized(
    name: str, accumulators: Channels, multipliers: Sequence[int], shifts: Sequence[int]
) -> tuple[Range, int]:
    """Rounds the ends of intervals by a contract.

    Args:
        name: The contract.
        accumulators: One interval, or one for each channel.
        multipliers: One multiplier, or one for each channel.
        shifts: Likewise.

    Returns:
        The interval of the rounded products, and how many times the accumulators could double before they leave the
        contract's limit.

    Raises:
        UnprovenError: The contract rounds in floats, or its integers may not fit.
    """
    rule, count, ends = contract_of(name), max(len(accumulators), len(multipliers)), list[int]()
    triples = zip(*(spread(each, count) for each in (accumulators, multipliers, shifts)), strict=True)
    for channel, (interval, m, s) in enumerate(triples):
        try:
            ends += [rule(a, m, s) for a in interval]
        except UnprovenError as error:
            raise UnprovenError(error.got + in_channel(channel, count), error.need, remedy=error.remedy) from None
    slack = LIMITS[name].bit_length() - max(map(abs, chain(*accumulators))).bit_length()
    return (min(ends), max(ends)), slack


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

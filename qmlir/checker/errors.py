"""How far results may be from real results, for operations that round by themselves, in Python's own fractions.

The bounds are those of docs/certificates.md. Exponentials are computed by Python's `decimal` to 25 digits.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal, localcontext
from fractions import Fraction
from math import ceil, floor
from typing import Any, cast

from qmlir.checker.deriver import Derived
from qmlir.checker.functions import CONTEXT, Budget, falling_exponentials
from qmlir.checker.intervals import interpolated, rows_of, tap_counts
from qmlir.checker.network import Network, Node
from qmlir.checker.normalizations import fraction_of_quotients
from qmlir.checker.rounding import rounded_off
from qmlir.checker.unproven import UnprovenError

Stated = Mapping[str, Any]

# The largest errors of gemmlowp's functions on 31 bits. tests/numerics/elementary/test_errors.py compares them with the
# functions' real values for every argument that there is (`make conformance`).

RECIPROCAL = Fraction(7)
"""The largest error of 1 / (1 + x) by three steps of Newton's method, in steps of 2^−31."""

ROOT = Fraction(2710, 1 << 31)
"""The largest relative error of an inverse root by five steps of Newton's method."""

LEAST_ROOT = 1 << 27
"""The least inverse root in 31 bits, before its power of two."""

LOGARITHM = Fraction(4)
"""The largest error of a logarithm, in steps of 2^−26."""

ENOUGH = 1 << 17
"""The reach of results from which on errors of quotients and norms are not stated."""


class _Rounding:
    """An operation, the ranges of its operands, and what a certificate states about its meaning."""

    def __init__(self, node: Node, found: Derived, network: Network, stated: Stated, budget: Budget):
        self.node, self.ranges, self.network, self.stated = node, found.operands, network, stated
        self.budget = budget

    def size(self, place: int, point: str) -> int:
        """The largest distance of an operand from its zero point."""
        zero = self.node.number(point)
        return max(abs(end - zero) for end in self.ranges[place])

    @property
    def reach(self) -> int:
        """The magnitude from which on results are clamped even after they are rounded."""
        zero = self.node.number("zero_point")
        return 1 + max(abs(self.node.properties[end] - zero) for end in ("min", "max"))

    @property
    def along(self) -> int:
        """The number of elements along the axis."""
        return self.network.values[self.node.operands[0]].shape[self.node.number("axis")]

    def factors(self) -> list[Fraction] | None:
        found = self.stated["factors"]
        return None if found is None else [Fraction(factor) for factor in found]


def _power(exponent: int) -> Fraction:
    return Fraction(2) ** exponent


def _mean(r: _Rounding) -> Fraction:
    if r.node.number("count_include_pad"):
        rows, columns = r.node.properties["window"]
        counts = {rows * columns}
    else:
        across, down = tap_counts(r.network, r.node)
        counts = {max(i * j, 1) for i in across for j in down}
    return max((Fraction(count // 2, count) for count in counts), default=Fraction(0))


# ---------------------------------------------------------------------------------------------------------------
# Sums


def _unlike(r: _Rounding, own: Sequence[Fraction]) -> Fraction:
    """What two stored factors cost where they differ from the real ones."""
    real = r.factors()
    if real is None:
        return Fraction(0)
    sizes = r.size(0, "lhs_zero_point"), r.size(1, "rhs_zero_point")
    cost = Fraction(0)
    for place in range(2):
        least, rest = min(own[place], real[place]), sizes[1 - place] * max(own[1 - place], real[1 - place])
        size = min(sizes[place], floor((r.reach + rest) / least)) if least > 0 else sizes[place]
        cost += size * abs(own[place] - real[place])
    return cost


def _add(r: _Rounding) -> Fraction:
    scale = _power(-r.node.number("shift"))
    return Fraction(1, 2) + _unlike(r, [abs(m) * scale for m in r.node.properties["multipliers"]])


def _rescaled_add(r: _Rounding) -> Fraction:
    ms, ss, left = r.node.properties["multipliers"], r.node.properties["shifts"], r.node.number("left")
    factors = [m * _power(s - 31) for m, s in zip(ms, ss, strict=True)]
    sizes = [r.size(0, "lhs_zero_point") << left, r.size(1, "rhs_zero_point") << left]
    inner = [rounded_off(r.node.properties["operand_contract"], ms[i], ss[i], sizes[i]) for i in range(2)]
    total = ceil(sum(size * factor + off for size, factor, off in zip(sizes, factors, inner, strict=False)))
    if factors[2]:
        total = min(total, ceil(r.reach / factors[2]))
    outer = rounded_off(r.node.properties["contract"], ms[2], ss[2], total)
    return outer + sum(inner) * factors[2] + _unlike(r, [f * factors[2] * _power(left) for f in factors[:2]])


# ---------------------------------------------------------------------------------------------------------------
# Quotients


def _division(r: _Rounding) -> Fraction | None:
    m, s, real = r.node.number("multiplier"), r.node.number("shift"), r.factors()
    zero = r.node.number("lhs_zero_point")
    if r.node.number("wraps"):
        dividend = max((n - zero).bit_length() if n >= zero else (zero - n - 1).bit_length() for n in r.ranges[0])
        least = 31 - dividend - s
        most = 31 + r.size(1, "rhs_zero_point").bit_length() - 1 - s
        if least < 0 or most > 31:
            return Fraction(r.node.properties["max"] - r.node.properties["min"])
    if r.reach > ENOUGH:
        return None
    if m == 0:
        return Fraction(0) if real is None else min(Fraction(r.reach), r.size(0, "lhs_zero_point") * real[0])
    off = Fraction(1, 2) + (1 + RECIPROCAL) * 4 * (r.reach + 1) / m
    if real is None:
        return off
    stored = m * _power(s - 31)
    if real[0] == 0:
        return off + r.reach
    return off + min(Fraction(r.reach), (r.reach + 1) * abs(stored - real[0]) / min(stored, real[0]))


def _norm(r: _Rounding) -> Fraction | None:
    if r.reach > ENOUGH:
        return None
    m, real = r.node.number("multiplier"), r.factors()
    stored = m * _power(r.node.number("shift") - 31)
    if r.node.properties["contract"] == "double":
        off = Fraction(3, 4) + stored * ROOT
    else:
        off = Fraction(1, 2) + stored * ((1 + ROOT) * (1 + _power(30) / (LEAST_ROOT * m)) - 1)
    return off if real is None else off + abs(stored - real[0])


# ---------------------------------------------------------------------------------------------------------------
# Exponentials


def _entries_off(r: _Rounding, table: Sequence[int], scale: float, one: Decimal) -> Fraction:
    """The largest error of e^(−d · scale) for all differences d that are reached, in steps of which `one` make 1."""
    if not scale > 0:
        raise UnprovenError(f"{scale}", "must have a scale above 0 in the certificate")
    last = _reached(r)
    r.budget.spend(last + 1)
    with localcontext(CONTEXT):
        step = Decimal(scale)
        exact = falling_exponentials(step, last + 1)
        return Fraction(max(abs(each * one - held) for each, held in zip(exact, table[: last + 1], strict=True)))


def _reached(r: _Rounding) -> int:
    low, high = r.ranges[0]
    return high - low


STEPS = {"exact": 30, "newton": 31, "interpolated": 15}
"""The fraction bits of exponentials, by how a softmax divides."""


def _softmax(r: _Rounding) -> Fraction | None:
    if (real := r.stated["factors"]) is None:
        return None
    way, table, count = r.node.properties["division"], r.node.properties["table"].values, r.along
    one, unit = table[0], Fraction(r.node.number("unit"), 1 << 12)
    off = _entries_off(r, table, real[0], Decimal(1 << STEPS[way]))
    error = Fraction(1, 2) + abs(unit - Fraction(real[1])) + unit * off * max(1, count - 1) / one
    if way == "newton":
        least = (one + (1 << 11)) // (1 << 12)
        sums = Fraction(count) / (2 * least)
        down = 12 - (32 - least.bit_length()) + 31 - (int(unit).bit_length() - 1)
        error += unit * (sums + (1 + sums) * RECIPROCAL * _power(-30)) + _power(-1 - max(down, 0))
    elif way == "interpolated":
        breakpoints = r.node.properties["inverse"].values
        r.budget.spend(1 << 16)
        lines = (
            abs(interpolated(breakpoints, p - (1 << 15)) - Fraction(1 << 31, (1 << 16) + p)) for p in range(1 << 16)
        )
        error += 1 + 2 * max(lines)
    return error


def _row_of_exponentials(r: _Rounding) -> Fraction | None:
    if (real := r.stated["factors"]) is None:
        return None
    table = r.node.properties["table"].values
    reached = [*table, *[table[-1]] * (_reached(r) + 1 - len(table))]
    return _entries_off(r, reached, real[0], Decimal(table[0]))


def _row_quotient(r: _Rounding) -> Fraction:
    """Half a step, and what the stored factor costs the largest quotient, which `offset` bounds."""
    real = r.factors()
    stored = r.node.number("unit") * _power(-r.node.number("fraction"))
    return Fraction(1, 2) + (0 if real is None else r.node.number("offset") * abs(stored - real[0]) / stored)


def _divide_rows(r: _Rounding) -> Fraction:
    """Half a step, what rounding the reciprocal down costs, and what stands for 1 where it is not the real factor."""
    limit, real = r.node.number("limit"), r.factors()
    fraction = fraction_of_quotients(limit, r.network.values[r.node.operands[0]].bits)
    off = Fraction(1, 2) + r.size(0, "zero_point") * _power(-fraction)
    return off if real is None else off + abs(limit - real[0])


def _log_softmax(r: _Rounding) -> Fraction | None:
    if (real := r.stated["factors"]) is None:
        return None
    table, last, bits = r.node.properties["table"].values, _reached(r), r.node.number("fraction", 26)
    part = r.along * _entries_off(r, table, real[0], Decimal(1 << 31 - r.node.number("integer_bits"))) / table[0]
    if part >= 1:
        return None
    given, scale = r.node.properties["differences"].values, Fraction(real[0])
    away = max(abs(given[d] - max(-d * scale * (1 << bits), Fraction(-(1 << 31)))) for d in range(last + 1))
    logarithm = (LOGARITHM + Fraction(1, 16)) * _power(bits - 26)
    return away + part / (1 - part) * (1 << bits) + logarithm + (Fraction(1, 2) if bits < 26 else 0)


# ---------------------------------------------------------------------------------------------------------------
# Weighted sums


def _weights_off(r: _Rounding, bits: Sequence[int]) -> Fraction:
    """What the rounding of weights costs sums of numbers in [−1, 1]."""
    total = Fraction(0)
    stored, real = r.node.properties["weights"], r.stated["weights"]
    rows: list[list[tuple[list[Fraction], list[Fraction]]]] = []
    for constant, b, given in zip(stored, bits, real, strict=True):
        own = [[w * _power(-b) for w in row] for row in rows_of(constant, constant.shape[1])]
        rows.append([(mine, [Fraction(w) for w in theirs]) for mine, theirs in zip(own, given, strict=True)])
    for place, axis in enumerate(rows):
        cost = max((sum(abs(w - v) for w, v in zip(*pair, strict=True)) for pair in axis), default=Fraction(0))
        for other, pairs in enumerate(rows):
            if other != place:
                way = 0 if other < place else 1
                cost *= max((sum(abs(w) for w in pair[way]) for pair in pairs), default=Fraction(0))
        total += cost
    return total


def _resize(r: _Rounding) -> Fraction | None:
    if r.stated["weights"] is None:
        return None
    bits, dropped = r.stated["bits"], r.node.number("dropped")
    off = _weights_off(r, bits) * r.size(0, "zero_point") * (1 << sum(bits))
    return off / (1 << dropped) + (1 if dropped else 0)


def _interpolate(r: _Rounding) -> Fraction:
    bits = r.node.properties["bits"]
    once = Fraction(1, 2) if any(bits) else Fraction(0)
    if r.stated["weights"] is None:
        return once
    point = r.stated["input_zero_point"]
    return once + _weights_off(r, bits) * max(abs(end - point) for end in r.ranges[0])


BOUNDS: Mapping[str, Callable[[_Rounding], Fraction | None]] = {
    "qint.add": _add,
    "qint.rescaled_add": _rescaled_add,
    "qint.div": _division,
    "qint.average_pool2d": _mean,
    "qint.softmax": _softmax,
    "qint.log_softmax": _log_softmax,
    "qint.exponentials": _row_of_exponentials,
    "qint.row_quotient": _row_quotient,
    "qint.divide_rows": _divide_rows,
    "qint.l2_normalization": _norm,
    "qint.resize": _resize,
    "qint.interpolate": _interpolate,
}
"""The operations that round by themselves; no other operation may have a bound of this kind."""


FACTORS = {
    **dict.fromkeys(("qint.add", "qint.rescaled_add", "qint.softmax"), 2),
    **dict.fromkeys(("qint.div", "qint.l2_normalization", "qint.log_softmax"), 1),
    **dict.fromkeys(("qint.exponentials", "qint.row_quotient", "qint.divide_rows"), 1),
}
"""The operations whose integers stand for real factors, and the number of these."""

WEIGHTS = {"qint.resize": "bits", "qint.interpolate": "input_zero_point"}
"""The operations whose integers stand for real weights, and the other field that is known with the weights."""


def meaning_of(node: Node, stated: Stated) -> Stated:
    """What a certificate states about the real numbers that an operation's integers stand for.

    Args:
        node: The operation, whose kind is in `BOUNDS`.
        stated: The certificate's field `rounding` of the operation.

    Raises:
        UnprovenError: It states other numbers of factors or weights than the operation has.
    """
    if (count := FACTORS.get(node.kind)) is not None:
        factors = stated.get("factors")
        if factors is not None and len(factors) != count:
            raise UnprovenError(f"{len(factors)}", f"must have {count} factors in the certificate")
        return {"factors": factors}
    if (other := WEIGHTS.get(node.kind)) is None:
        return {}
    weights, known = stated.get("weights"), stated.get(other)
    axes = len(node.properties["weights"])
    counts = {len(cast("list[Any]", each)) for each in (weights, known) if isinstance(each, list)}
    if (weights is None) != (known is None) or not counts <= {axes}:
        raise UnprovenError("others", f"must have weights for {axes} axes in the certificate")
    return {"weights": weights, other: known}


def largest_rounding_error(
    node: Node, found: Derived, network: Network, stated: Stated, budget: Budget
) -> Fraction | None:
    """The largest error of an operation that rounds by itself, in steps; None if the documentation states none.

    Args:
        node: The operation, whose kind is in `BOUNDS`.
        found: What follows for it.
        network: The network.
        stated: What `meaning_of` returns for it.
        budget: The entries of tables that may still be compared.
    """
    return BOUNDS[node.kind](_Rounding(node, found, network, stated, budget))

"""The checker's rules of softmax and of normalizations: their sums, roots and quotients fit the widths they have."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from math import floor, prod

from qmlir.checker.deriver import Derived, Deriver, Rule, all_of, entries, limited
from qmlir.checker.network import Node
from qmlir.checker.ranges import Range, Sums, require_fit, signed
from qmlir.checker.unproven import UnprovenError


def _exponentials(d: Deriver, node: Node) -> Derived:
    low, high = d.operand(node)
    largest, count = max(entries(node.properties["table"], 0, high - low)), d.shape(node)[node.number("axis")]
    total = (0, largest * count)
    if node.kind == "qint.log_softmax":
        require_fit([total], 63)
        return Derived([all_of(d.value(node.results[0]))], Sums.of([total], [total], 64))
    require_divisible(largest, count, node.number("unit"), str(node.properties["division"]))
    return limited(node, total, 64)


def require_divisible(largest: int, count: int, unit: int, division: str) -> None:
    """Raises UnprovenError unless the sums of a row of exponentials, and what is divided by them, fit their widths.

    Args:
        largest: The largest exponential.
        count: The number of elements of a row.
        unit: The number 1 in steps of the result, with 12 fraction bits.
        division: How the softmax divides.
    """
    total = largest * count
    if division == "exact":
        require_fit([(0, (total << 13) - 1)], 63)
        require_fit([(0, 2 * largest * unit + (total << 12))], 64)
    else:
        require_fit([(0, ((largest >> 12) + 1) * count if division == "newton" else total)], 32)


def _row_of_exponentials(d: Deriver, node: Node) -> Derived:
    (low, high), table = d.operand(node), node.properties["table"]
    found = entries(table, 0, min(high - low, len(table.values) - 1))
    return Derived([(min(found), max(found))])


def _row_quotient(d: Deriver, node: Node) -> Derived:
    """Of the sums of products by the weights that the divisor sums: no quotient is beyond the largest other factor."""
    acc, weights = node.operands
    made = next((n for n in d.network.nodes if acc in n.results), None)
    if made is None or made.kind != "qint.matmul" or made.operands[0] != weights or made.number("lhs_zero_point"):
        raise UnprovenError("other numbers", "must divide sums of products by the sum of their weights")
    shares = next((n for n in d.network.nodes if weights in n.results), None)
    if shares is None or shares.kind != "qint.exponentials" or shares.properties["table"].values[0] < 1:
        raise UnprovenError("0 for the greatest score", "must have a weight of at least 1 in each row")
    (least, most), (low, high) = d.operand(node, 1), d.operand(made, 1, "rhs_zero_point")
    unit, fraction, offset = (node.number(key) for key in ("unit", "fraction", "offset"))
    if least < 0 or offset > 1 << 19 or max(-low, high) * unit > offset << fraction or fraction < 9:
        raise UnprovenError(f"factors {low} to {high}", f"must have quotients below {offset}")
    total = (0, d.value(weights).shape[-1] * most)
    require_fit([(0, total[1] * (4 * offset + 1) << fraction)], 63)
    return limited(node, total, 64)


def _row_magnitudes(d: Deriver, node: Node) -> Derived:
    low, high = d.operand(node, 0, "zero_point")
    least = max(low, -high, 0)
    return Derived([(min(least, (1 << 31) - 1), min(max(-low, high), (1 << 31) - 1))])


def _divide_rows(d: Deriver, node: Node) -> Derived:
    """No element times the reciprocal of its row's magnitude is beyond limit · 2^fraction, however large the row is."""
    (low, high), limit = d.operand(node, 0, "zero_point"), node.number("limit")
    if limit < 1 or limit > signed(d.value(node.results[0]).bits)[1]:
        raise UnprovenError(f"a limit of {limit}")
    fraction = fraction_of_quotients(limit, d.value(node.operands[0]).bits)
    require_fit([(-(limit << fraction), (limit << fraction) + (1 << fraction - 1))], 64)
    return Derived([(-limit if low < 0 else 0, limit if high > 0 else 0)])


def fraction_of_quotients(limit: int, bits: int) -> int:
    """The fraction bits of the reciprocals by which `qint.divide_rows` multiplies rows of so many bits."""
    return (31 if bits <= 16 and limit < 1 << 8 else 62) - limit.bit_length()


def _squares(d: Deriver, node: Node, count: int) -> int:
    """The largest sum of so many squares of the operand, less its zero point."""
    low, high = d.operand(node, 0, "input_zero_point")
    return count * max(low**2, high**2)


def _l2(d: Deriver, node: Node) -> Derived:
    return limited(node, (0, _squares(d, node, d.shape(node)[node.number("axis")])), 32)


def _layer_norm(d: Deriver, node: Node) -> Derived:
    (low, high), count = d.operand(node), _normalized(d, node)
    largest = max(-low, high)
    require_fit([(0, count * largest << 31)], 64)  # the sum of a row times a factor of 31 bits
    return _over_root(node, (count * largest) ** 2, max(count - 1, 1), Fraction(max(count - 1, 1), count**2))


def _rms_norm(d: Deriver, node: Node) -> Derived:
    return _over_root(node, _squares(d, node, _normalized(d, node)), 1, Fraction(1))


def _normalized(d: Deriver, node: Node) -> int:
    """The number of elements that are normalized together."""
    return prod(d.shape(node)[node.number("axis") : node.number("end")])


def _over_root(node: Node, most: int, least: int, reach: Fraction) -> Derived:
    multiplier, shift, fraction, epsilon = (node.number(key) for key in ("multiplier", "shift", "fraction", "epsilon"))
    root = Root(multiplier, shift, fraction, epsilon, most, least, reach)
    return limited(node, root.radicands(), 63)


@dataclass(frozen=True)
class Root:
    """The numbers of d · M / √(D · 2^fraction + epsilon), M = multiplier · 2^(shift − 31).

    least, most  D is 0, or from `least` to `most`
    reach        d² is at most D · reach
    """

    multiplier: int
    shift: int
    fraction: int
    epsilon: int
    most: int
    least: int
    reach: Fraction

    def radicands(self) -> Range:
        """The interval of the numbers of which the root is taken, which 63 bits have to hold.

        The root of a number of 2b + 2 bits, or of one bit less, has b + 1 bits; so many bits are behind the point of
        its inverse, beside the 31 of the inverse itself.

        Raises:
            UnprovenError: Factors of elements or their quotients do not fit their widths.
        """
        if self.multiplier >> 31 or min(self.multiplier, self.epsilon) < 0:
            raise UnprovenError(f"a multiplier of {self.multiplier} or an epsilon of {self.epsilon}")
        fraction, factor = Fraction(2) ** self.fraction, self.multiplier * Fraction(2) ** (self.shift - 31)
        least, most = (floor(squares * fraction) + self.epsilon for squares in (self.least, self.most))
        require_fit([(0, most)], 63)
        behind = (max(least, 1).bit_length() + 1) // 2 - 1 + 31 - self.shift
        if behind < 1 or factor**2 * self.reach >= fraction * (1 << 60):
            raise UnprovenError(f"quotients times {factor}, beyond 32 bits")
        return 0, most


def _local_response(d: Deriver, node: Node) -> Derived:
    low, high = d.operand(node, 0, "input_zero_point")
    width, fraction, bias = node.number("bits"), Fraction(2) ** node.number("fraction"), node.number("bias")
    total = _squares(d, node, min(node.number("before") + node.number("after") + 1, d.shape(node)[-1]))
    require_fit([(0, total)], 63)
    found = limited(node, (0, floor(total * fraction) + bias), width + 1)
    breakpoints, factors, shifts = (node.properties[key].values for key in ("breakpoints", "multipliers", "shifts"))
    segments = len(breakpoints) - 1
    if bias < 0 or segments < 1 or segments & segments - 1 or segments.bit_length() > width:
        raise UnprovenError(f"a bias of {bias} or {segments} segments of a sum of {width} bits")
    if not len(factors) == len(shifts) == width or not 1 <= min(shifts) <= max(shifts) <= 62:
        raise UnprovenError(f"{len(factors)} factors and {len(shifts)} shifts for {width} bits")
    if min(*breakpoints, *factors) < 0 or max(breakpoints) > 1 << 30 or max(factors) >> 31:
        raise UnprovenError("breakpoints beyond 2^30 or factors beyond 31 bits")
    half = 1 << max(shifts) - 1
    require_fit([((low << 30) + min(low, 0), (high << 30) + half)], 64)
    return found


NORMALIZATIONS: Mapping[str, Rule] = {
    **dict.fromkeys(("qint.softmax", "qint.log_softmax"), _exponentials),
    "qint.exponentials": _row_of_exponentials,
    "qint.row_quotient": _row_quotient,
    "qint.row_magnitudes": _row_magnitudes,
    "qint.divide_rows": _divide_rows,
    "qint.l2_normalization": _l2,
    "qint.layer_norm": _layer_norm,
    "qint.rms_norm": _rms_norm,
    "qint.local_response_normalization": _local_response,
}
"""The rules by operation."""

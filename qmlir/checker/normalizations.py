"""The checker's rules of softmax and of normalizations: their sums, roots and quotients fit the widths they have."""

from collections.abc import Mapping
from fractions import Fraction
from math import floor, prod

from qmlir.checker.deriver import Derived, Deriver, Rule, all_of, entries, less, limits, one, require_fit, sums_of
from qmlir.checker.network import Node
from qmlir.checker.rounding import OverflowsError


def _exponentials(d: Deriver, node: Node) -> Derived:
    low, high = d.operand(node, 0)
    reached = entries(node.properties["table"], 0, high - low)
    count = d.value(node.operands[0]).shape[node.number("axis")]
    total = one((0, max(reached) * count))
    _require_softmax(node, max(reached), count)
    result = all_of(d.value(node.results[0])) if node.kind == "qint.log_softmax" else limits(d, node).range
    return Derived(one(result), sums_of(total, total, 64).sums)


def _require_softmax(node: Node, largest: int, count: int) -> None:
    """Checks the numbers that a softmax derives from its sum."""
    if node.kind == "qint.log_softmax":
        require_fit(63, one((0, largest * count)))
    elif node.properties["division"] == "exact":
        unit = node.number("unit")
        require_fit(63, one((0, (largest * count << 13) - 1)))
        require_fit(64, one((0, 2 * largest * unit + (largest * count << 12))))
    else:
        term = (largest >> 12) + 1 if node.properties["division"] == "newton" else largest
        require_fit(32, one((0, term * count)))


def _l2(d: Deriver, node: Node) -> Derived:
    low, high = less(d.operand(node, 0), node.number("input_zero_point"))
    total = one((0, max(low**2, high**2) * d.value(node.operands[0]).shape[node.number("axis")]))
    return Derived(limits(d, node).channels, sums_of(total, total, 32).sums)


def _layer_norm(d: Deriver, node: Node) -> Derived:
    (low, high), count = d.operand(node, 0), _normalized(d, node)
    largest = max(-low, high)
    require_fit(64, one((0, count * largest << 31)))  # the sum of a row times a factor of 31 bits
    return _over_root(d, node, (count * largest) ** 2, max(count - 1, 1), Fraction(max(count - 1, 1), count**2))


def _rms_norm(d: Deriver, node: Node) -> Derived:
    low, high = less(d.operand(node, 0), node.number("input_zero_point"))
    return _over_root(d, node, _normalized(d, node) * max(low**2, high**2), 1, Fraction(1))


def _normalized(d: Deriver, node: Node) -> int:
    """The number of elements that are normalized together."""
    return prod(d.value(node.operands[0]).shape[node.number("axis") : node.number("end")])


def _over_root(d: Deriver, node: Node, most: int, least: int, reach: Fraction) -> Derived:
    """Of d · M / √(D · 2^fraction + epsilon), D either 0 or from `least` to `most`, and d² at most D · reach.

    The root of a number of 2b + 2 bits, or of one bit less, has b + 1 bits; so many bits are behind the point of its
    inverse, beside the 31 of the inverse itself.
    """
    multiplier, shift, epsilon = (node.number(key) for key in ("multiplier", "shift", "epsilon"))
    fraction = Fraction(2) ** node.number("fraction")
    radicand = one((0, floor(most * fraction) + epsilon))
    if multiplier >> 31 or min(multiplier, epsilon) < 0:
        raise OverflowsError(f"a multiplier of {multiplier} or an epsilon of {epsilon}")
    summed = sums_of(radicand, radicand, 63)
    bits = max(floor(least * fraction) + epsilon, 1).bit_length()
    factor = multiplier * Fraction(2) ** (shift - 31)
    if (bits + 1) // 2 - 1 + 31 - shift < 1 or factor**2 * reach >= fraction * (1 << 60):
        raise OverflowsError(f"quotients that {factor} multiplies do not fit 32 bits")
    return Derived(limits(d, node).channels, summed.sums)


def _local_response(d: Deriver, node: Node) -> Derived:
    low, high = less(d.operand(node, 0), node.number("input_zero_point"))
    width, fraction, bias = node.number("bits"), Fraction(2) ** node.number("fraction"), node.number("bias")
    count = min(node.number("before") + node.number("after") + 1, d.value(node.operands[0]).shape[-1])
    total = count * max(low**2, high**2)
    require_fit(63, one((0, total)))
    base = one((0, floor(total * fraction) + bias))
    summed = sums_of(base, base, width + 1)
    knots, factors, shifts = (node.properties[key].values for key in ("knots", "multipliers", "shifts"))
    segments = len(knots) - 1
    if bias < 0 or segments < 1 or segments & segments - 1 or segments.bit_length() > width:
        raise OverflowsError(f"a bias of {bias} or {segments} segments of a sum of {width} bits")
    if not len(factors) == len(shifts) == width or not 1 <= min(shifts) <= max(shifts) <= 62:
        raise OverflowsError(f"{len(factors)} factors and {len(shifts)} shifts for {width} bits")
    if min(*knots, *factors) < 0 or max(knots) > 1 << 30 or max(factors) >> 31:
        raise OverflowsError("knots beyond 2^30 or factors beyond 31 bits")
    half = 1 << max(shifts) - 1
    require_fit(64, one(((low << 30) + min(low, 0), (high << 30) + half)))
    return Derived(limits(d, node).channels, summed.sums)


NORMALIZATIONS: Mapping[str, Rule] = {
    **dict.fromkeys(("qint.softmax", "qint.log_softmax"), _exponentials),
    "qint.l2_normalization": _l2,
    "qint.layer_norm": _layer_norm,
    "qint.rms_norm": _rms_norm,
    "qint.local_response_normalization": _local_response,
}
"""The rules by operation."""

"""How far results are from real results, for operations that round by themselves: sums, quotients, means, softmax.

Each bound is in steps of the result and holds for all operands in their intervals. docs/certificates.md states the
bounds; here is why they hold. Clamping two numbers to a range brings them no farther apart, so an error before the
clamp bounds the error behind it, and numbers that lie beyond the range on the same side have no error at all. `reach`
is the magnitude from which on a number before the zero point is added lies beyond the range even after it is rounded.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from xdsl.ir import Operation

from qmlir.analysis.certify.intervals import Interval
from qmlir.analysis.certify.rounding import in_steps, rounding_error
from qmlir.dialects import nn, qint
from qmlir.dialects.interpolation import InterpolationOp
from qmlir.dialects.nn.quantizable import QuantizableOp, uniform
from qmlir.dialects.qint.normalization import FRACTION, SUM_BITS
from qmlir.dialects.qint.requantize import NarrowingOp
from qmlir.ir.interfaces import Array
from qmlir.ir.registry import Registry
from qmlir.lowering.nn_to_qint.convert import signed
from qmlir.numerics import tables
from qmlir.numerics.elementary.gemmlowp import LEAST_ROOT, LOGARITHM_BITS, LOGARITHM_ERROR, RECIPROCAL_ERROR, ROOT_ERROR
from qmlir.numerics.elementary.lanes import Lanes

HALF = Fraction(1, 2)

LARGEST_REACH = 1 << 17
"""Errors of quotients and norms are stated for results of up to 16 bits."""


@dataclass(frozen=True)
class Rounded:
    """What is proved about an operation that rounds by itself.

    meaning   the real numbers that the integers stand for, from the network before its lowering; null where not known
    error     the largest error in steps of the result; None if none is stated
    """

    meaning: Mapping[str, Any]
    error: Fraction | None

    def as_dict(self) -> dict[str, Any]:
        """The fields for JSON."""
        return {**self.meaning, "error": None if self.error is None else in_steps(self.error)}


def rounded(op: Operation, data: Sequence[Interval], source: Operation | None) -> Rounded | None:
    """What is proved about the rounding of an operation; None if it does not round, or its requantization tells.

    Args:
        op: The operation on integers.
        data: The intervals of its operands.
        source: The operation on quantized types that it was made from, if it is known.
    """
    rule = ERRORS.get(type(op))
    return None if rule is None else rule(op, data, source)


def _factors(source: Operation | None, count: int) -> list[float] | None:
    if not isinstance(source, QuantizableOp):
        return None
    factors = [float(factor) for factor in source.factors()]
    return factors if len(factors) == count else None


def _reach(op: NarrowingOp) -> int:
    point = op.zero_point.value.data
    return max(abs(op.lower.value.data - point), abs(op.upper.value.data - point)) + 1


def _magnitude(data: Interval, point: int = 0) -> int:
    return max(abs(data.low - point), abs(data.high - point))


def _mean(op: qint.AveragePool2DOp, data: Sequence[Interval], source: Operation | None) -> Rounded:
    """A mean of n elements is a multiple of 1/n, so it is at most ⌊n/2⌋ of these from an integer."""
    counts = np.unique(op.counts()).tolist()
    return Rounded({}, max((Fraction(n // 2, n) for n in counts), default=Fraction(0)))


# ---------------------------------------------------------------------------------------------------------------
# Sums of two operands


def _misfit(
    op: qint.AddOp | qint.RescaledAddOp, data: Sequence[Interval], own: Sequence[Fraction], real: Any
) -> Fraction:
    """What the difference of stored and real factors costs, |a| · |m_a − M_a| + |b| · |m_b − M_b|.

    An operand counts up to the magnitude at which its term exceeds `reach` whatever the other operand is.
    """
    if real is None:
        return Fraction(0)
    magnitudes = [_magnitude(i, z) for i, z in zip(data, op.zero_points(), strict=True)]
    pairs = [(stored, Fraction(factor)) for stored, factor in zip(own, real, strict=True)]
    total = Fraction(0)
    for this, other in ((0, 1), (1, 0)):
        magnitude, least = magnitudes[this], min(pairs[this])
        if least:
            magnitude = min(magnitude, math.floor((_reach(op) + magnitudes[other] * max(pairs[other])) / least))
        total += magnitude * abs(pairs[this][0] - pairs[this][1])
    return total


def _add(op: qint.AddOp, data: Sequence[Interval], source: Operation | None) -> Rounded:
    own = [Fraction(abs(m), 1 << op.shift.value.data) for m in op.multipliers.get_values()]
    factors = _factors(source, 2)
    return Rounded({"factors": factors}, HALF + _misfit(op, data, own, factors))


def _rescaled_add(op: qint.RescaledAddOp, data: Sequence[Interval], source: Operation | None) -> Rounded:
    """The roundings of both operands, in steps of the result, and that of their sum."""
    left, multipliers, shifts = op.left.value.data, op.multipliers.get_values(), op.shifts.get_values()
    stored = [m * Fraction(2) ** (s - 31) for m, s in zip(multipliers, shifts, strict=True)]
    inner, total = Fraction(0), Fraction(0)
    for index, (interval, point) in enumerate(zip(data, op.zero_points(), strict=True)):
        magnitude = _magnitude(interval, point) << left
        error = rounding_error(op.operand_contract.data, multipliers[index], shifts[index], magnitude)
        if error is None:
            return Rounded({"factors": None}, None)
        inner, total = inner + error, total + magnitude * stored[index] + error
    most = math.ceil(total)
    if stored[2]:
        most = min(most, math.ceil(_reach(op) / stored[2]))
    outer = rounding_error(op.contract.data, multipliers[2], shifts[2], most)
    factors = _factors(source, 2)
    if outer is None:
        return Rounded({"factors": factors}, None)
    own = [stored[index] * stored[2] * (1 << left) for index in (0, 1)]
    return Rounded({"factors": factors}, outer + inner * stored[2] + _misfit(op, data, own, factors))


# ---------------------------------------------------------------------------------------------------------------
# Quotients


def _quotient(op: qint.DivOp, data: Sequence[Interval], source: Operation | None) -> Rounded:
    """x / y · M for y ≠ 0: the reciprocal and two products are rounded in steps of 2^−d of a result, then the result.

    Before it is rounded, the number that is shifted right by d is at least m / 4 in magnitude, so such a step is at
    most 4 · (reach + 1) / m of a result that is not clamped. It is off by 1 + e, where e is the reciprocal's error.
    """
    factors, m, shift = _factors(source, 1), op.multiplier.value.data, op.shift.value.data
    reach, (x, y) = _reach(op), (i.moved(-z) for i, z in zip(data, op.zero_points(), strict=True))
    if bool(op.wraps) and not _shifts_as_written(x, _magnitude(y), shift):
        return Rounded({"factors": factors}, Fraction(op.upper.value.data - op.lower.value.data))
    if reach > LARGEST_REACH:
        return Rounded({"factors": factors}, None)
    if not m:
        real = 0 if factors is None else Fraction(factors[0])
        return Rounded({"factors": factors}, min(Fraction(reach), _magnitude(x) * Fraction(real)))
    error = HALF + (1 + RECIPROCAL_ERROR) * Fraction(4 * (reach + 1), m)
    if factors is not None:
        stored, real = m * Fraction(2) ** (shift - 31), Fraction(factors[0])
        error += min((reach + 1) * abs(stored - real) / min(stored, real), Fraction(reach)) if real else reach
    return Rounded({"factors": factors}, error)


def _shifts_as_written(x: Interval, divisor: int, shift: int) -> bool:
    """Whether no shift of a quotient has another count modulo 32, so that a processor executes it as it is written."""
    bits = max((n if n >= 0 else ~n).bit_length() for n in (x.low, x.high))
    return bits + shift <= 31 and divisor.bit_length() - 1 <= shift


def _norm(op: qint.L2NormalizationOp, data: Sequence[Interval], source: Operation | None) -> Rounded:
    """x / √S · M, whose magnitude is at most M: errors of the root are relative.

    Under `single`, the product of root and multiplier is rounded, which changes it by half of LEAST_ROOT · m / 2^31 at
    most, and the result is rounded once. Under `double`, the result is rounded twice, first to quarters if at all.
    """
    m, stored = op.multiplier.value.data, op.multiplier.value.data * Fraction(2) ** (op.shift.value.data - 31)
    real = None if source is None else [1 / uniform(source.results[0]).scale]
    if _reach(op) > LARGEST_REACH:
        return Rounded({"factors": real}, None)
    if op.contract.data == "single":
        error = HALF + stored * ((1 + ROOT_ERROR) * (1 + Fraction(1 << 30, LEAST_ROOT * m)) - 1)
    else:
        error = Fraction(3, 4) + stored * ROOT_ERROR
    return Rounded({"factors": real}, error + (0 if real is None else abs(stored - Fraction(real[0]))))


# ---------------------------------------------------------------------------------------------------------------
# Exponentials and their sums


def _table_error(table: Array, scale: float, bits: int, differences: int) -> Fraction:
    """The largest error of the entries up to a difference, in steps of 2^−bits."""
    exact = np.ldexp(np.exp(-np.arange(differences + 1) * scale), bits)
    return Fraction(float(np.abs(table[: differences + 1] - exact).max()))


def _softmax(op: qint.SoftmaxOp, data: Sequence[Interval], source: Operation | None) -> Rounded:
    """e · U / Σ e. With entries off by t at most, a quotient is off by t · max(1, n − 1) / e_0, as Σ e ≥ e_0.

    exact         is rounded once
    newton        rounds each term of the sum S, which makes S off by n / 2; the reciprocal has an error, and so has its
                  product with e, in steps of 2^−d of a result
    interpolated  interpolates 1 / (1 + x), where x is off by 2^−16 at most
    """
    if source is None:
        return Rounded({"factors": None}, None)
    scale, result = uniform(source.operands[0]).scale, uniform(source.results[0]).scale
    division, table, count = op.division.data, op.table.array, op.split()[1]
    bits = {"exact": 30, "newton": 31, "interpolated": 15}[division]
    unit, first = Fraction(op.unit.value.data, 1 << FRACTION), int(table[0])
    entries = _table_error(table, scale, bits, data[0].high - data[0].low)
    error = HALF + abs(unit - Fraction(1 / result)) + unit * entries * max(1, count - 1) / first
    if division == "newton":
        least = (first + (1 << SUM_BITS - 1)) >> SUM_BITS
        sums = Fraction(count, 2 * least)
        down = SUM_BITS - (32 - least.bit_length()) + 31 - (unit.numerator.bit_length() - 1)
        error += unit * (sums + (1 + sums) * RECIPROCAL_ERROR / (1 << 30)) + Fraction(1, 2 << max(down, 0))
    elif op.inverse is not None:
        error += 1 + 2 * _inverse_error(op.inverse.array)
    return Rounded({"factors": [scale, 1 / result]}, error)


def _inverse_error(knots: Array) -> Fraction:
    """The largest error of 1 / (1 + x), interpolated for each x in steps of 2^−16, in steps of 2^−15."""
    places, wide = np.arange(1 << 16), knots.astype(np.int64)
    found = tables.between_knots(Lanes(places), lambda at: Lanes(wide[at.array])).array
    return Fraction(float(np.abs(found - (1 << 15) / (1 + places / (1 << 16))).max()))


def _log_softmax(op: qint.LogSoftmaxOp, data: Sequence[Interval], source: Operation | None) -> Rounded:
    """d − ln Σ e: the errors of the difference, of the sum's entries, of the logarithm, and of its last rounding.

    With entries off by t at most, the sum is off by a part u = n · t / e_0, and its logarithm by u / (1 − u). Sums of
    more than 31 bits lose what is below 2^−30 of them, which is 1/16 of the logarithm's step.
    """
    if source is None:
        return Rounded({"factors": None}, None)
    scale, fraction, reached = uniform(source.operands[0]).scale, op.fraction.value.data, data[0].high - data[0].low
    part = op.split()[1] * _table_error(op.table.array, scale, 31 - op.integer_bits.value.data, reached)
    part /= int(op.table.array[0])
    if part >= 1:
        return Rounded({"factors": [scale]}, None)
    exact = np.maximum(-np.arange(reached + 1) * scale * (1 << fraction), -float(1 << 31))
    difference = Fraction(float(np.abs(op.differences.array[: reached + 1] - exact).max()))
    logarithm = (LOGARITHM_ERROR + Fraction(1, 16)) / (1 << LOGARITHM_BITS - fraction)
    last = HALF if fraction < LOGARITHM_BITS else Fraction(0)
    return Rounded({"factors": [scale]}, difference + (part / (1 - part)) * (1 << fraction) + logarithm + last)


# ---------------------------------------------------------------------------------------------------------------
# Weighted sums of neighbours


def _real_weights(op: InterpolationOp, source: Operation | None) -> list[Any] | None:
    """The real weights of each axis; None if the source is not known, or reads other neighbours."""
    if not isinstance(source, nn.ResizeOp):
        return None
    pairs = list(zip(op.tables(), source.tables(), strict=False))
    if len(pairs) != len(op.tables()) or any(not np.array_equal(a[1], b[1]) for a, b in pairs):
        return None
    return [weights.tolist() for _, _, weights in source.tables()]


def _of_weights(stored: Sequence[Array], bits: Sequence[int], real: Sequence[Any]) -> Fraction:
    """The most that weighted sums of numbers in [−1, 1] change with weights: axis by axis, the others at their most."""
    changes, norms = list[Fraction](), list[tuple[Fraction, Fraction]]()
    for own, b, rows in zip(stored, bits, real, strict=True):
        parts = [[Fraction(int(w), 1 << b) for w in row] for row in own]
        reals = [[Fraction(w) for w in row] for row in rows]
        differences = [sum(abs(w - r) for w, r in zip(*pair, strict=True)) for pair in zip(parts, reals, strict=True)]
        changes.append(Fraction(max(differences, default=0)))
        most = [Fraction(max((sum(map(abs, row)) for row in each), default=0)) for each in (parts, reals)]
        norms.append((most[0], most[1]))
    before, behind = ([n[way] for n in norms] for way in (0, 1))
    each = (math.prod(before[:k]) * change * math.prod(behind[k + 1 :]) for k, change in enumerate(changes))
    return sum(each, Fraction(0))


def _resize(op: qint.ResizeOp, data: Sequence[Interval], source: Operation | None) -> Rounded:
    """Sums are exact; only their weights are rounded, to multiples of 2^−b along each axis."""
    weights = _real_weights(op, source)
    if weights is None or not isinstance(source, nn.ResizeOp):
        return Rounded({"weights": None, "bits": None}, None)
    stored = [w for _, _, w in op.tables()]
    bits = [source.fixed_weights()[0]] * len(stored)
    magnitude = _magnitude(data[0], op.zero_point.value.data)
    return Rounded(
        {"weights": weights, "bits": bits}, _of_weights(stored, bits, weights) * magnitude * (1 << sum(bits))
    )


def _interpolate(op: qint.InterpolateOp, data: Sequence[Interval], source: Operation | None) -> Rounded:
    """A weighted mean, rounded once; its weights are rounded to multiples of 2^−b along each axis."""
    bits, weights = op.bits.get_values(), _real_weights(op, source)
    error = HALF if any(bits) else Fraction(0)
    if weights is None or source is None:
        return Rounded({"weights": None, "input_zero_point": None}, error)
    point = signed(uniform(source.operands[0])).zero_point
    error += _of_weights([w for _, _, w in op.tables()], bits, weights) * _magnitude(data[0], point)
    return Rounded({"weights": weights, "input_zero_point": point}, error)


ERRORS: Registry[Callable[[Any, Sequence[Interval], Operation | None], Rounded]] = Registry({
    qint.AddOp: _add,
    qint.RescaledAddOp: _rescaled_add,
    qint.DivOp: _quotient,
    qint.AveragePool2DOp: _mean,
    qint.SoftmaxOp: _softmax,
    qint.LogSoftmaxOp: _log_softmax,
    qint.L2NormalizationOp: _norm,
    qint.ResizeOp: _resize,
    qint.InterpolateOp: _interpolate,
})  # fmt: skip
"""The bound of each operation that rounds by itself."""

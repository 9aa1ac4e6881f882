"""Quotients by reciprocals are exact, ⌊n / d⌋: proved for all n and d that `divided` takes.

The proof has three parts. Bits: for a divisor of b bits, `reciprocal` returns the numbers that its documentation names.
Reals: whatever these numbers are, the estimate lies below n / d by less than 2^−7. Bits again: from an estimate that
is the quotient or one more, the sign of the rest selects the quotient.
"""

from typing import Any

import pytest
import z3

from qmlir.numerics.elementary.division import MARGIN, divided, reciprocal
from qmlir.numerics.elementary.gemmlowp import half_away, leading_zeros
from tests.conftest import THOROUGH
from tests.proofs import definitions
from tests.proofs.bits import Proof

WIDTHS = range(11, 63)
"""The bits of divisors in [2^10, 2^62)."""


@pytest.mark.parametrize("bits", WIDTHS if THOROUGH else (11, 30, 31, 32, 33, 47, 62))
def test_reciprocals_are_those_of_the_leading_bits(bits: int) -> None:
    """m has 31 bits, m · 2^e ≤ d < (m + 1) · 2^e, s = e + 20 = b − 11, and r = min(⌊2^61 / m⌋, 2^31 − 1)."""
    proof = Proof()
    d = proof.unknown("d", (1 << bits - 1, (1 << bits) - 1))
    r, s = reciprocal(d)
    (quotient,) = proof.products  # of 2^61 and m
    m, e = quotient.lhs, bits - 31
    leading = z3.And(m << e <= d.term, d.term - (m << e) < 1 << e) if e >= 0 else m == d.term << -e
    most = (1 << 31) - 1
    claims = [
        quotient.rhs == 1 << 61,
        m >= 1 << 30,
        m < 1 << 31,
        leading,
        s.term == bits - 11,
        r.term == z3.If(quotient.value < most, quotient.value, most),
    ]
    assert proof.counterexample(z3.And(*claims)) is None


def _estimate(margin: float) -> tuple[z3.Solver, Any]:
    """Facts about real numbers, and how far the estimate k · r · 2^−41 − margin lies below Q = n / d.

    With x = n / 2^s and t = d / 2^e: Q = x · 2^20 / t. Rounding down makes k > x − 1 and r > 2^61 / m − 1; where
    m = 2^30, the limit of r takes off 1 exactly. For an e below 0, t = m.
    """
    solver = z3.SolverFor("QF_NRA")
    numbers: Any = z3.Reals("k r m t q")
    k, r, m, t, q = numbers
    x = q * t / 2**20
    solver.add(m >= 2**30, m < 2**31, t >= m, t < m + 1, q >= 0, q < 2**20)
    solver.add(k >= 0, k <= x, k > x - 1, r >= 0, r * m <= 2**61, (r + 1) * m >= 2**61)
    return solver, q - (k * r / 2**41 - z3.RealVal(margin))


@pytest.mark.parametrize("part", ["below", "near"])
def test_the_estimate_is_below_the_quotient_and_near(part: str) -> None:
    solver, below = _estimate(MARGIN / 2**41)
    solver.add(below <= 0 if part == "below" else below >= z3.Q(1, 128))
    assert solver.check() == z3.unsat


def test_a_smaller_margin_is_refuted() -> None:
    """Without a margin the estimate may lie above the quotient, by what is cut off the divisor."""
    solver, below = _estimate(0)
    solver.add(below <= 0)
    assert solver.check() == z3.sat


def _selected(proof: Proof, formula: Any) -> tuple[Any, Any]:
    """The result for an estimate k · r, and the quotient that it should be.

    The two products are unknown: E = k · r, and T = (quotient or one more) · d. With D the product of quotient and d,
    n − D lies in [0, d), and T is D or D + d: one more than the whole part of an estimate below n / d by less than 2^−7
    is the quotient or one more.
    """
    d, n, q = proof.unknown("d", (1 << 10, (1 << 62) - 1)), proof.unknown("n", (0, (1 << 62))), z3.BitVec("q", 64)
    k, r = proof.unknown("r", (0, (1 << 31) - 1)), proof.unknown("s", (20, 51))
    y = formula(n, d, k, r)
    _, taken = proof.products
    above, own = taken.lhs, z3.BitVec("D", 64)
    proof.assumed += [q >= 0, q < 1 << 20, own >= 0, own <= n.term, n.term - own < d.term]
    proof.assumed += [z3.UGE(n.term, own), z3.LShR(n.term, r.term) < 1 << 31]
    exact, more = z3.And(above == q, taken.value == own), z3.And(above == q + 1, taken.value == own + d.term)
    proof.assumed.append(z3.Or(exact, more))
    return y.term, q


FACTORS = [((0, (1 << 31) - 1), (0, (1 << 31) - 1)), ((0, 1 << 20), (0, (1 << 62) - 1))]


def test_the_rest_selects_the_quotient() -> None:
    proof = Proof(FACTORS, bounded={1: (0, (1 << 63) - 1)})
    y, q = _selected(proof, divided)
    assert proof.counterexample(y == q) is None


def test_an_estimate_that_is_taken_as_it_is_is_refuted() -> None:
    def unchecked(n: Any, d: Any, r: Any, s: Any) -> Any:
        above = (n.logical_shift(s) * r + ((1 << 41) - MARGIN)).logical_shift(41)
        return above + ((n - above * d) & 0)

    proof = Proof(FACTORS, bounded={1: (0, (1 << 63) - 1)})
    y, q = _selected(proof, unchecked)
    assert proof.counterexample(y == q) is not None


def test_leading_zeros() -> None:
    """x has 32 − z bits: 2^(31 − z) ≤ x < 2^(32 − z)."""
    proof = Proof()
    x = proof.unknown("x", (1, (1 << 32) - 1))
    zeros = _leading_zeros(x)
    one = z3.BitVecVal(1, 64)
    claim = z3.And(zeros >= 0, zeros < 32, one << (31 - zeros) <= x.term, x.term < one << (32 - zeros))
    proof.owed.clear()  # bits of the shifted copy that leave 32 bits are shifted out on purpose
    assert proof.counterexample(claim) is None


def _leading_zeros(x: Any) -> Any:
    return leading_zeros(x).term


@pytest.mark.parametrize("bits", range(63) if THOROUGH else (0, 1, 17, 62))
def test_half_away(bits: int) -> None:
    """x · 2^−bits, halves away from zero, of every x of 62 bits."""
    proof = Proof()
    x = proof.unknown("x", (-(1 << 62), 1 << 62))
    y = half_away(x, bits)
    assert proof.counterexample(definitions.half_away(x.term, y.term, bits)) is None

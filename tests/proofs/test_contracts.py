"""The rounding contracts are what they are called: proved for all accumulators, multipliers and shifts.

For every contract on integers and every shift (`make test` takes some of the shifts), a solver proves that the formula
of numerics/contracts.py, in 64 bits, has the result that the definition demands over unbounded integers, and that no
intermediate result overflows. P is the product of accumulator and multiplier, any number in its range.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pytest
import z3

from qmlir.checker.rounding import CONTRACTS as CHECKED
from qmlir.numerics import contracts, fixed_point
from qmlir.numerics.contracts import CONTRACTS, MULTIPLIER_BITS, WIDE_LIMIT, Contract
from qmlir.numerics.elementary import gemmlowp
from qmlir.numerics.elementary.lanes import Lanes
from qmlir.numerics.fixed_point import LEAST_MULTIPLIER, MIN_SHIFT, MOST_MULTIPLIER
from tests.conftest import THOROUGH
from tests.proofs import definitions
from tests.proofs.bits import WIDE, Product, Proof, Range, Term, Truth, whole

MULTIPLIERS = (0, MOST_MULTIPLIER)
WORD = (-(1 << 31), (1 << 31) - 1)
SHORT = (0, (1 << 15) - 1)

Meaning = Callable[[Proof, "Arguments", Term], Sequence[Truth]]
"""(the proof with its products, the arguments, the result) → what has to hold."""


@dataclass(frozen=True)
class Arguments:
    """The arguments of a contract: the shift is a number, and the sign of the accumulator is known."""

    a: Term
    multiplier: Term
    shift: int
    negative: bool

    @property
    def right(self) -> int:
        return max(-self.shift, 0)


def _is(product: Product, lhs: Term, rhs: Term) -> Truth:
    return z3.And(product.lhs == lhs, product.rhs == rhs)


def _once(rounding: Callable[..., Truth]) -> Meaning:
    """One rounding of P · 2^(s − 31), P = a · m."""

    def meaning(proof: Proof, given: Arguments, y: Term) -> Sequence[Truth]:
        (product,) = proof.products
        return [_is(product, given.a, given.multiplier), rounding(product.value, y, MULTIPLIER_BITS - given.shift)]

    return meaning


def _twice(second: Callable[..., Truth], saturated: bool = False) -> Meaning:
    """P · 2^−31 rounded half up, then · 2^−max(−s, 0), P = clamp(a · 2^max(s, 0)) · m; of clamp(a) if `saturated`."""

    def meaning(proof: Proof, given: Arguments, y: Term) -> Sequence[Truth]:
        (product,) = proof.products
        a: Term = whole(given.a)
        high = z3.BitVec("high", 64)
        if saturated:
            a = z3.If(a < WORD[0], z3.BitVecVal(WORD[0], WIDE), z3.If(a > WORD[1], z3.BitVecVal(WORD[1], WIDE), a))
        proof.assumed.append(definitions.half_up(product.value, high, 31))  # there is one such number
        shifted = definitions.clamped(a << max(given.shift, 0), product.lhs, 32)
        return [shifted, product.rhs == given.multiplier, second(high, y, given.right)]

    return meaning


def _split(proof: Proof, given: Arguments, y: Term) -> Sequence[Truth]:
    """P · 2^(s − 31) rounded half up, P = (h · 2^16 + l) · m, where h · 2^16 + l = a."""
    total, same = _joined(proof, given, given.a)
    return [same, definitions.half_up(total, y, MULTIPLIER_BITS - given.shift)]


def _split_away(proof: Proof, given: Arguments, y: Term) -> Sequence[Truth]:
    """P · 2^(s − 31) rounded half away from zero, |P| = (h · 2^16 + l) · m, where h · 2^16 + l = |a|."""
    total, same = _joined(proof, given, -given.a if given.negative else given.a)
    exact = -total if given.negative else total
    proof.assumed.append(exact <= 0 if given.negative else exact >= 0)
    return [same, definitions.half_away(exact, y, MULTIPLIER_BITS - given.shift)]


def _joined(proof: Proof, given: Arguments, a: Term) -> tuple[Term, Truth]:
    """The product of a number in two parts and the multiplier, and whether the parts are those of a."""
    high, low = proof.products
    total = (whole(high.value) << 16) + whole(low.value)
    parts = whole(a) == (whole(high.lhs) << 16) + whole(low.lhs)
    return total, z3.And(parts, high.rhs == given.multiplier, low.rhs == given.multiplier)


def _reduced(proof: Proof, given: Arguments, y: Term) -> Sequence[Truth]:
    """P · 2^(s − 15) rounded half up, P = a · r, r = min(m · 2^−16 rounded half up, 2^15 − 1)."""
    (product,) = proof.products
    short = z3.BitVec("short", 64)
    proof.assumed.append(definitions.half_up(given.multiplier, short, 16))
    r = z3.If(short > SHORT[1], z3.BitVecVal(SHORT[1], 64), short)
    return [_is(product, given.a, r), definitions.half_up(product.value, y, 15 - given.shift)]


def _ranges(limit: int) -> Sequence[tuple[Range, Range]]:
    return [((-limit, limit), MULTIPLIERS)]


NARROW = _ranges(3 << 30)
TWO_STEPS = [(WORD, MULTIPLIERS)]
HALVES = [(WORD, MULTIPLIERS), ((0, 0xFFFF), MULTIPLIERS)]

DEFINITIONS: dict[str, tuple[Meaning, Sequence[tuple[Range, Range]]]] = {
    "single": (_once(definitions.half_up), NARROW),
    "shift": (_once(definitions.half_up), NARROW),
    "away": (_once(definitions.half_away), NARROW),
    "away16": (_once(definitions.half_away), NARROW),
    "even": (_once(definitions.half_even), NARROW),
    "double": (_twice(definitions.half_away), TWO_STEPS),
    "upup": (_twice(definitions.half_up), TWO_STEPS),
    "updown": (_twice(definitions.down), TWO_STEPS),
    "double64": (_twice(definitions.half_away, saturated=True), TWO_STEPS),
    "single64": (_split, HALVES),
    "away64": (_split_away, [((0, WORD[1]), MULTIPLIERS), HALVES[1]]),
    "reduced16": (_reduced, [((-WIDE_LIMIT, WIDE_LIMIT), SHORT)]),
}
"""Contract → its definition, and the ranges of the factors in its formula."""


def counterexample(name: str, contract: Contract, shift: int) -> z3.ModelRef | None:
    """Arguments and products for which a contract's formula is not what its definition says; None if there are none."""
    meaning, factors = DEFINITIONS[name]
    for within in ((0, contract.limit), (-contract.limit, -1)):
        proof = Proof(factors)
        a, m = proof.unknown("a", within), proof.unknown("m", MULTIPLIERS)
        y = contract(a, m, proof.number(shift))
        claims = meaning(proof, Arguments(a.term, m.term, shift, within[0] < 0), y.term)
        if (found := proof.counterexample(z3.And(*claims))) is not None:
            return found
    return None


SHIFTS = 1 if THOROUGH else 12
"""How far apart shifts are; `make conformance` proves all."""


def test_every_contract_on_integers_has_a_definition() -> None:
    assert set(DEFINITIONS) == {name for name, contract in CONTRACTS.items() if not contract.in_floats}


@pytest.mark.slow
@pytest.mark.parametrize("name", DEFINITIONS)
def test_contracts_are_their_definitions(name: str) -> None:
    contract = CONTRACTS[name]
    for shift in sorted({*range(MIN_SHIFT, contract.max_shift, SHIFTS), -1, 0, 1, contract.max_shift}):
        assert counterexample(name, contract, shift) is None, f"shift {shift}"


# ---------------------------------------------------------------------------------------------------------------
# Proofs can fail: wrong formulas are refuted, by arguments that are wrong indeed


def _without_half(a: Any, multiplier: Any, shift: Any) -> Any:
    return (a * multiplier) >> (MULTIPLIER_BITS - shift)


def _rounds_down_on_ties(a: Any, multiplier: Any, shift: Any) -> Any:
    bits = MULTIPLIER_BITS - shift
    half = (a.same(1) << bits).logical_shift(1)
    return (a * multiplier + (half - 1)) >> bits


def _up_instead_of_away(a: Any, multiplier: Any, shift: Any) -> Any:
    return contracts.half_up(gemmlowp.product(contracts.left(a, shift), multiplier), contracts.right(shift))


def _does_not_saturate(a: Any, multiplier: Any, shift: Any) -> Any:
    return gemmlowp.half_away(gemmlowp.product(a << shift.maximum(0), multiplier), contracts.right(shift))


def _never_evens(a: Any, multiplier: Any, shift: Any) -> Any:
    return contracts.half_up(a * multiplier, MULTIPLIER_BITS - shift)


def _loses_the_carry(a: Any, multiplier: Any, shift: Any) -> Any:
    bits = MULTIPLIER_BITS - shift
    half = (a.same(1) << bits).logical_shift(1)
    return ((a >> 16) * multiplier + (((a & 0xFFFF) * multiplier) >> 16) + (half >> 16)) >> (bits - 16)


def _half_of_another_width(a: Any, multiplier: Any, shift: Any) -> Any:
    reduced = ((multiplier + (1 << 14)) >> 16).minimum((1 << 15) - 1)
    return contracts.half_up(a * reduced, 15 - shift)


MUTANTS = [
    ("single", _without_half, -3),
    ("single", _rounds_down_on_ties, -3),
    ("away", contracts.single, -3),
    ("even", _never_evens, -3),
    ("double", _up_instead_of_away, -3),
    ("double", _does_not_saturate, 2),
    ("upup", contracts.double, -3),
    ("updown", contracts.upup, -3),
    ("double64", contracts.double, 30),
    ("single64", _loses_the_carry, 15),
    ("away64", contracts.single64, -3),
    ("reduced16", _half_of_another_width, -3),
]


@pytest.mark.parametrize(("name", "formula", "shift"), MUTANTS)
def test_wrong_formulas_are_refuted(name: str, formula: Callable[..., Any], shift: int) -> None:
    mutant = replace(CONTRACTS[name], formula=formula)
    assert counterexample(name, CONTRACTS[name], shift) is None
    assert counterexample(name, mutant, shift) is not None


@pytest.mark.parametrize(("name", "formula"), [("single", _without_half), ("away", contracts.single)])
def test_a_counterexample_is_one(name: str, formula: Callable[..., Any]) -> None:
    """With the multiplier 2^30, products are shifts: the solver names an accumulator at which both formulas differ."""
    shift, mutant = -3, replace(CONTRACTS[name], formula=formula)
    proof = Proof(None)
    a = proof.unknown("a", (-mutant.limit, mutant.limit))
    y = mutant(a, proof.number(1 << 30), proof.number(shift))
    definition = definitions.half_up if name == "single" else definitions.half_away
    found = proof.counterexample(definition(a.term << 30, y.term, MULTIPLIER_BITS - shift))
    assert found is not None
    number = cast(Any, found[a.term]).as_signed_long()
    wrong = int(mutant(*(Lanes(np.array(n, np.int64)) for n in (number, 1 << 30, shift))).array)
    assert wrong != CHECKED[name](number, 1 << 30, shift)


def test_an_overflow_is_refuted() -> None:
    """One more bit of the accumulator overflows the sum of product and half."""
    proof = Proof([((-(1 << 32), 1 << 32), (0, 1 << 31))])
    with pytest.raises(AssertionError, match="a product leaves 64 bits"):
        contracts.single(proof.unknown("a", (-(1 << 32), 1 << 32)), proof.unknown("m", MULTIPLIERS), proof.number(0))
    wide = replace(CONTRACTS["single"], limit=(1 << 32) - 1)
    proof = Proof([((-wide.limit, wide.limit), MULTIPLIERS)])
    wide(proof.unknown("a", (-wide.limit, wide.limit)), proof.unknown("m", MULTIPLIERS), proof.number(-31))
    assert proof.counterexample(z3.BoolVal(True)) is not None


# ---------------------------------------------------------------------------------------------------------------
# All accumulators of 8 and 16 bits, on arrays, and by the checker


def _exactly(x: int, bits: int, name: str) -> int:
    """x · 2^−bits, rounded once."""
    floor, rest = divmod(x, 1 << bits)
    if 2 * rest != 1 << bits:
        return floor + (2 * rest > 1 << bits)
    if name in ("away", "away16", "away64"):
        return floor + (x > 0)
    return floor + (floor % 2 if name == "even" else 1)


def _defined(name: str, a: int, m: int, s: int) -> int:
    """What a contract computes, by Python's integers."""
    if name in ("double", "double64", "upup", "updown"):
        high = _exactly(min(max(a << max(s, 0), WORD[0]), WORD[1]) * m, 31, "up")
        last = {"upup": "up", "updown": "down"}.get(name, "away")
        return high >> max(-s, 0) if last == "down" else _exactly(high, max(-s, 0), last)
    if name == "reduced16":
        return _exactly(a * min(_exactly(m, 16, "up"), SHORT[1]), 15 - s, "up")
    return _exactly(a * m, 31 - s, name)


def _multipliers(contract: Contract) -> list[int]:
    every = (LEAST_MULTIPLIER, 1 << 30, 1518500250, MOST_MULTIPLIER)
    if contract.step == 1 << 30:
        return [1 << 30]
    return [max(m // contract.step * contract.step, LEAST_MULTIPLIER) for m in every]


@pytest.mark.parametrize("name", DEFINITIONS)
def test_bytes_are_rounded_as_defined(name: str) -> None:
    """All accumulators of 8 bits, at all shifts: the formula, the checker and the definition agree."""
    contract, a = CONTRACTS[name], np.arange(-128, 128)
    for m in _multipliers(contract):
        for s in range(MIN_SHIFT, contract.max_shift + 1):
            expected = [_defined(name, int(n), m, s) for n in a]
            assert fixed_point.requantize(a, m, s, name).tolist() == expected
            assert [CHECKED[name](int(n), m, s) for n in a] == expected


@pytest.mark.parametrize("name", DEFINITIONS)
def test_words_of_16_bits_are_rounded_as_defined(name: str) -> None:
    """All accumulators of 16 bits, at shifts for which results fill 8 or 16 bits."""
    contract, a = CONTRACTS[name], np.arange(-(1 << 15), 1 << 15)
    for m in _multipliers(contract)[-2:-1] or [1 << 30]:
        for s in (-8, 0, 1):
            expected = [_defined(name, int(n), m, s) for n in a]
            assert fixed_point.requantize(a, m, s, name).tolist() == expected
            assert [CHECKED[name](int(n), m, s) for n in a] == expected

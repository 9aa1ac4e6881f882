"""The checker's arithmetic against qmlir's: two independent witnesses."""

import math
from decimal import Context, Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from xdsl.dialects.builtin import BoolAttr, FloatAttr, f32

from qmlir.checker.functions import DIGITS, FUNCTIONS, PAIRS, changes_storage
from qmlir.checker.rounding import CONTRACTS, LIMITS, rounded_off
from qmlir.checker.unproven import UnprovenError
from qmlir.dialects.nn.elementwise import FunctionOp
from qmlir.dialects.nn.functions import FUNCTIONS as OURS
from qmlir.numerics import contracts, fixed_point

RNG = np.random.default_rng(7)


def test_the_checker_knows_every_contract_on_integers() -> None:
    assert set(CONTRACTS) == set(LIMITS) == {n for n, c in contracts.CONTRACTS.items() if not c.in_floats}
    assert all(limit == contracts.CONTRACTS[name].limit for name, limit in LIMITS.items())


@pytest.mark.parametrize("name", CONTRACTS)
def test_contracts_are_equal(name: str) -> None:
    rule = contracts.CONTRACTS[name]
    worst = Fraction(0)
    for _ in range(300):
        m = int(RNG.integers(1 << 29, 1 << 31)) // rule.step * rule.step or 1 << 30
        s = int(RNG.integers(-31, rule.max_shift + 1))
        a = int(RNG.integers(-rule.limit, rule.limit) >> RNG.integers(0, 40))
        if rule.step == 1 << 30:
            m = 1 << 30
        expected = int(fixed_point.requantize(np.array([a]), m, s, name)[0])
        assert CONTRACTS[name](a, m, s) == expected
        error = abs(expected - a * m * Fraction(2) ** (s - 31))
        assert error <= rounded_off(name, m, s, abs(a))
        if abs(a << max(s, 0)) < 1 << 31:  # else the first step saturates
            worst = max(worst, error)
    assert worst > Fraction(2, 5)


def test_contracts_refuse_what_is_beyond_their_limits() -> None:
    for name, limit in LIMITS.items():
        with pytest.raises(UnprovenError):
            CONTRACTS[name](limit + 1, 1 << 30, 0)


PARAMETERS = {"alpha": 0.75, "beta": 0.5, "gamma": 1.25, "tanh": True, "bias": 0.25, "threshold": 0.5}

POINTS = (*RNG.normal(size=20) * 2, -7.5, -1.0, -1e-3, 0.25, 1.0, 7.5)


@pytest.mark.parametrize("kind", [op for op in OURS if op.name in FUNCTIONS], ids=lambda op: op.name)
def test_functions_are_equal(kind: type[FunctionOp]) -> None:
    names = [name for name in kind.get_irdl_definition().properties if name in PARAMETERS]
    parameters = {name: PARAMETERS[name] for name in names}
    op = kind.create(
        properties={
            name: BoolAttr.from_bool(value) if isinstance(value, bool) else FloatAttr(value, f32)
            for name, value in parameters.items()
        }
    )
    clamp = kind.name == "nn.clamp"  # a table's clamp does what is left of these two
    for x in map(float, POINTS):
        ours = x if clamp else float(op.scalar(np.array([x]))[0])
        if not math.isfinite(ours) or (kind.name == "nn.rsqrt" and x <= 0):
            continue
        with localcontext(Context(prec=DIGITS)):
            theirs = float(FUNCTIONS[kind.name](Decimal(x), parameters))
        theirs = max(theirs, 0.0) if kind.name == "nn.relu" else theirs
        assert theirs == pytest.approx(ours, rel=1e-13, abs=1e-15)


def test_functions_at_the_ends_of_their_domains() -> None:
    assert FUNCTIONS["nn.log"](Decimal(0), {}) == -math.inf
    assert FUNCTIONS["nn.rsqrt"](Decimal(0), {}) == FUNCTIONS["nn.reciprocal"](Decimal(0), {}) == math.inf
    assert FUNCTIONS["nn.erf"](Decimal(-9), {}) == -1


def test_functions_without_a_value() -> None:
    assert FUNCTIONS["nn.acosh"](Decimal("0.5"), {}) == 0
    assert FUNCTIONS["nn.atanh"](Decimal(-2), {}) == -math.inf
    assert PAIRS["nn.div"](Decimal(0), Decimal(0), {}) is None
    assert PAIRS["nn.div"](Decimal(-3), Decimal(0), {}) == -math.inf


def test_storage_changes() -> None:
    flipped = [*range(0, 128), *range(-128, 0)]
    assert changes_storage(flipped)
    assert not changes_storage([*flipped[1:], 0])

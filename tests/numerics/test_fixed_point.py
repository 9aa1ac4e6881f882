"""Fixed point against Python's unbounded integers and fractions."""

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from qmlir.checker.rounding import CONTRACTS as CHECKED
from qmlir.numerics import contracts, fixed_point
from qmlir.numerics.fixed_point import NumericsError

INT8 = (-128, 127)

# quantize and dequantize.


def quantized_exactly(x: float, scale: float, zero_point: int) -> int:
    """Equation 3 on the float64 quotient, in fractions."""
    quotient = np.float64(x) / np.float64(scale)
    if np.isinf(quotient):
        return INT8[1] if quotient > 0 else INT8[0]
    return min(max(round(Fraction(float(quotient))) + zero_point, INT8[0]), INT8[1])


@given(
    st.floats(width=32, allow_nan=False, allow_infinity=False),
    st.floats(2.0**-40, 2.0**40, width=32),
    st.integers(-128, 127),
)
def test_quantize(x: float, scale: float, zero_point: int) -> None:
    with np.errstate(over="ignore"):
        want = quantized_exactly(x, scale, zero_point)
    got = fixed_point.quantize(np.array([x], np.float32), scale, zero_point, *INT8, np.int8)
    assert got.dtype == np.int8
    assert got.tolist() == [want]


def test_quantize_ties_and_extremes() -> None:
    """Ties go to the even integer before the zero point is added; NaN is the zero point, clamped."""
    x = np.array([0.5, 1.5, 2.5, -0.5, -1.5, np.nan, np.inf, -np.inf, 3e38, -3e38])
    assert fixed_point.quantize(x, 1.0, 1, *INT8, np.int8).tolist() == [1, 3, 3, 1, -1, 1, 127, -128, 127, -128]
    assert fixed_point.quantize(x[5:6], 1.0, 300, *INT8, np.int8).tolist() == [127]
    wide = fixed_point.quantize(np.array([1e30, -1e30]), 1e-30, 0, -(2**31), 2**31 - 1, np.int32)
    assert wide.tolist() == [2**31 - 1, -(2**31)]


def test_per_axis_parameters_broadcast() -> None:
    x = np.ones((2, 3), np.float32)
    scale, zero_point = np.array([[1.0], [0.5]]), np.array([[0], [10]])
    q = fixed_point.quantize(x, scale, zero_point, *INT8, np.int8)
    assert q.tolist() == [[1, 1, 1], [12, 12, 12]]
    assert fixed_point.dequantize(q, scale, zero_point).tolist() == x.tolist()


@pytest.mark.parametrize(
    ("shape", "of_scale"),
    [
        ((70, 1001), ()),  # one scale, and more elements than a block has
        ((70, 1001), (70, 1)),  # a scale for each row, some rows a block
        ((70, 1001), (1001,)),  # a scale for each column, the same in all blocks
        ((2, 70_000), (2, 1)),  # rows longer than a block
        ((3, 70, 11, 31), (1, 70, 1, 1)),
        ((0, 70_000), (1, 70_000)),
    ],
)
def test_large_arrays_are_computed_in_blocks(shape: tuple[int, ...], of_scale: tuple[int, ...]) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype(np.float32)
    scale, zero_point = rng.uniform(0.01, 0.1, of_scale), rng.integers(-128, 128, of_scale)
    q = fixed_point.quantize(x, scale, zero_point, *INT8, np.int8)
    np.testing.assert_array_equal(q, np.clip(np.rint(x.astype(np.float64) / scale) + zero_point, *INT8), strict=False)
    assert (q.shape, q.dtype) == (shape, np.int8)
    real = fixed_point.dequantize(q, scale, zero_point)
    np.testing.assert_array_equal(real, ((q.astype(np.int64) - zero_point) * scale).astype(np.float32), strict=True)


@given(st.integers(-(2**31), 2**31 - 1), st.integers(-128, 127), st.floats(2.0**-60, 2.0**60, width=32))
def test_dequantize(q: int, zero_point: int, scale: float) -> None:
    got = fixed_point.dequantize(np.array([q], np.int32), scale, zero_point)
    assert got.dtype == np.float32
    assert got[0] == np.float32(float((q - zero_point) * Fraction(scale)))


def test_quantize_returns_to_where_it_came_from() -> None:
    q = np.arange(-128, 128, dtype=np.int8)
    for scale in np.random.default_rng(0).uniform(1e-6, 10, 200).astype(np.float32):
        x = fixed_point.dequantize(q, float(scale), 7)
        assert (fixed_point.quantize(x, float(scale), 7, *INT8, np.int8) == q).all()


def test_dequantized_apart_both_products_are_rounded() -> None:
    """S · q and S · Z, of integers that the source model has as unsigned."""
    q, scale, zero_point = np.arange(-128, 128), np.float32(0.1), 5
    for moved in (0, 128):
        found = fixed_point.dequantize(q.astype(np.int8), scale, zero_point, by="float32_apart", moved=moved)
        products = [np.float32(scale * np.float32(each + moved)) for each in (q, zero_point)]
        assert (found == products[0] - products[1]).all()
        assert (found != fixed_point.dequantize(q.astype(np.int8), scale, zero_point)).any()


# Multipliers.


@given(st.one_of(st.floats(0, 2.0**29), st.floats(2.0**-40, 2.0**-20), st.integers(-40, 29).map(lambda e: 2.0**e)))
def test_multiplier_is_nearest(real: float) -> None:
    multiplier, shift = fixed_point.quantize_multiplier(real)
    if multiplier == 0:
        assert shift == 0
        assert real < 2.0**-32
        return
    assert 1 << 30 <= multiplier < 1 << 31
    assert -31 <= shift <= 30
    step = Fraction(2) ** (shift - 31)
    assert abs(multiplier * step - Fraction(real)) <= step / 2
    assert fixed_point.quantize_multiplier(float(multiplier * step)) == (multiplier, shift)


def test_multiplier_limits() -> None:
    assert fixed_point.quantize_multiplier(0.0) == (0, 0)
    assert fixed_point.quantize_multiplier(1.0) == (1 << 30, 1)
    assert fixed_point.quantize_multiplier(0.5) == (1 << 30, 0)
    assert fixed_point.quantize_multiplier(2.0**-32) == (1 << 30, -31)
    assert fixed_point.quantize_multiplier(math.nextafter(2.0**-32, 0)) == (1 << 30, -31), "rounds up, carries"
    assert fixed_point.quantize_multiplier(2.0**-33) == (0, 0)
    assert fixed_point.quantize_multiplier(math.nextafter(1.0, 0)) == (1 << 30, 1), "rounds up to 2^31, carries"
    assert fixed_point.quantize_multiplier((2.0**31 - 1) * 0.5) == ((1 << 31) - 1, 30)
    for refused in (2.0**30, math.inf, math.nan, -1.0):
        with pytest.raises(NumericsError, match="multiplier must be"):
            fixed_point.quantize_multiplier(refused)


def test_multipliers_of_an_array() -> None:
    multipliers, shifts = fixed_point.quantize_multipliers(np.array([[1.0, 0.3], [0.0, 1e-3]]))
    assert multipliers.dtype == shifts.dtype == np.int64
    assert multipliers.shape == shifts.shape == (2, 2)
    assert (multipliers[0, 1], shifts[0, 1]) == fixed_point.quantize_multiplier(0.3)
    assert fixed_point.quantize_multipliers(0.25)[0].shape == ()


@given(st.floats(2.0**-31, 2.0**29, width=32))
def test_float_multiplier_is_exact(real: float) -> None:
    multiplier, shift = fixed_point.float_multiplier(real)
    assert multiplier * Fraction(2) ** (shift - 31) == Fraction(real)
    assert multiplier % 128 == 0


def test_multipliers_of_powers_of_two_are_exact() -> None:
    for exponent in range(-32, 30):
        multiplier, shift = fixed_point.quantize_multiplier(2.0**exponent)
        assert multiplier * Fraction(2) ** (shift - 31) == Fraction(2) ** exponent


# Requantization. The oracles are the arithmetic of the checker, in Python's integers, which tests/proofs holds to the
# definitions; and numpy's float32.


def float_even(a: int, q: int, s: int) -> int:
    """In float32 itself."""
    return int(np.rint(np.float32(a) * np.float32(math.ldexp(q, s - 31))))


def float_sum(a: int, q: int, s: int, constant: float = 0.0) -> int:
    """numpy's own float32, where everything fits it."""
    product = np.float32(np.float64(np.float32(a)) * np.float64(math.ldexp(q, s - 31)))
    return int(np.rint(np.float32(Fraction(float(product)) + Fraction(constant))))


ORACLES: dict[str, Callable[[int, int, int], int]] = {**CHECKED, "float_even": float_even, "float_sum": float_sum}


def test_every_contract_has_an_oracle() -> None:
    assert set(ORACLES) == set(contracts.CONTRACTS)


def accumulators(rng: np.random.Generator, limit: int) -> npt.NDArray[np.int64]:
    """All magnitudes, both ends and everything near zero."""
    spread = rng.integers(-limit, limit, 4000, endpoint=True) >> rng.integers(0, limit.bit_length(), 4000)
    ends = [sign * (limit - k) for sign in (1, -1) for k in range(4)]
    powers = [sign * (1 << e) + k for sign in (1, -1) for e in range(31) for k in (-1, 0, 1)]
    return np.array([*spread.tolist(), *ends, *powers, *range(-300, 300)], np.int64)


def multipliers(rng: np.random.Generator, step: int) -> npt.NDArray[np.int64]:
    if step == 1 << 30:
        return np.array([1 << 30] * 64 + [0])
    spread = rng.integers(1 << 30, 1 << 31, 60) // step * step
    return np.array([1 << 30, (1 << 31) - step, (1 << 30) + step, 3 << 29, 0, *spread.tolist()])


@pytest.mark.slow
@pytest.mark.parametrize("contract", sorted(ORACLES))
def test_contract(contract: str) -> None:
    """Each contract at all shifts, extreme accumulators and multipliers: no overflow, no bit astray."""
    rng = np.random.default_rng(1)
    rule, oracle = contracts.CONTRACTS[contract], ORACLES[contract]
    pool, factors = accumulators(rng, rule.limit), multipliers(rng, rule.step)
    for s in range(fixed_point.MIN_SHIFT, rule.max_shift + 1):
        a = np.concatenate([pool[-1000:], rng.choice(pool, 500)])
        q = rng.choice(factors, a.size)
        got = fixed_point.requantize(a, q, np.full(a.size, s), contract)
        assert got.dtype == np.int64
        assert got.tolist() == [oracle(int(x), int(m), s) for x, m in zip(a, q, strict=True)], f"shift {s}"


@pytest.mark.parametrize("contract", sorted(ORACLES))
def test_contract_on_ties(contract: str) -> None:
    """Products that end in exactly one half, where the contracts differ."""
    a = np.arange(-64, 65)
    for s in (-3, -1, 0):
        got = fixed_point.requantize(a, 1 << 30, s, contract)
        assert got.tolist() == [ORACLES[contract](int(x), 1 << 30, s) for x in a]
    halves = fixed_point.requantize(np.array([-3, -1, 1, 3]), *fixed_point.quantize_multiplier(0.5), contract)
    to_even, from_zero = [-2, 0, 0, 2], [-2, -1, 1, 2]
    always = dict.fromkeys(("away", "away16", "away64"), from_zero)
    rounded = {**dict.fromkeys(("float_even", "float_sum", "even"), to_even), **always}.get(contract, [-1, 0, 1, 2])
    assert halves.tolist() == rounded
    quarters = fixed_point.requantize(np.array([-6, -2, 2, 6]), *fixed_point.quantize_multiplier(0.25), contract)
    others = {"double": from_zero, "double64": from_zero, **always, "updown": [-2, -1, 0, 1]}
    rounded = {**dict.fromkeys(("float_even", "float_sum", "even"), to_even), **others}.get(contract, [-1, 0, 1, 2])
    assert quarters.tolist() == rounded


def test_float_sum_rounds_with_the_zero_point() -> None:
    """A half that is even without a zero point is odd with an odd one."""
    a, half = np.arange(-64, 65), fixed_point.quantize_multiplier(0.5)
    for constant in (0.0, 1.0, 3.0, 128.0, 255.0, 2.0**23, float(np.float32(-77.7)), float(np.float32(1e-20))):
        got = fixed_point.requantize(a, *half, "float_sum", constant=constant)
        assert got.tolist() == [float_sum(int(x), *half, constant) for x in a]
    assert fixed_point.requantize(np.array([1, 3]), *half, "float_sum", constant=1.0).tolist() == [2, 2]


def test_a_quotient_in_float32_may_round_otherwise() -> None:
    """ONNX divides in float32: half a step there need not be half a step in float64."""
    scale = np.float32(2 / 255)
    x = ((np.arange(256, dtype=np.float32) / np.float32(255) - np.float32(0.5)) / np.float32(0.5)).astype(np.float32)
    got = fixed_point.quantize_in_float32(x, scale, 128, 0, 255, np.uint8)
    assert got.tolist() == np.clip(np.rint(x / scale) + 128, 0, 255).astype(np.uint8).tolist()
    assert (got != fixed_point.quantize(x, scale, 128, 0, 255, np.uint8)).any()


def test_quantizations_divide_and_round_as_they_say() -> None:
    """Halves, and a quotient that only in float32, or only as a product, is one."""
    halves = np.array([-2.5, -1.5, -0.5, 0.5, 1.5, 2.5], np.float32)
    for name in fixed_point.QUANTIZATIONS:
        expected = [-3, -2, -1, 1, 2, 3] if name.endswith("away") else [-2, -2, 0, 0, 2, 2]
        assert fixed_point.quantize(halves * 4, 4.0, 10, -128, 127, np.int8, name).tolist() == [
            q + 10 for q in expected
        ]
        edges = fixed_point.quantize(np.array([np.nan, np.inf, -np.inf, 1e38]), 1e-3, 5, -128, 127, np.int8, name)
        assert edges.tolist() == [5, 127, -128, 127]
    rng, scale = np.random.default_rng(0), np.float32(0.037)
    x = ((rng.integers(-100, 100, 4096) + 0.5) * scale).astype(np.float32)
    expected = {
        "exact": np.rint(x.astype(np.float64) / float(scale)),
        "float32": np.rint(x / scale),
        "float32_away": np.trunc((x / scale).astype(np.float64) + np.copysign(0.5, x)),
        "float32_reciprocal": np.rint(x * (np.float32(1) / scale)),
        "exact_away": np.trunc(x.astype(np.float64) / float(scale) + np.copysign(0.5, x)),
    }
    found = {
        n: fixed_point.quantize(x, scale, 0, -128, 127, np.int8, n).astype(float) for n in fixed_point.QUANTIZATIONS
    }
    assert all((found[n] == expected[n]).all() for n in found)
    assert len({q.tobytes() for q in found.values()}) == len(found)


@pytest.mark.parametrize("count", [1, 2, 3, 6, 7, 49, 64, 65535])
def test_divided_multipliers_are_within_a_step_of_the_quotient(count: int) -> None:
    for real in (1.0, 0.37, 1 / 3, 2.0**-14, 1e3):
        multiplier, shift = fixed_point.quantize_multiplier(real)
        divided, moved = fixed_point.divided_multiplier(multiplier, shift, count)
        exact = Fraction(multiplier) * Fraction(2) ** (shift - moved) / count
        assert fixed_point.LEAST_MULTIPLIER <= divided <= fixed_point.MOST_MULTIPLIER
        assert 0 <= exact - divided < 1
        assert fixed_point.requantize(np.array([0, 100]), divided, moved, "double")[0] == 0
    assert fixed_point.divided_multiplier(*fixed_point.quantize_multiplier(2.0**-31), 1000) == (0, 0)


def test_requantize_broadcasts_channels() -> None:
    q, s = fixed_point.quantize_multipliers([1.0, 0.5, 2.0])
    assert fixed_point.requantize(np.array([[10, 10, 10], [3, 3, 3]], np.int32), q, s).tolist() == [
        [10, 5, 20],
        [3, 2, 6],
    ]


@pytest.mark.parametrize(
    ("acc", "multiplier", "shift", "contract"),
    [
        (1, 1, 0, "single"),
        (1, 1 << 31, 0, "single"),
        (1, -(1 << 30), 0, "single"),
        (1, 1 << 30, 31, "single"),
        (1, 1 << 30, -32, "single"),
        (1, (1 << 30) + 1, 0, "float_even"),
        (1, 3 << 29, 0, "shift"),
        ((3 << 30) + 1, 1 << 30, 0, "single"),
        (-(1 << 31) - 1, 1 << 30, 0, "double"),
        (1 << 47, 1 << 30, 0, "single64"),
        (1, 1 << 30, 16, "single64"),
        (-(1 << 47), 1 << 30, 0, "reduced16"),
        (1, 1 << 30, 8, "reduced16"),
    ],
)
def test_requantize_refuses(acc: int, multiplier: int, shift: int, contract: str) -> None:
    with pytest.raises(NumericsError, match=f"contract {contract} needs"):
        fixed_point.requantize(np.array([acc]), multiplier, shift, contract)


@given(st.integers(1 - 2**47, 2**47 - 1), st.integers(1 << 30, (1 << 31) - 1), st.integers(-31, 15))
def test_contracts_of_64_bit_sums(acc: int, multiplier: int, s: int) -> None:
    """single64 is the rounded product itself; reduced16 is off by no more than the bits its multiplier has lost."""
    exact = math.floor(acc * Fraction(multiplier) * Fraction(2) ** (s - 31) + Fraction(1, 2))
    assert fixed_point.requantize(np.array([acc]), multiplier, s, "single64").tolist() == [exact]
    if s > 7:
        return
    got = int(fixed_point.requantize(np.array([acc]), multiplier, s, "reduced16")[0])
    assert got == CHECKED["reduced16"](acc, multiplier, s)
    assert abs(got - exact) <= 1 + abs(acc) * Fraction(2) ** (s - 15)


def test_every_wide_contract_takes_64_bit_sums() -> None:
    wide = [rule.wide for rule in contracts.CONTRACTS.values() if rule.wide is not None]
    assert wide
    assert all(contracts.CONTRACTS[name].limit == contracts.WIDE_LIMIT for name in wide)


@given(st.integers(-(2**31), 2**31 - 1), st.floats(2.0**-33, 2.0**10), st.integers(-128, 127))
def test_single_is_the_rounded_real_product(acc: int, real: float, zero_point: int) -> None:
    """Within the multiplier's own precision, after clamping to int8."""
    multiplier, s = fixed_point.quantize_multiplier(real)
    got = int(fixed_point.requantize(np.array([acc]), multiplier, s)[0])
    product = Fraction(acc) * Fraction(real)
    assert abs(got - product) <= Fraction(1, 2) + abs(product) * Fraction(1, 2**30) + Fraction(1, 2)
    assert min(max(got + zero_point, -128), 127) == min(
        max(CHECKED["single"](acc, multiplier, s) + zero_point, -128), 127
    )


def test_fixed_point_rows_keep_their_sums() -> None:
    rng = np.random.default_rng(0)
    weights = rng.uniform(-0.3, 1, (500, 4))
    weights /= weights.sum(axis=1, keepdims=True)
    for bits in (3, 7, 15):
        rows = fixed_point.fixed_point_rows(weights, bits)
        assert rows.dtype == np.int32
        assert (rows.sum(axis=1) == 1 << bits).all()
        assert np.abs(rows / (1 << bits) - weights).max() <= 2.5 / (1 << bits)
    np.testing.assert_array_equal(
        fixed_point.fixed_point_rows([[1 / 3, 2 / 3], [0.5, 0.5], [0, 0]], 1), [[1, 1], [1, 1], [0, 0]]
    )
    assert fixed_point.fixed_point_rows(np.zeros((3, 0)), 4).shape == (3, 0)


def test_numbers_of_contracts_in_command_streams_never_change() -> None:
    numbers = [rule.number for rule in contracts.CONTRACTS.values() if rule.number is not None]
    assert sorted(numbers) == list(range(len(numbers)))
    first = ["single", "double", "upup", "float_even", "shift", "away16", "single64", "reduced16", "updown"]
    assert [contracts.NUMBERED[number] for number in range(9)] == first


def test_each_device_names_one_contract() -> None:
    named = [(*rule.device, rule.step > 1) for rule in contracts.CONTRACTS.values() if rule.device is not None]
    assert len(set(named)) == len(named)

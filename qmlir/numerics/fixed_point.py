"""Fixed-point arithmetic: the reference definition of quantization, dequantization and requantization, on arrays.

The CPU code and the simulators compute the same bits as this module; a back end that cannot follow an equation below
raises an error. q is a stored integer, S a scale and Z a zero point (gemmlowp's letters):

    real = S · (q − Z)                                                            (1)

Requantization multiplies an integer by a real M > 0, which is stored as two integers:

    M ≈ multiplier · 2^(shift − 31),   multiplier in [2^29, 2^31) or 0            (2)

A named contract (contracts.py) says how the product is rounded, because runtimes round differently.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.errors import QmlirError
from qmlir.numerics import Array, Int64s
from qmlir.numerics.contracts import CONTRACTS, MAX_SHIFT, MULTIPLIER_BITS
from qmlir.numerics.elementary.lanes import F32, F64, I32, I64, DType, Lanes, N


class NumericsError(QmlirError):
    """Raised for numbers beyond fixed-point arithmetic, such as too large a scale ratio or too wide an accumulator."""


# Between real values and stored integers.


def _in_float32(scale: Array) -> Array:
    return scale.astype(np.float32)


def _exact_steps(x: N, scale: N) -> N:
    return (x.to(F64) / scale).round_even()


def _float32_steps(x: N, scale: N) -> N:
    return (x.to(F32) / scale).to(F64).round_even()


def _steps_away(x: N, scale: N) -> N:
    quotient = (x.to(F32) / scale).to(F64)
    return (quotient.magnitude() + 0.5).floor().with_sign_of(quotient)


def _steps_by_reciprocal(x: N, reciprocal: N) -> N:
    return (x.to(F32) * reciprocal).to(F64).round_even()


def _exact_steps_away(x: N, scale: N) -> N:
    quotient = x.to(F64) / scale
    return (quotient.magnitude() + 0.5).floor().with_sign_of(quotient)


@dataclass(frozen=True)
class Quotient:
    """A way to divide x by S and round to a whole number.

    divisor   S in float64 → the number that the formula takes
    formula   (x, divisor) → the whole number in float64
    """

    divisor: Callable[[Array], Array]
    formula: Callable[..., Any]


QUANTIZATIONS: Mapping[str, Quotient] = {
    "exact": Quotient(lambda scale: scale, _exact_steps),
    "float32": Quotient(_in_float32, _float32_steps),
    "float32_away": Quotient(_in_float32, _steps_away),
    "float32_reciprocal": Quotient(lambda scale: np.float32(1) / _in_float32(scale), _steps_by_reciprocal),
    "exact_away": Quotient(lambda scale: scale, _exact_steps_away),
}
"""The ways to divide x by S and round to an integer, by name.

`exact` divides in float64 and rounds half to even. `float32` (ONNX) divides in float32 and rounds half to even.
`float32_away` (TFLite's reference) divides in float32 and rounds half away from zero. `float32_reciprocal` (XNNPACK)
computes x · (1 / S) in float32 and rounds half to even. `exact_away` (the last elements in TFLite's optimized kernel)
divides in float64 and rounds half away from zero.
"""

DEQUANTIZATIONS = ("exact", "float32_apart")
"""The ways to compute S · (q − Z), by name.

`exact` computes in float64 and rounds the product once. `float32_apart` (TFLite's optimized kernel) rounds S · q and
S · Z to float32, then their difference.
"""


@dataclass(frozen=True)
class Quantize:
    """The formula of (3): (x, the divisor of `by`, Z in float64) → q as signless integers of the type `storage`."""

    low: int
    high: int
    storage: DType
    by: str

    def __call__(self, x: N, divisor: N, zero_point: N) -> N:
        steps: N = QUANTIZATIONS[self.by].formula(x, divisor)
        # Makes NaN 0: both terms are 0 for NaN, and for any other value one term is the value and the other is 0.
        steps = steps.maximum_number(0.0) + steps.minimum_number(0.0)
        q = (steps + zero_point).maximum(float(self.low)).minimum(float(self.high))
        return q.to(I64 if self.high >= 1 << 31 else I32).to(self.storage)


@dataclass(frozen=True)
class Dequantize:
    """The formula of (4): (q, S in float64, Z) → x.

    signed   whether q is signed
    wide     a type that holds q − Z, and the type of Z
    by       a name in `DEQUANTIZATIONS`
    moved    a number that is added to q and Z before S multiplies them apart
    """

    signed: bool
    wide: DType = I64
    element: DType = F32
    by: str = "exact"
    moved: int = 0

    def __call__(self, q: N, scale: N, zero_point: N) -> N:
        if self.by == "float32_apart":
            # The products are exact in float64 and rounded by a conversion: compilers that contract a float32 product
            # and a difference into one operation, as IREE does, would skip that rounding.
            product = ((q.to(self.wide, unsigned=not self.signed) + self.moved).to(F64) * scale).to(F32)
            return (product - ((zero_point + self.moved).to(F64) * scale).to(F32)).to(self.element)
        difference = q.to(self.wide, unsigned=not self.signed) - zero_point
        return (difference.to(F64) * scale).to(self.element)


def quantize(
    x: Array, scale: npt.ArrayLike, zero_point: npt.ArrayLike, qmin: int, qmax: int, dtype: npt.DTypeLike,
    by: str = "exact",
) -> Array:  # fmt: skip
    """q = clamp(rint(x / S) + Z, qmin, qmax)                                      (3)

    Division and rint (half to even) are in float64, or as `by`, a name in `QUANTIZATIONS`, says. Z is added after
    rounding, as in ONNX. NaN gives Z, clamped; infinities saturate. S and Z broadcast against x: callers with per-axis
    parameters reshape them (`UniformType.parameters_along`).
    """
    stored = np.dtype(dtype)
    with np.errstate(all="ignore"):
        divisor = QUANTIZATIONS[by].divisor(np.asarray(scale, np.float64))
    formula = Quantize(qmin, qmax, np.dtype(f"i{stored.itemsize}"), by)
    return _blockwise(formula, np.asarray(x), divisor, np.asarray(zero_point, np.float64)).view(stored)


def quantize_in_float32(
    x: Array, scale: npt.ArrayLike, zero_point: npt.ArrayLike, qmin: int, qmax: int, dtype: npt.DTypeLike
) -> Array:
    """Computes (3) with the quotient rounded to float32 before rint, as ONNX's QuantizeLinear does; S is a float32."""
    return quantize(x, scale, zero_point, qmin, qmax, dtype, "float32")


def dequantize(
    q: Array, scale: npt.ArrayLike, zero_point: npt.ArrayLike, dtype: npt.DTypeLike = np.float32, by: str = "exact",
    moved: int = 0,
) -> Array:  # fmt: skip
    """x = dtype(S · (q − Z)): an exact integer difference, a product in float64, a single rounding to `dtype`.   (4)

    `by`, a name in `DEQUANTIZATIONS`, may say otherwise. `moved` says how much larger q and Z are in the source model,
    which matters where they are multiplied apart.
    """
    formula = Dequantize(np.asarray(q).dtype.kind != "u", I64, np.dtype(dtype), by, moved)
    return _blockwise(formula, np.asarray(q), np.asarray(scale, np.float64), np.asarray(zero_point, np.int64))


BLOCK = 1 << 16
"""The most elements that are computed at a time, or one row if a row has more: they stay in the cache."""


def _blockwise(formula: Quantize | Dequantize, x: Array, *parameters: Array) -> Array:
    """The formula of an array and parameters that broadcast against it, some rows of the array at a time."""
    if x.size <= BLOCK:
        return formula(*map(Lanes, (x, *parameters))).array
    shape = x.shape
    if all(p.size == 1 for p in parameters):
        x, parameters = x.reshape(-1, 1), tuple(p.reshape(1) for p in parameters)
    along = [p.reshape((1,) * (x.ndim - p.ndim) + p.shape) for p in parameters]
    step = max(1, BLOCK // max(1, math.prod(x.shape[1:])))
    blocks = [
        formula(Lanes(x[at : at + step]), *(Lanes(p[at : at + step] if len(p) > 1 else p) for p in along)).array
        for at in range(0, len(x), step)
    ]
    return np.concatenate(blocks).reshape(shape)


# A real multiplier as integers.

LEAST_MULTIPLIER, MOST_MULTIPLIER = 1 << 29, (1 << 31) - 1
"""Bounds of a nonzero multiplier of (2): at least 2^30 from `quantize_multiplier`, 2^29 from `divided_multiplier`."""

MIN_SHIFT = -31
"""Smallest shift of (2); smaller real multipliers are flushed to zero."""


def quantize_multiplier(real: float, step: int = 1) -> tuple[int, int]:
    """Returns (multiplier, shift) of (2) for a real multiplier in [0, 2^30).

    frexp gives real = frac · 2^shift with frac in [1/2, 1); the multiplier is round(frac · 2^31), half up. If it rounds
    up to 2^31, the carry goes into the shift. Below 2^-32 the result is (0, 0). This is TFLite's and TVM's
    decomposition; for step 1 the relative error is at most 2^-31.

    Args:
        real: The real multiplier.
        step: A power of two; the multiplier is rounded to a multiple of it, for contracts with narrower multipliers.

    Raises:
        NumericsError: The real multiplier is negative, not finite, or at least 2^30.
    """
    if not 0.0 <= real < math.inf:  # false for NaN too
        raise NumericsError("a requantization multiplier must be a finite number ≥ 0", got=str(real))
    fraction, shift = math.frexp(real)
    multiplier = step * math.floor(fraction * ((1 << MULTIPLIER_BITS) // step) + 0.5)
    if multiplier == 1 << MULTIPLIER_BITS:
        multiplier, shift = multiplier >> 1, shift + 1
    if shift < MIN_SHIFT or multiplier == 0:
        return 0, 0
    if shift > MAX_SHIFT:
        raise NumericsError(
            "a requantization multiplier must be below 2^30",
            got=str(real),
            remedy="the scales of input and output are too far apart; profile on representative data",
        )
    return multiplier, shift


def divided_multiplier(multiplier: int, shift: int, count: int) -> tuple[int, int]:
    """Returns (multiplier, shift) of (2) for M / count as TFLite's means compute it, by a truncated integer division.

    The multiplier is first shifted left by the bit length of `count` less 1, so that the quotient keeps its precision:
    it lies in [2^29, 2^31) or is 0. If the shift would be below `MIN_SHIFT`, the result is (0, 0).

    Args:
        multiplier: The multiplier of M.
        shift: The shift of M.
        count: The number of elements in the mean.
    """
    bits = count.bit_length() - 1
    return ((multiplier << bits) // count, shift - bits) if shift - bits >= MIN_SHIFT else (0, 0)


def fixed_point_rows(weights: npt.ArrayLike, bits: int) -> npt.NDArray[np.int32]:
    """Rounds rows of weights to multiples of 2^−bits (half to even) such that each row's sum is rounded likewise.

    The difference between the rounded sum of a row and the sum of its rounded weights is added to the weight with the
    largest magnitude.

    Args:
        weights: The weights, [rows, columns], below 2^(31 − bits) in magnitude.
        bits: The number of fractional bits.

    Returns:
        The weights times 2^bits, int32, [rows, columns].
    """
    array = np.asarray(weights, np.float64)
    scaled = array * (1 << bits)
    rows = np.rint(scaled).astype(np.int64)
    if rows.shape[1]:
        missing = np.rint(scaled.sum(axis=1)).astype(np.int64) - rows.sum(axis=1)
        rows[np.arange(len(rows)), np.abs(array).argmax(axis=1)] += missing
    return rows.astype(np.int32)


def quantize_multipliers(reals: npt.ArrayLike, step: int = 1) -> tuple[Int64s, Int64s]:
    """Applies `quantize_multiplier` to each element; returns (multipliers, shifts) of the same shape."""
    array = np.asarray(reals, np.float64)
    pairs = [quantize_multiplier(float(real), step) for real in array.reshape(-1)]
    both = np.array(pairs, np.int64).reshape(*array.shape, 2)
    return both[..., 0], both[..., 1]


def float_multiplier(real: float) -> tuple[int, int]:
    """Returns (multiplier, shift) of exactly float32(real), for the contracts `float_even` and `float_sum`.

    A float32 has a 24-bit significand, so the multiplier is a multiple of 2^7.
    """
    with np.errstate(over="ignore"):
        return quantize_multiplier(float(np.float32(real)))


def requantize(
    acc: Array, multiplier: npt.ArrayLike, shift: npt.ArrayLike, contract: str = "single", *, constant: float = 0.0
) -> Int64s:
    """Returns acc · M, rounded to integers by a contract; the caller adds the zero point and clamps.

    Args:
        acc: The accumulators, integers of any shape.
        multiplier: As in (2); a scalar or an array that broadcasts, such as one entry per channel of the last axis.
        shift: As in (2), likewise.
        contract: A name in `contracts.CONTRACTS`.
        constant: For a contract with `sums`, the float32 C that is added before rounding.

    Returns:
        int64, the shape of acc and multiplier broadcast together.

    Raises:
        NumericsError: An accumulator is beyond the contract's limit, or a multiplier or shift is outside (2).
    """
    rule = CONTRACTS[contract]
    m, s = np.broadcast_arrays(np.asarray(multiplier, np.int64), np.asarray(shift, np.int64))
    within = (m == 0) | ((m >= LEAST_MULTIPLIER) & (m <= MOST_MULTIPLIER))
    fits = within & (m % rule.step == 0) & (s >= MIN_SHIFT) & (s <= rule.max_shift)
    if not fits.all():
        where = int(np.argmin(fits.reshape(-1)))
        raise NumericsError(
            f"contract {contract} needs multipliers 0 or in [2^29, 2^31) that are multiples of {rule.step}, "
            f"and shifts in [{MIN_SHIFT}, {rule.max_shift}]",
            got=f"multiplier {m.reshape(-1)[where]}, shift {s.reshape(-1)[where]}",
        )
    a = np.asarray(acc, np.int64)
    check_accumulators(a, contract)
    return rule(Lanes(a), *map(Lanes, rule.parameters(m, s, constant))).to(I64).array


def check_accumulators(acc: Int64s, contract: str) -> None:
    """Raises NumericsError if an accumulator is beyond the contract's limit."""
    limit = CONTRACTS[contract].limit
    if acc.size and (acc.max() > limit or acc.min() < -limit):
        raise NumericsError(f"contract {contract} needs accumulators within ±{limit}", got=str(np.abs(acc).max()))

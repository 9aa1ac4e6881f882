"""The named rounding contracts: how runtimes and devices round a · multiplier · 2^(shift − 31), each stated once.

A contract is a formula over the operations of elementary/lanes.py and an entry of `CONTRACTS`; no other file lists
them. On arrays the formula is the reference (`fixed_point.requantize`) and the simulator's arithmetic. On values of
kernels it writes the code of the CPU and of linalg. qint's verifier, the schema of device files, the commands of
devices, error messages and tests take the contracts from the table. An exporter's format has a table of the contracts
that it can express and refuses the others.

The formulas have no branches and no comparisons, so that they compute on vectors as well: the mask `x >> 63`, all ones
below zero, replaces a test of the sign.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from qmlir.numerics.elementary.gemmlowp import half_away, product, saturated
from qmlir.numerics.elementary.lanes import F32, F64, I32, I64, N

MULTIPLIER_BITS = 31

MAX_SHIFT = 30
"""Largest shift of a multiplier, for real multipliers below 2^30."""

# ---------------------------------------------------------------------------------------------------------------
# The formulas: (a, multiplier, shift), i64 → a · multiplier · 2^(shift − 31), rounded, i64. The entry of each contract
# in `CONTRACTS` states which accumulators, multipliers and shifts it takes without overflow.


def half_up(x: N, bits: N) -> N:
    """Returns x · 2^−bits rounded half up (toward +∞), for bits ≥ 0."""
    half = (x.same(1) << bits).logical_shift(1)  # 0 for bits = 0
    return (x + half) >> bits


def left(a: N, shift: N) -> N:
    """Returns a · 2^max(shift, 0), saturated to int32, the first step of the two-step contracts.

    The product is exact before saturation: |a| ≤ 2^31 and shift ≤ 30 stay within int64. TFLite leaves the overflow
    undefined; here it saturates. A clamp of the result to 29 bits or fewer hides the difference, as M ≥ 2^(shift − 2).
    """
    return saturated(a << shift.maximum(0))


def right(shift: N) -> N:
    """Returns max(−shift, 0), the bits that the second step of the two-step contracts drops."""
    return (0 - shift).maximum(0)


def single(a: N, multiplier: N, shift: N) -> N:
    """One rounding, half up."""
    return half_up(a * multiplier, MULTIPLIER_BITS - shift)


def away(a: N, multiplier: N, shift: N) -> N:
    """One rounding, half away from zero."""
    return half_away(a * multiplier, MULTIPLIER_BITS - shift)


def even(a: N, multiplier: N, shift: N) -> N:
    """One rounding, half to even."""
    scaled, bits = a * multiplier, MULTIPLIER_BITS - shift
    mask = (a.same(1) << bits) - 1
    # Half less 1 rounds ties down; the lowest bit that is kept raises it to half where ties round up. 0 bits add 0.
    return (scaled + mask.logical_shift(1) + ((scaled >> bits) & 1 & mask)) >> bits


def double(a: N, multiplier: N, shift: N) -> N:
    """Rounds half up to the high half of the product, then half away from zero."""
    # gemmlowp's high multiplication rounds half up for negative numbers too; only its division rounds half away.
    return half_away(product(left(a, shift), multiplier), right(shift))


def double64(a: N, multiplier: N, shift: N) -> N:
    """`double` on sums that saturate at 32 bits."""
    return double(saturated(a), multiplier, shift)


def upup(a: N, multiplier: N, shift: N) -> N:
    """Rounds half up twice: to the high half of the product, then by the right shift."""
    return half_up(product(left(a, shift), multiplier), right(shift))


def updown(a: N, multiplier: N, shift: N) -> N:
    """Rounds half up to the high half of the product, then down."""
    return product(left(a, shift), multiplier) >> right(shift)


def single64(a: N, multiplier: N, shift: N) -> N:
    """`single` for accumulators of 48 bits."""
    # a = high · 2^16 + low. The low 16 bits of the product matter only by their carry, once the half is added.
    bits = MULTIPLIER_BITS - shift
    half = (a.same(1) << bits).logical_shift(1)
    # Truncating and extending shows LLVM that both factors have 32 bits, so that the product is one instruction.
    high, low = (a >> 16).to(I32).to(I64), a & 0xFFFF
    return (high * multiplier + ((low * multiplier + half) >> 16)) >> (bits - 16)


def away64(a: N, multiplier: N, shift: N) -> N:
    """`away` for accumulators of 48 bits: rounding the magnitude half up rounds the number half away from zero."""
    sign = a >> 63
    return (single64((a ^ sign) - sign, multiplier, shift) ^ sign) - sign


def reduced16(a: N, multiplier: N, shift: N) -> N:
    """One rounding, half up, with the multiplier reduced to 16 bits."""
    reduced = ((multiplier + (1 << 15)) >> 16).minimum((1 << 15) - 1)
    return half_up(a * reduced, 15 - shift)


# The contracts that are defined in float32: (a, M as float32) → the rounded product as a float. Each operation rounds
# its result as IEEE 754 demands, so arrays, processors and linalg agree to the last bit: a has at most 33 bits and M
# lies in [2^-32, 2^30), so that no step leaves the normal numbers.


def float_even(a: N, factor: N) -> N:
    """rint(float32(a) · float32(M)), half to even."""
    return (a.to(F32) * factor).round_even()


def float_sum(a: N, factor: N, constant: N) -> N:
    """rint(float32(float32(a) · float32(M)) + C), half to even; the sum is rounded to float32 before rint."""
    # A sum of two float32 in float64 has enough bits that rounding it to float32 equals a single rounding.
    return ((a.to(F32) * factor).to(F64) + constant.to(F64)).to(F32).round_even()


# ---------------------------------------------------------------------------------------------------------------
# The table


@dataclass(frozen=True)
class Contract:
    """A way to round a · M, where a is an accumulator and M = multiplier · 2^(shift − 31).

    formula     (a, *parameters) → a · M rounded; the parameters are those that `parameters` returns
    limit       the largest |a| for which no step overflows int64, at any multiplier and shift
    step        each multiplier is a multiple of this; 2^30 admits powers of two only
    meaning     the equation, for reports
    in_floats   whether the formula takes M as a float32 and returns a float that is a whole number
    sums        whether the contract rounds a · M + C for a given float32 C, instead of a · M
    max_shift   the largest shift that the contract takes
    wide        the contract that replaces this one for accumulators that 32 bits may not hold, if there is one
    device      (scale, rounding) in the words of device files (devices/description/), if a device may follow it
    number      the contract's number in command streams (isa/commands.py), if a device may compute it; never changed
    """

    formula: Callable[..., Any]
    limit: int
    step: int
    meaning: str
    in_floats: bool = False
    sums: bool = False
    max_shift: int = MAX_SHIFT
    wide: str | None = None
    device: tuple[str, str] | None = None
    number: int | None = None

    def parameters(
        self, multiplier: npt.NDArray[Any], shift: npt.NDArray[Any], constant: float = 0.0
    ) -> list[npt.NDArray[Any]]:
        """The formula's parameters: multiplier and shift, or M in float32, with [C] in float32 where it is added."""
        if not self.in_floats:
            return [multiplier, shift]
        exponent = shift.astype(np.int64) - MULTIPLIER_BITS
        factor = np.ldexp(multiplier.astype(np.float64), exponent).astype(np.float32)
        return [factor, np.array([constant], np.float32)] if self.sums else [factor]

    def __call__(self, a: N, *parameters: N) -> N:
        """The formula's result for i64 accumulators, where all integers are i64."""
        return self.formula(a, *parameters)


WIDE_LIMIT = (1 << 47) - 1
"""The largest |a| of contracts for 64-bit accumulators: 48 bits, which hold 2^16 products of 16 by 16 bits."""

CONTRACTS: Mapping[str, Contract] = {
    "single": Contract(
        single,
        3 << 30,
        1,
        "(a·q + 2^(30−s)) >> (31−s): one rounding, half up",
        wide="single64",
        device=("mult-shift", "half-up"),
        number=0,
    ),
    "double": Contract(
        double,
        1 << 31,
        1,
        "a·2^max(s,0)·q / 2^31 half up, then / 2^max(−s,0) half away: TFLite's reference",
        device=("mult-shift", "tfl-double"),
        number=1,
    ),
    "upup": Contract(upup, 1 << 31, 1, "the two steps of `double`, both half up: TFLite's optimized kernels", number=2),
    "updown": Contract(
        updown, 1 << 31, 1, "the first step of `double`, then rounded down: TFLite's sums of bytes", number=8
    ),
    "float_even": Contract(
        float_even,
        1 << 32,
        1 << 7,
        "rint(float32(a)·float32(M)), half to even: ONNX Runtime and XNNPACK",
        in_floats=True,
        device=("float32", "half-even"),
        number=3,
    ),
    "float_sum": Contract(
        float_sum,
        1 << 32,
        1 << 7,
        "rint(float32(float32(a)·float32(M)) + C), sum in float32: ONNX Runtime's QLinearMul, XNNPACK's means",
        in_floats=True,
        sums=True,
    ),
    "shift": Contract(
        single,
        3 << 30,
        1 << 30,
        "a·2^(s−1), one rounding, half up: scales that are powers of two",
        wide="single64",
        device=("pow2", "half-up"),
        number=4,
    ),
    "single64": Contract(
        single64,
        WIDE_LIMIT,
        1,
        "`single` on 64-bit sums, no bit of the multiplier lost",
        max_shift=15,
        number=6,
    ),
    "double64": Contract(
        double64,
        WIDE_LIMIT,
        1,
        "`double` on 64-bit sums, which saturate at 32 bits: LiteRT's products of int16 by int16, undefined beyond",
    ),
    "away": Contract(
        away,
        3 << 30,
        1,
        "a·q / 2^(31−s), one rounding, half away from zero: the fully connected layers of LiteRT's reference",
        wide="away64",
        device=("mult-shift", "half-away"),
        number=10,
    ),
    "away64": Contract(
        away64,
        WIDE_LIMIT,
        1,
        "`away` on 64-bit sums, no bit of the multiplier lost: LiteRT's fully connected layers of int16",
        max_shift=15,
        number=11,
    ),
    "reduced16": Contract(
        reduced16,
        WIDE_LIMIT,
        1,
        "(a·r + 2^(14−s)) >> (15−s), r = min(q / 2^16 half up, 2^15 − 1): LiteRT's other sums of int16 by int8",
        max_shift=7,
        number=7,
    ),
    "away16": Contract(
        away,
        3 << 30,
        1 << 16,
        "a·(q / 2^16) / 2^(15−s), one rounding, half away from zero: NVDLA, multipliers of 16 bits",
        device=("mult-shift", "half-away"),
        number=5,
    ),
    "even": Contract(
        even,
        3 << 30,
        1,
        "a·q / 2^(31−s), one rounding, half to even: convergent rounding, as of DSP blocks (AP_RND_CONV of HLS)",
        device=("mult-shift", "half-even"),
        number=9,
    ),
}
"""The contracts by name; in their equations a is the accumulator, q the multiplier and s the shift.

The limits follow from int64. For `single` and `even`, 3·2^30 · (2^31 − 1) + 2^61 < 2^63. The two-step contracts take
an int32. For `single64` and `away64`, 2^31 · 2^31 + 2^47 < 2^63, and the shift right is at least 16 bits. For
`reduced16`, 2^47 · 2^15; runtimes define it up to a shift of 7. The float contracts take 33 bits and end below 2^62.
"""

NUMBERED: Mapping[int, str] = dict(sorted((c.number, name) for name, c in CONTRACTS.items() if c.number is not None))
"""Number of a contract in command streams → its name."""

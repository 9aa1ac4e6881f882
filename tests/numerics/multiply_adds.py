"""Operands of fused multiply-adds x·w + s, above all those where rounding twice gives another float32."""

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

Float32s = npt.NDArray[np.float32]
Operands = tuple[Float32s, Float32s, Float32s]

MOST = float(np.finfo(np.float32).max)


def _whole(rng: np.random.Generator, bits: int, count: int) -> npt.NDArray[np.float64]:
    """Integers with a number of bits, the first of them 1, of both signs."""
    magnitudes = rng.integers(1 << bits - 1, 1 << bits, count).astype(np.float64)
    return magnitudes * rng.choice([-1.0, 1.0], count)


def any_bits(rng: np.random.Generator, count: int) -> Any:
    """All bit patterns: NaN, infinities and subnormal numbers too."""
    return rng.integers(0, 1 << 32, (3, count), np.uint32).view(np.float32)


def of_one_magnitude(rng: np.random.Generator, count: int) -> Any:
    """Products near the addend, down to its last bits."""
    x, w = np.ldexp(_whole(rng, 24, count), rng.integers(-30, 5, count)), _whole(rng, 24, count)
    return x, w, np.ldexp(_whole(rng, 24, count), np.frexp(x * w)[1] - 24 + rng.integers(-30, 50, count))


def ties(rng: np.random.Generator, count: int) -> Any:
    """Few bits, so that many sums are midpoints."""
    x, w = _whole(rng, 12, count), _whole(rng, 13, count)
    return x, w, np.ldexp(_whole(rng, 24, count), rng.integers(-4, 4, count))


def beside_ties(rng: np.random.Generator, count: int) -> Any:
    """Products within 2^-24 of half the addend's last place."""
    x = np.ldexp(_whole(rng, 24, count), -23).astype(np.float32).astype(np.float64)
    return x, 2.0**-24 / x, np.ldexp(_whole(rng, 24, count), -23)


def subnormal(rng: np.random.Generator, count: int) -> Any:
    """Subnormal addends, and products near half their last place and above."""
    x = np.ldexp(_whole(rng, 24, count), -23 - 75).astype(np.float32).astype(np.float64)
    w = np.ldexp(rng.choice([1.0, 0.5, 1.5], count), rng.integers(-151, -125, count)) / x
    return x, w, np.ldexp(rng.integers(-(1 << 23), 1 << 23, count).astype(np.float64), -149) * rng.choice([0, 1], count)


def overflowing(rng: np.random.Generator, count: int) -> Any:
    """The largest number, and products near half its last place."""
    x = np.ldexp(_whole(rng, 24, count), -23 + 60).astype(np.float32).astype(np.float64)
    return x, 2.0**103 / x * rng.choice([1.0, 0.5, 1.5], count), MOST * rng.choice([-1.0, 1.0], count)


def special(rng: np.random.Generator, count: int) -> Any:
    """Zeros, infinities, NaN, and the least and the largest numbers."""
    values = [0.0, -0.0, 1.0, -1.0, np.inf, -np.inf, np.nan, 1e-45, -1e-45, MOST, -MOST]
    return rng.choice(np.array(values), (3, count))


KINDS: tuple[Callable[[np.random.Generator, int], Any], ...] = (
    any_bits,
    of_one_magnitude,
    ties,
    beside_ties,
    subnormal,
    overflowing,
    special,
)


def operands(kind: Callable[[np.random.Generator, int], Any], count: int) -> Operands:
    """x, w and s of a kind."""
    x, w, s = (np.asarray(v).astype(np.float32) for v in kind(np.random.default_rng(7), count))
    return x, w, s


def same(a: Float32s, b: Float32s) -> bool:
    """Whether all numbers have the same bits; NaN counts as one number."""
    return bool(((a.view(np.int32) == b.view(np.int32)) | (np.isnan(a) & np.isnan(b))).all())

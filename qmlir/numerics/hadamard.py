"""Hadamard matrices: square matrices H of ±1 with H · Hᵀ = n · I, whose product spreads each channel over all others.

Sylvester's construction doubles a matrix, [[H, H], [H, −H]], and so gives every power of two. Paley's constructions
give n = q + 1 for primes q = 3 mod 4, and n = 2 · (q + 1) for primes q = 1 mod 4: 12, 20, 28, 36, 44, 60, … A product
of both, such as 576 = 36 · 16, is a Hadamard matrix again.
"""

import math
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
Matrix = Array
"""A square matrix, in f64."""


def transformed(rows: Array) -> Array:
    """Returns x · H for each row x, whose length is a power of two, by additions and subtractions of halves.

    H is Sylvester's matrix. Each addition is the array's own: floats round, integers wrap around.
    """
    count, length = rows.shape
    half = length // 2
    while half:
        low, high = np.moveaxis(rows.reshape(count, -1, 2, half), 2, 0)
        rows = np.stack([low + high, low - high], axis=2).reshape(count, length)
        half //= 2
    return rows


def rotation(size: int) -> Matrix | None:
    """Returns an orthogonal matrix that spreads `size` channels: H / √n, with signs, on blocks of n channels.

    The columns of H are multiplied by a fixed sequence of signs from the left: channels with equal values would add up
    in a single channel otherwise. There is one block where a Hadamard matrix of that size is known here, else blocks
    of the largest power of two that divides the size.

    Returns:
        The matrix Q: x · Q is rotated, and Q · Qᵀ = I; None if the size is odd.
    """
    if size % 2:
        return None
    n = block_of(size)
    core = _core(n) or 1
    sylvester = transformed(np.eye(n // core))
    matrix: Matrix = sylvester if core == 1 else np.kron(_paley(core), sylvester)
    rotated: Matrix = np.kron(np.eye(size // n), matrix / math.sqrt(n))
    return np.random.default_rng(size).choice([-1.0, 1.0], (size, 1)) * rotated


def block_of(size: int) -> int:
    """The order of the Hadamard matrices in the rotation of an even number of channels."""
    return size if _core(size) is not None else size & -size


def _core(n: int) -> int | None:
    """The least n / 2^k for which there is a matrix: 1, or one of Paley's; None if there is none."""
    core = n // (n & -n)
    while core != 1 and core <= n and _prime_of(core) is None:
        core *= 2
    return core if core <= n else None


def _prime_of(n: int) -> int | None:
    """The prime of Paley's construction for n; None if there is none."""
    for q, remainder in ((n - 1, 3), (n // 2 - 1, 1)):
        if n % 4 == 0 and q % 4 == remainder and q > 2 and all(q % d for d in range(2, int(q**0.5) + 1)):
            return q
    return None


def _paley(n: int) -> Matrix:
    """Paley's matrix of order n."""
    q = _prime_of(n)
    assert q is not None
    character = np.full(q, -1.0)
    character[0] = 0
    character[np.arange(1, q) ** 2 % q] = 1
    places = np.arange(q)
    jacobsthal = character[(places[:, None] - places) % q]
    if q % 4 == 3:
        skew = np.block([[np.zeros((1, 1)), np.ones((1, q))], [-np.ones((q, 1)), jacobsthal]])
        return skew + np.eye(n)
    conference = np.block([[np.zeros((1, 1)), np.ones((1, q))], [np.ones((q, 1)), jacobsthal]])
    return np.kron(conference, [[1, 1], [1, -1]]) + np.kron(np.eye(q + 1), [[1, -1], [-1, -1]])

"""The checker's sums over bytes are those of their definition."""

import numpy as np
import pytest

from qmlir.checker.weights import ends, signed_sums


@pytest.mark.parametrize(
    "stored", [b"", b"\x00", b"\x80", b"\x7f", bytes(range(256)), np.random.default_rng(7).bytes(999)]
)
@pytest.mark.parametrize("step", [1, 3], ids=["row", "channel"])
def test_bytes_count_as_numbers(stored: bytes, step: int) -> None:
    weights = memoryview(stored).cast("b")[::step]
    numbers = weights.tolist()
    least_and_greatest = (min(numbers), max(numbers)) if numbers else (0, 0)
    assert signed_sums(weights) == (sum(n for n in numbers if n > 0), sum(n for n in numbers if n < 0))
    assert signed_sums(weights) == signed_sums(numbers)
    assert ends(weights) == ends(numbers) == least_and_greatest

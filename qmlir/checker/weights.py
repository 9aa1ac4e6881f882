"""Sums and ends of constants: of signed bytes through Python's own functions on bytes, of all else number by number.

A network has millions of weights. `bytes.translate` drops bytes and `sum` adds those that are left, neither of them by
steps in Python. A byte of 128 or more stands for itself less 256.
"""

from collections.abc import Sequence

NEGATIVE = bytes(range(128, 256))
NOT_NEGATIVE = bytes(range(128))


def signed_sums(weights: Sequence[int]) -> tuple[int, int]:
    """The sum of the positive numbers and the sum of the negative ones."""
    if isinstance(weights, memoryview):
        positive, negative = (weights.tobytes().translate(None, dropped) for dropped in (NEGATIVE, NOT_NEGATIVE))
        return sum(positive), sum(negative) - 256 * len(negative)
    return sum(w for w in weights if w > 0), sum(w for w in weights if w < 0)


def ends(values: Sequence[int]) -> tuple[int, int]:
    """The least and the greatest of the numbers; 0 and 0 if there are none."""
    if isinstance(values, memoryview):
        values = [byte - (256 if byte in NEGATIVE else 0) for byte in set(values.tobytes())]
    return (int(min(values)), int(max(values))) if values else (0, 0)

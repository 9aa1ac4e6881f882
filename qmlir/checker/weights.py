"""Sums and ends of constants: of signed bytes through Python's own functions on bytes, of all else number by number.

Also weights of a few bits each, as a device's commands define them, as signed bytes.

A network has millions of weights. `bytes.translate` drops bytes and `sum` adds those that are left, neither of them by
steps in Python. A byte of 128 or more stands for itself less 256.
"""

from collections.abc import Sequence

NEGATIVE = bytes(range(128, 256))
NOT_NEGATIVE = bytes(range(128))


def signed_sums(weights: Sequence[int]) -> tuple[int, int]:
    """The sum of the positive numbers and the sum of the negative ones."""
    if isinstance(weights, memoryview) and weights.format == "b":
        positive, negative = (weights.tobytes().translate(None, dropped) for dropped in (NEGATIVE, NOT_NEGATIVE))
        return sum(positive), sum(negative) - 256 * len(negative)
    return sum(w for w in weights if w > 0), sum(w for w in weights if w < 0)


def ends(values: Sequence[int]) -> tuple[int, int]:
    """The least and the greatest of the numbers; 0 and 0 if there are none."""
    if isinstance(values, memoryview) and values.format == "b":
        values = [byte - (256 if byte in NEGATIVE else 0) for byte in set(values.tobytes())]
    return (int(min(values)), int(max(values))) if values else (0, 0)


def unpacked(data: bytes, bits: int, count: int) -> bytes:
    """The first `count` weights of 2 to 7 bits each, packed from the lowest bits on, as signed bytes."""
    fields, mask = bytearray(), (1 << bits) - 1
    for at in range(0, len(data), bits):  # eight weights fill as many bytes as a weight has bits
        eight = int.from_bytes(data[at : at + bits], "little")
        fields += bytes(eight >> place & mask for place in range(0, 8 * bits, bits))
    half = 1 << bits - 1
    signed = bytes((field & mask) - (2 * half if field & half else 0) & 0xFF for field in range(256))
    return bytes(fields[:count].translate(signed))

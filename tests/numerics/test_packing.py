"""Packed weights: each bit lies where `Unpack` in isa/commands.py says, and all who read weights find it there."""

import numpy as np
import pytest

from qmlir.backends.npu import machine
from qmlir.checker import weights as checker
from qmlir.numerics.packing import few_bits, fit, pack, packed_bytes, unpack


@pytest.mark.parametrize("count", [1, 2, 7, 8, 9, 64, 101])
@pytest.mark.parametrize("bits", range(2, 8))
def test_where_each_weight_lies(bits: int, count: int) -> None:
    half = 1 << bits - 1
    weights = np.random.default_rng(count).integers(-half, half, count).astype(np.int8)
    weights[:2] = [-half, half - 1][:count]
    held = pack(weights, bits)
    assert held.dtype == np.uint8
    assert len(held) == packed_bytes(count, bits) == -(-count * bits // 8)
    stored = [int(held[place // 8]) >> place % 8 & 1 for place in range(8 * len(held))]
    for number, weight in enumerate(weights.tolist()):
        own = stored[number * bits : (number + 1) * bits]
        assert sum(bit << place for place, bit in enumerate(own)) == weight % (1 << bits)
    assert not any(stored[count * bits :]), "and the rest is zero"
    assert unpack(held, bits, count).tolist() == weights.tolist()
    assert machine.unpacked(held, bits, count).tolist() == weights.tolist()
    assert list(np.frombuffer(checker.unpacked(held.tobytes(), bits, count), np.int8)) == weights.tolist()


@pytest.mark.parametrize("bits", range(2, 8))
def test_what_fits(bits: int) -> None:
    half = 1 << bits - 1
    assert fit(np.array([-half, 0, half - 1], np.int8), bits)
    assert not fit(np.array([0, half], np.int8), bits)
    assert not fit(np.array([-half - 1, 0], np.int8), bits)
    assert fit(np.zeros((2, 0), np.int8), bits)
    assert (few_bits(-half, half - 1), few_bits(0, half)) == (bits, min(bits + 1, 8))

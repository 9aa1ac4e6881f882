"""Blocks of GGUF files: their floats are the gguf package's, bit for bit, and their levels state them exactly."""

import numpy as np
import pytest

from qmlir.frontends.gguf.blocks import KINDS
from tests.frontends.gguf.files import NUMBERS, random_tensor

BLOCKED = [kind.name for kind in KINDS.values() if kind.apart]
SHAPE = (6, 1024)


@pytest.mark.parametrize("kind", NUMBERS)
def test_floats_are_those_of_the_gguf_package(kind: str) -> None:
    quants = pytest.importorskip("gguf.quants", reason="the gguf package is not installed")
    _, shape, data = random_tensor(kind, SHAPE, np.random.default_rng(1))
    own = KINDS[NUMBERS[kind]]
    found, _ = own.read(memoryview(data), shape)
    stored = np.frombuffer(data, np.uint8).reshape(SHAPE[0], -1)
    expected = quants.dequantize(stored, quants.GGMLQuantizationType[kind]).reshape(shape)
    assert found.dtype == expected.dtype == np.float32
    np.testing.assert_array_equal(found.view(np.uint32), expected.view(np.uint32))


@pytest.mark.parametrize("kind", NUMBERS)
def test_bytes_of_a_block_are_those_of_the_gguf_package(kind: str) -> None:
    constants = pytest.importorskip("gguf.constants", reason="the gguf package is not installed")
    own = KINDS[NUMBERS[kind]]
    assert constants.GGMLQuantizationType[kind] == NUMBERS[kind]
    assert constants.GGML_QUANT_SIZES[constants.GGMLQuantizationType[kind]] == (own.values, own.bytes)


@pytest.mark.parametrize("kind", BLOCKED)
def test_levels_state_the_floats_exactly(kind: str) -> None:
    """The integers come back from the floats, and use all of their bits."""
    _, shape, data = random_tensor(kind, SHAPE, np.random.default_rng(2))
    own = KINDS[NUMBERS[kind]]
    assert own.apart is not None
    parts = own.apart(np.frombuffer(data, np.uint8).reshape(-1, own.bytes))
    weights, levels = own.read(memoryview(data), shape)
    assert levels is not None
    assert not levels.need()
    assert (levels.bits, levels.least, levels.size) == (own.bits, own.least, own.group)
    found = levels.stored(weights)
    assert found is not None
    zero = np.repeat(levels.scales == 0, levels.size, axis=1)  # whose integers all stand for the same number
    np.testing.assert_array_equal(np.where(zero, 0, found), np.where(zero, 0, parts.stored.reshape(shape)))
    assert (found.min(), found.max()) == (own.least, own.least + (1 << own.bits) - 1)
    assert not weights.flags.writeable


def test_four_bits_by_hand() -> None:
    """0x3800 is 0.5; the low nibbles come first."""
    block = bytes.fromhex("0038") + bytes([0x10 + i for i in range(16)])
    weights, _ = KINDS[NUMBERS["Q4_0"]].read(memoryview(block), (1, 32))
    assert weights[0].tolist() == [(i - 8) / 2 for i in range(16)] + [-3.5] * 16


def test_levels_of_other_floats() -> None:
    _, shape, data = random_tensor("Q4_1", (2, 64), np.random.default_rng(0))
    weights, levels = KINDS[3].read(memoryview(data), shape)
    assert levels is not None
    assert levels.stored(weights + np.float32(1e-3)) is None
    assert levels.stored(weights[:1]) is None

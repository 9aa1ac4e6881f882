"""Networks whose states begin behind a prefix: floats as if it were read before, and integers from there on."""

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.checker import check_certificate
from qmlir.errors import InputError, OptionError, QmlirError
from qmlir.ir.signature import main_function
from qmlir.ir.states import states_of
from qmlir.ir.weights import WeightsAttr
from tests.checker.networks import certified
from tests.transforms.quantize.llama import PLACES, ROWS, STATES, WORDS, llama

Sample = dict[str, np.ndarray]

PREFIX: list[Sample] = [{"token": np.array([3, 1, 4, 1]), "place": np.arange(ROWS)}]


def text(seed: int) -> list[Sample]:
    """The calls of a text behind the prefix."""
    rng = np.random.default_rng(seed)
    places = [np.arange(start, start + ROWS) for start in range(ROWS, PLACES, ROWS)]
    return [{"token": rng.integers(0, WORDS, ROWS), "place": place} for place in places]


@pytest.fixture
def decoder(tmp_path: Path) -> ModuleOp:
    onnx.save(llama(), tmp_path / "llama.onnx")
    return qmlir.load(tmp_path / "llama.onnx", state=STATES)


def test_a_prefix_counts_as_read(decoder: ModuleOp) -> None:
    """Bit for bit, also behind a reset; the prefix stands in the module."""
    module = qmlir.prefixed(decoder, PREFIX)
    begin = states_of(main_function(module)).values()
    assert all(isinstance(state.reset, WeightsAttr) for state in begin)
    plain, behind = qmlir.compile(decoder), qmlir.compile(module)
    for seed in range(2):
        plain.reset()
        behind.reset()
        for sample in PREFIX:
            plain(sample)
        for name, array in plain.state.items():
            np.testing.assert_array_equal(behind.state[name], array)
        for sample in text(seed):
            np.testing.assert_array_equal(behind(sample), plain(sample))


OPTIONS: dict[str, dict[str, Any]] = {
    "static": {"recipe": "none"},
    "dynamic": {"recipe": "language-model"},
    "cache of 4 bits": {"recipe": "language-model", "cache_precision": "int4"},
}
"""A way to quantize → its options. Rotations rotate what states begin with, and magnitudes divide it."""


@pytest.mark.slow
@pytest.mark.parametrize("way", OPTIONS)
def test_integers_behind_a_prefix(way: str, decoder: ModuleOp, tmp_path: Path) -> None:
    least = {"static": 20, "dynamic": 24, "cache of 4 bits": 12}[way]
    module = qmlir.prefixed(decoder, PREFIX)
    quantized = qmlir.quantize(module, data=[text(seed) for seed in range(8)], measure=False, **OPTIONS[way])
    floats, executable, reference = qmlir.compile(module), qmlir.compile(quantized), qmlir.reference(quantized)
    assert all(array.any() for array in executable.state.values())
    signal = noise = 0.0
    for seed in range(8, 24):  # two texts alone vary by 2 dB, with one decision that falls the other way
        for each in (floats, executable, reference):
            each.reset()
        for sample in text(seed):
            found, wanted = executable(sample), floats(sample)
            np.testing.assert_array_equal(found, reference(sample))
            signal, noise = signal + (wanted**2).sum(), noise + ((found - wanted) ** 2).sum()
    assert 10 * np.log10(signal / noise) > least
    certified(quantized, tmp_path)
    check_certificate(tmp_path / "certificate.json")


def test_what_is_refused(decoder: ModuleOp, tmp_path: Path) -> None:
    stateless = qmlir.load(tmp_path / "llama.onnx")
    with pytest.raises(QmlirError, match=r"must have states, which a prefix fills, got none; name states by --state"):
        qmlir.prefixed(stateless, PREFIX)
    with pytest.raises(OptionError, match=r"must name one of the networks, got decod; there is|did you mean"):
        qmlir.prefixed({"decode": decoder}, PREFIX, entry="decod")
    with pytest.raises(InputError, match="place"):
        qmlir.prefixed(decoder, [{"token": PREFIX[0]["token"]}])


def test_entries_begin_behind_one_prefix(tmp_path: Path) -> None:
    onnx.save(llama(), tmp_path / "llama.onnx")
    networks = {name: qmlir.load(tmp_path / "llama.onnx", state=STATES) for name in ("one", "other")}
    found = qmlir.prefixed(networks, PREFIX, entry="other")
    one, other = (qmlir.compile(found[name]).state for name in networks)
    for name, array in one.items():
        assert array.any()
        np.testing.assert_array_equal(array, other[name])

"""Ranges learned piece by piece: the same profile, the same calls, the same network, in less memory."""

import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import onnx
import pytest
from xdsl.dialects.builtin import ModuleOp

import qmlir
from qmlir.backends.cpu import jit
from qmlir.compiler import profile_and_calls
from qmlir.errors import InputError, ProfileError
from qmlir.running import learning, piecewise
from qmlir.running.cached import module_hash
from qmlir.transforms.quantize.ranges import pieces
from tests.frontends.onnx.agreement import model, node
from tests.transforms.quantize.llama import llama, sequence

Array = npt.NDArray[Any]

LAYERS = 2
SIZES = [10_000, 60_000]
"""Bytes of a piece: several in a layer, and about a layer."""


def decoder(folder: Path) -> ModuleOp:
    onnx.save(llama(layers=LAYERS), folder / "net.onnx")
    return qmlir.load(folder / "net.onnx", state={f"{n}{i}": f"{n}{i}_out" for i in range(LAYERS) for n in "kv"})


def in_pieces(monkeypatch: pytest.MonkeyPatch, size: int) -> list[int]:
    """Divides networks into pieces of a size; the numbers of pieces are noted."""
    met, own = list[int](), learning.profile_in_pieces

    def noted(profiler: Any, observed: Any, parts: Any, *others: Any) -> Any:
        met.append(len(parts))
        return own(profiler, observed, parts, *others)

    monkeypatch.setattr(pieces, "LARGE", size)
    monkeypatch.setattr(learning, "profile_in_pieces", noted)
    return met


def text_of(found: qmlir.Profile, folder: Path) -> str:
    found.save(folder / "profile.yaml")
    return (folder / "profile.yaml").read_text()


@pytest.mark.slow
@pytest.mark.parametrize(("size", "at_once"), [(SIZES[0], piecewise.AT_ONCE), (SIZES[1], 1), (SIZES[1], 4000)])
def test_a_network_with_states(size: int, at_once: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sequences, and single calls between them; all calls at once, one by one, and some at a time."""
    network, samples = decoder(tmp_path), [sequence(0), *sequence(1), sequence(2)]
    whole, calls = profile_and_calls(network, samples)
    met = in_pieces(monkeypatch, size)
    monkeypatch.setattr(piecewise, "AT_ONCE", at_once)
    found, own = profile_and_calls(network, samples)
    assert met[0] >= LAYERS
    assert text_of(found, tmp_path) == text_of(whole, tmp_path)
    assert len(own) == len(calls) == found.samples
    for a, b in zip(own, calls, strict=True):
        assert set(a) == set(b)
        assert all(np.array_equal(a[name], b[name]) for name in b)


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"recipe": "none", "rotate": "all"}], ids=str)
def test_the_quantized_network_is_the_same(
    options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network, samples = decoder(tmp_path), [sequence(seed) for seed in range(3)]
    whole = module_hash(qmlir.quantize(network, data=samples, measure=False, **options))
    met = in_pieces(monkeypatch, SIZES[0])
    assert module_hash(qmlir.quantize(network, data=samples, measure=False, **options)) == whole
    assert met


WIDE, DEEP = 256, 24


def layers(folder: Path, wide: int = WIDE) -> ModuleOp:
    """A network of 24 layers, each of so many channels."""
    rng = np.random.default_rng(0)
    weights = {f"w{i}": rng.normal(0, wide**-0.5, (wide, wide)).astype(np.float32) for i in range(DEEP)}
    nodes = [node("MatMul", f"{'x' if i == 0 else f'r{i - 1}'} w{i}", f"m{i}") for i in range(DEEP)]
    nodes = [n for i, each in enumerate(nodes) for n in (each, node("Relu", f"m{i}", f"r{i}"))]
    onnx.save(model(nodes, {"x": [1, wide]}, weights, outputs=[f"r{DEEP - 1}"]), folder / "layers.onnx")
    return qmlir.load(folder / "layers.onnx")


def rows(count: int, wide: int = WIDE) -> Iterator[Array]:
    """Rows, each in the array of the one before."""
    held = np.empty((1, wide), np.float32)
    for seed in range(count):
        held[:] = np.random.default_rng(seed).standard_normal((1, wide))
        yield held


@pytest.mark.parametrize("per_channel", [False, True])
def test_samples_of_an_iterator_that_are_too_many(
    *, per_channel: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    network = layers(tmp_path, 32)
    whole = qmlir.profile(network, rows(7, 32), per_channel=per_channel)
    met = in_pieces(monkeypatch, 1 << 14)
    monkeypatch.setattr(piecewise, "AT_ONCE", 3 * 4 * 32 * 6)
    found = qmlir.profile(network, rows(7, 32), per_channel=per_channel)
    assert met[0] > 2
    assert text_of(found, tmp_path) == text_of(whole, tmp_path)
    assert found.samples == 7


def peak_of(work: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.slow
def test_the_weights_of_a_network_in_pieces_are_in_memory_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beside those of the network itself, a compiled piece has its own; a whole network has all of them."""
    network, weights = layers(tmp_path), 4 * WIDE * WIDE * DEEP
    qmlir.profile(network, rows(2))  # imports modules, and compiles what counts
    whole = peak_of(lambda: qmlir.profile(network, rows(2)))
    in_pieces(monkeypatch, weights // 8)
    parted = peak_of(lambda: qmlir.profile(network, rows(2)))
    assert whole > weights
    assert parted < whole - weights / 2


def test_a_sample_that_is_none_of_the_networks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network = decoder(tmp_path)
    in_pieces(monkeypatch, SIZES[0])
    wrong = [sequence(0), [{**sequence(1)[0], "token": np.zeros(3, np.int64)}]]
    with pytest.raises(InputError, match=r"token.*must be int64\[4\]"):
        qmlir.profile(network, wrong)
    with pytest.raises(ProfileError, match="at least one sample"):
        qmlir.profile(network, [])


def test_a_tensor_that_is_not_finite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample is named by its number among all."""
    network = layers(tmp_path)
    in_pieces(monkeypatch, 1 << 20)
    monkeypatch.setattr(piecewise, "AT_ONCE", 1)
    given = [row.copy() for row in rows(4)]
    given[2][0, 3] = np.inf
    with pytest.raises(ProfileError, match=r'tensor "x".*an infinity on sample 2 '):
        qmlir.profile(network, given)


def test_code_of_equal_pieces_is_generated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    network, texts, own = layers(tmp_path, 32), list[str](), jit.compile_object
    monkeypatch.setattr(jit, "compile_object", lambda text, machine: texts.append(text) or own(text, machine))
    met = in_pieces(monkeypatch, 4 * 4 * 32 * 32)
    qmlir.profile(network, rows(2, 32))
    assert len(texts) == len({*texts}) < met[0]

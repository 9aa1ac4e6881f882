"""`--prefix-data`: states begin behind samples of a file, as with `qmlir.prefixed`; and what is refused."""

from pathlib import Path

import numpy as np
import onnx
import pytest

import qmlir
from qmlir.ir.signature import main_function
from qmlir.ir.states import states_of
from qmlir.ir.weights import WeightsAttr
from qmlir.profiles.profile import Profile
from tests.analysis.test_prefix import PREFIX, text
from tests.cli.small import run
from tests.transforms.quantize.llama import STATES, llama


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A decoder, the samples of its prefix, and texts that go on behind it."""
    onnx.save(llama(), tmp_path / "llama.onnx")
    _save(tmp_path / "first.npz", PREFIX)
    _save(tmp_path / "texts.npz", [sample for seed in range(8) for sample in text(seed)])
    return tmp_path


def _save(path: Path, samples: list[dict[str, np.ndarray]]) -> None:
    np.savez(path, allow_pickle=False, **{name: np.stack([s[name] for s in samples]) for name in samples[0]})


def begins(module: object) -> list[np.ndarray]:
    """What the states begin with, in order."""
    states = states_of(main_function(module)).values()  # pyright: ignore[reportArgumentType]
    assert states
    assert all(isinstance(state.reset, WeightsAttr) for state in states)
    return [state.reset.array for state in states if isinstance(state.reset, WeightsAttr)]


def decoder(folder: Path) -> list[str]:
    return [str(folder / "llama.onnx"), *(part for pair in STATES.items() for part in ("--state", "=".join(pair)))]


def data(folder: Path) -> tuple[str, ...]:
    return "--data", str(folder / "texts.npz"), "--sequence", str(len(text(0)))


@pytest.mark.slow
def test_a_quantized_network_begins_behind_it(folder: Path) -> None:
    """The same bits as in Python, where the network is prefixed first; so are the ranges of a profile."""
    loaded = qmlir.load(folder / "llama.onnx", state=STATES)
    texts = [text(seed) for seed in range(8)]
    wanted = qmlir.quantize(qmlir.prefixed(loaded, PREFIX), data=texts, measure=False)
    prefix = ("--prefix-data", folder / "first.npz")
    assert run("quantize", *decoder(folder), *data(folder), *prefix, "--no-measure", "-o", folder / "q.mlir") == 0
    found = qmlir.load(folder / "q.mlir")
    assert all((a == b).all() for a, b in zip(begins(found), begins(wanted), strict=True))
    ours, theirs = qmlir.reference(found), qmlir.reference(wanted)
    for sample in text(9):
        assert (ours(sample) == theirs(sample)).all()
    assert run("profile", *decoder(folder), *data(folder), *prefix, "-o", folder / "p.yaml") == 0
    ranges = {name: (t.lo, t.hi) for name, t in Profile.load(folder / "p.yaml").tensors.items()}
    behind = qmlir.profile(qmlir.prefixed(loaded, PREFIX), texts)
    assert ranges == {name: (t.lo, t.hi) for name, t in behind.tensors.items()}
    assert ranges != {name: (t.lo, t.hi) for name, t in qmlir.profile(loaded, texts).tensors.items()}


@pytest.mark.slow
def test_an_entry_reads_it_for_all(folder: Path) -> None:
    loaded = qmlir.load(folder / "llama.onnx", state=STATES)
    wanted = begins(qmlir.prefixed(loaded, PREFIX))
    entries = ("--entries", "one,other", "--prefix-data", folder / "first.npz", "--prefix-entry", "other")
    options = (*data(folder), *entries, "--recipe", "none", "--no-measure")
    assert run("quantize", *decoder(folder), *options, "-o", folder / "two.mlir") == 0
    one, other = (begins(qmlir.load(folder / "two.mlir", entry=name)) for name in ("one", "other"))
    assert len(one) == len(other) == len(wanted)
    assert all((a == b).all() and a.any() for a, b in zip(one, other, strict=True))


def test_what_is_refused(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def said(*options: object) -> str:
        capsys.readouterr()
        assert run("quantize", *decoder(folder), *data(folder), *options, "-o", folder / "q.mlir") == 1
        assert not (folder / "q.mlir").exists()
        return " ".join(capsys.readouterr().err.split())

    prefix, entries = ("--prefix-data", folder / "first.npz"), ("--entries", "one,other")
    assert "--prefix-entry: names the entry that reads --prefix-data, got none; add --prefix-data, or leave it out" in (
        said(*entries, "--prefix-entry", "one")
    )
    assert "--prefix-entry: must name one of the entries, got oter; did you mean other?" in (
        said(*entries, *prefix, "--prefix-entry", "oter")
    )
    assert "--prefix-entry: must name one of the entries, got one; name one of --entries, or leave it out" in (
        said(*prefix, "--prefix-entry", "one")
    )
    np.savez(folder / "short.npz", token=np.zeros((1, 4), np.int64))
    assert "place" in said("--prefix-data", folder / "short.npz")
    assert run("quantize", folder / "llama.onnx", *data(folder), *prefix, "-o", folder / "q.mlir") == 1
    assert "must have states, which a prefix fills" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_what_refusals_advise(folder: Path) -> None:
    """Without the option that a refusal says to leave out, or with the one it says to add, the command gets further."""
    options = (*decoder(folder), *data(folder), "--no-measure", "-o", folder / "q.mlir")
    assert run("quantize", *options, "--prefix-data", folder / "first.npz") == 0
    assert (folder / "q.mlir").exists()

"""Networks with states on the command line, and the functions of the C header that keep them."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import onnx
import pytest

import qmlir
from tests.cli.small import run
from tests.frontends.onnx.decoder import PLACES, STATES, decoder, samples
from tests.ir.test_states import DELAY, WANTED, X

BOUND = [f"--state={past}={present}" for past, present in STATES.items()]


@pytest.fixture
def delay(tmp_path: Path) -> Path:
    (tmp_path / "delay.mlir").write_text(DELAY)
    np.save(tmp_path / "x.npy", np.stack(X))
    return tmp_path / "delay.mlir"


@pytest.fixture
def model(tmp_path: Path) -> Path:
    onnx.save(decoder(), tmp_path / "decoder.onnx")
    given = samples(2 * PLACES)
    arrays = {name: np.stack([sample[name] for sample in given]) for name in given[0]}
    np.savez(tmp_path / "tokens.npz", **arrays)  # pyright: ignore[reportArgumentType]
    return tmp_path / "decoder.onnx"


def outputs(path: Path) -> dict[str, np.ndarray]:
    with np.load(path) as file:
        return dict(file)


@pytest.mark.parametrize("how", [[], ["--reference"], ["--target=nmp"]])
def test_samples_follow_one_another(delay: Path, how: list[str]) -> None:
    out = delay.with_name("y.npz")
    model = delay
    if how == ["--target=nmp"]:
        model = delay.with_name("q.mlir")
        assert run("quantize", delay, "--data", delay.with_name("x.npy"), "--target=nmp", "-o", model) == 0
    for length, wanted in ((None, WANTED), (2, [0.5, 1.5, 2.5, 3.5, 4.5, 5.5])):
        words = [] if length is None else ["--sequence", length]
        assert run("run", model, "--data", delay.with_name("x.npy"), *how, *words, "-o", out) == 0
        np.testing.assert_allclose(outputs(out)["y"][:, 0, 0], wanted, atol=0.1 if "--target=nmp" in how else 0)


@pytest.mark.slow
def test_profile_and_quantize_in_sequences(model: Path) -> None:
    data, folder = model.with_name("tokens.npz"), model.parent
    words = [model, *BOUND, "--data", data, "--sequence", PLACES]
    assert run("profile", *words, "-o", folder / "profile.yaml") == 0
    words += ["--recipe", "none"]  # that of language models rotates what has no ranges yet
    assert run("quantize", *words, "--profile", folder / "profile.yaml", "-o", folder / "q.mlir") == 0
    assert run("quantize", *words, "-o", folder / "same.mlir") == 0
    assert (folder / "q.mlir").read_text() == (folder / "same.mlir").read_text().replace("same.", "q.")
    assert run("run", folder / "q.mlir", "--data", data, "-o", folder / "y.npz") == 0
    reference = qmlir.reference(folder / "q.mlir")
    wanted = np.stack([reference(sample) for sample in samples(2 * PLACES)])
    np.testing.assert_array_equal(outputs(folder / "y.npz")["logits"], wanted)


@pytest.mark.slow
def test_a_policy_may_bind_states(model: Path) -> None:
    policy = {"options": {"state": STATES, "data": str(model.with_name("tokens.npz")), "sequence": PLACES}}
    quantized = qmlir.quantize(model, policy=policy)
    assert len(qmlir.reference(quantized).state) == 2


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--state=past_keys"], "must be PAST=PRESENT, got past_keys"),
        (["--state=past=present_keys"], "must name an input of the network, got past"),
    ],
)
def test_what_is_refused(model: Path, words: list[str], message: str, capsys: pytest.CaptureFixture[str]) -> None:
    tokens = samples(1)[0] | {name: np.zeros((PLACES, 2, 4), np.float32) for name in STATES}
    np.savez(model.with_name("all.npz"), **{n: a[None] for n, a in tokens.items()})  # pyright: ignore
    assert run("run", model, *words, "--data", model.with_name("all.npz"), "-o", model.with_name("y.npz")) != 0
    assert message in " ".join(capsys.readouterr().err.split())


def test_sequences_are_of_networks_with_states(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = [sample | {name: np.zeros((PLACES, 2, 4), np.float32) for name in STATES} for sample in samples(4)]
    np.savez(model.with_name("all.npz"), **{n: np.stack([s[n] for s in given]) for n in given[0]})  # pyright: ignore
    words = [model, "--data", model.with_name("all.npz"), "-o", model.with_name("y.npz")]
    assert run("run", *words, "--sequence", 2) != 0
    need = "sequence: is for networks with states, got 2; leave it out, or name states by --state"
    assert need in " ".join(capsys.readouterr().err.split())
    assert run("run", *words) == 0
    assert run("run", *words, *BOUND, "--sequence", 2) == 0


@pytest.mark.slow
def test_labels_of_a_network_with_states(model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    np.save(model.with_name("labels.npy"), np.zeros(2 * PLACES, np.int64))
    words = [model, *BOUND, "--data", model.with_name("tokens.npz"), "--labels", model.with_name("labels.npy")]
    assert run("quantize", *words, "-o", model.with_name("q.mlir")) != 0
    assert "give these samples as --test-data" in " ".join(capsys.readouterr().err.split())
    assert run("quantize", *words, "--test-data", model.with_name("tokens.npz"), "-o", model.with_name("q.mlir")) == 0


# ---------------------------------------------------------------------------------------------------------------
# C


PROGRAM = """
#include "net.h"
#include <stdio.h>
_Alignas(NET_ALIGNMENT) static uint8_t weights[NET_WEIGHTS_SIZE + 1], arena[NET_ARENA_SIZE + 1], state[NET_STATE_SIZE];
int main(void) {
  FILE *file = fopen("net.weights.bin", "rb");
  if (fread(weights, 1, NET_WEIGHTS_SIZE, file) != NET_WEIGHTS_SIZE) return 1;
  for (int round = 0; round < 2; ++round) {
    net_reset(state);
    for (int i = 0; i < 6; ++i) {
      float x[2] = {(float)i, (float)i}, y[2];
      const void *inputs[] = {x};
      void *outputs[] = {y};
      net_step(weights, arena, state, inputs, outputs);
      printf("%g\\n", y[0]);
    }
  }
  return 0;
}
"""

RESETS = {
    "one element": "tensor<f32>, [0.5]",
    "an array": "tensor<1x4xf32>, [0.5, 0.25, 1.5, 0.75]",
    "bytes alike": "tensor<f32>, [0x01010101]",
}


@pytest.mark.parametrize("reset", RESETS)
def test_a_c_program_keeps_the_states(delay: Path, reset: str) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler called cc")
    delay.write_text(DELAY.replace(RESETS["one element"], RESETS[reset]))
    assert run("compile", delay, "-o", delay.with_name("net.o")) == 0
    (delay.with_name("main.c")).write_text(PROGRAM)
    strict = ["-std=c11", "-Wall", "-Wextra", "-Werror", "-o", "program", "main.c", "net.o", "-lm"]
    subprocess.run([compiler, *strict], cwd=delay.parent, check=True)
    printed = subprocess.run(["./program"], cwd=delay.parent, check=True, capture_output=True, text=True).stdout
    reference = qmlir.reference(delay)
    wanted = [f"{float(reference(x)[0, 0]):g}" for x in X]
    assert printed.split() == wanted * 2


def test_the_header_of_a_network_without_states_has_none(delay: Path) -> None:
    delay.write_text(
        DELAY.replace("qmlir.state = #qmlir.state<0, reset = #qmlir.weights<tensor<f32>, [0.5]>>", "a = 1")
    )
    assert run("compile", delay, "-o", delay.with_name("net.o")) == 0
    assert "STATE_SIZE" not in delay.with_name("net.h").read_text()

"""`qmlir compile --batch` and `qmlir run --batch`: objects of C programs, the same bits, refusals."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.cli.main import main as run
from tests.conftest import ROOT

DIGITS = str(ROOT / "examples" / "digits" / "digits.onnx")
DATA = ["--data", str(ROOT / "examples" / "digits" / "digits.npz") + ":test_images", "--samples", "7"]
SAMPLES = 7

PROGRAM = f"""
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

static float x[{SAMPLES}][64], y[{SAMPLES}][10];
static uint8_t weights[NET_WEIGHTS_SIZE] __attribute__((aligned(NET_ALIGNMENT)));

int main(int argc, char **argv) {{
  FILE *file = fopen(argv[1], "rb"), *blob = fopen(argv[2], "rb");
  if (!file || fread(x, sizeof x, 1, file) != 1) return 2;
  if (!blob || fread(weights, sizeof weights, 1, blob) != 1) return 3;
  uint8_t *arena = aligned_alloc(NET_ALIGNMENT, (NET_ARENA_SIZE / NET_ALIGNMENT + 1) * NET_ALIGNMENT);
  for (int begin = 0; begin < {SAMPLES}; begin += NET_BATCH) {{
    const void *inputs[] = {{x[begin]}};
    void *outputs[] = {{y[begin]}};
    net_batch(weights, arena, inputs, outputs, {SAMPLES} - begin < NET_BATCH ? {SAMPLES} - begin : NET_BATCH);
  }}
  return fwrite(y, sizeof y, 1, stdout) != 1;
}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("threads", ["1", "2"])
def test_a_c_program_computes_batches(threads: str, tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler called cc")
    assert run(["compile", DIGITS, "--batch", "4", "--threads", threads, "-o", str(tmp_path / "net.o")]) == 0
    assert ("-pthread" in (tmp_path / "net.h").read_text()) == (threads != "1")
    (tmp_path / "program.c").write_text(PROGRAM)
    x = np.random.default_rng(0).normal(size=(SAMPLES, 1, 8, 8)).astype(np.float32)
    (tmp_path / "x.bin").write_bytes(x.tobytes())
    sources = [str(tmp_path / name) for name in ("program.c", "net.o")]
    program = tmp_path / "program"
    subprocess.run([compiler, "-Wall", "-Werror", "-pthread", "-o", program, *sources, "-lm"], check=True)
    given = [program, tmp_path / "x.bin", tmp_path / "net.weights.bin"]
    done = subprocess.run(given, capture_output=True, check=True, timeout=300)
    network = qmlir.compile(DIGITS)
    expected = np.concatenate([network(sample[None]) for sample in x])
    np.testing.assert_array_equal(np.frombuffer(done.stdout, np.float32).reshape(SAMPLES, 10), expected)


@pytest.mark.slow
def test_run_computes_the_same_bits(tmp_path: Path) -> None:
    for name, options in {"alone": [], "three": ["--batch", "3"], "more": ["--batch", "99", "--threads", "2"]}.items():
        assert run(["run", DIGITS, *DATA, *options, "-o", str(tmp_path / f"{name}.npz")]) == 0
    alone, *others = (np.load(tmp_path / f"{name}.npz")["scores"] for name in ("alone", "three", "more"))
    assert len(alone) == SAMPLES
    for other in others:
        np.testing.assert_array_equal(other, alone, strict=True)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("compile {net} -o n.o --batch 0", "--batch: must be a positive number, got 0"),
        ("compile {net} -o n.npu --batch 2 --target nmp", "--batch: is for networks compiled for this processor"),
        ("run {net} --data x.npy --batch 2 --reference", "--batch: is for networks compiled for this processor"),
        ("compile {net} -o n.o --batch 2 --bind batch=3", "must have an input that begins with a dimension of size 1"),
        ("quantize {net} --data x.npy --batch 2 -o n.tflite", "--batch: is for .o files"),
    ],
)
def test_refusals(
    command: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.zeros((1, 1, 8, 8), np.float32))
    assert run(command.format(net=DIGITS).split()) == 1
    assert message in capsys.readouterr().err

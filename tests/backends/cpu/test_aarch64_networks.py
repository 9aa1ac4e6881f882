"""Whole networks for AArch64: `qmlir compile --triple`, a C program with the header, and the reference's bits."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.cli.main import main
from tests.backends.cpu import emulated

pytestmark = [pytest.mark.models, pytest.mark.filterwarnings("ignore")]

SAMPLES = 3

PROGRAM = """
#include <stdio.h>
#include <stdlib.h>
#include "net.h"

static _Alignas(NET_ALIGNMENT) uint8_t weights[NET_WEIGHTS_SIZE], arena[NET_ARENA_SIZE];
static uint8_t x[{inputs}], y[{outputs}];

int main(int count, char **paths) {{
  FILE *file = fopen(paths[1], "rb"), *data = fopen(paths[2], "rb");
  if (count != 3 || !file || !data || fread(weights, 1, sizeof weights, file) != sizeof weights) return 2;
  const void *inputs[] = {{x}};
  void *outputs[] = {{y}};
  while (fread(x, 1, sizeof x, data) == sizeof x) {{
    net(weights, arena, inputs, outputs);
    if (fwrite(y, 1, sizeof y, stdout) != sizeof y) return 3;
  }}
  return 0;
}}
"""


@pytest.mark.parametrize(
    ("cpu", "instruction", "without"),
    [
        ("cortex-a53", "smlal", ("sdot", "usdot")),
        ("cortex-a76", "sdot", ("usdot",)),
        ("neoverse-n1", "sdot", ("usdot",)),
        ("neoverse-v1", "usdot", ()),
    ],
)
@pytest.mark.parametrize("name", ["kws_dscnn_i8", "resnet8_cifar_i8"])
def test_a_c_program_computes_the_bits_of_the_reference(
    name: str,
    cpu: str,
    instruction: str,
    without: tuple[str, ...],
    shared: Callable[[str], Path],
    tmp_path: Path,
) -> None:
    emulated.require()
    model = shared(f"models/tflite/{name}.tflite")
    options = ["--triple", emulated.TRIPLE, "--cpu", cpu, "-o", str(tmp_path / "net.o")]
    assert main(["compile", str(model), *options]) == 0
    found = emulated.instructions((tmp_path / "net.o").read_bytes())
    assert instruction in found
    assert not found & set(without)

    reference = qmlir.reference(model)
    (x,), (y,) = reference.signature.inputs, reference.signature.outputs
    limits = np.iinfo(x.dtype)
    rng = np.random.default_rng(1)
    samples = [rng.integers(limits.min, limits.max, x.shape, x.dtype, endpoint=True) for _ in range(SAMPLES)]
    samples[0][...] = limits.min
    (tmp_path / "x").write_bytes(b"".join(sample.tobytes() for sample in samples))
    sizes = {"inputs": samples[0].nbytes, "outputs": int(np.prod(y.shape)) * y.dtype.itemsize}
    (tmp_path / "program.c").write_text(PROGRAM.format(**sizes))
    sources = [tmp_path / "program.c", tmp_path / "net.o"]
    command = [emulated.compiler(), "-static", "-Wall", "-Werror", "-o", tmp_path / "program", *sources, "-lm"]
    subprocess.run(command, check=True)
    run = [emulated.emulator(), "-cpu", emulated.EMULATED.get(cpu, "max"), tmp_path / "program"]
    run += [tmp_path / "net.weights.bin", tmp_path / "x"]
    done = subprocess.run(run, check=True, capture_output=True, timeout=emulated.SECONDS)
    got = np.frombuffer(done.stdout, y.dtype).reshape(SAMPLES, *y.shape)
    for sample, result in zip(samples, got, strict=True):
        np.testing.assert_array_equal(result, reference(sample))

"""`qmlir compile --threads` and `qmlir run --threads`: objects of C programs, the same bits, refusals."""

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.cli.main import main as run

SIZE = 160

NETWORK = f"""
func.func @main(%x: tensor<{SIZE}x{SIZE}xf32>) -> tensor<{SIZE}x{SIZE}xf32> {{
  %a = nn.matmul %x, %x : tensor<{SIZE}x{SIZE}xf32>, tensor<{SIZE}x{SIZE}xf32> -> tensor<{SIZE}x{SIZE}xf32>
  %b = nn.sigmoid %a : tensor<{SIZE}x{SIZE}xf32> -> tensor<{SIZE}x{SIZE}xf32>
  func.return %b : tensor<{SIZE}x{SIZE}xf32>
}}
"""

PROGRAM = f"""
#include <stdio.h>
#include <stdlib.h>
#include "two.h"
#include "three.h"

static float x[{SIZE} * {SIZE}], y[2][{SIZE} * {SIZE}];

int main(int argc, char **argv) {{
  FILE *file = fopen(argv[1], "rb");
  if (!file || fread(x, sizeof x, 1, file) != 1) return 2;
  const void *inputs[] = {{x}};
  uint8_t *arena = aligned_alloc(64, (TWO_ARENA_SIZE + THREE_ARENA_SIZE) / 64 * 64 + 64);
  for (int i = 0; i < 100; ++i) {{
    void *outputs[] = {{y[i % 2]}};
    (i % 2 ? three : two)(arena, arena, inputs, outputs);
  }}
  return fwrite(y, sizeof y, 1, stdout) != 1;
}}
"""


@pytest.fixture
def network(tmp_path: Path) -> Path:
    (tmp_path / "net.mlir").write_text(NETWORK)
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((1, SIZE, SIZE)).astype(np.float32))
    return tmp_path / "net.mlir"


@pytest.mark.slow
def test_two_networks_of_a_c_program_share_a_pool(network: Path) -> None:
    """Each object holds the pool; a linker keeps one."""
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler called cc")
    folder = network.parent
    for name, threads in (("two", "2"), ("three", "3")):
        assert run(["compile", str(network), "--threads", threads, "-o", str(folder / f"{name}.o")]) == 0
        assert "-pthread" in (folder / f"{name}.h").read_text()
    (folder / "program.c").write_text(PROGRAM)
    x = np.load(folder / "x.npy")[0]
    (folder / "x.bin").write_bytes(x.tobytes())
    sources = [str(folder / name) for name in ("program.c", "two.o", "three.o")]
    subprocess.run([compiler, "-Wall", "-Werror", "-pthread", "-o", folder / "program", *sources, "-lm"], check=True)
    done = subprocess.run([folder / "program", folder / "x.bin"], capture_output=True, check=True, timeout=300)
    expected = qmlir.compile(network)(x)
    for y in np.frombuffer(done.stdout, np.float32).reshape(2, SIZE, SIZE):
        np.testing.assert_array_equal(y, expected)


def test_one_thread_is_the_object_of_always(network: Path) -> None:
    folder = network.parent
    assert run(["compile", str(network), "-o", str(folder / "net.o")]) == 0
    plain = (folder / "net.o").read_bytes()
    assert run(["compile", str(network), "--threads", "1", "-o", str(folder / "net.o")]) == 0
    assert (folder / "net.o").read_bytes() == plain
    assert "-pthread" not in (folder / "net.h").read_text()


def test_run_computes_the_same_bits(network: Path) -> None:
    folder = network.parent
    for threads in ("1", "2"):
        data = ["--data", str(folder / "x.npy"), "-o", str(folder / f"{threads}.npz")]
        assert run(["run", str(network), "--threads", threads, *data]) == 0
    one, two = (next(iter(np.load(folder / f"{threads}.npz").values())) for threads in (1, 2))
    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("compile net.mlir -o n.o --threads 0", "--threads: must be a positive number, got 0"),
        ("compile net.mlir -o n.o --threads many", "--threads: must be a positive number, got many"),
        ("compile net.mlir -o n.o --threads 257", "threads: must be from 1 to 256, got 257"),
        (
            "compile net.mlir -o n.npu --threads 2 --target nmp",
            "--threads: is for networks compiled for this processor",
        ),
        ("run net.mlir --data x.npy --threads 2 --reference", "--threads: is for networks compiled for this processor"),
    ],
)
def test_refusals(
    command: str, message: str, network: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(network.parent)
    assert run(command.split()) == 1
    assert message in capsys.readouterr().err

"""Bundles of networks with states and several entries: the functions on states, self-tests, and what is refused."""

import json
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import qmlir
from qmlir.cli.documents import schema
from qmlir.cli.embedded.vectors import checksum
from qmlir.errors import UnsupportedError
from tests.cli.small import run
from tests.cli.test_bundles import LANGUAGES, STRICT, build, pointer_to_weights, status, tool
from tests.conftest import crossed

COUNTER = """\
func.func @main(%x: tensor<3xi32> {qmlir.name = #qmlir.name<tensors ["x"]>},
                %sum: tensor<3xi32> {qmlir.name = #qmlir.name<tensors ["sum"]>,
                  qmlir.state = #qmlir.state<1, reset = #qmlir.weights<tensor<3xi32>, [7, -2, 1000000]>>})
    -> (tensor<3xi32> {qmlir.name = #qmlir.name<tensors ["y"]>}, tensor<3xi32>) {
  %0 = nn.add %x, %sum : tensor<3xi32>, tensor<3xi32> -> tensor<3xi32>
  func.return %0, %0 : tensor<3xi32>, tensor<3xi32>
}
"""
"""A sum of all inputs, which begins with other numbers than 0."""

ENTRIES = """\
func.func @add(%x: tensor<2xi32> {qmlir.name = #qmlir.name<tensors ["x"]>},
               %sum: tensor<2xi32> {qmlir.name = #qmlir.name<tensors ["sum"]>, qmlir.state = #qmlir.state<1>})
    -> (tensor<2xi32> {qmlir.name = #qmlir.name<tensors ["y"]>}, tensor<2xi32>) {
  %0 = nn.add %x, %sum : tensor<2xi32>, tensor<2xi32> -> tensor<2xi32>
  func.return %0, %0 : tensor<2xi32>, tensor<2xi32>
}
func.func @SECOND(%x: tensor<i8> {qmlir.name = #qmlir.name<tensors ["x"]>},
               %last: tensor<i8> {qmlir.name = #qmlir.name<tensors ["last"]>,
                 qmlir.state = #qmlir.state<1, reset = #qmlir.weights<tensor<i8>, [5]>>})
    -> (tensor<i8> {qmlir.name = #qmlir.name<tensors ["out"]>}, tensor<i8>) {
  func.return %last, %x : tensor<i8>, tensor<i8>
}
"""
"""Two entries, each with a state that the other lacks."""

STREAMS = """\
#include <stdio.h>
#include <string.h>
#include "net.h"
NET_ALIGNED static uint8_t arena[NET_ARENA_SIZE + 1], one[NET_STATE_SIZE], other[NET_STATE_SIZE];
static void add(uint8_t *state, int32_t number) {
  int32_t x[3], y[3];
  const void *inputs[] = {x};
  void *outputs[] = {y};
  x[0] = x[1] = x[2] = number;
  net_step(net_weights, arena, state, inputs, outputs);
  printf("%d ", y[1]);
}
int main(void) {
  uint8_t bytes[NET_STATE_BYTES];
  int32_t kept[3];
  memset(one, 0xa5, sizeof one);
  memset(other, 0x5a, sizeof other);
  net_reset(one);
  net_reset(other);
  add(one, 10);
  add(one, 20);
  add(other, 1);
  net_export_state(one, bytes);
  memcpy(kept, bytes, sizeof kept);
  net_import_state(other, bytes);
  printf("%d %d %d ", kept[0], kept[1], kept[2]);
  add(other, 3);
  add(one, 4);
  return 0;
}
"""


@pytest.fixture
def counter(tmp_path: Path) -> Path:
    (tmp_path / "net.mlir").write_text(COUNTER)
    return tmp_path / "net.mlir"


def entries(folder: Path, second: str = "keep") -> Path:
    (folder / "net.mlir").write_text(ENTRIES.replace("SECOND", second))
    return folder / "net.mlir"


@pytest.mark.slow
@crossed(
    {
        "api, weights": [("static", "object"), ("static", "file"), ("dynamic", "array"), ("dynamic", "file")],
        "language": LANGUAGES,
    }
)
@pytest.mark.parametrize("several", [False, True])
def test_selftest_and_example_build_and_run(
    tmp_path: Path, api: str, weights: str, language: str, *, several: bool
) -> None:
    model = entries(tmp_path) if several else tmp_path / "net.mlir"
    if not several:
        model.write_text(COUNTER)
    folder = tmp_path / "out"
    assert run("compile", model, "--bundle", "--api", api, "--weights-in", weights, "-o", folder) == 0
    files = ["net.o", *(["net_weights.c"] if weights == "array" else [])]
    if weights == "file":
        files.append(pointer_to_weights(folder, "net"))
    assert status(build(folder, LANGUAGES[language], "selftest.c", *files)) == 0
    assert status(build(folder, LANGUAGES[language], "main.c", *files)) == 0
    manifest = json.loads((folder / "manifest.json").read_text())
    Draft202012Validator(schema()).validate(manifest)
    kept = qmlir.compile(model)
    names = list((kept["keep"] if several else kept).state)
    assert [state["name"] for state in manifest["states"]] == names
    assert manifest["sizes"]["state_bytes"] == sum(array.nbytes for array in kept.state.values())


@pytest.mark.slow
def test_a_selftest_counts_the_calls_that_differ(counter: Path) -> None:
    folder = counter.parent / "out"
    assert run("compile", counter, "--bundle", "-o", folder) == 0
    vectors = (folder / "net_vectors.h").read_text()
    for array, count in (("net_step1_output0", 1), ("net_states", 1)):
        before, after = vectors.split(f"{array}[", 1)
        first = after.index("{\n") + 2
        value, rest = after[first:].split(",", 1)
        spoiled = f"{before}{array}[{after[:first]}{int(value) ^ 1},{rest}"
        (folder / "net_vectors.h").write_text(spoiled)
        assert status(build(folder, LANGUAGES["C99"], "selftest.c", "net.o")) == count


@pytest.mark.slow
def test_states_of_two_streams(counter: Path) -> None:
    """Blocks hold anything before `reset`; exported states are those of Python, and go on in another block."""
    folder = counter.parent / "out"
    assert run("compile", counter, "--bundle", "--api", "dynamic", "-o", folder) == 0
    (folder / "streams.c").write_text(STREAMS)
    command = [tool("gcc"), "-std=c11", *STRICT, "-o", "streams", "streams.c", "net.o"]
    subprocess.run(command, cwd=folder, check=True)
    printed = subprocess.run([folder / "streams"], check=True, capture_output=True, text=True).stdout
    exe = qmlir.compile(counter)
    ones = np.ones(3, np.int32)
    wanted = [exe(10 * ones)[1], exe(20 * ones)[1], -1, *exe.state["sum"]]
    before = exe.state
    wanted += [exe(3 * ones)[1]]
    exe.state = before
    wanted += [exe(4 * ones)[1]]
    assert printed.split() == [str(int(number)) for number in wanted]


@pytest.mark.slow
def test_long_outputs_are_compared_by_a_checksum(tmp_path: Path) -> None:
    text = COUNTER.replace("<3xi32>, [7, -2, 1000000]", "<i32>, [7]").replace("3xi32", "20000xi32")
    (tmp_path / "net.mlir").write_text(text)
    folder = tmp_path / "out"
    assert run("compile", tmp_path / "net.mlir", "--bundle", "-o", folder) == 0
    vectors = (folder / "net_vectors.h").read_text()
    assert "static const uint64_t net_step0_output0 = 0x" in vectors
    assert status(build(folder, LANGUAGES["C99"], "selftest.c", "net.o")) == 0
    number = vectors.index("net_states = 0x") + len("net_states = 0x")
    spoiled = vectors[:number] + f"{int(vectors[number], 16) ^ 1:x}" + vectors[number + 1 :]
    (folder / "net_vectors.h").write_text(spoiled)
    assert status(build(folder, LANGUAGES["C99"], "selftest.c", "net.o")) == 1


def test_a_checksum_is_a_sum_of_powers() -> None:
    data = np.random.default_rng(0).integers(0, 256, 1000, np.uint8).tobytes()
    for size in (0, 1, 2, 1000):
        found = 0
        for byte in data[:size]:
            found = (found * 0x9E3779B97F4A7C15 + byte) % (1 << 64)
        assert checksum(data[:size]) == found


@pytest.mark.slow
def test_a_program_for_aarch64_runs_under_an_emulator(tmp_path: Path) -> None:
    gcc, emulator = tool("aarch64-linux-gnu-gcc"), tool("qemu-aarch64")
    folder = tmp_path / "out"
    assert run("compile", entries(tmp_path), "--bundle", "--cpu", "cortex-a72", "-o", folder) == 0
    command = [gcc, "-static", "-std=c99", *STRICT, "-o", "selftest", "selftest.c", "net.o"]
    subprocess.run(command, cwd=folder, check=True)
    assert subprocess.run([emulator, folder / "selftest"], check=False).returncode == 0


@pytest.mark.parametrize(
    ("second", "options", "message"),
    [
        ("keep", ("--api", "glow"), "must have one function with --api glow, got add, keep"),
        ("reset", (), "must have a name in C that nothing else has; the bundle has net_reset, got reset"),
        ("Add", (), 'must have a name in C that nothing else has; entry "add" has net_Add, got Add'),
        ("add_run", (), 'must have a name in C that nothing else has; entry "add" has net_add_run, got add_run'),
    ],
)
def test_entries_that_are_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], second: str, options: Sequence[str], message: str
) -> None:
    model = entries(tmp_path, second)
    assert run("compile", model, "--bundle", *options, "-o", tmp_path / "out") == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_states_are_not_called_as_glow_does(counter: Path) -> None:
    with pytest.raises(UnsupportedError, match="must keep no states with --api glow, got 1 states"):
        qmlir.bundle(counter, counter.parent / "out", api="glow")
    assert not (counter.parent / "out").exists()

"""`qmlir compile --bundle --layers`: a program is told where layers begin and end, on native and emulated boards."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest

import qmlir
from qmlir.analysis.differences import REFERENCE, Run
from qmlir.errors import OptionError
from tests.cli.small import Small, run
from tests.cli.test_bundles import LANGUAGES, STRICT, build, bundle, small, status, tool
from tests.cli.test_bundles_of_states import ENTRIES
from tests.cli.test_device_bundles import TARGETS

__all__ = ["small"]

TOLD = """\
#include "net.h"
#include "net_vectors.h"
int net_selftest(void);
static int inside = -1, wrong, calls[NET_LAYERS];
void net_layer(uint32_t layer, int begins, const void *result) {
  (void)result;
  if (layer >= NET_LAYERS || inside != (begins ? -1 : (int)layer)) wrong = 1;
  inside = begins ? (int)layer : -1;
  if (layer < NET_LAYERS) calls[layer] += begins;
}
int main(void) {
  int i;
  if (net_layers[NET_LAYERS]) return 1;
  for (i = 0; i < NET_LAYERS; ++i)
    if (!net_layers[i] || !net_layers[i][0]) return 2;
  if (net_selftest()) return 3;
  for (i = 0; i < NET_LAYERS; ++i)
    if (!calls[i] || calls[i] % NET_SAMPLES) return 4;
  return wrong || inside != -1 ? 5 : 0;
}
"""
"""Calls of the self-test: each layer begins and ends in turn, in every call, and the outputs are the reference's."""


DUMPED = """\
#include "net.h"
#include "wanted.h"
static int wrong, seen, told;
static int same(const char *a, const char *b, uint32_t count) {
  uint32_t i;
  for (i = 0; i < count; ++i)
    if (a[i] != b[i]) return 0;
  return 1;
}
static uint32_t length(const char *text) {
  uint32_t count = 0;
  while (text[count]) ++count;
  return count + 1;
}
void net_layer(uint32_t layer, int begins, const void *result) {
  const net_result *found = &net_results[layer];
  uint32_t i, d;
  if (begins && result) wrong = 1;
  if (begins) return;
  if (!result != !found->bytes) wrong = 2;
  told += result != 0;
  for (i = 0; i < WANTED; ++i) {
    if (!result || !same(wanted[i].name, found->tensor, length(wanted[i].name))) continue;
    ++seen;
    if (found->bytes != wanted[i].bytes || found->rank != wanted[i].rank) wrong = 3;
    for (d = 0; d < wanted[i].rank; ++d)
      if (found->shape[d] != wanted[i].shape[d]) wrong = 4;
    if (!same(found->type, "int8", 5)) wrong = 5;
    if (!same((const char *)result, (const char *)wanted[i].data, wanted[i].bytes)) wrong = 6;
  }
}
int main(void) {
  int8_t scores[NET_OUTPUT0_ELEMENTS];
  net_run(image, scores);
  if (told != TOLD) return 7;
  return seen == WANTED ? wrong : 8;
}
"""
"""The results of layers, of which some are known by their tensors' names, are those of the reference."""


def dumped(small: Small, folder: Path, told: int) -> str:
    """Writes the program that compares results with the tensors of the reference."""
    run = Run(small / "net.mlir", REFERENCE, "the network")
    tensors = run.tensors(small.samples[2][None])
    image = tensors.pop("image")
    assert list(tensors) == ["active", "pooled", "scores"]
    lines = [_array("int8_t image", image), *(_array(f"int8_t {name}_data", a) for name, a in tensors.items())]
    lines += ["static const struct {", "  const char *name;", "  uint32_t bytes, rank, shape[4];"]
    lines += ["  const int8_t *data;", "} wanted[] = {"]
    for name, a in tensors.items():
        shape = ", ".join(map(str, a.shape))
        lines.append(f'  {{"{name}", {a.nbytes}, {a.ndim}, {{{shape}}}, {name}_data}},')
    lines += ["};", f"#define WANTED {len(tensors)}", f"#define TOLD {told}"]
    (folder / "wanted.h").write_text("\n".join(lines) + "\n")
    (folder / "dumped.c").write_text(DUMPED)
    return "dumped.c"


def _array(declared: str, values: npt.NDArray[np.int8]) -> str:
    return f"static const {declared}[] = {{{', '.join(map(str, values.reshape(-1).tolist()))}}};"


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--memory", "fast")])
def test_results_of_layers_are_the_references(small: Small, tmp_path: Path, options: Sequence[str]) -> None:
    folder = bundle(
        small, tmp_path / "out", "--prefix", "net", "--cpu", "x86-64-v3", "--io", "int8", "--layers", *options
    )
    (count,) = map(int, re.findall(r"#define NET_LAYERS (\d+)", (folder / "net.h").read_text()))
    for language in LANGUAGES.values():
        assert status(build(folder, language, dumped(small, folder, count), "net.o")) == 0
    told = (folder / "wanted.h").read_text()
    spoilt = re.sub(r"(pooled_data\[\] = \{)(-?\d+)", lambda m: f"{m[1]}{int(m[2]) ^ 1}", told)
    assert spoilt != told
    (folder / "wanted.h").write_text(spoilt)
    assert status(build(folder, LANGUAGES["C99"], "dumped.c", "net.o")) == 6


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55"])
def test_results_of_an_emulated_board_are_the_references(small: Small, tmp_path: Path, cpu: str) -> None:
    folder = bundle(small, tmp_path / "out", "--prefix", "net", "--cpu", cpu, "--io", "int8", "--layers")
    (count,) = map(int, re.findall(r"#define NET_LAYERS (\d+)", (folder / "net.h").read_text()))
    assert emulated(folder, cpu, dumped(small, folder, count)) == 0


def emulated(folder: Path, cpu: str, *sources: str) -> int:
    """The exit status of a program with a bundle on an emulated board."""
    target = TARGETS[cpu]
    gcc, emulator = tool(target.gcc[0]), tool(target.emulator[0])
    (folder / "start.c").write_text(target.start)
    (folder / "board.ld").write_text(target.script)
    options = ["-O1", "-DQMLIR_NO_MAIN", "-ffreestanding", "-nostdlib", "-T", "board.ld", "-o", "net.elf"]
    subprocess.run([gcc, *target.gcc[1:], *options, "start.c", *sources, "net.o", "-lgcc"], cwd=folder, check=True)
    command = [emulator, *target.emulator[1:], "net.elf"]
    return subprocess.run(command, cwd=folder, check=False, timeout=300, stdin=subprocess.DEVNULL).returncode


def told(folder: Path) -> str:
    (folder / "told.c").write_text(TOLD)
    return "told.c"


@pytest.mark.slow
@pytest.mark.parametrize("options", [(), ("--api", "dynamic"), ("--archive",), ("--memory", "fast"), ("--io", "int8")])
def test_layers_begin_and_end_in_turn(small: Small, tmp_path: Path, options: Sequence[str]) -> None:
    folder = bundle(small, tmp_path / "out", "--prefix", "net", "--cpu", "x86-64-v3", "--layers", *options)
    linked = "libnet.a" if "--archive" in options else "net.o"
    command = [tool("gcc"), "-std=c99", *STRICT, "-DQMLIR_NO_MAIN", "-o", "told", told(folder), "selftest.c", linked]
    subprocess.run(command, cwd=folder, check=True)
    assert status(folder / "told") == 0
    assert status(build(folder, LANGUAGES["C++17"], "selftest.c", linked)) == 0  # nobody is told


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["cortex-m4", "cortex-m55"])
def test_an_emulated_board_is_told(small: Small, tmp_path: Path, cpu: str) -> None:
    folder = bundle(small, tmp_path / "out", "--prefix", "net", "--cpu", cpu, "--io", "int8", "--layers")
    assert emulated(folder, cpu, told(folder), "selftest.c") == 0


def test_names_are_those_of_the_network_and_the_rest_is_as_without(small: Small, tmp_path: Path) -> None:
    options = ("--prefix", "net", "--cpu", "cortex-m4", "--io", "int8")
    plain, own = bundle(small, tmp_path / "plain", *options), bundle(small, tmp_path / "own", *options, "--layers")
    sizes = [re.findall(r"#define NET_(?:ARENA|WEIGHTS)_SIZE \d+", (f / "net.h").read_text()) for f in (plain, own)]
    assert sizes[0] == sizes[1]
    assert len(sizes[0]) == 2
    assert "LAYERS" not in (plain / "net.h").read_text()
    assert b"net_layer" not in (plain / "net.o").read_bytes()
    (count,) = map(int, re.findall(r"#define NET_LAYERS (\d+)", (own / "net.h").read_text()))
    strings = re.findall(rb"[ -~]{4,}(?=\0)", (own / "net.o").read_bytes())
    names = [text.decode() for text in strings]
    assert any("conv" in name for name in names)
    assert 1 < count <= len(names)
    for folder in (plain, own):
        vectors = (folder / "net_vectors.h").read_bytes()
        assert vectors == (plain / "net_vectors.h").read_bytes()


def test_what_is_refused(small: Small, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("compile", small / "net.mlir", "-o", tmp_path / "net.o", "--layers") == 1
    assert "--layers: is for bundles" in capsys.readouterr().err
    (tmp_path / "net.mlir").write_text(ENTRIES.replace("SECOND", "keep"))
    with pytest.raises(OptionError, match="--layers: is for networks with one function, got add, keep; choose one"):
        qmlir.bundle(tmp_path / "net.mlir", tmp_path / "out", layers=True)
    with pytest.raises(
        OptionError, match=r"--layers: is for bundles of a processor alone; .* hook layer, got nmp; leave it out"
    ):
        qmlir.bundle(small / "net.mlir", tmp_path / "out", target="nmp", layers=True)
    with pytest.raises(OptionError, match="layers"):
        qmlir.bundle(small / "net.mlir", tmp_path / "out", layers=np.array(1))  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()

"""Runs code for AArch64 in an emulator: an object is linked with a C program, which qemu's user mode runs.

    outputs = run(executable, inputs, "cortex-a76")

Debian has what this takes as qemu-user and gcc-aarch64-linux-gnu. Tests are skipped where one of them is missing.
"""

import re
import shutil
import struct
import subprocess
import tempfile
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from qmlir.backends.cpu.jit import Executable
from qmlir.numerics import Array

TRIPLE = "aarch64-linux-gnu"

EMULATED = {
    "generic": "cortex-a53",
    "cortex-a53": "cortex-a53",
    "cortex-a76": "cortex-a76",
    "neoverse-n1": "neoverse-n1",
}
"""qemu's processor for LLVM's; for others it is `max`, which has all features that qemu knows."""

SECONDS = 300
"""The longest that a program may run."""

HARNESS = r"""
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void net(const uint8_t *weights, uint8_t *arena, const void *const *inputs, void *const *outputs);

static void *memory(int64_t size, int fill) {
  size_t whole = (size_t)((size + 64) / 64 * 64);
  void *start = aligned_alloc(64, whole);
  if (!start) exit(3);
  return memset(start, fill, whole);
}

/* The job: bytes of weights and of the arena, numbers of inputs and outputs, bytes of each; weights; inputs. */
int main(int count, char **arguments) {
  if (count != 3) return 2;
  FILE *job = fopen(arguments[1], "rb"), *results = fopen(arguments[2], "wb");
  int64_t head[4];
  if (!job || !results || fread(head, 8, 4, job) != 4) return 2;
  int64_t tensors = head[2] + head[3], *sizes = memory(8 * tensors, 0);
  void **places = memory(8 * tensors, 0);
  if (fread(sizes, 8, tensors, job) != (size_t)tensors) return 2;
  uint8_t *weights = memory(head[0], 0), *arena = memory(head[1], 0xA5);
  if (fread(weights, 1, head[0], job) != (size_t)head[0]) return 2;
  for (int64_t i = 0; i < tensors; i++) {
    places[i] = memory(sizes[i], 0x5A);
    if (i < head[2] && fread(places[i], 1, sizes[i], job) != (size_t)sizes[i]) return 2;
  }
  net(weights, arena, (const void *const *)places, places + head[2]);
  for (int64_t i = head[2]; i < tensors; i++)
    if (fwrite(places[i], 1, sizes[i], results) != (size_t)sizes[i]) return 2;
  return fclose(results) != 0;
}
"""


@cache
def tool(name: str, package: str) -> str:
    """The path of a program; skips the test where it is missing."""
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"there is no {name}: apt-get install {package}")
    return found


def emulator() -> str:
    return tool("qemu-aarch64", "qemu-user")


def compiler() -> str:
    return tool("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu")


def binutil(name: str) -> str:
    """The path of a program for object files, `objdump` or `objcopy`."""
    return tool(f"aarch64-linux-gnu-{name}", "binutils-aarch64-linux-gnu")


def require() -> None:
    """Skips the test where a program that it takes is missing."""
    for found in (emulator, compiler):
        found()
    binutil("objdump")


@cache
def _harness() -> bytes:
    """The object file of the C program, compiled once a process."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "harness.c").write_text(HARNESS)
        command = [compiler(), "-O1", "-Wall", "-Werror", "-c", folder / "harness.c", "-o", folder / "harness.o"]
        subprocess.run(command, check=True)
        return (folder / "harness.o").read_bytes()


def job_of(executable: Executable, inputs: Sequence[Array]) -> bytes:
    """What the C program reads."""
    outputs = [int(np.prod(s.shape, dtype=np.int64)) * s.dtype.itemsize for s in executable.signature.outputs]
    sizes = [*(x.nbytes for x in inputs), *outputs]
    head = [executable.weights.nbytes, executable.sizes.arena, len(inputs), len(outputs), *sizes]
    data = [executable.weights, *inputs]
    return b"".join([struct.pack(f"<{len(head)}q", *head), *(np.ascontiguousarray(x).tobytes() for x in data)])


def outputs_of(executable: Executable, data: bytes) -> list[Array]:
    """The arrays that the C program writes, which are all of the bytes."""
    results: list[Array] = []
    start = 0
    for spec in executable.signature.outputs:
        count = int(np.prod(spec.shape, dtype=np.int64))
        results.append(np.frombuffer(data, spec.dtype, count, start).reshape(spec.shape))
        start += count * spec.dtype.itemsize
    assert start == len(data)
    return results


def run_as(executable: Executable, inputs: Sequence[Array], processor: str) -> tuple[int, bytes]:
    """The exit status of a program on a processor of qemu, and the bytes of its outputs."""
    require()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "harness.o").write_bytes(_harness())
        (folder / "net.o").write_bytes(executable.object)
        (folder / "job").write_bytes(job_of(executable, inputs))
        rename = [binutil("objcopy"), f"--redefine-sym={executable.entry}=net", folder / "net.o"]
        subprocess.run(rename, check=True)
        link = [compiler(), "-static", "-o", folder / "program", folder / "harness.o", folder / "net.o", "-lm"]
        subprocess.run([*link, "-pthread"], check=True)
        command = [emulator(), "-cpu", processor, folder / "program", folder / "job", folder / "results"]
        done = subprocess.run(command, check=False, timeout=SECONDS)
        return done.returncode, (folder / "results").read_bytes()


def run(executable: Executable, inputs: Sequence[Array], cpu: str) -> list[Array]:
    """The outputs of an executable for AArch64, as the emulator computes them for a processor of LLVM's name."""
    status, data = run_as(executable, inputs, EMULATED.get(cpu, "max"))
    assert status == 0
    return outputs_of(executable, data)


def instructions(data: bytes) -> set[str]:
    """The names of the instructions in an object file."""
    with tempfile.TemporaryDirectory() as name:
        path = Path(name) / "net.o"
        path.write_bytes(data)
        command = [binutil("objdump"), "-d", "--no-show-raw-insn", str(path)]
        text = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return set(re.findall(r"^ +[0-9a-f]+:\t(\S+)", text, re.MULTILINE))

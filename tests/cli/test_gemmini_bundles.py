"""Bundles with Gemmini's own commands: what the code issues computes the network, at whatever address its memory is."""

import ctypes
import re
import shutil
import subprocess
from pathlib import Path
from typing import Literal

import numpy as np
import pytest

import qmlir
from qmlir.backends.hardware.gemmini.encoder import BASE
from qmlir.backends.hardware.gemmini.machine import Machine
from qmlir.backends.hardware.gemmini.words import Function
from qmlir.cli.main import main
from qmlir.numerics import Array
from tests.conftest import ROOT

DIGITS = ROOT / "examples" / "digits"
RISCV = "riscv64-unknown-elf-gcc"
FREESTANDING = [
    "-march=rv64gc",
    "-mabi=lp64d",
    "-mcmodel=medany",
    "-ffreestanding",
    "-O2",
    "-Wall",
    "-Wextra",
    "-Werror",
]
DEVICE = qmlir.load_device("gemmini").with_({"encoder": "gemmini"})

SHIM = """
#include "digits_gemmini.h"
static void (*device)(uint64_t, uint64_t, uint64_t);
void digits_gemmini_issue(uint64_t function, uint64_t first, uint64_t second) { device(function, first, second); }
void with_device(void (*own)(uint64_t, uint64_t, uint64_t)) { device = own; }
"""


def bundled(folder: Path, io: Literal["int8", "float"], *options: str) -> int:
    """Writes the bundle of digits, quantized for Gemmini; with int8, nothing is left to the processor."""
    images = np.load(DIGITS / "digits.npz")["calibration_images"][:20, None]
    quantized = qmlir.quantize(DIGITS / "digits.onnx", data=images, target=DEVICE, io=io, measure=False)
    qmlir.save(quantized, folder / "digits.mlir")
    given = ["--target", "gemmini", "--set", "encoder=gemmini", "--bundle", *options]
    return main(["compile", str(folder / "digits.mlir"), *given, "-o", str(folder / "digits")])


def issued(folder: Path, given: Array, expected: Array) -> tuple[Array, int]:
    """The output that the code computes with the functional model as its device, and how many commands it issued."""
    (folder / "shim.c").write_text(SHIM, "utf-8")
    sources = ["digits_gemmini.c", "shim.c", "digits.o", "-o", "digits.so"]
    command = ["cc", "-shared", "-fPIC", "-O2", "-Wall", "-Wextra", "-Werror", "-Wl,--unresolved-symbols=ignore-all"]
    subprocess.run([*command, *sources], cwd=folder, check=True)
    library = ctypes.CDLL(str(folder / "digits.so"))
    text = (folder / "digits_gemmini.h").read_text("utf-8")
    (size,) = map(int, re.findall(r"GEMMINI_MEMORY_SIZE (\d+)", text))
    whole = np.random.default_rng(0).integers(0, 256, size + BASE + 64, np.uint8)
    start = BASE + -(whole.ctypes.data + BASE) % 64
    memory, model_memory = whole[start : start + size], whole[start - BASE : start + size]
    first, machine, count = memory.ctypes.data, Machine(model_memory), 0

    def issue(function: int, *registers: int) -> None:
        nonlocal count
        count += 1
        machine.run([(function, *(r - first + BASE if first <= r < first + size else r for r in registers))])

    kind = ctypes.CFUNCTYPE(None, *[ctypes.c_uint64] * 3)
    device, result = kind(issue), np.zeros_like(expected)
    library.with_device(device)
    library.digits_gemmini_init(ctypes.c_void_p(first))
    for _ in range(2):  # a call leaves nothing behind
        library.digits_gemmini_run(*map(ctypes.c_void_p, (first, given.ctypes.data, result.ctypes.data)))
    return result, count // 2


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("io", ["int8", "float"])
def test_what_is_issued_computes_the_network(tmp_path: Path, io: Literal["int8", "float"]) -> None:
    """With floats, the processor converts them between Gemmini's commands."""
    assert bundled(tmp_path, io) == 0
    module = qmlir.load(tmp_path / "digits.mlir")
    layered = qmlir.compile(module, target=DEVICE).layered
    assert layered is not None
    (spec,) = qmlir.reference(module).signature.inputs
    image = np.load(DIGITS / "digits.npz")["test_images"][:1, None]
    given = np.ascontiguousarray((image * 7 if io == "int8" else image).reshape(spec.shape).astype(spec.dtype))
    (expected,) = qmlir.reference(module).run(given)
    result, commands = issued(tmp_path / "digits", given, np.asarray(expected))
    assert (result == expected).all()
    assert commands == len(layered.words.all) // 3
    assert len(layered.steps) == len(layered.layers) + (0 if io == "int8" else 2)


@pytest.mark.skipif(shutil.which(RISCV) is None, reason="needs a compiler for RISC-V")
def test_an_instruction_for_each_function(tmp_path: Path) -> None:
    """Custom opcode 3 with two registers: the function in the highest seven bits."""
    assert bundled(tmp_path, "int8", "--cpu", "rv64gc") == 0
    folder = tmp_path / "digits"
    for name in ("digits_gemmini", "selftest_gemmini"):
        subprocess.run([RISCV, *FREESTANDING, "-c", f"{name}.c"], cwd=folder, check=True)
    linked = ["-nostdlib", "-Wl,--entry=main", "selftest_gemmini.o", "digits_gemmini.o", "digits.o", "-o", "selftest"]
    subprocess.run([RISCV, *FREESTANDING[:4], *linked], cwd=folder, check=True)
    shown = subprocess.run(
        ["riscv64-unknown-elf-objdump", "-d", "selftest"], cwd=folder, check=True, capture_output=True, text=True
    )
    words = [int(word, 16) for word in re.findall(r"^\s+[0-9a-f]+:\s+([0-9a-f]{8})\s", shown.stdout, re.MULTILINE)]
    custom = [word for word in words if word & 0x7F == 0x7B]
    assert {word >> 12 & 7 for word in custom} == {3}
    assert {word >> 25 for word in custom} == {*Function} - {Function.FENCE}


@pytest.mark.parametrize("options", [["--api", "dynamic"], ["--weights-in", "file"]])
def test_forms_that_are_refused(tmp_path: Path, options: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert bundled(tmp_path, "int8", *options) == 1
    assert "--bundle: is for Gemmini's own commands in the static form" in capsys.readouterr().err
    assert not (tmp_path / "digits").exists()

"""The example of a program for Gemmini: what it issues are the network's commands, and they compute the network."""

import importlib.util
import re
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

import qmlir
from qmlir.backends.hardware.gemmini.encoder import BASE
from qmlir.backends.hardware.gemmini.machine import Machine
from qmlir.backends.hardware.gemmini.words import FIELDS, Function
from tests.conftest import ROOT

FOLDER, DIGITS = ROOT / "examples" / "gemmini", ROOT / "examples" / "digits"
RISCV = "riscv64-unknown-elf-gcc"


@pytest.fixture(scope="module")
def bundle() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bundle", FOLDER / "bundle.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def folder(bundle: ModuleType, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """main.c, the network of digits and an image as network.h."""
    made, data = tmp_path_factory.mktemp("gemmini"), np.load(DIGITS / "digits.npz")
    quantized = qmlir.quantize(
        DIGITS / "digits.onnx", data=data["calibration_images"][:20, None], target="gemmini", io="int8", measure=False
    )
    qmlir.save(quantized, made / "digits.mlir")
    np.save(made / "image.npy", (data["test_images"][0][None] * 7).astype(np.int8))
    bundle.main([str(made / "digits.mlir"), str(made / "image.npy"), str(made / "network.h")])
    shutil.copy(FOLDER / "main.c", made)
    return made


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_what_is_issued_computes_the_network(folder: Path, bundle: ModuleType) -> None:
    command = ["cc", "-Wall", "-Wextra", "-Werror", "-o", "issued", "main.c"]
    subprocess.run(command, cwd=folder, check=True)
    done = subprocess.run([folder / "issued"], capture_output=True, text=True, check=False)
    commands = [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
    module, given = qmlir.load(folder / "digits.mlir"), np.load(folder / "image.npy")
    program = qmlir.compile(module, target=qmlir.load_device("gemmini").with_({"encoder": "gemmini"})).layered
    assert program is not None
    assert [word for each in commands for word in each] == list(program.words.all)
    memory = np.zeros(BASE + program.size, np.uint8)
    memory[BASE:] = bundle.memory_of(program, given)
    Machine(memory).run(commands)
    (expected,) = qmlir.reference(module).run(given)
    at = BASE + program.addresses[program.outputs[0].name]
    assert (memory[at : at + expected.size].view(np.int8) == expected.reshape(-1)).all()


@pytest.mark.skipif(shutil.which(RISCV) is None, reason="needs a compiler for RISC-V")
def test_an_instruction_for_each_function(folder: Path) -> None:
    """Custom opcode 3 with two registers: the function in the highest seven bits."""
    flags = ["-march=rv64gc", "-mcmodel=medany", "-ffreestanding", "-O2", "-Wall", "-Werror", "-c"]
    subprocess.run([RISCV, *flags, "main.c", "-o", "main.o"], cwd=folder, check=True)
    shown = subprocess.run(
        ["riscv64-unknown-elf-objdump", "-d", "main.o"], cwd=folder, check=True, capture_output=True, text=True
    )
    words = [int(word, 16) for word in re.findall(r"^\s+[0-9a-f]+:\s+([0-9a-f]{8})\s", shown.stdout, re.MULTILINE)]
    custom = [word for word in words if word & 0x7F == 0x7B]
    assert {word >> 12 & 7 for word in custom} == {3}
    assert {word >> 25 for word in custom} == {*Function} - {Function.FENCE}


def test_the_registers_that_hold_addresses() -> None:
    """As the fields of the commands have them: those of 64 bits that are no stride."""
    text = (FOLDER / "main.c").read_text("utf-8")
    table = text[text.index("static int addresses") : text.index("int main")]
    one, both = (set(map(int, re.findall(r"case (\d+):", part))) for part in table.split("return 1;"))
    held = {
        function: [name for name, field in FIELDS[function].items() if field.bits == 64 and "stride" not in name]
        for function in Function
        if function in FIELDS
    }
    assert one == {function for function, names in held.items() if names == ["address"]}
    assert both == {function for function, names in held.items() if len(names) == 2}

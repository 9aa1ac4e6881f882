"""The C text of a model: portable, without warnings, and only what a program needs."""

import platform
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from qmlir.backends.npu.c_model.library import BLOCKS, FLAGS, X86
from qmlir.backends.npu.c_model.sources import ENCODING, EXECUTED, HEADER, MODEL, model_sources, needed
from qmlir.backends.npu.c_model.status import MEANING, Status
from qmlir.devices import load_device, shipped_devices
from qmlir.isa.commands import COMMANDS, Convolve, End, Fill, Move, Post, SetContext
from qmlir.isa.encoding import field_kinds
from tests.backends.npu.programs import DEVICE, Layer

STRICT = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wshadow", "-Wstrict-prototypes", "-ffreestanding")
SETS = {
    "everything": (None, None),
    "moves": ([], [Move, Fill]),
    "one contract": (["double"], [Convolve, Post, SetContext]),
    "floats": (["float_even"], [Post, SetContext]),
    "nothing": ([], []),
}


def compiled(folder: Path, sources: dict[str, str], *flags: str) -> str:
    """What the compiler says about the model."""
    for name, text in sources.items():
        (folder / name).write_text(text, encoding="ascii")
    command = ["cc", *STRICT, *flags, "-c", MODEL, "-o", "model.o"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False).stderr


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("device", shipped_devices())
def test_portable_without_warnings(device: str, tmp_path: Path) -> None:
    assert compiled(tmp_path, dict(model_sources(load_device(device)))) == ""


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
def test_the_blocks_of_the_simulator(tmp_path: Path) -> None:
    macros = [f"-D{name}={value}" for name, value in BLOCKS.items()]
    sources = dict(model_sources(DEVICE))
    assert compiled(tmp_path, sources, *macros) == ""
    assert all(f"#ifndef {name}\n" in sources[MODEL] for name in BLOCKS)


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("gcc") is None or platform.machine() != "x86_64", reason="needs gcc for x86-64")
def test_products_of_bytes_are_one_instruction(tmp_path: Path) -> None:
    """Of 4 by 4 and of 1 by 4 sums at least, and without one that multiplies pairs of 16 bits."""
    version = subprocess.run(["gcc", "-dumpversion"], capture_output=True, text=True, check=True).stdout
    if int(version.split(".")[0]) < 12:
        pytest.skip("needs gcc 12, which knows products of unsigned by signed bytes")
    for name, text in model_sources(load_device("vta"), [], [Convolve]).items():
        (tmp_path / name).write_text(text, encoding="ascii")
    flags = [*FLAGS, "-O3", "-march=cascadelake", *X86, *(f"-D{name}={value}" for name, value in BLOCKS.items())]
    subprocess.run(["gcc", *flags, "-S", MODEL, "-o", "model.s"], cwd=tmp_path, check=True)
    code = (tmp_path / "model.s").read_text()
    assert code.count("vpdpbusd") >= 4 * 4 + 4
    assert "vpdpwssd" not in code


@pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")
@pytest.mark.parametrize("name", SETS)
def test_parts_of_it(name: str, tmp_path: Path) -> None:
    """Each choice compiles by itself, and needs no floats, no library and no memory of its own."""
    sources = dict(model_sources(DEVICE, *SETS[name]))
    assert compiled(tmp_path, sources, "-Os") == ""
    code = re.sub(r"/\*.*?\*/", "", sources[MODEL], flags=re.DOTALL)
    for word in ("float", "double", "malloc", "stdlib.h", "string.h"):
        assert not re.search(rf"\b{word}\b", code)
    if shutil.which("nm"):
        symbols = subprocess.run(["nm", "model.o"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
        kinds = {line.split()[-2:][0] for line in symbols.splitlines()}
        external = {line.split()[-1] for line in symbols.splitlines() if " T " in line}
        assert external == {"qmlir_npu_model"}
        assert kinds <= {"T", "t", "r", "U"}
        assert {s.split()[-1] for s in symbols.splitlines() if " U " in s} <= {"memcpy", "memset", "memmove"}


def test_what_a_program_needs() -> None:
    commands = Layer.random().program().commands
    contracts, kinds = needed(commands)
    assert contracts == {"shift"}
    assert {Convolve, Post, Move, SetContext, End} <= kinds
    small, whole = (len(model_sources(DEVICE, *given)[MODEL]) for given in ((contracts, kinds), (None, None)))
    assert small < 0.8 * whole
    assert "case 4: /* shift */" in model_sources(DEVICE, contracts, kinds)[MODEL]
    assert "/* double */" not in model_sources(DEVICE, contracts, kinds)[MODEL]


def test_the_numbers_of_commands_and_fields() -> None:
    text = model_sources(DEVICE)[ENCODING]
    for kind in COMMANDS:
        for number, field in enumerate(field_kinds(kind)):
            assert f"_{field.upper()} = {number},\n" in text
    assert "QMLIR_NPU_SET_CONTEXT = 1," in text
    assert "QMLIR_NPU_CONVOLVE_OUT_CHANNELS = 27," in text
    assert "QMLIR_NPU_CONVOLVE_FIELDS = 28\n" in text
    assert "QMLIR_NPU_INIT_ACCUMULATE = 2" in text


def test_every_status_has_a_meaning() -> None:
    assert MEANING.keys() == set(Status)
    for status in Status:
        name = f"QMLIR_NPU_{'' if status is Status.DONE else 'FAULT_'}{status.name}"
        assert f"  {name} = {status.value}, /* {MEANING[status]} */" in model_sources(DEVICE)[HEADER]
    assert EXECUTED.keys() < set(COMMANDS)

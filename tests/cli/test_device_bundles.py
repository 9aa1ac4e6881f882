"""`qmlir compile --target … --bundle`: firmware whose accelerator is the model in C, built and run; refusals."""

import json
import re
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from hashlib import sha256
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import qmlir
from qmlir.backends.npu.firmware import STACK
from qmlir.cli.documents import schema
from qmlir.compiler import with_interface
from qmlir.devices import shipped_devices
from qmlir.errors import OptionError, UnsupportedError
from tests.cli.small import Small, run, write_small
from tests.cli.test_bundles import LANGUAGES, STARTUP, STRICT, pointer_to_weights, spoil, status, tool
from tests.cli.test_bundles_of_states import ENTRIES
from tests.conftest import crossed
from tests.ir.test_states import DELAY, X

ARM = """\
MEMORY {{ FLASH (rx) : ORIGIN = 0x00000000, LENGTH = 512K  RAM (rw) : ORIGIN = {0}, LENGTH = 15M }}
SECTIONS {{
  .text : {{ KEEP(*(.vectors)) *(.text*) }} > FLASH
  .data : {{ *(.rodata*) *(.data*) *(.bss*) *(COMMON) }} > RAM
  stack_top = {1};
}}
"""
"""A board with an external memory, for devices of half a megabyte and samples of any size."""


@dataclass(frozen=True)
class Target:
    """How a program is built without a library for a processor that is emulated.

    gcc       the compiler and its options
    start     what calls `main` and ends with its status
    script    the linker's script
    emulator  the emulator and its options, behind which stands the program
    """

    gcc: Sequence[str]
    start: str
    script: str
    emulator: Sequence[str]


def board(name: str, memory: str, stack: str, *options: str) -> Target:
    """A board of qemu's with a processor of Arm's profile M."""
    start = STARTUP.replace(
        "static void reset(void) {",
        "static void reset(void) {\n  *(volatile uint32_t *)0xe000ed88 = 0xf00000; /* registers of vectors */",
    )
    emulator = (
        "qemu-system-arm",
        "-M",
        name,
        "-nographic",
        "-semihosting-config",
        "enable=on,target=native",
        "-kernel",
    )
    return Target(("arm-none-eabi-gcc", "-mthumb", *options), start, ARM.format(memory, stack), emulator)


LINUX = """\
extern int main(void);
__attribute__((naked, section(".text.start"), used)) void _start(void) {
  __asm__ volatile("la sp, stack_top\\n call main\\n li a7, 93\\n ecall");
}
"""
"""A program of Linux on RISC-V, which ends by the call of number 93."""

RISCV = """\
ENTRY(_start)
SECTIONS {
  . = 0x10000;
  .text : { *(.text.start) *(.text*) }
  . = ALIGN(4096);
  .data : { *(.rodata*) *(.srodata*) *(.data*) *(.sdata*) *(.bss*) *(.sbss*) *(COMMON) . = ALIGN(16); . += 65536; }
  stack_top = .;
}
"""

TARGETS = {
    "cortex-m4": board("mps2-an386", "0x21000000", "0x20400000", "-mcpu=cortex-m4"),
    "cortex-m55": board("mps3-an547", "0x70000000", "0x70f80000", "-mcpu=cortex-m55", "-mfloat-abi=soft"),
    "rv32imc": Target(("riscv64-unknown-elf-gcc", "-march=rv32imc", "-mabi=ilp32"), LINUX, RISCV, ("qemu-riscv32",)),
}
"""Processor → how a program for it is built and emulated."""

PAINTED = """\
#include "net.h"
#include "net_vectors.h"
enum { DEEP = 16384, NEAR = 64 };
static uint8_t out[NET_OUTPUT0_ELEMENTS];
static int ended(struct qmlir_npu *npu, uint32_t queue, const uint32_t *words, uint32_t count, uint32_t commands) {
  (void)npu, (void)queue, (void)words, (void)count, (void)commands;
  return 0;
}
static const struct qmlir_npu_hooks none = {ended, 0, 0, 0, 0, 0, 0, 0, 0};
static void nothing(void) {}
static void network(void) { net_run((const int8_t *)net_input0, (int8_t *)out); }
/* How many bytes of stack a function takes: those below it that keep no pattern. */
static uint32_t used(void (*function)(void)) {
  volatile uint8_t here, *low = &here - DEEP;
  uint32_t i;
  for (i = 0; i < DEEP - NEAR; ++i) low[i] = 0xa5;
  function();
  for (i = 0; i < DEEP - NEAR && low[i] == 0xa5; ++i) {}
  return DEEP - i;
}
int main(void) {
  uint32_t before, alone, whole;
  if (net_init(net_model_memories, &none, net_model)) return 3;
  before = used(nothing);
  alone = used(network);
  if (net_init(net_model_memories, &net_model_hooks, net_model)) return 3;
  whole = used(network);
  if (alone - before > NET_STACK_SIZE) return 1;
  return whole <= alone || whole - before > NET_STACK_SIZE + NET_MODEL_STACK_SIZE ? 2 : 0;
}
"""

BY_HAND = """\
#include "net.h"
#include "net_vectors.h"
static uint32_t moved, computed, by_hand = 1;
static int submit(struct qmlir_npu *npu, uint32_t queue, const uint32_t *words, uint32_t count, uint32_t commands) {
  int moves = NET_DMA_QUEUES >> queue & 1;
  *(moves ? &moved : &computed) += commands;
  if (!moves || by_hand) return net_model_hooks.submit(npu, queue, words, count, commands);
  return 0; /* nobody moves them */
}
static const struct qmlir_npu_hooks hooks = {submit, 0, 0, 0, 0, 0, 0, 0, 0};
static int8_t out[NET_OUTPUT0_ELEMENTS];
static int differ(void) {
  uint32_t i, different = 0;
  if (net_init(net_model_memories, &hooks, net_model) || net_run((const int8_t *)net_input0, out)) return -1;
  for (i = 0; i < NET_OUTPUT0_ELEMENTS; ++i) different += out[i] != ((const int8_t *)net_output0)[i];
  return (int)different;
}
int main(void) {
  by_hand = 0;
  if (differ() <= 0 || !moved) return 1;
  by_hand = 1;
  return differ() || !computed ? 2 : 0;
}
"""
"""A device whose loads and stores are the processor's work; without them, the outputs are others."""

TWO = """\
#include "one.h"
#include "two.h"
int one_selftest(void);
int two_selftest(void);
int main(void) { return one_selftest() || two_selftest() || one_selftest(); }
"""


def quantize(folder: Path, device: str) -> Small:
    small = write_small(folder)
    assert run("quantize", small.onnx, "--data", small.data, "--target", device, "-o", small / "net.mlir") == 0
    return small


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Small]:
    """The small network, quantized for a device."""
    found: dict[str, Small] = {}

    def of(device: str) -> Small:
        if device not in found:
            found[device] = quantize(tmp_path_factory.mktemp(device), device)
        return found[device]

    return of


def bundle(small: Small, folder: Path, device: str, *options: object) -> Path:
    assert run("compile", small / "net.mlir", "--target", device, "--bundle", "-o", folder, *options) == 0
    return folder


def sources_of(folder: Path, name: str = "net") -> list[str]:
    """What a program links beside its own file."""
    weights = [file for file in (f"{name}_weights.c", f"{name}.o", f"lib{name}.a") if (folder / file).exists()]
    return [f"{name}.c", f"{name}_model.c", "qmlir_npu.c", *weights]


def build(folder: Path, language: Sequence[str], source: str, files: Sequence[str]) -> Path:
    """Builds a program of a bundle without a warning: its source in a language, and the bundle's files in C."""
    program = folder / f"{source}.out"
    subprocess.run(
        [tool(language[0]), *language[1:], *STRICT, "-c", source, "-o", f"{source}.o"], cwd=folder, check=True
    )
    command = [tool("gcc"), "-std=c99", *STRICT, "-O1", "-Wl,--fatal-warnings", "-o", program.name, f"{source}.o"]
    subprocess.run([*command, *files], cwd=folder, check=True)
    return program


def emulated(
    folder: Path, cpu: str, source: str, files: Sequence[str], level: str = "-Os", seconds: float = 300
) -> int:
    """The status of a program without a library on an emulated processor, which ends within some seconds."""
    target = TARGETS[cpu]
    compiler, emulator = tool(target.gcc[0]), tool(target.emulator[0])
    (folder / "start.c").write_text(target.start)
    (folder / "board.ld").write_text(target.script)
    options = [level, "-ffreestanding", "-nostdlib", "-static", "-T", "board.ld", "-Wl,--gc-sections"]
    command = [compiler, *target.gcc[1:], *options, "-ffunction-sections", "-fdata-sections", "-o", "net.elf"]
    subprocess.run([*command, "start.c", source, *files, "-lgcc"], cwd=folder, check=True)
    command = [emulator, *target.emulator[1:], "net.elf"]
    return subprocess.run(command, cwd=folder, check=False, timeout=seconds, stdin=subprocess.DEVNULL).returncode


@pytest.mark.slow
@pytest.mark.parametrize("device", shipped_devices())
@crossed(
    {
        "api, weights": [
            ("static", "object"),
            ("static", "array"),
            ("static", "file"),
            ("dynamic", "object"),
            ("dynamic", "array"),
            ("dynamic", "file"),
        ],
        "language": LANGUAGES,
        "io": [(), ("--io", "int8")],
    }
)
def test_selftest_and_example_build_and_run(
    small: Callable[[str], Small], tmp_path: Path, device: str, api: str, weights: str, language: str, io: Sequence[str]
) -> None:
    options = ("--api", api, "--weights-in", weights, "--cpu", "x86-64-v3", *io)
    folder = bundle(small(device), tmp_path / "out", device, *options)
    files = sources_of(folder)
    if weights == "file":
        files.append(pointer_to_weights(folder, "net"))
    assert status(build(folder, LANGUAGES[language], "selftest.c", files)) == 0
    assert status(build(folder, LANGUAGES[language], "main.c", files)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("device", ["nmp", "ethos-u55-like"])
@pytest.mark.parametrize("cpu", TARGETS)
def test_a_program_without_a_library_runs_in_emulators(
    small: Callable[[str], Small], tmp_path: Path, device: str, cpu: str
) -> None:
    folder = bundle(small(device), tmp_path / "out", device, "--cpu", cpu, "--io", "int8")
    assert emulated(folder, cpu, "selftest.c", sources_of(folder)) == 0


@pytest.mark.slow
@pytest.mark.parametrize("device", shipped_devices())
def test_a_processor_moves_what_a_device_without_dma_cannot(
    small: Callable[[str], Small], tmp_path: Path, device: str
) -> None:
    folder = bundle(small(device), tmp_path / "out", device, "--cpu", "x86-64-v3", "--io", "int8")
    queues = qmlir.load_device(device).queue
    (mask,) = re.findall(r"#define NET_DMA_QUEUES (0x\w+) ", (folder / "net.h").read_text())
    assert [q.id for n, q in enumerate(queues) if int(mask, 16) >> n & 1] == [q.id for q in queues if q.engine == "dma"]
    (folder / "by_hand.c").write_text(BY_HAND)
    assert status(build(folder, LANGUAGES["C99"], "by_hand.c", sources_of(folder))) == 0


@pytest.mark.slow
def test_a_selftest_counts_the_samples_that_differ(small: Callable[[str], Small], tmp_path: Path) -> None:
    folder = bundle(small("nmp"), tmp_path / "out", "nmp", "--io", "int8")
    spoil(folder)
    assert status(build(folder, LANGUAGES["C99"], "selftest.c", sources_of(folder))) == 1


@pytest.mark.slow
@crossed({"device": shipped_devices(), "cpu": ["x86-64-v3", *TARGETS], "level": ["-O1", "-Os", "-O2", "-O3"]})
def test_the_stack_is_no_deeper_than_stated(
    small: Callable[[str], Small], tmp_path: Path, device: str, cpu: str, level: str
) -> None:
    folder = bundle(small(device), tmp_path / "out", device, "--cpu", cpu, "--io", "int8")
    (folder / "painted.c").write_text(PAINTED)
    sizes = json.loads((folder / "manifest.json").read_text())["sizes"]
    assert STACK <= sizes["stack"] <= 1024
    if cpu in TARGETS:
        assert emulated(folder, cpu, "painted.c", sources_of(folder), level) == 0
    else:
        command = [tool("gcc"), level, "-fno-stack-protector", "-o", "painted", "painted.c", *sources_of(folder)]
        subprocess.run(command, cwd=folder, check=True)
        assert status(folder / "painted") == 0


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cortex-m4", "cortex-m55"])
def test_the_runtime_is_small(small: Callable[[str], Small], tmp_path: Path, name: str) -> None:
    folder = bundle(small("nmp"), tmp_path / "out", "nmp", "--cpu", name, "--io", "int8")
    gcc, size = tool("arm-none-eabi-gcc"), tool("arm-none-eabi-size")
    command = [gcc, *TARGETS[name].gcc[1:], "-Os", "-std=c99", *STRICT, "-ffreestanding", "-c", "qmlir_npu.c"]
    subprocess.run([*command, "-o", "runtime.o"], cwd=folder, check=True)
    listed = subprocess.run([size, "runtime.o"], cwd=folder, check=True, capture_output=True, text=True).stdout
    text, data, zeros = map(int, listed.splitlines()[1].split()[:3])
    assert text <= 1536
    assert data == zeros == 0
    undefined = subprocess.run(
        [tool("arm-none-eabi-nm"), "-u", "runtime.o"], cwd=folder, check=True, capture_output=True, text=True
    )
    assert not undefined.stdout


@pytest.mark.slow
def test_the_manifest_says_what_is_in_the_folder(small: Callable[[str], Small], tmp_path: Path) -> None:
    device = "ethos-u55-like"
    folder = bundle(small(device), tmp_path / "out", device, "--cpu", "cortex-m4", "--io", "int8")
    manifest = json.loads((folder / "manifest.json").read_text())
    Draft202012Validator(schema()).validate(manifest)
    hashes = {file["name"]: (file["sha256"], file["bytes"]) for file in manifest["files"]}
    there = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != "manifest.json"}
    assert hashes == {name: (sha256(data).hexdigest(), len(data)) for name, data in there.items()}
    network = qmlir.compile(with_interface(qmlir.load(small(device) / "net.mlir"), "int8"), target=device)
    assert manifest["device"]["name"] == device
    assert manifest["device"]["layers"] == list(network.program.layers)
    header, model = (folder / "net.h").read_text(), (folder / "net_model.c").read_text()
    for number, memory in enumerate(manifest["device"]["memories"]):
        assert memory["name"] == network.device.memory[number].id
        assert f"#define NET_MEMORY{number}_SIZE {memory['bytes']} " in header
    flash = next(memory for memory in manifest["device"]["memories"] if memory["read_only"])
    assert flash["bytes"] == flash["constants"] > 0
    assert re.search(
        r"net_model_memories\[\] = \{memory0, memory1, \(uint8_t \*\)\(net_weights \+ NET_MEMORY2_OFFSET\)\}", model
    )
    assert f"#define NET_STACK_SIZE {manifest['sizes']['stack']} " in header
    assert manifest["sizes"]["arena"] == manifest["sizes"]["code"] == 0  # the host computes nothing


@pytest.mark.slow
def test_cmake_builds_and_tests_two_networks_with_one_runtime(small: Callable[[str], Small], tmp_path: Path) -> None:
    cmake = tool("cmake")
    for name, device in (("one", "nmp"), ("two", "gemmini")):
        folder = bundle(small(device), tmp_path / name, device, "--prefix", name, "--weights-in", "array")
        subprocess.run([cmake, "-S", folder, "-B", tmp_path / f"build_{name}"], check=True, capture_output=True)
        subprocess.run([cmake, "--build", tmp_path / f"build_{name}"], check=True, capture_output=True)
        assert status(tmp_path / f"build_{name}" / f"{name}_selftest") == 0
        assert status(tmp_path / f"build_{name}" / f"{name}_example") == 0
    (tmp_path / "both.c").write_text(TWO)
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.13)\nproject(both C)\nadd_subdirectory(one)\nadd_subdirectory(two)\n"
        "add_executable(both both.c one/selftest.c two/selftest.c)\n"
        "target_compile_definitions(both PRIVATE QMLIR_NO_MAIN)\n"
        "target_link_libraries(both one_model two_model)\n"
    )
    subprocess.run([cmake, "-S", tmp_path, "-B", tmp_path / "build"], check=True, capture_output=True)
    subprocess.run([cmake, "--build", tmp_path / "build"], check=True, capture_output=True)
    assert status(tmp_path / "build" / "both") == 0


@pytest.mark.slow
@pytest.mark.parametrize("cpu", ["cortex-m4", "rv32imc"])
def test_cmake_links_what_the_compiler_calls(small: Callable[[str], Small], tmp_path: Path, cpu: str) -> None:
    """A program without a library gets the divisions of 64 bits that the model has, and the processor has not."""
    cmake, compiler = tool("cmake"), TARGETS[cpu].gcc
    folder = bundle(small("nmp"), tmp_path / "out", "nmp", "--cpu", cpu, "--io", "int8")
    tool(compiler[0])
    options = {
        "CMAKE_SYSTEM_NAME": "Generic",
        "CMAKE_C_COMPILER": compiler[0],
        "CMAKE_C_COMPILER_WORKS": "1",
        "CMAKE_C_FLAGS": " ".join([*compiler[1:], "-Os", "-ffreestanding", "-nostdlib"]),
    }
    given = [f"-D{name}={value}" for name, value in options.items()]
    subprocess.run([cmake, "-S", folder, "-B", tmp_path / "build", *given], check=True, capture_output=True)
    subprocess.run([cmake, "--build", tmp_path / "build"], check=True, capture_output=True)
    symbols = subprocess.run(
        [tool(compiler[0].replace("gcc", "nm")), tmp_path / "build" / "net_selftest"],
        check=True, capture_output=True, text=True,
    ).stdout  # fmt: skip
    assert re.search(r" [Tt] (__aeabi_ldivmod|__divdi3)$", symbols, re.MULTILINE)


@pytest.mark.slow
@pytest.mark.parametrize("api", ["static", "dynamic"])
def test_states_live_from_call_to_call(tmp_path: Path, api: str) -> None:
    (tmp_path / "delay.mlir").write_text(DELAY)
    np.save(tmp_path / "x.npy", X)
    model = tmp_path / "net.mlir"
    assert run("quantize", tmp_path / "delay.mlir", "--data", tmp_path / "x.npy", "--target=nmp", "-o", model) == 0
    folder = tmp_path / "out"
    options = ("--api", api, "--cpu", "x86-64-v3")
    assert run("compile", model, "--target", "nmp", "--bundle", "-o", folder, *options) == 0
    manifest = json.loads((folder / "manifest.json").read_text())
    Draft202012Validator(schema()).validate(manifest)
    assert manifest["sizes"]["state"] == manifest["sizes"]["state_bytes"] > 0
    for language in LANGUAGES.values():
        assert status(build(folder, language, "selftest.c", sources_of(folder))) == 0
        assert status(build(folder, language, "main.c", sources_of(folder))) == 0


@pytest.mark.slow
def test_python_writes_the_same_bundle(small: Callable[[str], Small], tmp_path: Path) -> None:
    options = ("--cpu", "x86-64-v3", "--io", "int8", "--api", "dynamic", "--archive", "--prefix", "seen")
    folder = bundle(small("vta"), tmp_path / "command", "vta", *options)
    files = qmlir.bundle(
        small("vta") / "net.mlir", tmp_path / "python", prefix="seen", archive=True, cpu="x86-64-v3", io="int8",
        api="dynamic", target="vta",
    )  # fmt: skip
    assert {path.name for path in files} == {path.name for path in folder.iterdir()}
    for path in files:
        assert path.read_bytes() == (folder / path.name).read_bytes(), path.name
    assert status(build(folder, LANGUAGES["C99"], "selftest.c", sources_of(folder, "seen"))) == 0


@pytest.mark.parametrize(
    ("options", "error"),
    [
        (("--api", "glow"), "--api: must be static or dynamic with --target"),
        (("--threads", "2"), "--threads: is not for bundles"),
        (("--batch", "2"), "--batch: is not for bundles"),
        (("--emit", "asm"), "--emit: is not for bundles"),
        (("--prefix", "int"), "--prefix: must be an identifier of C"),
        (("--cpu", "cortex-m4"), "must call no function of a library"),
    ],
)
def test_what_bundles_for_devices_do_not_take(
    small: Callable[[str], Small],
    tmp_path: Path,
    options: Sequence[str],
    error: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    network = small("nmp") / "net.mlir"
    assert run("compile", network, "--target", "nmp", "--bundle", "-o", tmp_path / "out", *options) == 1
    assert error in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_several_entries_are_refused(tmp_path: Path) -> None:
    (tmp_path / "net.mlir").write_text(ENTRIES.replace("SECOND", "keep"))
    with pytest.raises(UnsupportedError, match="must have one function in a bundle for a device, got add, keep"):
        qmlir.bundle(tmp_path / "net.mlir", tmp_path / "out", target="nmp")
    assert not (tmp_path / "out").exists()


def test_batches_are_refused(small: Callable[[str], Small], tmp_path: Path) -> None:
    module = qmlir.Pipeline(("batch-samples", {"most": 3}))(qmlir.load(small("nmp") / "net.mlir"))
    with pytest.raises(UnsupportedError, match="must take one sample a call in a bundle, got up to 3"):
        qmlir.bundle(module, tmp_path / "out", target="nmp")


def test_python_refuses_what_it_cannot_write(small: Callable[[str], Small], tmp_path: Path) -> None:
    write = partial(qmlir.bundle, small("nmp") / "net.mlir", tmp_path / "out")
    with pytest.raises(OptionError, match="api: must be static or dynamic with --target, got glow"):
        write(api="glow", target="nmp")
    with pytest.raises(OptionError, match="nmq"):
        write(target="nmq")
    assert not (tmp_path / "out").exists()

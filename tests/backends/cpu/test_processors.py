"""Processors by their names: usual spellings, names that imply a triple, near misses, and code that emulators run."""

import ctypes
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import qmlir
from qmlir.backends.cpu import Machine
from qmlir.backends.cpu.llvm import LoadedObject, compile_assembly, compile_object, optimize
from qmlir.backends.cpu.processors import ALIKE, NAMED, PROCESSORS, spelled
from qmlir.backends.cpu.runtime import FUNCTIONS, runtime_text
from qmlir.backends.cpu.stack import called_outside
from qmlir.errors import OptionError
from tests.backends.cpu import programs
from tests.cli.small import run, write_small

ADDED = ("cortex-m0", "cortex-m0plus", "cortex-m3", "cortex-m33", "cortex-m85", "cortex-a72", "neoverse-n1")

SPELLINGS = {
    "Cortex-M0": "cortex-m0", "m0": "cortex-m0", "cortex_m0plus": "cortex-m0plus", "m0plus": "cortex-m0plus",
    "Cortex-M0+": "cortex-m0plus", "M0+": "cortex-m0plus", "m3": "cortex-m3", "CORTEX-M33": "cortex-m33",
    "m33": "cortex-m33", "cortexm85": "cortex-m85", "arm-cortex-m4": "cortex-m4", "A72": "cortex-a72",
    "cortex a72": "cortex-a72", "Neoverse-N1": "neoverse-n1", "neoverse_n1": "neoverse-n1", "neoversen1": "neoverse-n1",
}  # fmt: skip


@pytest.mark.parametrize(("text", "name"), SPELLINGS.items())
def test_usual_spellings(text: str, name: str) -> None:
    assert spelled(text, NAMED) == name
    assert Machine.of(text) == Machine.of(name)
    assert Machine.of(name).triple == NAMED[name].triple


@pytest.mark.parametrize("cpu", ["cortex-a78", "apple-m1", "neoverse-v2"])
def test_llvms_names_of_other_architectures_imply_them(cpu: str) -> None:
    assert Machine.of(cpu) == Machine.of(cpu, triple="aarch64-linux-gnu")


def test_a_triple_decides_what_names_mean() -> None:
    assert Machine.of("Cortex-A72", triple="aarch64-linux-gnu") == Machine.of("cortex-a72")
    with pytest.raises(OptionError, match="cpu: must be a processor that LLVM knows of aarch64-"):
        Machine.of("cortex-m4", triple="aarch64-linux-gnu")


@pytest.mark.parametrize(
    ("cpu", "names"),
    [
        ("cortex-m8", ["cortex-m85"]),
        ("cortex-m333", ["cortex-m33"]),
        ("corteks-m0plus", ["cortex-m0plus"]),
        ("cortex-a7x", ["cortex-a72"]),
        ("neoverse-n", ["neoverse-n1"]),
        ("xyz", ["known: native", *ADDED]),
    ],
)
def test_an_unknown_name_is_told_near_ones(cpu: str, names: list[str]) -> None:
    with pytest.raises(OptionError, match="cpu: must be native or a processor that LLVM knows, got") as raised:
        Machine.of(cpu)
    assert all(name in str(raised.value) for name in names), str(raised.value)


@pytest.fixture(scope="module")
def quantized(tmp_path_factory: pytest.TempPathFactory) -> Path:
    small = write_small(tmp_path_factory.mktemp("processors"))
    assert run("quantize", small.onnx, "--data", small.data, "-o", small / "q.mlir", "-q") == 0
    return small / "q.mlir"


def check(quantized: Path, cpu: str) -> None:
    """Runs code for a processor in its emulator, and compares the bits with the reference."""
    programs.require(Machine.of(cpu))
    executable = qmlir.compile(quantized, cpu=cpu, io="int8", memory="small")
    rng = np.random.default_rng(3)
    calls = [[rng.integers(-128, 128, s.shape).astype(s.dtype) for s in executable.signature.inputs] for _ in range(3)]
    reference = qmlir.reference(qmlir.compiler.with_interface(qmlir.load(quantized), "int8"))
    for inputs, outputs in zip(calls, programs.run(executable, calls), strict=True):
        np.testing.assert_array_equal(outputs, reference.run_in_order(inputs))


@pytest.mark.parametrize("cpu", ADDED)
def test_an_emulator_computes_the_same(cpu: str, quantized: Path) -> None:
    check(quantized, cpu)


@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m0plus"])
def test_a_board_with_a_small_processor_computes_the_same(
    cpu: str, quantized: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(programs.BOARDS, cpu, programs.SMALL_BOARD)
    check(quantized, cpu)


@pytest.mark.slow
@pytest.mark.parametrize("cpu", [*ADDED, *ALIKE])
def test_bundles_call_no_library(cpu: str, quantized: Path, tmp_path: Path) -> None:
    files = qmlir.bundle(quantized, tmp_path / "out", prefix="net", cpu=cpu, io="int8")
    assert files[0].name == "manifest.json"


# ---------------------------------------------------------------------------------------------------------------
# Functions for what a processor has no instruction for

WORDS = (0, 1, 2, 3, 7, 31, 65535, 65536, 0x7FFFFFFF, 0x80000000, 0x80000001, 0xFFFF0000, 0xFFFFFFFF)
PAIRS = [(a << 32 | b) for a in WORDS[::3] for b in WORDS]


def signed(value: int, bits: int) -> int:
    return value - (1 << bits) if value >> (bits - 1) else value


MEANINGS: dict[str, tuple[Callable[[int, int], int], str]] = {
    "__muldi3": (lambda a, b: a * b, "QQQ"),
    "__ashldi3": (lambda x, n: x << n, "QQI"),
    "__lshrdi3": (lambda x, n: x >> n, "QQI"),
    "__ashrdi3": (lambda x, n: signed(x, 64) >> n, "QQI"),
    "__clzsi2": (lambda x, _: 32 - x.bit_length(), "II"),
    "__udivsi3": (lambda a, b: a // b, "III"),
    "__divsi3": (lambda a, b: int(np.trunc(np.longdouble(signed(a, 32)) / signed(b, 32))), "III"),
    "__umodsi3": (lambda a, b: a % b, "III"),
    "__modsi3": (lambda a, b: int(np.fmod(signed(a, 32), signed(b, 32))), "III"),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_runtime_functions(name: str) -> None:
    meaning, types = MEANINGS[name]
    kinds = {"Q": ctypes.c_uint64, "I": ctypes.c_uint32}
    text = runtime_text([name]).replace("weak hidden", "")
    code = LoadedObject(compile_object(text, Machine.host()), name)
    call = ctypes.CFUNCTYPE(*(kinds[kind] for kind in types))(code.address)
    rng = np.random.default_rng(1)
    values = [[*PAIRS, *rng.integers(0, 1 << 64, 200, np.uint64).tolist()] if kind == "Q" else
              [*WORDS, *rng.integers(0, 1 << 32, 40, np.uint64).tolist()] for kind in types[1:]]  # fmt: skip
    if types == "QQI":
        values[1] = [*range(64)]
    mask = (1 << (64 if types[0] == "Q" else 32)) - 1
    for a in values[0]:
        for b in (values[1] if len(values) > 1 else [0])[:: 3 if types == "QQQ" else 1]:
            if "div" in name or "mod" in name:
                if not b:
                    continue
            given = (a, b)[: len(types) - 1]
            assert call(*given) == meaning(a, b) & mask, (name, given)


@pytest.mark.parametrize("cpu", ["cortex-m0", "cortex-m23"])
def test_the_functions_themselves_call_no_others(cpu: str) -> None:
    machine = Machine.of(cpu)
    target = machine.target_machine()
    text = str(target.emit_assembly(optimize(runtime_text(FUNCTIONS), target)))
    assert called_outside(text) == set()


def test_what_is_not_called_is_not_there() -> None:
    machine = Machine.of("cortex-m0")
    text = compile_assembly("define i32 @f(i32 %a) {\n  %b = add i32 %a, 1\n  ret i32 %b\n}\n", machine)
    assert not any(name in text for name in FUNCTIONS)
    assert {*PROCESSORS} >= {*ADDED}

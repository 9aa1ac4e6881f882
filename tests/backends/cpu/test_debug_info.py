"""Debug lines: the same code with and without, and the layers' names in gdb and in the IR."""

import re
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from llvmlite import binding

import qmlir
from qmlir.cli.main import main
from qmlir.ir.locations import node_location
from tests.conftest import ROOT
from tests.frontends.onnx.agreement import floats, model, node

DIGITS = ROOT / "examples" / "digits" / "digits.onnx"
CPUS = ("x86-64", "x86-64-v3", "cortex-m4", "rv32imc", "wasm32")


def code_of(data: bytes) -> list[tuple[str, bytes]]:
    """The sections of an object file that are machine code."""
    file = binding.ObjectFileRef.from_data(data)
    return [(s.name().decode(), s.data()) for s in file.sections() if s.is_text()]


@pytest.mark.slow
@pytest.mark.parametrize("cpu", CPUS)
def test_the_code_is_the_same(cpu: str) -> None:
    plain, debug = (qmlir.compile(DIGITS, cpu=cpu, debug_info=debug, cache=False) for debug in (False, True))
    assert code_of(plain.object) == code_of(debug.object)
    assert "!dbg" in debug.llvm_ir
    assert "!dbg" not in plain.llvm_ir


@pytest.mark.slow
def test_aarch64_may_order_instructions_otherwise() -> None:
    """LLVM orders the instructions around a prologue otherwise there, where it describes the prologue for debuggers."""
    texts = [
        qmlir.compile(DIGITS, cpu="cortex-a53", debug_info=debug, cache=False).assembly() for debug in (False, True)
    ]
    plain, debug = (Counter(re.findall(r"^\t([a-z]\w*)\t", text, re.MULTILINE)) for text in texts)
    assert plain == debug


@pytest.mark.slow
def test_threads_and_batches_have_the_same_code() -> None:
    for options in ({"threads": 3}, {"batch": 4}):
        plain, debug = (qmlir.compile(DIGITS, debug_info=d, cache=False, **options) for d in (False, True))  # type: ignore[arg-type]
        assert code_of(plain.object) == code_of(debug.object)
        assert {"conv1+relu1", "dense2"} <= functions(debug.llvm_ir)


SUBPROGRAM = re.compile(r'^!(\d+) = distinct !DISubprogram\(name: "([^"]*)"', re.MULTILINE)


def functions(text: str) -> set[str]:
    """The names of functions in debug lines."""
    return {name for _, name in SUBPROGRAM.findall(text)}


def test_functions_have_the_names_of_layers(tmp_path: Path) -> None:
    """A kernel of one layer has its name, one of several its symbol, and each call of that is inside a layer."""
    nodes = [node("Sin", "x", "a", name="one"), node("Sin", "a", "b", name="two"), node("CumSum", "b k", "y")]
    onnx.save(model(nodes, {"x": [2, 64]}, {"k": np.array(1)}, opset=17), tmp_path / "net.onnx")
    text = qmlir.compile(tmp_path / "net.onnx", debug_info=True).llvm_ir
    numbers = {name: number for number, name in SUBPROGRAM.findall(text)}
    assert {"one", "two", "y", "nn_sin_0"} <= set(numbers)
    called = dict(re.findall(r"^define [^@]*@(\w+)\(.* !dbg !(\d+) {$", text, re.MULTILINE))
    assert called["nn_sin_0"] == numbers["nn_sin_0"]
    assert numbers["y"] in called.values()
    for name, line in (("one", 1), ("two", 2)):
        assert numbers[name] not in called.values()
        assert re.search(rf"!DILocation\(line: {line}, scope: !{numbers[name]}, inlinedAt: ", text)


@pytest.mark.slow
@pytest.mark.parametrize("name", ['a"b', "größe", "a\\b", "", "x" * 3000, "a\nb"])
def test_any_name_is_read(name: str) -> None:
    module = qmlir.load(DIGITS)
    for op in module.walk():
        op.location = node_location(name, "net.onnx", 1)
    binding.parse_assembly(qmlir.compile(module, debug_info=True).llvm_ir, binding.create_context()).verify()


def test_lines_of_text(tmp_path: Path) -> None:
    """The lines of a network in MLIR are those of its text."""
    text = """func.func @main(%x: tensor<2x64xf32>) -> tensor<2x64xf32> {
  %0 = nn.sin %x : tensor<2x64xf32> -> tensor<2x64xf32>
  %1 = nn.cumulative_sum %0 {axis = 1 : i64} : tensor<2x64xf32> -> tensor<2x64xf32>
  func.return %1 : tensor<2x64xf32>
}
"""
    (tmp_path / "net.mlir").write_text(text)
    found = qmlir.compile(tmp_path / "net.mlir", debug_info=True).llvm_ir
    assert {"2", "3"} <= set(re.findall(r"!DILocation\(line: (\d+)", found))
    assert "net.mlir" in found


@pytest.mark.slow
def test_networks_in_text_name_their_layers(tmp_path: Path) -> None:
    """A quantized network that was saved has the lines of its text, and still the names of its layers."""
    samples = list(np.load(DIGITS.with_suffix(".npz"))["calibration_images"][:4, None])
    qmlir.save(qmlir.quantize(DIGITS, data=samples), tmp_path / "int8.mlir")
    text = qmlir.compile(tmp_path / "int8.mlir", debug_info=True).llvm_ir
    assert {"conv1+relu1", "conv2+norm2+relu2", "pool2", "conv3+relu3", "dense1+relu4", "dense2"} <= functions(text)
    lines = (tmp_path / "int8.mlir").read_text().splitlines()
    line = 1 + next(i for i, text in enumerate(lines) if 'nodes ["conv2"' in text)
    assert re.search(rf'name: "conv2\+norm2\+relu2", scope: !\d+, file: !\d+, line: {line},', text)


def run(*command: Any, cwd: Path) -> str:
    return subprocess.run([*map(str, command)], cwd=cwd, check=True, capture_output=True, text=True).stdout


@pytest.mark.slow
@pytest.mark.skipif(not (shutil.which("gdb") and shutil.which("cc")), reason="needs gdb and a C compiler")
def test_gdb_names_the_layers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a bundle's self-test, a breakpoint on a layer's name stops in its code, below the network's function."""
    monkeypatch.chdir(tmp_path)
    assert main(["compile", str(DIGITS), "--bundle", "-g", "-o", "b", "--prefix", "net", "--cpu", "x86-64", "-q"]) == 0
    run("cc", "-g", "selftest.c", "net.o", "-o", "selftest", "-lm", cwd=tmp_path / "b")
    commands = ("break 'conv2+norm2+relu2'", "run", "bt")
    told = run("gdb", "-batch", "-nx", *(word for c in commands for word in ("-ex", c)), "selftest", cwd=tmp_path / "b")
    if "ptrace" in told:
        pytest.skip("processes may not be traced here")
    frames = [line for line in told.splitlines() if line.startswith("#")]
    assert "conv2+norm2+relu2" in frames[0], told
    assert "digits.onnx:3" in frames[0]
    assert re.search(r" in net \(\) at digits\.onnx:3$", frames[1]), told


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["o", "ll", "s"])
def test_the_command(suffix: str, tmp_path: Path) -> None:
    emit = {"o": "obj", "ll": "llvm-ir", "s": "asm"}[suffix]
    path = tmp_path / f"net.{suffix}"
    assert main(["compile", str(DIGITS), "-g", "--emit", emit, "-o", str(path), "-q"]) == 0
    assert b"conv2+norm2+relu2" in path.read_bytes()
    assert main(["compile", str(DIGITS), "--emit", emit, "-o", str(path), "-q"]) == 0
    assert b"conv2+norm2+relu2" not in path.read_bytes()


def test_devices_have_no_debug_lines(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(DIGITS), "-g", "--target", "nmp", "-o", str(tmp_path / "net.npu")]) == 1
    assert "--debug-info" in capsys.readouterr().err


def test_results_are_the_same() -> None:
    x = floats(1, 1, 8, 8)
    assert (qmlir.compile(DIGITS, debug_info=True)(x) == qmlir.compile(DIGITS)(x)).all()

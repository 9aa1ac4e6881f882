"""Certificates of object files, for x86-64 and AArch64: floats in kernels, and casts between a network's layers."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from xdsl.dialects.builtin import ModuleOp, TensorType, f32
from xdsl.rewriter import InsertPoint, Rewriter

import qmlir
from qmlir.analysis.certify import certificate_of, certificate_of_object, file_hashes
from qmlir.backends.cpu import Machine
from qmlir.backends.cpu.llvm import compile_object
from qmlir.checker import CheckError, check_certificate
from qmlir.checker.code import Code, disassembled
from qmlir.checker.document import FORMAT
from qmlir.dialects.quant.ops import DequantizeCastOp, QuantizeCastOp, StorageCastOp
from qmlir.dialects.quant.types import UniformType
from qmlir.errors import FileError, NodeError
from qmlir.ir.interfaces import element_of, shape_of
from qmlir.ir.signature import main_function
from qmlir.running.machine_code import to_machine_code
from tests.checker.networks import quantized, text

pytestmark = pytest.mark.skipif(
    not (shutil.which("objdump") or shutil.which("llvm-objdump")), reason="needs objdump or llvm-objdump"
)

ARCHITECTURES = {"x86_64": ("x86-64-v3", "x86_64-linux-gnu"), "aarch64": ("cortex-a76", "aarch64-linux-gnu")}


def machine_of(architecture: str) -> Machine:
    if architecture == "aarch64" and not (shutil.which("llvm-objdump") or shutil.which("aarch64-linux-gnu-objdump")):
        pytest.skip("needs llvm-objdump or aarch64-linux-gnu-objdump")
    cpu, triple = ARCHITECTURES[architecture]
    return Machine.of(cpu, None, triple)


@pytest.fixture(scope="module")
def integers(tmp_path_factory: pytest.TempPathFactory) -> ModuleOp:
    return certificate_of(quantized(tmp_path_factory.mktemp("small")))[0]


def _object(module: ModuleOp, architecture: str, path: Path, threads: int = 1) -> Path:
    path.write_bytes(to_machine_code(module.clone(), threads, machine_of(architecture)).object)
    return path


def _written(certificate: dict[str, Any], folder: Path) -> Path:
    (folder / "c.json").write_text(json.dumps(certificate))
    return folder / "c.json"


def _code(path: Path) -> Code:
    return disassembled(path.read_bytes(), path)


def _forged(path: Path) -> Path:
    """A certificate of an object that gets none, with everything stated as it is."""
    stated = {
        "format": FORMAT,
        "qmlir": "0",
        "verdict": "integer-only",
        "about": "object",
        "artefact": file_hashes([path]),
    }
    code = _code(path).fields()
    for each in code["floats"]:
        each["place"] = "exit" if each["place"] == "exit" else "entry"
    return _written({**stated, "code": [code]}, path.parent)


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("threads", [1, 4])
def test_objects(architecture: str, threads: int, integers: ModuleOp, tmp_path: Path) -> None:
    path = _object(integers, architecture, tmp_path / "net.o", threads)
    code = _code(path)
    assert code.form == architecture
    assert {"quant_qcast_0", "qint_softmax_0"} <= code.functions.keys()
    certificate = certificate_of_object(path)
    (stated,) = certificate["code"]
    assert {each["place"] for each in stated["floats"]} == {"entry", "exit"}
    assert stated["casts"] == [{"function": "main", "kernels": ["quant_qcast_0", "quant_dcast_0"]}]
    assert stated["instructions"] == sum(used.total() for used in code.functions.values()) > 1000
    check_certificate(_written(certificate, tmp_path))
    stated["casts"][0]["kernels"].reverse()
    with pytest.raises(CheckError, match=r"code\[0\]\.casts\[0\]\.kernels\[0\] = 'quant_dcast_0', where"):
        check_certificate(_written(certificate, tmp_path))
    stated["floats"].pop()
    with pytest.raises(CheckError, match=r"code\[0\]\.floats of 1 elements, where 2 follow"):
        check_certificate(_written(certificate, tmp_path))


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("kernel", ["qint_lookup_0", "qint_add_0", "qint_softmax_0"])
def test_a_float_operation_in_a_kernel_of_integers_is_caught(
    architecture: str, kernel: str, integers: ModuleOp, tmp_path: Path
) -> None:
    executable = to_machine_code(integers.clone(), 1, machine_of(architecture))
    definition = re.compile(rf"^define [^\n]*@{kernel}\(.*?(%\w+)[,) ][^\n]*\{{\n(?:\w+:\n)?", re.MULTILINE)
    slipped = (
        "  %slip0 = load volatile float, ptr {0}\n  %slip1 = fadd float %slip0, 1.5\n"
        "  store volatile float %slip1, ptr {0}\n"
    )
    ir, times = definition.subn(lambda found: found[0] + slipped.format(found[1]), executable.llvm_ir)
    assert times == 1
    path = tmp_path / "net.o"
    path.write_bytes(compile_object(ir, machine_of(architecture)))
    with pytest.raises(NodeError, match=rf'{architecture} "{kernel}": must compute on integers'):
        certificate_of_object(path)
    with pytest.raises(CheckError, match=rf'{architecture} "{kernel}": must compute on integers'):
        check_certificate(_forged(path))


def with_fallback(integers: ModuleOp) -> ModuleOp:
    """The network with integers that are dequantized and quantized again, by nothing but casts."""
    module = integers.clone()
    op = next(o for o in main_function(module).body.block.ops if o.name == "qint.lookup")
    value = op.results[0]
    readers = list(value.uses)
    element, shape = element_of(value), shape_of(value)
    before, after = (TensorType(UniformType.per_tensor(element, s), shape) for s in (0.5, 0.25))  # pyright: ignore[reportArgumentType]
    stored = StorageCastOp(value, before)
    real = DequantizeCastOp(stored.result, TensorType(f32, shape))
    again = QuantizeCastOp(real.result, after)
    back = StorageCastOp(again.result, value.type)
    Rewriter.insert_op([stored, real, again, back], InsertPoint.after(op))
    for use in readers:
        use.operation.operands[use.index] = back.result
    return module


@pytest.mark.slow
@pytest.mark.parametrize("architecture", ARCHITECTURES)
@pytest.mark.parametrize("threads", [1, 4])
def test_casts_between_layers_are_no_casts_of_inputs(
    architecture: str, threads: int, integers: ModuleOp, tmp_path: Path
) -> None:
    """Their kernels are named like those of the entry and the exit; the order of calls gives them away."""
    path = _object(with_fallback(integers), architecture, tmp_path / "net.o", threads)
    with pytest.raises(NodeError, match=r"must quantize all inputs before .* got quant_qcast_1 behind quant_dcast_0"):
        certificate_of_object(path)
    with pytest.raises(
        CheckError, match="must quantize all inputs before it dequantizes an output, got quant_qcast_1 behind"
    ):
        check_certificate(_forged(path))


@pytest.mark.slow
def test_casts_in_loops_and_in_two_functions_are_refused(integers: ModuleOp, tmp_path: Path) -> None:
    """A call that is executed again comes behind all others."""
    executable = to_machine_code(integers.clone(), 1, machine_of("x86_64"))
    path = tmp_path / "net.o"
    again = """
define void @again(ptr %0, ptr %1, i64 %n) {
entry:
  br label %body
body:
  %i = phi i64 [ 0, %entry ], [ %next, %body ]
  call void @quant_dcast_0(ptr %0, ptr %1)
  %next = add i64 %i, 1
  %more = icmp ult i64 %next, %n
  br i1 %more, label %body, label %end
end:
  ret void
}
"""
    path.write_bytes(compile_object(executable.llvm_ir + again, machine_of("x86_64")))
    with pytest.raises(NodeError, match="must call the casts of inputs and outputs once, from one function"):
        certificate_of_object(path)
    with pytest.raises(CheckError, match="must call the casts of inputs and outputs once, from one function"):
        check_certificate(_forged(path))
    assert "again" in _code(path).backwards


def test_an_object_with_floats_is_refused(tmp_path: Path) -> None:
    (tmp_path / "float.mlir").write_text(text())
    path = tmp_path / "float.o"
    path.write_bytes(qmlir.compile(tmp_path / "float.mlir").object)
    with pytest.raises(NodeError, match="must compute on integers"):
        certificate_of_object(path)


def test_what_is_no_object(tmp_path: Path) -> None:
    (tmp_path / "x.o").write_bytes(b"no object")
    with pytest.raises(FileError, match="must be an object file"):
        certificate_of_object(tmp_path / "x.o")


@pytest.mark.slow
def test_an_object_for_another_architecture(integers: ModuleOp, tmp_path: Path) -> None:
    (tmp_path / "x.o").write_bytes(qmlir.compile(integers, cpu="cortex-m4").object)
    with pytest.raises(FileError, match="must be an object file for x86-64 or AArch64"):
        certificate_of_object(tmp_path / "x.o")

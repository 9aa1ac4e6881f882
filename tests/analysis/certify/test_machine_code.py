"""Which instructions compute on floats, in LLVM IR, in assembly text and in object files."""

import json
import shutil
from collections import Counter
from pathlib import Path

import pytest

import qmlir
from qmlir.analysis.certify import certificate_of_object
from qmlir.analysis.certify.machine_code import RULES, disassembled, in_assembly, in_llvm_ir, scan
from qmlir.backends.cpu import Executable
from qmlir.checker import CheckError, check_certificate
from qmlir.errors import FileError, NodeError
from tests.checker.networks import quantized, text

FLOATS = {
    "x86_64": "addss vaddps vfmadd231pd mulsd vdivsd sqrtss ucomiss vcmpltps vmaxps vrndscalepd cvtsi2ss vcvttps2dq "
    "fld fstp faddp vdpbf16ps tdpbf16ps vaddsh haddps vrcp14ps vcvtneps2bf16",
    "aarch64": "fadd fmul fmla fcvtzs scvtf ucvtf frintn fcmp fmaxnm fabs bfdot bfmmla",
    "LLVM IR": "fadd fmul fcmp sitofp fptosi fptrunc",
}
INTEGERS = {
    "x86_64": "paddd vpaddd vpmaxsd pmaxsd vpdpbusd vpmulld vpmovsxbd tdpbssd tdpbusd tileloadd push pushq sbbl movups "
    "vmovaps vxorps andps vbroadcastss vbroadcastsd shufps vunpcklps vpermps vpermilps vinsertf128 vextractf128 "
    "vmovlps movss movsd blendps vblendvps vgatherdps addl imulq shrq vzeroupper vpcompressd pabsd vmovmskps "
    "vshuff64x2",
    "aarch64": "add mul sdot smlal sqrdmulh fmov ldr stp dup addv tbl",
    "LLVM IR": "add mul sdiv load store fence freeze call shufflevector",
}


@pytest.mark.parametrize("form", RULES)
def test_rules(form: str) -> None:
    assert [i for i in FLOATS[form].split() if not RULES[form](i)] == []
    assert [i for i in INTEGERS[form].split() if RULES[form](i)] == []


@pytest.fixture(scope="module")
def small_network(tmp_path_factory: pytest.TempPathFactory) -> Executable:
    return qmlir.compile(quantized(tmp_path_factory.mktemp("small")))


IR = """
define internal void @quant_qcast_0(ptr %0) {
  %2 = load float, ptr %0
  %3 = fadd float %2, 1.0
  %4 = tail call float @llvm.roundeven.f32(float %3)
  ret void
}
define void @"main"(ptr %0, i64 %1) {
  call void @quant_qcast_0(ptr %0)
  %3 = add i64 %1, 1
  ret void
}
"""


def test_llvm_ir() -> None:
    used = in_llvm_ir(IR)
    assert used["main"] == Counter(["call", "add", "ret"])
    found = scan("LLVM IR", used)
    assert found.floats == {"quant_qcast_0": {"fadd": 1, "call llvm.roundeven.f32": 1}}
    found.require_integers()


def test_floats_elsewhere_are_refused() -> None:
    found = scan("x86_64", {"qint_softmax_0": Counter(["vdivpd", "movups"])})
    assert found.moves == {"movups": 1}
    with pytest.raises(NodeError, match=r'x86_64 "qint_softmax_0": must compute on integers .*got vdivpd \(1×\)'):
        found.require_integers()


def test_assembly() -> None:
    listed = (
        "\t.type\tmain,@function\nmain:\n\tpushq\t%rax\n.LBB0_1:\n\tlock addl\t$1, (%rdi)\n\trep stosb\n\t.size\tmain\n"
    )
    assert in_assembly(listed) == {"main": Counter(["pushq", "addl", "stosb"])}


def test_code_of_a_network(small_network: Executable) -> None:
    """No kernel between the casts uses floats: not those of tables, sums, requantizations or a softmax."""
    listed = small_network.assembly()
    scan(small_network.machine.architecture, in_assembly(listed)).require_integers()


needs_disassembler = pytest.mark.skipif(
    not (shutil.which("objdump") or shutil.which("llvm-objdump")), reason="needs objdump or llvm-objdump"
)


@needs_disassembler
def test_objects(small_network: Executable, tmp_path: Path) -> None:
    path = tmp_path / "net.o"
    path.write_bytes(small_network.object)
    architecture, used = disassembled(path)
    assert architecture in ("x86_64", "aarch64")
    assert {"quant_qcast_0", "qint_softmax_0"} <= used.keys()
    certificate = certificate_of_object(path)
    (code,) = certificate["code"]
    assert {each["place"] for each in code["floats"]} <= {"entry", "exit"}
    stated = tmp_path / "c.json"
    stated.write_text(json.dumps(certificate))
    check_certificate(stated)
    code["floats"].pop()
    stated.write_text(json.dumps(certificate))
    with pytest.raises(CheckError, match="another list of functions on floats"):
        check_certificate(stated)


@needs_disassembler
def test_an_object_with_floats_is_refused(tmp_path: Path) -> None:
    (tmp_path / "float.mlir").write_text(text())
    path = tmp_path / "float.o"
    path.write_bytes(qmlir.compile(tmp_path / "float.mlir").object)
    with pytest.raises(NodeError, match="must compute on integers"):
        certificate_of_object(path)


@needs_disassembler
def test_what_is_no_object(tmp_path: Path) -> None:
    (tmp_path / "x.o").write_bytes(b"no object")
    with pytest.raises(FileError, match="must be an object file"):
        certificate_of_object(tmp_path / "x.o")

"""Which instructions compute on floats, in LLVM IR and in assembly text."""

from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import qmlir
from qmlir.analysis.certify import code_of
from qmlir.analysis.certify.machine_code import in_assembly, in_llvm_ir
from qmlir.backends.cpu import Executable, Machine, jit
from qmlir.checker.code import COMPUTES, Code
from qmlir.errors import NodeError
from tests.checker.networks import quantized

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


@pytest.mark.parametrize("form", COMPUTES)
def test_rules(form: str) -> None:
    assert [i for i in FLOATS[form].split() if not COMPUTES[form](i)] == []
    assert [i for i in INTEGERS[form].split() if COMPUTES[form](i)] == []


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
    found = Code("LLVM IR", used)
    floats = {"fadd": 1, "call llvm.roundeven.f32": 1}
    assert found.fields()["floats"] == [{"function": "quant_qcast_0", "place": "entry", "instructions": floats}]
    found.require_integers()


def test_floats_elsewhere_are_refused() -> None:
    found = Code("x86_64", {"qint_softmax_0": Counter(["vdivpd", "movups"])})
    assert found.fields()["moves"] == {"movups": 1}
    with pytest.raises(NodeError, match=r'x86_64 "qint_softmax_0": must compute on integers .*got vdivpd \(1×\)'):
        found.require_integers()


def test_assembly() -> None:
    listed = (
        "\t.type\tmain,@function\nmain:\n\tpushq\t%rax\n.LBB0_1:\n\tlock addl\t$1, (%rdi)\n\trep stosb\n\t.size\tmain\n"
    )
    assert in_assembly(listed) == {"main": Counter(["pushq", "addl", "stosb"])}


@pytest.mark.slow
def test_code_of_a_network(small_network: Executable) -> None:
    """No kernel between the casts uses floats: not those of tables, sums, requantizations or a softmax."""
    listed = small_network.assembly()
    Code(small_network.machine.architecture, in_assembly(listed)).require_integers()


def test_a_certificate_needs_the_assembly_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Code for the processor is generated once, and no object file."""
    integers, generated = qmlir.to_integers(quantized(tmp_path)), list[str]()
    own = jit.compile_assembly

    def assembly(*given: Any) -> str:
        generated.append("assembly")
        return own(*given)

    monkeypatch.setattr(jit, "compile_object", lambda *given: generated.append("object"))
    monkeypatch.setattr(jit, "compile_assembly", assembly)
    found = code_of(integers)
    assert generated == ["assembly"]
    assert [code["form"] for code in found] == ["LLVM IR", Machine.host().architecture]

"""The llvm dialect as text: everything said is printed, everything unknown refused."""

import llvmlite.binding as llvm
import pytest
from xdsl.dialects.builtin import Float16Type, Float32Type, Float64Type, FloatAttr, StringAttr, i32
from xdsl.parser import Parser

from qmlir.backends.cpu.emit import constant_text, emit_llvm_ir, symbol
from qmlir.errors import UnsupportedError
from qmlir.ir.context import make_context
from qmlir.ir.upstream.llvm import LLVM, AddOp


def text_of(source: str) -> str:
    """The text of a module, which LLVM's own parser must take."""
    context = make_context()
    context._registered_dialects["llvm"] = lambda: LLVM
    module = Parser(context, source).parse_module()
    module.verify()
    text = emit_llvm_ir(module)
    llvm.parse_assembly(text).verify()
    return text


def test_a_function() -> None:
    text = text_of("""
llvm.func internal @sum(%x: !llvm.ptr {llvm.noalias, llvm.readonly, llvm.align = 64 : i64}, %n: i64) -> f32 {
  %zero = llvm.mlir.constant(0 : i64) : i64
  %one = llvm.mlir.constant(1 : i64) : i64
  %start = llvm.mlir.constant(-0.0 : f32) : f32
  llvm.br ^head(%zero, %start : i64, f32)
^head(%i: i64, %s: f32):
  %more = llvm.icmp "slt" %i, %n : i64
  llvm.cond_br %more, ^body, ^exit
^body:
  %p = llvm.getelementptr inbounds %x[%i] : (!llvm.ptr, i64) -> !llvm.ptr, f32
  %v = llvm.load %p {alignment = 4 : i64} : !llvm.ptr -> f32
  %t = llvm.fadd %s, %v : f32
  %j = llvm.add %i, %one overflow<nsw> : i64
  llvm.br ^head(%j, %t : i64, f32)
^exit:
  llvm.return %s : f32
}
llvm.func @main(%x: !llvm.ptr) {
  %n = llvm.mlir.constant(8 : i64) : i64
  %s = llvm.call @sum(%x, %n) : (!llvm.ptr, i64) -> f32
  llvm.store %s, %x {alignment = 4 : i64} : f32, !llvm.ptr
  llvm.return
}""")
    assert "define internal float @sum(ptr noalias readonly align 64 %v0, i64 %v1) {" in text
    assert "define void @main(ptr %v0)" in text
    assert "%v2 = phi i64 [ 0, %b0 ], [ %v8, %b2 ]" in text
    assert "%v3 = phi float [ 0x8000000000000000, %b0 ], [ %v7, %b2 ]" in text
    assert "getelementptr inbounds float, ptr %v0, i64 %v2" in text
    assert "add nsw i64 %v2, 1" in text
    assert "load float, ptr %v5, align 4" in text


def test_vectors_intrinsics_and_the_added_operations() -> None:
    text = text_of("""
llvm.func @f(%v: vector<4xf32>, %i: i64, %p: !llvm.ptr) -> i32 {
  %e = llvm.extractelement %v[%i : i64] : vector<4xf32>
  %s = llvm.fptosi %e : f32 to i32
  %u = llvm.fptoui %v : vector<4xf32> to vector<4xi8>
  %w = llvm.uitofp %u : vector<4xi8> to vector<4xf32>
  %none = llvm.mlir.undef : vector<4xf32>
  %t = llvm.shufflevector %w, %none [3, -1] : vector<4xf32>
  %m = llvm.call_intrinsic "llvm.smax.i32"(%s, %s) : (i32, i32) -> i32
  %size = llvm.mlir.constant(8 : i64) : i64
  %slot = llvm.alloca %size x i8 {alignment = 64 : i64} : (i64) -> !llvm.ptr
  llvm.store %t, %slot {alignment = 8 : i64} : vector<2xf32>, !llvm.ptr
  llvm.return %m : i32
}""")
    assert "extractelement <4 x float> %v0, i64 %v1" in text
    assert "fptoui <4 x float> %v0 to <4 x i8>" in text
    assert "shufflevector <4 x float> %v6, <4 x float> poison, <2 x i32> <i32 3, i32 poison>" in text
    assert text.count("declare i32 @llvm.smax.i32(i32, i32)") == 1
    assert "alloca i8, i64 8, align 64" in text


def test_what_the_caller_brings_is_no_code() -> None:
    wanted = "llvm.mlir.global external constant @f_{}(1 : i64) : i64\n"
    function = "llvm.func @f() { llvm.return }\n"
    assert text_of(function + wanted.format("weights") + wanted.format("arena_size")) == text_of(function)
    with pytest.raises(UnsupportedError, match=r"llvm\.mlir\.global"):
        text_of(function + wanted.format("table"))


@pytest.mark.parametrize(
    ("value", "type", "text"),
    [
        (0.1, Float32Type(), "0x3FB99999A0000000"),
        (0.1, Float64Type(), "0x3FB999999999999A"),
        (float("inf"), Float32Type(), "0x7FF0000000000000"),
        (float("nan"), Float64Type(), "0x7FF8000000000000"),
        (1.5, Float16Type(), "0xH3E00"),
    ],
)
def test_floats_are_printed_by_their_bits(value: float, type: Float32Type, text: str) -> None:
    assert constant_text(FloatAttr(value, type)) == text


def test_names_are_quoted_where_needed() -> None:
    assert symbol("net_1.x") == "net_1.x"
    assert symbol('a "b"\\é') == '"a\\20\\22b\\22\\5C\\C3\\A9"'


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("func.func @f() { func.return }", "must be lowered to llvm functions, got nothing"),
        ("llvm.func @f()", "must have a body"),
        ("llvm.func weak @f() { llvm.return }", "must be internal, private or external, got weak"),
        ('llvm.func @f() attributes {target_cpu = "x"} { llvm.return }', "must carry attributes that are printed"),
        (
            "llvm.func @f(%x: !llvm.ptr {llvm.nonnull}) { llvm.return }",
            "argument attributes that are printed, got llvm.nonnull",
        ),
        ("llvm.func @f(%x: f32) { %y = llvm.intr.fabs(%x) : (f32) -> f32\nllvm.return }", "has no LLVM IR text here"),
        (
            "llvm.func @f(%x: f32) { %y = llvm.fadd %x, %x {fastmathFlags = #llvm.fastmath<fast>} : f32\nllvm.return }",
            "must not carry fast-math flags",
        ),
        (
            "llvm.func @f(%x: i32) { %y = llvm.trunc %x overflow<nsw> : i32 to i8\nllvm.return }",
            "must be a plain conversion",
        ),
        ("llvm.func @f(%p: !llvm.ptr) { %y = llvm.load %p atomic seq_cst : !llvm.ptr -> i32\nllvm.return }", "atomic"),
        ("llvm.func @f(%s: !llvm.struct<(i32)>) { llvm.return }", "must use types and constants that LLVM IR has"),
        (
            "llvm.func @f(%c: i1, %a: i32, %b: i32) {\nllvm.cond_br %c, ^x(%a : i32), ^x(%b : i32)\n"
            "^x(%r: i32):\nllvm.return }",
            "must not reach one block with different values",
        ),
    ],
)
def test_refusals(source: str, message: str) -> None:
    with pytest.raises(UnsupportedError, match=message.replace(", got nothing", "")):
        text_of(source)


def test_stray_attributes_are_refused() -> None:
    module = Parser(make_context(), "llvm.func @f(%a: i32) { %b = llvm.add %a, %a : i32\nllvm.return }").parse_module()
    add = next(op for op in module.walk() if isinstance(op, AddOp))
    add.attributes["note"] = StringAttr("mine")
    with pytest.raises(UnsupportedError, match="must carry attributes that are printed, got note"):
        emit_llvm_ir(module)
    assert i32 == add.res.type

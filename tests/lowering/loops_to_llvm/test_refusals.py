"""What has no sound lowering is refused by name, and the module stays as it was."""

import pytest
from kernels import parsed
from xdsl.dialects import arith
from xdsl.dialects.arith import FastMathFlagsAttr
from xdsl.dialects.builtin import ModuleOp

from qmlir.errors import OptionError, UnsupportedError
from qmlir.ir.context import make_context
from qmlir.lowering.loops_to_llvm.convert import LoopsToLLVMPass


def refusal(module: ModuleOp) -> str:
    """The message the pass ends with; the module must come out unchanged."""
    before = str(module)
    with pytest.raises(UnsupportedError) as error:
        LoopsToLLVMPass().apply(make_context(), module)
    assert str(module) == before
    return str(error.value)


PLANNED = "qmlir.arena_size = 0 : i64, qmlir.weights_blob = #qmlir.weights<tensor<0xi8>, []>"

ARGUMENTS = (
    "%i: index, %a: i32, %x: f32, %v: vector<4xi32>, %w: vector<4xf32>, %m: memref<4xi32>, %n: memref<4x4xf32>, "
    "%d: memref<4x?xf32>, %b: memref<8xi1>, %c: i1"
)


@pytest.mark.parametrize(
    ("operation", "message"),
    [
        ("%r = math.exp %x : f32", 'math.exp "f": has no lowering to LLVM'),
        (
            "%e = arith.extf %x : f32 to f64\n%r = math.fma %e, %e, %e : f64",
            'math.fma "f": must multiply f32 on a processor without FMA',
        ),
        ("%r = vector.fma %w, %w, %w : vector<4xf32>", 'vector.fma "f": has no lowering'),
        ("%r = arith.cmpi slt, %v, %v : vector<4xi32>", "must compare scalars"),
        ("%r = arith.cmpf olt, %w, %w : vector<4xf32>", "must compare scalars"),
        ("%r = arith.addf %x, %x fastmath<fast> : f32", "must not carry fast-math flags"),
        ("%r = memref.alloc() : memref<4xi32>", 'memref.alloc "f": needs an address; run plan-memory first'),
        ("%r = memref.alloca() : memref<100000xi32>", "must stay within 65536 bytes of stack, got 400000"),
        ("%r = memref.load %d[%i, %i] : memref<4x?xf32>", "memrefs must have static shapes, the first size excepted"),
        ("%r = vector.load %b[%i] : memref<8xi1>, vector<8xi1>", "must not pack bits"),
        ("%r = vector.reduction <maxnumf>, %w : vector<4xf32> into f32", "must define the sign of zero"),
        ("%r = arith.constant dense<0> : tensor<4xi32>", "has no LLVM form"),
        ("%r = arith.constant dense<0> : vector<2x2xi32>", "vectors must have one static dimension"),
        ("%z = arith.constant 0 : index\n scf.for %k = %i to %i step %z { }", "must have a positive step, got 0"),
        ("scf.while () : () -> () { scf.condition(%c) } do { scf.yield }", 'scf.while "f": has no lowering'),
        ("func.call @outside() : () -> ()", 'func.func "outside": must have a body'),
        (
            "%s = memref.subview %n[0, 0] [4, 2] [1, 1] : memref<4x4xf32> to memref<4x2xf32, strided<[4, 1]>>\n"
            '"memref.copy"(%s, %s) : (memref<4x2xf32, strided<[4, 1]>>, memref<4x2xf32, strided<[4, 1]>>) -> ()',
            "must copy contiguous memory",
        ),
        (
            "%r = memref.subview %n[0, 0] [4, 1] [1, 1] : memref<4x4xf32> to memref<4xf32, strided<[4]>>\n"
            "%s = vector.load %r[%i] : memref<4xf32, strided<[4]>>, vector<4xf32>",
            "must touch neighbours in memory",
        ),
    ],
)
def test_operations(operation: str, message: str) -> None:
    outside = "func.func private @outside() -> ()\n" if "@outside" in operation else ""
    source = f"{outside}func.func private @f({ARGUMENTS}) {{\n{operation}\nfunc.return\n}}"
    assert message in refusal(parsed(source))


def test_fast_math_is_refused_on_every_float_operation() -> None:
    for name in ("subf", "mulf", "divf", "maximumf", "minnumf"):
        module = parsed(f"func.func private @f(%x: f32) {{\n%r = arith.{name} %x, %x : f32\nfunc.return\n}}")
        for op in module.walk():
            if isinstance(op, arith.FloatingPointLikeBinaryOperation):
                op.fastmath = FastMathFlagsAttr("fast")
        assert "must not carry fast-math flags" in refusal(module)


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (
            "func.func @main(%x: memref<4xf32>) attributes {qmlir.inputs = 1 : i64} { func.return }",
            "must have its memory planned; run plan-memory first",
        ),
        (
            f"builtin.module attributes {{{PLANNED}}} {{ func.func @main(%w: memref<0xi8>, "
            "%a: memref<0xi8>) attributes {qmlir.inputs = 1 : i64} { func.return } }",
            "must say how many arguments are inputs",
        ),
        (
            "builtin.module attributes {qmlir.arena_size = 0 : i64, qmlir.weights_blob} { func.func @main("
            "%w: memref<0xi8>, %a: memref<0xi8>) attributes {qmlir.inputs = 0 : i64} { func.return } }",
            "must have its memory planned, got 0 : i64 and unit",
        ),
        (
            f"builtin.module attributes {{{PLANNED}}} {{ func.func @main(%w: memref<0xi8>, "
            "%a: memref<0xi8>, %x: f32) attributes {qmlir.inputs = 1 : i64} { func.return } }",
            "must take memrefs only",
        ),
        ("func.func private @f(%x: f32) -> (f32, f32) { func.return %x, %x : f32, f32 }", "must return at most one"),
        ("func.func private @f(%x: tensor<4xf32>) { func.return }", "has no LLVM form"),
        (
            '"memref.global"() {sym_name = "g", sym_visibility = "private", type = memref<1xi8>, initial_value} '
            ": () -> ()",
            "must not stand beside functions",
        ),
    ],
)
def test_functions(source: str, message: str) -> None:
    assert message in refusal(parsed(source))


def test_features_have_signs() -> None:
    with pytest.raises(OptionError, match=r"features: must be a list of \+name and -name, got avx2; write \+avx2"):
        LoopsToLLVMPass(features="avx2").apply(make_context(), parsed("builtin.module { }"))

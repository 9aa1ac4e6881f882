"""memref, scf, cf and func through the JIT: addresses, views, loops with carried values, branches, calls."""

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from kernels import empty, executable, lowered, run_kernel, specs
from xdsl.dialects import llvm

from qmlir.backends.cpu.emit import emit_llvm_ir

Array = npt.NDArray[Any]

RNG = np.random.default_rng(2)


def test_saxpy() -> None:
    kernel = """
func.func private @saxpy(%x: memref<1001xf32>, %y: memref<1001xf32>, %z: memref<1001xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 1001 : index
  %a = arith.constant 3.0 : f32
  scf.for %i = %c0 to %n step %c1 {
    %0 = memref.load %x[%i] : memref<1001xf32>
    %1 = memref.load %y[%i] : memref<1001xf32>
    %2 = arith.mulf %a, %0 : f32
    %3 = arith.addf %2, %1 : f32
    memref.store %3, %z[%i] : memref<1001xf32>
  }
  func.return
}"""
    x, y = RNG.standard_normal((2, 1001)).astype(np.float32)
    (z,) = run_kernel(kernel, x, y, out=[x])
    assert (z == np.float32(3) * x + y).all()


def test_matrix_product_with_carried_sums() -> None:
    """Three loops, the innermost with iter_args; sums in the order of k."""
    kernel = """
func.func private @matmul(%a: memref<5x7xf32>, %b: memref<7x6xf32>, %c: memref<5x6xf32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %m = arith.constant 5 : index
  %n = arith.constant 6 : index
  %k = arith.constant 7 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %c0 to %m step %c1 {
    scf.for %j = %c0 to %n step %c1 {
      %sum = scf.for %l = %c0 to %k step %c1 iter_args(%s = %zero) -> (f32) {
        %x = memref.load %a[%i, %l] : memref<5x7xf32>
        %y = memref.load %b[%l, %j] : memref<7x6xf32>
        %p = arith.mulf %x, %y : f32
        %t = arith.addf %s, %p : f32
        scf.yield %t : f32
      }
      memref.store %sum, %c[%i, %j] : memref<5x6xf32>
    }
  }
  func.return
}"""
    a, b = RNG.standard_normal((5, 7)).astype(np.float32), RNG.standard_normal((7, 6)).astype(np.float32)
    expected = np.zeros((5, 6), np.float32)
    for k in range(7):
        expected += a[:, k, None] * b[None, k]
    (c,) = run_kernel(kernel, a, b, out=[expected])
    assert (c == expected).all()


def test_several_carried_values_and_odd_bounds() -> None:
    """Fibonacci, and the last index of a loop whose step does not divide its range."""
    kernel = """
func.func private @fib(%n: memref<1xi64>, %y: memref<3xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %zero = arith.constant 0 : i64
  %one = arith.constant 1 : i64
  %n0 = memref.load %n[%c0] : memref<1xi64>
  %end = arith.index_cast %n0 : i64 to index
  %a, %b, %last = scf.for %i = %c0 to %end step %c3 iter_args(%p = %zero, %q = %one, %l = %zero) -> (i64, i64, i64) {
    %s = arith.addi %p, %q : i64
    %k = arith.index_cast %i : index to i64
    scf.yield %q, %s, %k : i64, i64, i64
  }
  memref.store %a, %y[%c0] : memref<3xi64>
  memref.store %b, %y[%c1] : memref<3xi64>
  memref.store %last, %y[%c2] : memref<3xi64>
  func.return
}"""
    for n, last in ((100, 99), (0, 0)):
        (y,) = run_kernel(kernel, np.array([n]), out=[empty(3, np.int64)])
        p, q = 0, 1
        for _ in range(0, n, 3):
            p, q = q, p + q
        assert y.tolist() == [p, q, last]


def test_if_with_and_without_else() -> None:
    kernel = """
func.func private @f(%x: memref<64xi32>, %y: memref<64xi32>, %z: memref<64xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 64 : index
  %zero = arith.constant 0 : i32
  %ten = arith.constant 10 : i32
  scf.for %i = %c0 to %n step %c1 {
    %v = memref.load %x[%i] : memref<64xi32>
    %negative = arith.cmpi slt, %v, %zero : i32
    %r, %s = scf.if %negative -> (i32, i32) {
      %m = arith.subi %zero, %v : i32
      %small = arith.cmpi slt, %m, %ten : i32
      %inner = scf.if %small -> (i32) {
        scf.yield %ten : i32
      } else {
        scf.yield %m : i32
      }
      scf.yield %inner, %m : i32, i32
    } else {
      scf.yield %v, %zero : i32, i32
    }
    memref.store %r, %y[%i] : memref<64xi32>
    memref.store %s, %z[%i] : memref<64xi32>
    scf.if %negative {
      memref.store %ten, %z[%i] : memref<64xi32>
    }
  }
  func.return
}"""
    x = RNG.integers(-20, 20, 64).astype(np.int32)
    y, z = run_kernel(kernel, x, out=[x, x])
    assert (y == np.where(x < 0, np.maximum(-x, 10), x)).all()
    assert (z == np.where(x < 0, 10, 0)).all()


def test_unstructured_control_flow() -> None:
    """cf.br and cf.cond_br between blocks with arguments: Euclid."""
    kernel = """
func.func private @gcd(%x: memref<2xi32>, %y: memref<1xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %zero = arith.constant 0 : i32
  %a = memref.load %x[%c0] : memref<2xi32>
  %b = memref.load %x[%c1] : memref<2xi32>
  cf.br ^head(%a, %b : i32, i32)
^head(%p: i32, %q: i32):
  %done = arith.cmpi eq, %q, %zero : i32
  cf.cond_br %done, ^exit(%p : i32), ^body
^body:
  %r = arith.remsi %p, %q : i32
  cf.br ^head(%q, %r : i32, i32)
^exit(%g: i32):
  memref.store %g, %y[%c0] : memref<1xi32>
  func.return
}"""
    (y,) = run_kernel(kernel, np.array([84, 36], np.int32), out=[empty(1, np.int32)])
    assert y[0] == 12


def test_views() -> None:
    """Reshapes, subviews and reinterpretations look at the same memory; offsets and strides are honoured."""
    kernel = """
func.func private @f(%x: memref<4x6xi32>, %y: memref<5xi32>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %c2 = arith.constant 2 : index
  %c3 = arith.constant 3 : index
  %c4 = arith.constant 4 : index
  %flat = memref.collapse_shape %x [[0, 1]] : memref<4x6xi32> into memref<24xi32>
  %cube = memref.expand_shape %flat [[0, 1, 2]] output_shape [2, 3, 4] : memref<24xi32> into memref<2x3x4xi32>
  %part = memref.subview %x[1, 2] [2, 3] [1, 1] : memref<4x6xi32> to memref<2x3xi32, strided<[6, 1], offset: 8>>
  %column = memref.subview %x[0, %c3] [4, 1] [1, 1] : memref<4x6xi32> to memref<4x1xi32, strided<[6, 1], offset: ?>>
  %again = memref.reinterpret_cast %x to offset: [2], sizes: [3, 2], strides: [7, 1]
      : memref<4x6xi32> to memref<3x2xi32, strided<[7, 1], offset: 2>>
  %0 = memref.load %flat[%c4] : memref<24xi32>
  %1 = memref.load %cube[%c1, %c2, %c3] : memref<2x3x4xi32>
  %2 = memref.load %part[%c1, %c2] : memref<2x3xi32, strided<[6, 1], offset: 8>>
  %3 = memref.load %column[%c2, %c0] : memref<4x1xi32, strided<[6, 1], offset: ?>>
  %4 = memref.load %again[%c2, %c1] : memref<3x2xi32, strided<[7, 1], offset: 2>>
  memref.store %0, %y[%c0] : memref<5xi32>
  memref.store %1, %y[%c1] : memref<5xi32>
  memref.store %2, %y[%c2] : memref<5xi32>
  memref.store %3, %y[%c3] : memref<5xi32>
  memref.store %4, %y[%c4] : memref<5xi32>
  func.return
}"""
    x = np.arange(24, dtype=np.int32).reshape(4, 6) * 10
    (y,) = run_kernel(kernel, x, out=[empty(5, np.int32)])
    assert y.tolist() == [40, 230, 160, 150, 170]


def test_copy_and_byte_views() -> None:
    kernel = """
func.func private @f(%x: memref<4xf32>, %y: memref<16xi8>, %z: memref<2x2xf32>) {
  %c8 = arith.constant 8 : index
  %high = memref.view %y[%c8][] : memref<16xi8> to memref<2xf32>
  %c0 = arith.constant 0 : index
  %low = memref.view %y[%c0][] : memref<16xi8> to memref<2xf32>
  %flat = memref.expand_shape %x [[0, 1]] output_shape [2, 2] : memref<4xf32> into memref<2x2xf32>
  "memref.copy"(%flat, %z) : (memref<2x2xf32>, memref<2x2xf32>) -> ()
  %half = memref.reinterpret_cast %z to offset: [0], sizes: [2], strides: [1] : memref<2x2xf32> to memref<2xf32>
  "memref.copy"(%half, %high) : (memref<2xf32>, memref<2xf32>) -> ()
  "memref.copy"(%half, %low) : (memref<2xf32>, memref<2xf32>) -> ()
  func.return
}"""
    x = np.array([1, 2, 3, 4], np.float32)
    y, z = run_kernel(kernel, x, out=[empty(16, np.int8), empty((2, 2), np.float32)])
    assert y.view(np.float32).tolist() == [1, 2, 1, 2]
    assert z.tolist() == [[1, 2], [3, 4]]


def test_stack_buffers_bits_and_dimensions() -> None:
    """memref.alloca in a loop; an i1 takes a byte; memref.dim is static."""
    kernel = """
func.func private @f(%x: memref<6xi1>, %y: memref<6xi1>, %n: memref<1xi64>) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %true = arith.constant true
  %size = memref.dim %x, %c0 : memref<6xi1>
  scf.for %i = %c0 to %size step %c1 {
    %t = memref.alloca() : memref<6xi1>
    %v = memref.load %x[%i] : memref<6xi1>
    %w = arith.xori %v, %true : i1
    memref.store %w, %t[%i] : memref<6xi1>
    %u = memref.load %t[%i] : memref<6xi1>
    memref.store %u, %y[%i] : memref<6xi1>
  }
  %s = arith.index_cast %size : index to i64
  memref.store %s, %n[%c0] : memref<1xi64>
  func.return
}"""
    x = np.array([1, 0, 0, 1, 1, 0], np.bool_)
    y, n = run_kernel(kernel, x, out=[x, empty(1, np.int64)])
    assert (y == ~x).all()
    assert n[0] == 6


def test_calls_with_a_result() -> None:
    source = """
func.func @main(%x: memref<4xi32>, %y: memref<4xi32>) attributes {qmlir.inputs = 1 : i64} {
  %c0 = arith.constant 0 : index
  %c4 = arith.constant 4 : index
  func.call @kernel(%x, %y, %c0, %c4) : (memref<4xi32>, memref<4xi32>, index, index) -> ()
  func.return
}
func.func private @kernel(%x: memref<4xi32>, %y: memref<4xi32>, %begin: index, %end: index) {
  %c1 = arith.constant 1 : index
  scf.for %i = %begin to %end step %c1 {
    %v = memref.load %x[%i] : memref<4xi32>
    %w = func.call @square(%v) : (i32) -> i32
    memref.store %w, %y[%i] : memref<4xi32>
  }
  func.return
}
func.func private @square(%v: i32) -> i32 {
  %w = arith.muli %v, %v : i32
  func.return %w : i32
}"""
    x = np.array([1, 2, -3, 4], np.int32)
    exe = executable(lowered(source), specs("x", [x]), specs("y", [x]))
    assert (exe(x) == x * x).all()


CALLED_TWICE = """
func.func @main(%x: memref<16xf32>, %y: memref<16xf32>) attributes {qmlir.inputs = 1 : i64} {
  %a = memref.alloc() {alignment = 64 : i64} : memref<16xf32>
  func.call @k(%x, %a) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @k(%SECOND, %a) : (memref<16xf32>, memref<16xf32>) -> ()
  "memref.copy"(%a, %y) : (memref<16xf32>, memref<16xf32>) -> ()
  func.call @k(%x, %x) : (memref<16xf32>, memref<16xf32>) -> ()
  func.return
}
func.func private @k(%x: memref<16xf32>, %y: memref<16xf32>) {
  %c0 = arith.constant 0 : index
  %v = memref.load %x[%c0] : memref<16xf32>
  memref.store %v, %y[%c0] : memref<16xf32>
  func.return
}"""


def argument_attributes(source: str, kernel: str) -> list[set[str]]:
    """The attributes of a kernel's arguments after lowering."""
    for op in lowered(source).ops:
        if isinstance(op, llvm.FuncOp) and op.sym_name.data == kernel:
            assert op.arg_attrs is not None
            return [{str(k) for k in entry.data} for entry in op.arg_attrs]
    raise AssertionError(kernel)


def test_no_alias_only_where_every_call_shows_it() -> None:
    apart = CALLED_TWICE.replace("%SECOND", "%x").replace("  func.call @k(%x, %x) :", "  func.call @k(%x, %a) :")
    x, y = argument_attributes(apart, "k")
    assert {"llvm.noalias", "llvm.readonly"} <= x
    assert "llvm.noalias" in y
    assert "llvm.readonly" not in y
    x, y = argument_attributes(CALLED_TWICE.replace("%SECOND", "%a"), "k")
    assert "llvm.noalias" not in x | y


def test_arena_arguments_are_aligned() -> None:
    source = CALLED_TWICE.replace("%SECOND", "%x").replace("  func.call @k(%x, %x) :", "  func.call @k(%x, %a) :")
    text = emit_llvm_ir(lowered(source.replace('"memref.copy"(%a, %y)', '"memref.copy"(%x, %y)')))
    assert "define internal void @k(ptr align 4 noalias readonly %v0, ptr align 64 noalias %v1)" in text


@pytest.mark.parametrize("element", ["f32", "i8"])
def test_kernels_vectorize(element: str) -> None:
    """LLVM sees through the addresses: a plain loop comes out in vector registers."""
    op = "addf" if element == "f32" else "addi"
    source = f"""
func.func @main(%x: memref<64x64x{element}>, %z: memref<64x64x{element}>) attributes {{qmlir.inputs = 1 : i64}} {{
  func.call @k(%x, %z) : (memref<64x64x{element}>, memref<64x64x{element}>) -> ()
  func.return
}}
func.func private @k(%x: memref<64x64x{element}>, %z: memref<64x64x{element}>) {{
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 64 : index
  scf.for %i = %c0 to %n step %c1 {{
    scf.for %j = %c0 to %n step %c1 {{
      %a = memref.load %x[%i, %j] : memref<64x64x{element}>
      %b = arith.{op} %a, %a : {element}
      memref.store %b, %z[%i, %j] : memref<64x64x{element}>
    }}
  }}
  func.return
}}"""
    dtype = np.float32 if element == "f32" else np.int8
    x = np.ones((64, 64), dtype)
    exe = executable(lowered(source), specs("x", [x]), specs("y", [x]))
    assert (exe(x) == 2 * x).all()
    if "%rsp" in exe.assembly():  # x86-64
        assert "xmm" in exe.assembly() or "ymm" in exe.assembly() or "zmm" in exe.assembly()

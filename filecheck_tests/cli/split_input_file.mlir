// Each piece is a module of its own; a wrong one does not keep the others from being printed, but the exit status is 1,
// and with -o nothing is written.

// RUN: not qmlir-opt --split-input-file %s > %t.out 2> %t.err && filecheck %s < %t.out && filecheck %s --check-prefix=ERR < %t.err
// RUN: rm -f %t.mlir && not qmlir-opt --split-input-file %s -o %t.mlir 2> %t.err && not test -e %t.mlir

// CHECK: func.func @a
// CHECK: // -----
// CHECK-NOT: @wrong
// CHECK: func.func @b
// ERR: error: {{.*}}split_input_file.mlir:17:8: arith.addi: {{.*}} but got i64

func.func @a() { func.return }

// -----
func.func @wrong(%a: i32) {
  %b = "arith.addi"(%a, %a) : (i32, i32) -> i64
  func.return
}
// -----
func.func @b() { func.return }

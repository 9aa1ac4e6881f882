// What passes change goes to standard error: the whole module after each pass that changed it, or the lines that differ.

// RUN: qmlir-opt --canonicalize --cse --mlir-print-ir-after-change %s 2>&1 >%t.out | filecheck %s --check-prefix=MODULE
// RUN: qmlir-opt --canonicalize --cse --mlir-print-ir-diff %s 2>&1 >%t.out | filecheck %s --check-prefix=LINES
// RUN: qmlir-opt --cse --mlir-print-ir-diff --mlir-print-ir-after=cse %s 2>&1 >%t.out | filecheck %s --check-prefix=BOTH

// MODULE: // -----// IR Dump After canonicalize //----- //
// MODULE-NEXT: builtin.module {
// MODULE: // -----// IR Dump After cse (no change) //----- //
// MODULE-NOT: builtin.module

// LINES: // -----// IR Dump Change by canonicalize //----- //
// LINES-NEXT: @@
// LINES: -{{.*}}arith.constant 7 : i32
// LINES: // -----// IR Dump After cse (no change) //----- //

// BOTH: // -----// IR Dump After cse //----- //
// BOTH-NEXT: builtin.module {
// BOTH-NOT: no change

func.func @f() {
  %unused = arith.constant 7 : i32
  func.return
}

// Passes are flags, run in the order given; --pass-pipeline says the same in one flag; `-` and no file are stdin.

// RUN: qmlir-opt --canonicalize %s | filecheck %s --check-prefix=FOLDED
// RUN: qmlir-opt --convert-scf-to-cf --canonicalize --mlir-print-ir-after-all %s 2>&1 | filecheck %s --check-prefix=ORDER
// RUN: qmlir-opt --pass-pipeline='builtin.module(canonicalize,func.func(cse, dce))' < %s | filecheck %s --check-prefix=FOLDED
// RUN: qmlir-opt --scf-for-loop-unroll - < %s | filecheck %s --check-prefix=UNROLLED
// RUN: qmlir-opt --mlir-print-op-generic --mlir-print-debuginfo %s | filecheck %s --check-prefix=GENERIC

// FOLDED-LABEL: func.func @f
// FOLDED: arith.constant 3 : i32
// FOLDED-NOT: arith.addi

// ORDER: // -----// IR Dump After convert-scf-to-cf //----- //
// ORDER: cf.cond_br
// ORDER: // -----// IR Dump After canonicalize //----- //

// UNROLLED-NOT: scf.for

// GENERIC: "builtin.module"() ({
// GENERIC: "arith.addi"(%{{.*}}, %{{.*}}){{.*}} loc("{{.*}}passes.mlir":{{[0-9]+}}:8)

func.func @f() -> i32 {
  %a = arith.constant 1 : i32
  %b = arith.constant 2 : i32
  %c = arith.addi %a, %b : i32
  %zero = arith.constant 0 : index
  %two = arith.constant 2 : index
  scf.for %i = %zero to %two step %two {
    "test.op"() : () -> ()
  }
  func.return %c : i32
}

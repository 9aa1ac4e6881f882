// The IR before and after single passes or all of them goes to standard error under mlir-opt's header.

// RUN: qmlir-opt --cse --canonicalize --mlir-print-ir-before=canonicalize --mlir-print-ir-after=cse,canonicalize %s 2>&1 >%t.out | filecheck %s --check-prefix=SOME
// RUN: qmlir-opt --cse --canonicalize --mlir-print-ir-before-all --mlir-timing %s 2>&1 >%t.out | filecheck %s --check-prefix=ALL
// RUN: not qmlir-opt --mlir-print-ir-after=canonicalise %s 2>&1 | filecheck %s --check-prefix=WRONG

// SOME-NOT: IR Dump Before cse
// SOME: // -----// IR Dump After cse //----- //
// SOME-NEXT: builtin.module {
// SOME: // -----// IR Dump Before canonicalize //----- //
// SOME: // -----// IR Dump After canonicalize //----- //

// ALL: // -----// IR Dump Before cse //----- //
// ALL: // -----// IR Dump Before canonicalize //----- //
// ALL: Execution time report
// ALL: Total Execution Time: {{[0-9.]+}} seconds
// ALL: (parse)
// ALL: cse
// ALL: canonicalize
// ALL: (100.0%) Total

// WRONG: error: --mlir-print-ir-after: there is no pass "canonicalise"; did you mean canonicalize

func.func @f() { func.return }

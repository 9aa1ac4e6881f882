// RUN: not qmlir-opt --stripe-calls %s 2>&1 | filecheck %s
// RUN: not qmlir-opt --split-input-file %S/plan-memory.mlir --plan-memory --stripe-calls 2>&1 | filecheck %s --check-prefix=LATE

func.func @main() {
  func.return
}

// CHECK: stripe-calls: needs one function with the attribute qmlir.inputs, got 0
// LATE: stripe-calls: must run before plan-memory, got a module whose memory is planned

// RUN: not qmlir-opt --hoist-scratch %s 2>&1 | filecheck %s
// RUN: not qmlir-opt --hoist-scratch --split-input-file %S/plan-memory.mlir --plan-memory --hoist-scratch 2>&1 | filecheck %s --check-prefix=LATE

func.func @main() {
  func.return
}

// CHECK: hoist-scratch: needs one function with the attribute qmlir.inputs, got 0
// LATE: hoist-scratch: must run before plan-memory, got a module whose memory is planned

// RUN: not qmlir-opt --time-calls %s 2>&1 | filecheck %s
// RUN: not qmlir-opt --time-calls=counter=seconds %s 2>&1 | filecheck %s --check-prefix=COUNTER
// RUN: not qmlir-opt --time-calls --time-calls --split-input-file %S/time-calls.mlir 2>&1 | filecheck %s --check-prefix=TWICE
// RUN: not qmlir-opt --plan-memory --time-calls --split-input-file %S/time-calls.mlir 2>&1 | filecheck %s --check-prefix=PLANNED

func.func @main(%x: memref<16xi8>, %y: memref<16xi8>) {
  func.return
}

// CHECK: time-calls: needs one function with the attribute qmlir.inputs, got 0
// COUNTER: --time-calls=counter: must be one of cycle, steady, got seconds
// TWICE: time-calls: must run once, got a module whose calls are timed
// PLANNED: time-calls: must run before plan-memory, got a module whose memory is planned

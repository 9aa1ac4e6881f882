// RUN: qmlir-opt --loops-to-llvm --split-input-file --verify-diagnostics %s

// An entry that is marked for other inputs than it has.
module attributes {qmlir.arena_size = 0 : i64, qmlir.weights_blob = #qmlir.weights<tensor<0xi8>, []>} {
  func.func @main(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<1x4xi8>)
      attributes {qmlir.inputs = 1 : i64, qmlir.samples = {most = 8 : i64, inputs = array<i1: true, true>}} {
    // expected-error @below {{func.func "main": must be marked for 1 inputs, got 2}}
    func.return
  }
}

// -----

// A function with the name of the one for batches.
module attributes {qmlir.arena_size = 0 : i64, qmlir.weights_blob = #qmlir.weights<tensor<0xi8>, []>} {
  func.func @main(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<1x4xi8>)
      attributes {qmlir.inputs = 1 : i64, qmlir.samples = {most = 8 : i64, inputs = array<i1: true>}} {
    func.return
  }
  func.func private @main_batch(%x: memref<4xi8>) {
    // expected-error @below {{func.func "main_batch": must have another name: the function for batches has it}}
    func.return
  }
}

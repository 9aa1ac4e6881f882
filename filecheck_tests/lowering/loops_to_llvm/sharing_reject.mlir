// RUN: qmlir-opt --loops-to-llvm --split-input-file --verify-diagnostics %s

// A function that is no kernel.
module attributes {qmlir.arena_size = 0 : i64, qmlir.weights_blob = #qmlir.weights<tensor<0xi8>, []>} {
  func.func @main(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<4xi8>) attributes {qmlir.inputs = 1 : i64} {
    %zero = arith.constant 0 : index
    %four = arith.constant 4 : index
    // expected-error @below {{func.call "main": must call a function with the attribute qmlir.parallel to be shared by threads}}
    func.call @k(%x, %zero, %four) {qmlir.threads = 2 : i64} : (memref<4xi8>, index, index) -> ()
    func.return
  }
  func.func private @k(%x: memref<4xi8>, %begin: index, %end: index) {
    func.return
  }
}

// -----

// A range that does not begin at 0.
module attributes {qmlir.arena_size = 0 : i64, qmlir.weights_blob = #qmlir.weights<tensor<0xi8>, []>} {
  func.func @main(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<4xi8>) attributes {qmlir.inputs = 1 : i64} {
    %zero = arith.constant 0 : index
    %four = arith.constant 4 : index
    // expected-error @below {{func.call "main": must begin at item 0 to be shared by threads}}
    func.call @k(%x, %four, %four) {qmlir.threads = 2 : i64} : (memref<4xi8>, index, index) -> ()
    func.return
  }
  func.func private @k(%x: memref<4xi8>, %begin: index, %end: index) attributes {qmlir.parallel} {
    func.return
  }
}

// -----

// No number of threads.
module attributes {qmlir.arena_size = 0 : i64, qmlir.weights_blob = #qmlir.weights<tensor<0xi8>, []>} {
  func.func @main(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<4xi8>) attributes {qmlir.inputs = 1 : i64} {
    %zero = arith.constant 0 : index
    %four = arith.constant 4 : index
    // expected-error @below {{func.call "main": must have 1 to 256 threads in qmlir.threads, got 0 : i64}}
    func.call @k(%x, %zero, %four) {qmlir.threads = 0 : i64} : (memref<4xi8>, index, index) -> ()
    func.return
  }
  func.func private @k(%x: memref<4xi8>, %begin: index, %end: index) attributes {qmlir.parallel} {
    func.return
  }
}

// -----

// A call by a kernel.
module attributes {qmlir.arena_size = 0 : i64, qmlir.weights_blob = #qmlir.weights<tensor<0xi8>, []>} {
  func.func @main(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<4xi8>) attributes {qmlir.inputs = 1 : i64} {
    %zero = arith.constant 0 : index
    %four = arith.constant 4 : index
    func.return
  }
  func.func private @caller(%x: memref<4xi8>, %begin: index, %end: index) attributes {qmlir.parallel} {
    %zero = arith.constant 0 : index
    %four = arith.constant 4 : index
    // expected-error @below {{func.call "caller": must be in the function with the attribute qmlir.inputs to be shared by threads}}
    func.call @k(%x, %zero, %four) {qmlir.threads = 2 : i64} : (memref<4xi8>, index, index) -> ()
    func.return
  }
  func.func private @k(%x: memref<4xi8>, %begin: index, %end: index) attributes {qmlir.parallel} {
    func.return
  }
}

// -----

// A kernel that takes more than memrefs and a range.
module attributes {qmlir.arena_size = 0 : i64, qmlir.weights_blob = #qmlir.weights<tensor<0xi8>, []>} {
  func.func @main(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<4xi8>) attributes {qmlir.inputs = 1 : i64} {
    %zero = arith.constant 0 : index
    %four = arith.constant 4 : index
    %v = arith.constant 1 : i32
    // expected-error @below {{func.call "main": must take memrefs and a range of items, and return nothing, to be shared by threads}}
    func.call @k(%x, %v, %zero, %four) {qmlir.threads = 2 : i64} : (memref<4xi8>, i32, index, index) -> ()
    func.return
  }
  func.func private @k(%x: memref<4xi8>, %v: i32, %begin: index, %end: index) attributes {qmlir.parallel} {
    func.return
  }
}

// -----

// A name that the function of a share takes.
module attributes {qmlir.arena_size = 0 : i64, qmlir.weights_blob = #qmlir.weights<tensor<0xi8>, []>} {
  // expected-error @below {{func.func "k.share": must have another name: the pool of threads uses it}}
  func.func @k.share(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<4xi8>) attributes {qmlir.inputs = 1 : i64} {
    %zero = arith.constant 0 : index
    %four = arith.constant 4 : index
    func.call @k(%x, %zero, %four) {qmlir.threads = 2 : i64} : (memref<4xi8>, index, index) -> ()
    func.return
  }
  func.func private @k(%x: memref<4xi8>, %begin: index, %end: index) attributes {qmlir.parallel} {
    func.return
  }
}

// -----

// A name that the pool takes.
module attributes {qmlir.arena_size = 0 : i64, qmlir.weights_blob = #qmlir.weights<tensor<0xi8>, []>} {
  // expected-error @below {{func.func "qmlir.pool2.owner": must have another name: the pool of threads uses it}}
  func.func @qmlir.pool2.owner(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<4xi8>) attributes {qmlir.inputs = 1 : i64} {
    %zero = arith.constant 0 : index
    %four = arith.constant 4 : index
    func.call @k(%x, %zero, %four) {qmlir.threads = 2 : i64} : (memref<4xi8>, index, index) -> ()
    func.return
  }
  func.func private @k(%x: memref<4xi8>, %begin: index, %end: index) attributes {qmlir.parallel} {
    func.return
  }
}

// -----

// More scratch buffers than the kernel has buffers.
module attributes {qmlir.arena_size = 0 : i64, qmlir.weights_blob = #qmlir.weights<tensor<0xi8>, []>} {
  func.func @main(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<4xi8>) attributes {qmlir.inputs = 1 : i64} {
    %zero = arith.constant 0 : index
    %four = arith.constant 4 : index
    // expected-error @below {{func.call "main": must have 0 to 1 buffers of its kernel in qmlir.scratch, got 2 : i64}}
    func.call @k(%x, %zero, %four) {qmlir.threads = 2 : i64} : (memref<4xi8>, index, index) -> ()
    func.return
  }
  func.func private @k(%x: memref<4xi8>, %begin: index, %end: index) attributes {qmlir.parallel, qmlir.scratch = 2 : i64} {
    func.return
  }
}

// RUN: not qmlir-opt --loops-to-llvm="index-bitwidth=16" %s 2>&1 | filecheck --check-prefix=WIDTH %s
// RUN: not qmlir-opt --loops-to-llvm="index-bitwidth=32" %s 2>&1 | filecheck --check-prefix=SHARED %s

func.func @main(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<8xi32>, %y: memref<8xi32>)
    attributes {qmlir.inputs = 1 : i64} {
  %zero = arith.constant 0 : index
  %n = arith.constant 8 : index
  func.call @k(%x, %y, %zero, %n) {qmlir.threads = 2 : i64} : (memref<8xi32>, memref<8xi32>, index, index) -> ()
  func.return
}
func.func private @k(%x: memref<8xi32>, %y: memref<8xi32>, %begin: index, %end: index) attributes {qmlir.parallel} {
  func.return
}

// WIDTH: loops-to-llvm index-bitwidth: must be 32 or 64, got 16
// SHARED: must not be shared by threads with indices of 32 bits

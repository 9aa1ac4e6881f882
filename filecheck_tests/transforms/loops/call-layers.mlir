// RUN: qmlir-opt --call-layers --split-input-file %s | filecheck %s
// RUN: qmlir-opt --call-layers=function=net_layer --split-input-file %s | filecheck %s --check-prefix=NAMED

// A layer of several calls begins before the first and ends behind the last. Layers that take turns do so with each turn,
// and no result of theirs is told. A call without a number belongs to none.
// CHECK: builtin.module attributes {qmlir.told = "qmlir_layer", qmlir.told_layers = array<i64: 7, 3>, qmlir.told_results = [unit, ["scores", memref<4xf32>]]}
// NAMED: qmlir.told = "net_layer"
// NAMED: func.func private @net_layer(i32, i32, index) -> () attributes {qmlir.external}
builtin.module {
  func.func @f(%x: memref<4xf32>) {
    func.return
  }
  func.func @main(%x: memref<4xf32>, %y: memref<4xf32> {qmlir.name = #qmlir.name<tensors ["scores"]>}) attributes {qmlir.inputs = 1 : i64} {
    func.call @f(%x) {qmlir.layer = 7 : i64} : (memref<4xf32>) -> ()
    func.call @f(%y) {qmlir.layer = 7 : i64} : (memref<4xf32>) -> ()
    func.call @f(%y) {qmlir.layer = 3 : i64} : (memref<4xf32>) -> ()
    func.call @f(%x) : (memref<4xf32>) -> ()
    func.call @f(%y) {qmlir.layer = 7 : i64} : (memref<4xf32>) -> ()
    func.return
  }
}
// CHECK:      func.func private @qmlir_layer(i32, i32, index) -> () attributes {qmlir.external}
// CHECK:      func.func @main
// CHECK-NEXT:   %0 = arith.constant 0 : i32
// CHECK-NEXT:   %1 = arith.constant 1 : i32
// CHECK-NEXT:   %2 = arith.constant 0 : index
// CHECK-NEXT:   func.call @qmlir_layer(%0, %1, %2) : (i32, i32, index) -> ()
// CHECK-NEXT:   func.call @f(%x) {qmlir.layer = 7 : i64}
// CHECK-NEXT:   func.call @f(%y) {qmlir.layer = 7 : i64}
// CHECK-NEXT:   %3 = arith.constant 0 : i32
// CHECK-NEXT:   func.call @qmlir_layer(%0, %3, %2) : (i32, i32, index) -> ()
// CHECK-NEXT:   %4 = arith.constant 1 : i32
// CHECK-NEXT:   %5 = arith.constant 1 : i32
// CHECK-NEXT:   %6 = arith.constant 0 : index
// CHECK-NEXT:   func.call @qmlir_layer(%4, %5, %6) : (i32, i32, index) -> ()
// CHECK-NEXT:   func.call @f(%y) {qmlir.layer = 3 : i64}
// CHECK-NEXT:   %7 = arith.constant 0 : i32
// CHECK-NEXT:   %8 = "memref.extract_aligned_pointer_as_index"(%y) : (memref<4xf32>) -> index
// CHECK-NEXT:   func.call @qmlir_layer(%4, %7, %8) : (i32, i32, index) -> ()
// CHECK-NEXT:   func.call @f(%x) : (memref<4xf32>) -> ()
// CHECK:        func.call @f(%y) {qmlir.layer = 7 : i64}
// CHECK-NEXT:   %12 = arith.constant 0 : i32
// CHECK-NEXT:   func.call @qmlir_layer(%9, %12, %11) : (i32, i32, index) -> ()
// CHECK-NEXT:   func.return

// -----

// The result is the last buffer before those of scratch memory, in the form that the plan gives it. A buffer that calls
// write in parts is told if the parts are as many elements; a part alone is not.
// CHECK: qmlir.told_layers = array<i64: 0, 1, 2>, qmlir.told_results = [["active", memref<2x4xi8>], ["joined", memref<16xi8>], unit]
builtin.module {
  func.func @f(%x: memref<8xi8>, %y: memref<8xi8>, %s: memref<8xi8>) attributes {qmlir.scratch = 1 : i64} {
    func.return
  }
  func.func @g(%x: memref<8xi8>, %y: memref<8xi8, strided<[1], offset: 8>>) {
    func.return
  }
  func.func @main(%weights: memref<64xi8>, %arena: memref<64xi8>, %x: memref<8xi8>, %joined: memref<16xi8> {qmlir.name = #qmlir.name<tensors ["joined"]>}) attributes {qmlir.inputs = 1 : i64} {
    %0 = arith.constant 0 : index
    %1 = memref.view %arena[%0][] {qmlir.name = #qmlir.name<tensors ["active"]>} : memref<64xi8> to memref<2x4xi8>
    %2 = memref.reinterpret_cast %1 to offset: [0], sizes: [8], strides: [1] : memref<2x4xi8> to memref<8xi8>
    %3 = memref.reinterpret_cast %joined to offset: [0], sizes: [8], strides: [1] : memref<16xi8> to memref<8xi8>
    %4 = memref.reinterpret_cast %joined to offset: [8], sizes: [8], strides: [1] : memref<16xi8> to memref<8xi8, strided<[1], offset: 8>>
    func.call @f(%x, %2, %x) {qmlir.layer = 0 : i64} : (memref<8xi8>, memref<8xi8>, memref<8xi8>) -> ()
    func.call @f(%2, %3, %x) {qmlir.layer = 1 : i64} : (memref<8xi8>, memref<8xi8>, memref<8xi8>) -> ()
    func.call @g(%x, %4) {qmlir.layer = 1 : i64} : (memref<8xi8>, memref<8xi8, strided<[1], offset: 8>>) -> ()
    func.call @g(%x, %4) {qmlir.layer = 2 : i64} : (memref<8xi8>, memref<8xi8, strided<[1], offset: 8>>) -> ()
    func.return
  }
}
// CHECK: "memref.extract_aligned_pointer_as_index"(%{{.*}}) : (memref<2x4xi8>) -> index
// CHECK: "memref.extract_aligned_pointer_as_index"(%joined) : (memref<16xi8>) -> index
// CHECK-NOT: extract_aligned_pointer

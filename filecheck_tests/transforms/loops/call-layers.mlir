// RUN: qmlir-opt --call-layers --split-input-file %s | filecheck %s
// RUN: qmlir-opt --call-layers=function=net_layer --split-input-file %s | filecheck %s --check-prefix=NAMED

// A layer of several calls begins before the first and ends behind the last. Layers that take turns do so with each turn.
// A call without a number belongs to none.
// CHECK: builtin.module attributes {qmlir.told = "qmlir_layer", qmlir.told_layers = array<i64: 7, 3>}
// NAMED: qmlir.told = "net_layer"
// NAMED: func.func private @net_layer(i32, i32) -> () attributes {qmlir.external}
builtin.module {
  func.func @f(%x: memref<4xf32>) {
    func.return
  }
  func.func @main(%x: memref<4xf32>, %y: memref<4xf32>) attributes {qmlir.inputs = 1 : i64} {
    func.call @f(%x) {qmlir.layer = 7 : i64} : (memref<4xf32>) -> ()
    func.call @f(%y) {qmlir.layer = 7 : i64} : (memref<4xf32>) -> ()
    func.call @f(%y) {qmlir.layer = 3 : i64} : (memref<4xf32>) -> ()
    func.call @f(%x) : (memref<4xf32>) -> ()
    func.call @f(%y) {qmlir.layer = 7 : i64} : (memref<4xf32>) -> ()
    func.return
  }
}
// CHECK:      func.func private @qmlir_layer(i32, i32) -> () attributes {qmlir.external}
// CHECK:      func.func @main
// CHECK-NEXT:   %0 = arith.constant 0 : i32
// CHECK-NEXT:   %1 = arith.constant 1 : i32
// CHECK-NEXT:   func.call @qmlir_layer(%0, %1) : (i32, i32) -> ()
// CHECK-NEXT:   func.call @f(%x) {qmlir.layer = 7 : i64}
// CHECK-NEXT:   func.call @f(%y) {qmlir.layer = 7 : i64}
// CHECK-NEXT:   %2 = arith.constant 0 : i32
// CHECK-NEXT:   func.call @qmlir_layer(%0, %2) : (i32, i32) -> ()
// CHECK-NEXT:   %3 = arith.constant 1 : i32
// CHECK-NEXT:   %4 = arith.constant 1 : i32
// CHECK-NEXT:   func.call @qmlir_layer(%3, %4) : (i32, i32) -> ()
// CHECK-NEXT:   func.call @f(%y) {qmlir.layer = 3 : i64}
// CHECK-NEXT:   %5 = arith.constant 0 : i32
// CHECK-NEXT:   func.call @qmlir_layer(%3, %5) : (i32, i32) -> ()
// CHECK-NEXT:   func.call @f(%x) : (memref<4xf32>) -> ()
// CHECK-NEXT:   %6 = arith.constant 0 : i32
// CHECK-NEXT:   %7 = arith.constant 1 : i32
// CHECK-NEXT:   func.call @qmlir_layer(%6, %7) : (i32, i32) -> ()
// CHECK-NEXT:   func.call @f(%y) {qmlir.layer = 7 : i64}
// CHECK-NEXT:   %8 = arith.constant 0 : i32
// CHECK-NEXT:   func.call @qmlir_layer(%6, %8) : (i32, i32) -> ()
// CHECK-NEXT:   func.return

// RUN: qmlir-opt --time-calls --split-input-file %s | filecheck %s
// RUN: qmlir-opt --time-calls=counter=cycle --split-input-file %s | filecheck %s
// RUN: qmlir-opt --time-calls=counter=steady --plan-memory --loops-to-llvm --split-input-file %s | filecheck %s --check-prefix=LLVM

// A reading before the first call and one after each; the readings are one more output, behind all others.

func.func @main(%x: memref<16xi8> {qmlir.name = "image"}, %y: memref<16xi8>) attributes {qmlir.inputs = 1 : i64} {
  %a = memref.alloc() {alignment = 64 : i64} : memref<16xi8>
  func.call @f(%x, %a) {qmlir.layer = 3 : i64} : (memref<16xi8>, memref<16xi8>) -> ()
  func.call @f(%a, %y) : (memref<16xi8>, memref<16xi8>) -> ()
  func.return
}
func.func private @f(%x: memref<16xi8>, %y: memref<16xi8>) {
  func.return
}

// CHECK: builtin.module attributes {qmlir.timed = array<i64: 3, -1>} {
// CHECK-NEXT: func.func @main(%x: memref<16xi8> {qmlir.name = "image"}, %y: memref<16xi8>, %clock: memref<3xi64>) attributes {qmlir.inputs = 1 : i64} {
// CHECK-NEXT: %a = memref.alloc()
// CHECK-NEXT: [[ZERO:%.*]] = arith.constant 0 : index
// CHECK-NEXT: [[START:%.*]] = qmlir.clock "cycle"
// CHECK-NEXT: memref.store [[START]], %clock[[[ZERO]]] : memref<3xi64>
// CHECK-NEXT: func.call @f(%x, %a) {qmlir.layer = 3 : i64}
// CHECK-NEXT: [[ONE:%.*]] = arith.constant 1 : index
// CHECK-NEXT: [[MIDDLE:%.*]] = qmlir.clock "cycle"
// CHECK-NEXT: memref.store [[MIDDLE]], %clock[[[ONE]]] : memref<3xi64>
// CHECK-NEXT: func.call @f(%a, %y)
// CHECK-NEXT: [[TWO:%.*]] = arith.constant 2 : index
// CHECK-NEXT: [[END:%.*]] = qmlir.clock "cycle"
// CHECK-NEXT: memref.store [[END]], %clock[[[TWO]]] : memref<3xi64>
// CHECK-NEXT: func.return

// The counter is LLVM's; calls of kernels stay between the readings.

// LLVM: llvm.func @main(
// LLVM: llvm.call_intrinsic "llvm.readsteadycounter"() : () -> i64
// LLVM: llvm.call @f(
// LLVM: llvm.call_intrinsic "llvm.readsteadycounter"() : () -> i64
// LLVM: llvm.call @f(
// LLVM: llvm.call_intrinsic "llvm.readsteadycounter"() : () -> i64
// LLVM: llvm.return

// -----

// Without calls there is one reading.

func.func @main(%x: memref<16xi8>, %y: memref<16xi8>) attributes {qmlir.inputs = 1 : i64} {
  "memref.copy"(%x, %y) : (memref<16xi8>, memref<16xi8>) -> ()
  func.return
}

// CHECK: builtin.module attributes {qmlir.timed = array<i64>} {
// CHECK-NEXT: func.func @main(%x: memref<16xi8>, %y: memref<16xi8>, %clock: memref<1xi64>)
// CHECK: qmlir.clock "cycle"
// CHECK-NOT: qmlir.clock
// CHECK: func.return

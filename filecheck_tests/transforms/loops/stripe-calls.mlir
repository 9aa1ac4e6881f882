// RUN: qmlir-opt --stripe-calls %s | filecheck %s
// RUN: qmlir-opt --plan-memory=memory=small %s | filecheck %s --check-prefix=WHOLE
// RUN: qmlir-opt --stripe-calls --plan-memory=memory=small %s | filecheck %s --check-prefix=PLANNED

// Each row of %b and of %y is made of the row above, its own and the row below. In two turns, the layers compute 10
// and 6 rows, 9 and 7, 8 and 8. The scratch memory of the second turn is a buffer of its own.

// CHECK-LABEL: func.func @main
// CHECK: %[[ALL:.*]] = arith.constant 16 : index
// CHECK: %s = memref.alloc() {{.*}} : memref<32xi8>
// CHECK: %[[A0:.*]] = arith.constant 0 : index
// CHECK: %[[A1:.*]] = arith.constant 10 : index
// CHECK-NEXT: func.call @scaled(%x, %a, %s, %[[A0]], %[[A1]]) {qmlir.leads
// CHECK: %[[B1:.*]] = arith.constant 9 : index
// CHECK-NEXT: func.call @blurred(%a, %b, %{{.*}}, %[[B1]])
// CHECK: %[[C1:.*]] = arith.constant 8 : index
// CHECK-NEXT: func.call @blurred(%b, %y, %{{.*}}, %[[C1]])
// CHECK: %[[OTHER:.*]] = memref.alloc() {{.*}} : memref<32xi8>
// CHECK-NEXT: %[[A2:.*]] = arith.constant 10 : index
// CHECK-NEXT: func.call @scaled(%x, %a, %[[OTHER]], %[[A2]], %[[ALL]])
// CHECK: func.call @blurred(%a, %b, %{{.*}}, %[[ALL]])
// CHECK: func.call @blurred(%b, %y, %{{.*}}, %[[ALL]])
// CHECK-NEXT: func.return

// What is live of %a and %b are windows that move together: they share memory.
// WHOLE: qmlir.arena_bound = 2048 : i64
// WHOLE-SAME: qmlir.arena_size = 2048 : i64
// PLANNED: qmlir.arena_bound = 1216 : i64
// PLANNED-SAME: qmlir.arena_size = 1600 : i64
func.func @main(%x: memref<16x64xi8>, %y: memref<16x64xi8>) attributes {qmlir.inputs = 1 : i64} {
  %0 = arith.constant 0 : index
  %16 = arith.constant 16 : index
  %a = memref.alloc() {alignment = 64 : i64} : memref<16x64xi8>
  %b = memref.alloc() {alignment = 64 : i64} : memref<16x64xi8>
  %s = memref.alloc() {alignment = 64 : i64} : memref<32xi8>
  func.call @scaled(%x, %a, %s, %0, %16) {qmlir.leads = array<i64: 0, -1>, qmlir.stripes = array<i64: 1, 64, 0, 64, 1, 0, 1>} : (memref<16x64xi8>, memref<16x64xi8>, memref<32xi8>, index, index) -> ()
  func.call @blurred(%a, %b, %0, %16) {qmlir.leads = array<i64: -1, -1>, qmlir.stripes = array<i64: 1, 64, 0, 64, 1, 1, 3>} : (memref<16x64xi8>, memref<16x64xi8>, index, index) -> ()
  func.call @blurred(%b, %y, %0, %16) {qmlir.leads = array<i64: -1, -1>, qmlir.stripes = array<i64: 1, 64, 0, 64, 1, 1, 3>} : (memref<16x64xi8>, memref<16x64xi8>, index, index) -> ()
  func.return
}
func.func private @scaled(%a: memref<16x64xi8>, %b: memref<16x64xi8>, %s: memref<32xi8>, %begin: index, %end: index) {
  func.return
}
func.func private @blurred(%a: memref<16x64xi8>, %b: memref<16x64xi8>, %begin: index, %end: index) {
  func.return
}

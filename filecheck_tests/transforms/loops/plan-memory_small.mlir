// RUN: qmlir-opt --plan-memory=memory=small --split-input-file %s | filecheck %s

// A result lies over the operand that its call reads last, as far before it as the call says.

func.func @main(%x: memref<64xi8>, %y: memref<64xi8>) attributes {qmlir.inputs = 1 : i64} {
  %a = memref.alloc() : memref<64xi8>
  %b = memref.alloc() : memref<64xi8>
  func.call @f(%x, %a) {qmlir.leads = array<i64: 0, -1>} : (memref<64xi8>, memref<64xi8>) -> ()
  func.call @f(%a, %b) {qmlir.leads = array<i64: 16, -1>} : (memref<64xi8>, memref<64xi8>) -> ()
  func.call @f(%b, %y) {qmlir.leads = array<i64: 0, -1>} : (memref<64xi8>, memref<64xi8>) -> ()
  func.return
}
func.func private @f(%x: memref<64xi8>, %y: memref<64xi8>) {
  func.return
}

// CHECK: qmlir.arena_bound = 80 : i64, qmlir.arena_size = 80 : i64
// CHECK-DAG: [[AHEAD:%.*]] = arith.constant 16 : index
// CHECK-DAG: [[NONE:%.*]] = arith.constant 0 : index
// CHECK-DAG: %a = memref.view %arena[[[AHEAD]]][]
// CHECK-DAG: %b = memref.view %arena[[[NONE]]][]

// -----

// Not over an operand that is read later, that several threads read, or that the call says must lie apart.

func.func @main(%x: memref<64xi8>, %y: memref<64xi8>) attributes {qmlir.inputs = 1 : i64} {
  %a = memref.alloc() : memref<64xi8>
  %b = memref.alloc() : memref<64xi8>
  %c = memref.alloc() : memref<64xi8>
  %d = memref.alloc() : memref<64xi8>
  func.call @f(%x, %x, %a) {qmlir.leads = array<i64: 0, 0, -1>} : (memref<64xi8>, memref<64xi8>, memref<64xi8>) -> ()
  func.call @f(%a, %a, %b) {qmlir.leads = array<i64: 0, 0, -1>} : (memref<64xi8>, memref<64xi8>, memref<64xi8>) -> ()
  func.call @f(%b, %a, %c) {qmlir.leads = array<i64: 0, -1, -1>, qmlir.threads = 2 : i64} : (memref<64xi8>, memref<64xi8>, memref<64xi8>) -> ()
  func.call @f(%c, %c, %d) {qmlir.leads = array<i64: 0, -1, -1>} : (memref<64xi8>, memref<64xi8>, memref<64xi8>) -> ()
  func.call @f(%d, %d, %y) {qmlir.leads = array<i64: 0, 0, -1>} : (memref<64xi8>, memref<64xi8>, memref<64xi8>) -> ()
  func.return
}
func.func private @f(%x: memref<64xi8>, %y: memref<64xi8>, %z: memref<64xi8>) {
  func.return
}

// CHECK: qmlir.arena_bound = 192 : i64, qmlir.arena_size = 192 : i64

// RUN: qmlir-opt --plan-memory --split-input-file %s | filecheck %s
// RUN: qmlir-opt --plan-memory=memory=fast --split-input-file %s | filecheck %s

// A constant goes to the weights, an intermediate value to the arena, a result to the caller's memory.

func.func @main(%x: memref<16xi8> {qmlir.name = "image"}, %y: memref<16xi8>) attributes {qmlir.inputs = 1 : i64} {
  %w = qmlir.constant_buffer <tensor<4xi8>, [1, 2, 3, 4]> : memref<4xi8>
  %a = memref.alloc() {alignment = 64 : i64} : memref<16xi8>
  %b = memref.alloc() {alignment = 64 : i64} : memref<16xi8>
  func.call @f(%x, %w, %a) : (memref<16xi8>, memref<4xi8>, memref<16xi8>) -> ()
  func.call @f(%a, %w, %b) : (memref<16xi8>, memref<4xi8>, memref<16xi8>) -> ()
  "memref.copy"(%b, %y) : (memref<16xi8>, memref<16xi8>) -> ()
  func.return
}
func.func private @f(%x: memref<16xi8>, %w: memref<4xi8>, %y: memref<16xi8>) {
  func.return
}

// CHECK: builtin.module attributes {qmlir.arena_size = 64 : i64, qmlir.weights_blob = #qmlir.weights<tensor<64xi8>, [1, 2, 3, 4, 0
// CHECK-NEXT: func.func @main(%weights: memref<64xi8>, %arena: memref<64xi8>, %x: memref<16xi8> {qmlir.name = "image"}, %y: memref<16xi8>) attributes {qmlir.inputs = 1 : i64} {
// CHECK-NEXT: [[ZERO:%.*]] = arith.constant 0 : index
// CHECK-NEXT: %w = memref.view %weights[[[ZERO]]][] : memref<64xi8> to memref<4xi8>
// CHECK-NEXT: %a = memref.view %arena[[[ZERO]]][] : memref<64xi8> to memref<16xi8>
// CHECK-NEXT: func.call @f(%x, %w, %a)
// CHECK-NEXT: func.call @f(%a, %w, %y)
// CHECK-NEXT: func.return

// -----

// Three of these four live in turn and share a place; %d lives with all of them. A reshape is no new buffer.

func.func @main(%x: memref<64xi8>, %y: memref<64xi8>) attributes {qmlir.inputs = 1 : i64} {
  %a = memref.alloc() : memref<64xi8>
  %b = memref.alloc() : memref<64xi8>
  %c = memref.alloc() : memref<64xi8>
  %d = memref.alloc() : memref<64xi8>
  %d2 = memref.expand_shape %d [[0, 1]] output_shape [8, 8] : memref<64xi8> into memref<8x8xi8>
  %d1 = memref.collapse_shape %d2 [[0, 1]] : memref<8x8xi8> into memref<64xi8>
  func.call @f(%x, %d) : (memref<64xi8>, memref<64xi8>) -> ()
  func.call @f(%d, %a) : (memref<64xi8>, memref<64xi8>) -> ()
  func.call @f(%a, %b) : (memref<64xi8>, memref<64xi8>) -> ()
  func.call @f(%b, %c) : (memref<64xi8>, memref<64xi8>) -> ()
  func.call @f(%c, %d1) : (memref<64xi8>, memref<64xi8>) -> ()
  func.call @f(%d1, %y) : (memref<64xi8>, memref<64xi8>) -> ()
  func.return
}
func.func private @f(%x: memref<64xi8>, %y: memref<64xi8>) {
  func.return
}

// CHECK: qmlir.arena_size = 192 : i64
// CHECK-DAG: [[TWO:%.*]] = arith.constant 128 : index
// CHECK-DAG: [[ONE:%.*]] = arith.constant 64 : index
// CHECK-DAG: [[NONE:%.*]] = arith.constant 0 : index
// CHECK-DAG: %a = memref.view %arena[[[ONE]]][]
// CHECK-DAG: %b = memref.view %arena[[[TWO]]][]
// CHECK-DAG: %c = memref.view %arena[[[ONE]]][]
// CHECK-DAG: %d = memref.view %arena[[[NONE]]][]

// -----

// An input that is returned, and a value returned twice, are copied.

func.func @main(%x: memref<4xf32>, %p: memref<4xf32>, %q: memref<4xf32>, %r: memref<4xf32>) attributes {qmlir.inputs = 1 : i64} {
  %a = memref.alloc() : memref<2x2xf32>
  %v = memref.collapse_shape %a [[0, 1]] : memref<2x2xf32> into memref<4xf32>
  func.call @f(%x, %v) : (memref<4xf32>, memref<4xf32>) -> ()
  "memref.copy"(%x, %p) : (memref<4xf32>, memref<4xf32>) -> ()
  "memref.copy"(%v, %q) : (memref<4xf32>, memref<4xf32>) -> ()
  "memref.copy"(%v, %r) : (memref<4xf32>, memref<4xf32>) -> ()
  func.return
}
func.func private @f(%x: memref<4xf32>, %y: memref<4xf32>) {
  func.return
}

// CHECK: qmlir.arena_size = 0 : i64
// CHECK: %a = memref.reinterpret_cast %q to offset: [0], sizes: [2, 2], strides: [2, 1] : memref<4xf32> to memref<2x2xf32>
// CHECK-NEXT: %v = memref.collapse_shape %a
// CHECK-NEXT: func.call @f(%x, %v)
// CHECK-NEXT: "memref.copy"(%x, %p)
// CHECK-NEXT: "memref.copy"(%v, %r)
// CHECK-NEXT: func.return

// -----

// The output begins as a copy of the input, which nothing reads from there on: both may be one array.

func.func @main(%x: memref<4xi8>, %s: memref<16xi8>, %y: memref<16xi8>, %n: memref<16xi8>) attributes {qmlir.inputs = 2 : i64} {
  %a = memref.alloc() : memref<16xi8>
  func.call @g(%s, %y) : (memref<16xi8>, memref<16xi8>) -> ()
  "memref.copy"(%s, %a) : (memref<16xi8>, memref<16xi8>) -> ()
  func.call @f(%x, %a) : (memref<4xi8>, memref<16xi8>) -> ()
  "memref.copy"(%a, %n) : (memref<16xi8>, memref<16xi8>) -> ()
  func.return
}
func.func private @f(%x: memref<4xi8>, %y: memref<16xi8>) {
  func.return
}
func.func private @g(%x: memref<16xi8>, %y: memref<16xi8>) {
  func.return
}

// CHECK: attributes {qmlir.inputs = 2 : i64, qmlir.in_place = array<i64: 1, 1>} {
// CHECK-NEXT: func.call @g(%s, %y)
// CHECK-NEXT: "memref.copy"(%s, %n)
// CHECK-NEXT: func.call @f(%x, %n)
// CHECK-NEXT: func.return

// -----

// The input is read behind the copy.

func.func @main(%s: memref<16xi8>, %y: memref<16xi8>, %n: memref<16xi8>) attributes {qmlir.inputs = 1 : i64} {
  "memref.copy"(%s, %n) : (memref<16xi8>, memref<16xi8>) -> ()
  func.call @g(%s, %y) : (memref<16xi8>, memref<16xi8>) -> ()
  func.return
}
func.func private @g(%x: memref<16xi8>, %y: memref<16xi8>) {
  func.return
}

// CHECK: attributes {qmlir.inputs = 1 : i64} {

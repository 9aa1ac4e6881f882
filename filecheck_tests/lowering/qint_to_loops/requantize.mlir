// RUN: qmlir-opt --qint-to-loops --split-input-file %s | filecheck %s

// Shifts down of i32: one operation. No float anywhere.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<64xi32>) -> tensor<64xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1073741825>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<64xi32> -> tensor<64xi8>
  func.return %y : tensor<64xi8>
}
// CHECK: func.func private @qint_requantize_0(%x: memref<64xi32>, %p1: memref<1xi32>, %p2: memref<1xi8>, %y: memref<64xi8>, %begin: index, %end: index)
// CHECK: simd.mul_shift_round {{.*}} drops_33 : vector<16xi32>
// CHECK-NOT: f32

// -----

// Shifts up may leave i32 before the clamp.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<64xi32>) -> tensor<64xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1073741825>, shift = array<i32: 4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<64xi32> -> tensor<64xi8>
  func.return %y : tensor<64xi8>
}
// CHECK: func.func private @qint_requantize_0
// CHECK: arith.muli {{.*}} : vector<16xi64>
// CHECK-NOT: simd

// -----

// The contract that is defined by floats.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<64xi32>) -> tensor<64xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "float_even", min = -128 : i32, max = 127 : i32} : tensor<64xi32> -> tensor<64xi8>
  // CHECK: qmlir.constant_buffer <tensor<1xf32>, [0.03125]>
  func.return %y : tensor<64xi8>
}
// CHECK: func.func private @qint_requantize_0
// CHECK: arith.mulf {{.*}} : vector<16xf32>
// CHECK-NEXT: math.roundeven

// -----

// Sums of 64 bits by 31 of multiplier: two products, of the upper bits and of the lower 16.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<64xi64>) -> tensor<64xi16> {
  %y = qint.requantize %x {multiplier = array<i32: 1073741825>, shift = array<i32: -9>, contract = "single64", min = -32768 : i32, max = 32767 : i32} : tensor<64xi64> -> tensor<64xi16>
  func.return %y : tensor<64xi16>
}
// CHECK: func.func private @qint_requantize_0(%x: memref<64xi64>
// CHECK-COUNT-2: arith.muli {{.*}} : vector<16xi64>
// CHECK-NOT: f32

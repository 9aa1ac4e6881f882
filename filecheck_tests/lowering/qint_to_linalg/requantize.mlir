// RUN: qmlir-opt --qint-to-linalg %s | filecheck %s

// One multiplier for each channel: read along the last dimension.
// CHECK-LABEL: func.func @channels
// CHECK: arith.constant dense<[1073741824, 1500000000]> : tensor<2xi32>
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>
// CHECK: arith.muli %{{.*}}, %{{.*}} : i64
// CHECK: arith.shrsi %{{.*}}, %{{.*}} : i64
// CHECK: arith.maxsi
// CHECK: arith.minsi
// CHECK: arith.trunci %{{.*}} : i32 to i8
func.func @channels(%x: tensor<3x2xi32>) -> tensor<3x2xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1073741824, 1500000000>, shift = array<i32: -4, -5>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<3x2xi32> -> tensor<3x2xi8>
  func.return %y : tensor<3x2xi8>
}

// One for all: numbers in the body.
// CHECK-LABEL: func.func @tensor
// CHECK: arith.constant 1500000000 : i64
func.func @tensor(%x: tensor<4xi32>) -> tensor<4xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1500000000>, shift = array<i32: -4>, contract = "double", min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// CHECK-LABEL: func.func @float_even
// CHECK: arith.constant 3.125000e-02 : f32
// CHECK: arith.sitofp %{{.*}} : i32 to f32
// CHECK: arith.mulf
// CHECK: math.roundeven %{{.*}} : f32
// CHECK: arith.fptosi
func.func @float_even(%x: tensor<4xi32>) -> tensor<4xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "float_even", min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// The constant is added in floats, before rounding.
// CHECK-LABEL: func.func @float_sum
// CHECK: arith.mulf %{{.*}} : f32
// CHECK: arith.addf %{{.*}} : f64
// CHECK: math.roundeven %{{.*}} : f32
func.func @float_sum(%x: tensor<4xi32>) -> tensor<4xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "float_sum", constant = array<i32: 8585216, -16>, min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

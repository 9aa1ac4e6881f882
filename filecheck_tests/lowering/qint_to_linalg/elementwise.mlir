// RUN: qmlir-opt --qint-to-linalg %s | filecheck %s

// CHECK-LABEL: func.func @add
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d0, d1)>, affine_map<(d0, d1) -> (d1)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK-COUNT-2: arith.muli %{{.*}}, %{{.*}} : i64
// CHECK: arith.trunci %{{.*}} : i32 to i8
func.func @add(%a: tensor<3x4xi8>, %b: tensor<4xi8>) -> tensor<3x4xi8> {
  %y = qint.add %a, %b {multipliers = array<i64: 1073741823, 12345>, shift = 29 : i32, min = -128 : i32, max = 127 : i32} : tensor<3x4xi8>, tensor<4xi8> -> tensor<3x4xi8>
  func.return %y : tensor<3x4xi8>
}

// CHECK-LABEL: func.func @mul
// CHECK: arith.subi
// CHECK: arith.muli %{{.*}}, %{{.*}} : i32
func.func @mul(%a: tensor<4xi8>, %b: tensor<4xi8>) -> tensor<4xi32> {
  %acc = qint.mul %a, %b {lhs_zero_point = 3 : i32} : tensor<4xi8>, tensor<4xi8> -> tensor<4xi32>
  func.return %acc : tensor<4xi32>
}

// CHECK-LABEL: func.func @float_add
// CHECK: arith.sitofp %{{.*}} : i32 to f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: arith.extf %{{.*}} : f32 to f64
// CHECK: arith.truncf %{{.*}} : f64 to f32
// CHECK: math.roundeven
func.func @float_add(%x: tensor<4xi8>) -> tensor<4xi8> {
  %y = qint.float_add %x, %x {ratios = array<i32: 12582912, -24, 8388608, -23>, constant = array<i32: 8388608, -23>, offset = 128 : i32, min = -128 : i32, max = 127 : i32} : tensor<4xi8>, tensor<4xi8> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// CHECK-LABEL: func.func @rescaled_add
// CHECK-COUNT-2: arith.shli
// CHECK-COUNT-3: arith.muli
// CHECK: arith.trunci %{{.*}} : i32 to i8
func.func @rescaled_add(%x: tensor<4xi8>) -> tensor<4xi8> {
  %y = qint.rescaled_add %x, %x {left = 20 : i32, multipliers = array<i32: 1073741824, 1431655765, 1431655765>, shifts = array<i32: 0, -1, -18>, operand_contract = "double", contract = "double", subtract = true, min = -128 : i32, max = 127 : i32} : tensor<4xi8>, tensor<4xi8> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// CHECK-LABEL: func.func @div
// CHECK-COUNT-3: arith.muli
// CHECK: arith.trunci %{{.*}} : i32 to i16
func.func @div(%x: tensor<4xi16>) -> tensor<4xi16> {
  %y = qint.div %x, %x {multiplier = 1073741824 : i32, shift = 3 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<4xi16>, tensor<4xi16> -> tensor<4xi16>
  func.return %y : tensor<4xi16>
}

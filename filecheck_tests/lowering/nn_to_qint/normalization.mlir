// RUN: qmlir-opt --nn-to-qint --elide-weights --split-input-file %s | filecheck %s

// A table of exponentials; 256 steps of the result are 1.
!a = !quant.uniform<i8:f32, 0.05:3>
!s = !quant.uniform<i8:f32, 0.00390625:-128>
!w = !quant.uniform<i16:f32, 0.001>
!t = !quant.uniform<i16:f32, 0.000030517578125>

// CHECK-LABEL: func.func @softmax
// CHECK: qint.softmax %{{.*}}, <tensor<256xi32>, elided> {axis = 1 : i64, unit = 1048576 : i64, division = "exact", zero_point = -128 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3xi8> -> tensor<2x3xi8>
// CHECK: qint.softmax %{{.*}}, <tensor<65536xi32>, elided> {axis = 0 : i64, unit = 134217728 : i64, division = "exact"
func.func @softmax(%x: tensor<2x3x!a>, %y: tensor<2x3x!w>) -> (tensor<2x3x!s>, tensor<2x3x!t>) {
  %0 = nn.softmax %x {axis = 1 : i64} : tensor<2x3x!a> -> tensor<2x3x!s>
  %1 = nn.softmax %y {axis = 0 : i64} : tensor<2x3x!w> -> tensor<2x3x!t>
  func.return %0, %1 : tensor<2x3x!s>, tensor<2x3x!t>
}

// -----

// LiteRT's reference kernel divides in fixed point, to a scale that is a power of two.
!a = !quant.uniform<i8:f32, 0.05:3>
!s = !quant.uniform<i8:f32, 0.00390625:-128>
!u = !quant.uniform<i8:f32, 0.004:-128>
!w = !quant.uniform<i16:f32, 0.001>
!t = !quant.uniform<i16:f32, 0.000030517578125>

module attributes {qmlir.numerics = "litert-reference"} {
// CHECK-LABEL: func.func @reference
// CHECK: qint.softmax {{.*}}division = "newton"
// CHECK: qint.softmax {{.*}}division = "exact"
// CHECK: qint.softmax {{.*}}inverse = #qmlir.weights<tensor<513xi16>, elided>, unit = 134217728 : i64, division = "interpolated"
func.func @reference(%x: tensor<2x3x!a>, %y: tensor<2x3x!w>) -> (tensor<2x3x!s>, tensor<2x3x!u>, tensor<2x3x!t>) {
  %0 = nn.softmax %x {axis = 1 : i64} : tensor<2x3x!a> -> tensor<2x3x!s>
  %1 = nn.softmax %x {axis = 1 : i64} : tensor<2x3x!a> -> tensor<2x3x!u>
  %2 = nn.softmax %y {axis = 1 : i64} : tensor<2x3x!w> -> tensor<2x3x!t>
  func.return %0, %1, %2 : tensor<2x3x!s>, tensor<2x3x!u>, tensor<2x3x!t>
}
}

// -----

// A result whose steps are larger than 1, or smaller than 2^-16: an island.
!a = !quant.uniform<i8:f32, 0.05:3>
!s = !quant.uniform<i8:f32, 2.0>
!t = !quant.uniform<i16:f32, 0.00001>

// CHECK-LABEL: func.func @islands
// CHECK: nn.softmax %{{.*}}#qmlir.decision<float, "factor", "its result's scale 2 is not between 2^-16 and 1">
// CHECK: nn.softmax %{{.*}}#qmlir.decision<float, "factor", "its result's scale 1e-05 is not between 2^-16 and 1">
func.func @islands(%x: tensor<2x3x!a>) -> (tensor<2x3x!s>, tensor<2x3x!t>) {
  %0 = nn.softmax %x {axis = 1 : i64} : tensor<2x3x!a> -> tensor<2x3x!s>
  %1 = nn.softmax %x {axis = 1 : i64} : tensor<2x3x!a> -> tensor<2x3x!t>
  func.return %0, %1 : tensor<2x3x!s>, tensor<2x3x!t>
}

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

// A result whose steps are larger than 1, or smaller than 2^-19: an island.
!a = !quant.uniform<i8:f32, 0.05:3>
!s = !quant.uniform<i8:f32, 2.0>
!t = !quant.uniform<i16:f32, 0.000001>

// CHECK-LABEL: func.func @islands
// CHECK: nn.softmax %{{.*}}#qmlir.decision<float, "factor", "its result's scale 2 is not between 2^-19 and 1">
// CHECK: nn.softmax %{{.*}}#qmlir.decision<float, "factor", "its result's scale 1e-06 is not between 2^-19 and 1">
func.func @islands(%x: tensor<2x3x!a>) -> (tensor<2x3x!s>, tensor<2x3x!t>) {
  %0 = nn.softmax %x {axis = 1 : i64} : tensor<2x3x!a> -> tensor<2x3x!s>
  %1 = nn.softmax %x {axis = 1 : i64} : tensor<2x3x!a> -> tensor<2x3x!t>
  func.return %0, %1 : tensor<2x3x!s>, tensor<2x3x!t>
}

// -----

// A logarithm in steps of 2^-26 is brought to the result's; a root divides once.
!a = !quant.uniform<i8:f32, 0.05:3>
!l = !quant.uniform<i8:f32, 0.0625:127>
!u = !quant.uniform<i8:f32, 0.0078125>
!v = !quant.uniform<i8:f32, 0.008:-4>

// CHECK-LABEL: func.func @logarithm_and_root
// CHECK: %[[L:.*]] = qint.log_softmax %{{.*}}, <tensor<256xi32>, elided>, <tensor<256xi32>, elided> {axis = 1 : i64, integer_bits = 1 : i32} : tensor<2x3xi8> -> tensor<2x3xi32>
// CHECK: qint.requantize %[[L]] {multiplier = array<i32: 1073741824>, shift = array<i32: -21>, contract = "single", zero_point = 127 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3xi32> -> tensor<2x3xi8>
// CHECK: qint.l2_normalization %{{.*}} {axis = 1 : i64, input_zero_point = 3 : i32, multiplier = 1073741824 : i32, shift = 8 : i32, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<2x3xi8> -> tensor<2x3xi8>
// CHECK: qint.l2_normalization %{{.*}} {axis = 0 : i64, input_zero_point = 3 : i32, multiplier = 2097152000 : i32, shift = 7 : i32, contract = "single", zero_point = -4 : i32
func.func @logarithm_and_root(%x: tensor<2x3x!a>) -> (tensor<2x3x!l>, tensor<2x3x!u>, tensor<2x3x!v>) {
  %0 = nn.log_softmax %x {axis = 1 : i64} : tensor<2x3x!a> -> tensor<2x3x!l>
  %1 = nn.lp_normalization %x {axis = 1 : i64, p = 2 : i64} : tensor<2x3x!a> -> tensor<2x3x!u>
  %2 = nn.lp_normalization %x {axis = 0 : i64, p = 2 : i64} : tensor<2x3x!a> -> tensor<2x3x!v>
  func.return %0, %1, %2 : tensor<2x3x!l>, tensor<2x3x!u>, tensor<2x3x!v>
}

// -----

// LiteRT's reference sums exponentials in 12 bits before the point, and rounds roots twice; of unsigned bytes less is
// lost the first time.
!a = !quant.uniform<i8:f32, 0.05:3>
!b = !quant.uniform<u8:f32, 0.05:3>
!l = !quant.uniform<i8:f32, 0.0625:127>
!u = !quant.uniform<i8:f32, 0.0078125>
!w = !quant.uniform<u8:f32, 0.0078125:128>

module attributes {qmlir.numerics = "litert-reference"} {
// CHECK-LABEL: func.func @reference
// CHECK: qint.log_softmax {{.*}}integer_bits = 12 : i32
// CHECK: qint.requantize {{.*}}contract = "away16"
// CHECK: qint.l2_normalization {{.*}}contract = "double", min
// CHECK: qint.l2_normalization {{.*}}contract = "double", left = 7 : i32, min
func.func @reference(%x: tensor<2x3x!a>, %y: tensor<2x3x!b>) -> (tensor<2x3x!l>, tensor<2x3x!u>, tensor<2x3x!w>) {
  %0 = nn.log_softmax %x {axis = 1 : i64} : tensor<2x3x!a> -> tensor<2x3x!l>
  %1 = nn.lp_normalization %x {axis = 1 : i64, p = 2 : i64} : tensor<2x3x!a> -> tensor<2x3x!u>
  %2 = nn.lp_normalization %y {axis = 1 : i64, p = 2 : i64} : tensor<2x3x!b> -> tensor<2x3x!w>
  func.return %0, %1, %2 : tensor<2x3x!l>, tensor<2x3x!u>, tensor<2x3x!w>
}
}

// -----

// Islands: sums of magnitudes, too many squares, 16 bits. A logarithm that goes far down has fewer bits behind its point.
!a = !quant.uniform<i8:f32, 0.05:3>
!h = !quant.uniform<i16:f32, 0.05>
!l = !quant.uniform<i8:f32, 0.5>
!u = !quant.uniform<i8:f32, 0.0078125>

// CHECK-LABEL: func.func @more_islands
// CHECK: qint.log_softmax {{.*}}integer_bits = 1 : i32, fraction = 25 : i32
// CHECK: nn.lp_normalization %{{.*}}#qmlir.decision<float, "target", "its division by a sum of magnitudes has no integer form on this target">
// CHECK: nn.lp_normalization %{{.*}}#qmlir.decision<float, "accumulator", "the sum of squares along its axis can reach 2574150000, more than a 32-bit accumulator holds">
// CHECK: nn.lp_normalization %{{.*}}#qmlir.decision<float, "precision",
func.func @more_islands(%x: tensor<2x150000x!a>, %y: tensor<2x3x!h>) -> (tensor<2x150000x!l>, tensor<2x150000x!u>, tensor<2x150000x!u>, tensor<2x3x!u>) {
  %0 = nn.log_softmax %x {axis = 1 : i64} : tensor<2x150000x!a> -> tensor<2x150000x!l>
  %1 = nn.lp_normalization %x {axis = 1 : i64, p = 1 : i64} : tensor<2x150000x!a> -> tensor<2x150000x!u>
  %2 = nn.lp_normalization %x {axis = 1 : i64, p = 2 : i64} : tensor<2x150000x!a> -> tensor<2x150000x!u>
  %3 = nn.lp_normalization %y {axis = 1 : i64, p = 2 : i64} : tensor<2x3x!h> -> tensor<2x3x!u>
  func.return %0, %1, %2, %3 : tensor<2x150000x!l>, tensor<2x150000x!u>, tensor<2x150000x!u>, tensor<2x3x!u>
}

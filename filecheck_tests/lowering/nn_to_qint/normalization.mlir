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

// A result whose steps are larger than 1, or smaller than 2^-19: a fallback.
!a = !quant.uniform<i8:f32, 0.05:3>
!s = !quant.uniform<i8:f32, 2.0>
!t = !quant.uniform<i16:f32, 0.000001>

// CHECK-LABEL: func.func @fallbacks
// CHECK: nn.softmax %{{.*}}#qmlir.decision<float, "factor", "its result's scale 2 is not between 2^-19 and 1">
// CHECK: nn.softmax %{{.*}}#qmlir.decision<float, "factor", "its result's scale 1e-06 is not between 2^-19 and 1">
func.func @fallbacks(%x: tensor<2x3x!a>) -> (tensor<2x3x!s>, tensor<2x3x!t>) {
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

// Roots of more than 31 bits, and of 16 bits, are those of a root-mean-square normalization. Sums of magnitudes are an
// fallback. A logarithm that goes far down has fewer bits behind its point.
!a = !quant.uniform<i8:f32, 0.05:3>
!h = !quant.uniform<i16:f32, 0.05>
!l = !quant.uniform<i8:f32, 0.5>
!u = !quant.uniform<i8:f32, 0.0078125>

// CHECK-LABEL: func.func @more_fallbacks
// CHECK: qint.log_softmax {{.*}}integer_bits = 1 : i32, fraction = 25 : i32
// CHECK: nn.lp_normalization %{{.*}}#qmlir.decision<float, "target", "its division by a sum of magnitudes has no integer form on this target">
// CHECK: qint.rms_norm %{{.*}} {axis = 1 : i64, end = 2 : i64, multiplier = 1073741824 : i32, shift = 23 : i32, fraction = 30 : i32, epsilon = 0 : i64, input_zero_point = 3 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x150000xi8> -> tensor<2x150000xi8>
// CHECK: qint.rms_norm %{{.*}} {axis = 1 : i64, end = 2 : i64, multiplier = 1073741824 : i32, shift = 23 : i32, fraction = 30 : i32, epsilon = 0 : i64, min = -128 : i32, max = 127 : i32} : tensor<2x3xi16> -> tensor<2x3xi8>
func.func @more_fallbacks(%x: tensor<2x150000x!a>, %y: tensor<2x3x!h>) -> (tensor<2x150000x!l>, tensor<2x150000x!u>, tensor<2x150000x!u>, tensor<2x3x!u>) {
  %0 = nn.log_softmax %x {axis = 1 : i64} : tensor<2x150000x!a> -> tensor<2x150000x!l>
  %1 = nn.lp_normalization %x {axis = 1 : i64, p = 1 : i64} : tensor<2x150000x!a> -> tensor<2x150000x!u>
  %2 = nn.lp_normalization %x {axis = 1 : i64, p = 2 : i64} : tensor<2x150000x!a> -> tensor<2x150000x!u>
  %3 = nn.lp_normalization %y {axis = 1 : i64, p = 2 : i64} : tensor<2x3x!h> -> tensor<2x3x!u>
  func.return %0, %1, %2, %3 : tensor<2x150000x!l>, tensor<2x150000x!u>, tensor<2x150000x!u>, tensor<2x3x!u>
}

// -----

// Deviations from a mean need no zero point. epsilon is counted in squares of the data's scale, and the sum under the
// root has as many bits behind its point as 62 bits leave.
!a = !quant.uniform<i8:f32, 0.0625:3>
!b = !quant.uniform<u8:f32, 0.0625:128>
!w = !quant.uniform<i16:f32, 0.001>
!n = !quant.uniform<i8:f32, 0.03125:-5>

// CHECK-LABEL: func.func @deviations
// CHECK: qint.layer_norm %{{.*}} {axis = 1 : i64, end = 3 : i64, multiplier = 1610612736 : i32, shift = 29 : i32, fraction = 38 : i32, epsilon = 405323956224 : i64, zero_point = -5 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x4x6xi8> -> tensor<2x4x6xi8>
// CHECK: qint.rms_norm %{{.*}} {axis = 2 : i64, end = 3 : i64, multiplier = 1816186908 : i32, shift = 34 : i32, fraction = 45 : i32, epsilon = 540431941632 : i64, input_zero_point = 3 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<2x4x6xi8> -> tensor<2x4x6xi16>
// CHECK: qint.rms_norm %{{.*}} {axis = 2 : i64, end = 3 : i64, multiplier = 1859775393 : i32, shift = 29 : i32, fraction = 45 : i32, epsilon = 0 : i64, zero_point = -5 : i32
// CHECK: qint.layer_norm %{{.*}}fraction = 26 : i32{{.*}} : tensor<2x4x6xi16> -> tensor<2x4x6xi8>
func.func @deviations(%x: tensor<2x4x6x!a>, %y: tensor<2x4x6x!b>, %z: tensor<2x4x6x!w>) -> (tensor<2x4x6x!n>, tensor<2x4x6x!w>, tensor<2x4x6x!n>, tensor<2x4x6x!n>) {
  %0 = nn.layer_norm %x {axis = 1 : i64, epsilon = 1.0e-5 : f32} : tensor<2x4x6x!a> -> tensor<2x4x6x!n>
  %1 = nn.rms_norm %x {axis = 2 : i64, epsilon = 1.0e-5 : f32} : tensor<2x4x6x!a> -> tensor<2x4x6x!w>
  %2 = nn.rms_norm %y {axis = 2 : i64, epsilon = 0.0 : f32} : tensor<2x4x6x!b> -> tensor<2x4x6x!n>
  %3 = nn.layer_norm %z {axis = 2 : i64, epsilon = 1.0e-5 : f32} : tensor<2x4x6x!w> -> tensor<2x4x6x!n>
  func.return %0, %1, %2, %3 : tensor<2x4x6x!n>, tensor<2x4x6x!w>, tensor<2x4x6x!n>, tensor<2x4x6x!n>
}

// -----

// Fallbacks: sums of squares of 65538 elements of 16 bits, a result's scale that no element needs, an epsilon beyond all
// sums.
!w = !quant.uniform<i16:f32, 0.001>
!s = !quant.uniform<i8:f32, 0.03125>
!t = !quant.uniform<i16:f32, 1.0e-10>
!u = !quant.uniform<i8:f32, 1.0e-12>

// CHECK-LABEL: func.func @roots_in_floats
// CHECK: nn.layer_norm {{.*}}#qmlir.decision<float, "accumulator", "its sums of squares reach 4.61e+18 and its epsilon {{.*}} in their steps, which 62 bits do not hold exactly enough">
// CHECK: nn.layer_norm {{.*}}#qmlir.decision<float, "factor", "its result's scale 1e-10 is too small for the quotients that it can have">
// CHECK: nn.rms_norm {{.*}}#qmlir.decision<float, "accumulator", "its sums of squares reach 1.31e+05 and its epsilon 8e+41 in their steps, which 62 bits do not hold exactly enough">
func.func @roots_in_floats(%x: tensor<65538x!w>, %y: tensor<8x!w>, %z: tensor<8x!u>) -> (tensor<65538x!s>, tensor<8x!t>, tensor<8x!s>) {
  %0 = nn.layer_norm %x {axis = 0 : i64, epsilon = 1.0e-5 : f32} : tensor<65538x!w> -> tensor<65538x!s>
  %1 = nn.layer_norm %y {axis = 0 : i64, epsilon = 0.0 : f32} : tensor<8x!w> -> tensor<8x!t>
  %2 = nn.rms_norm %z {axis = 0 : i64, epsilon = 1.0e+17 : f32} : tensor<8x!u> -> tensor<8x!s>
  func.return %0, %1, %2 : tensor<65538x!s>, tensor<8x!t>, tensor<8x!s>
}

// -----

// A window's sum of squares is raised to a power by a table over its leading bits.
!a = !quant.uniform<i8:f32, 0.25:3>
!w = !quant.uniform<i16:f32, 0.001>

// CHECK-LABEL: func.func @responses
// CHECK: qint.local_response_normalization %{{.*}}, <tensor<33xi32>, {{.*}}>, <tensor<31xi32>, {{.*}}>, <tensor<31xi32>, {{.*}}> {before = 2 : i64, after = 2 : i64, bits = 31 : i32, fraction = 14 : i32, bias = 13107200 : i64, input_zero_point = 3 : i32, zero_point = 3 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x9xi8> -> tensor<2x9xi8>
// CHECK: qint.local_response_normalization %{{.*}}, <tensor<513xi32>, {{.*}}>, <tensor<31xi32>, {{.*}}>, <tensor<31xi32>, {{.*}}> {before = 1 : i64, after = 2 : i64, bits = 31 : i32, fraction = -5 : i32, bias = 1250000032 : i64, min = -32768 : i32, max = 32767 : i32} : tensor<2x9xi16> -> tensor<2x9xi16>
// CHECK: nn.local_response_normalization {{.*}}#qmlir.decision<float, "target", "its base may be 0 or negative, and its power has no integer form then">
func.func @responses(%x: tensor<2x9x!a>, %y: tensor<2x9x!w>) -> (tensor<2x9x!a>, tensor<2x9x!w>, tensor<2x9x!w>) {
  %0 = nn.local_response_normalization %x {size = 5 : i64, alpha = 0.1 : f32, beta = 0.75 : f32, bias = 1.0 : f32} : tensor<2x9x!a> -> tensor<2x9x!a>
  %1 = nn.local_response_normalization %y {size = 4 : i64, alpha = 1.0e-4 : f32, beta = 0.75 : f32, bias = 1.0 : f32} : tensor<2x9x!w> -> tensor<2x9x!w>
  %2 = nn.local_response_normalization %y {size = 4 : i64, alpha = -1.0 : f32, beta = 0.75 : f32, bias = 1.0 : f32} : tensor<2x9x!w> -> tensor<2x9x!w>
  func.return %0, %1, %2 : tensor<2x9x!a>, tensor<2x9x!w>, tensor<2x9x!w>
}

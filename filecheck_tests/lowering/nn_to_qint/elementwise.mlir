// RUN: qmlir-opt --nn-to-qint --elide-weights --split-input-file %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-10>
!c = !quant.uniform<i8:f32, 0.125>

// Two multipliers over one shift, so that a sum is rounded once; a constant operand is stored integers.
// CHECK-LABEL: func.func @add
// CHECK: %[[C:.*]] = nn.constant <tensor<1xi8>, [7]> : tensor<1xi8>
// CHECK: %[[S:.*]] = qint.add %{{.*}}, %{{.*}} {lhs_zero_point = 3 : i32, rhs_zero_point = -10 : i32, multipliers = array<i64: 536870912, 268435456>, shift = 27 : i32, min = -128 : i32, max = 127 : i32} : tensor<4xi8>, tensor<4xi8> -> tensor<4xi8>
// CHECK: qint.add %[[S]], %[[C]] {{.*}}zero_point = -10 : i32, min = -10 : i32, max = 127 : i32}
func.func @add(%a: tensor<4x!a>, %b: tensor<4x!b>) -> tensor<4x!b> {
  %c = nn.constant <tensor<1xi8>, [7]> : tensor<1x!c>
  %0 = nn.add %a, %b : tensor<4x!a>, tensor<4x!b> -> tensor<4x!c>
  %1 = nn.add %0, %c {min = 0.0 : f32} : tensor<4x!c>, tensor<1x!c> -> tensor<4x!b>
  func.return %1 : tensor<4x!b>
}

// -----

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-10>

// CHECK-LABEL: func.func @mul
// CHECK: %[[P:.*]] = qint.mul %{{.*}}, %{{.*}} {lhs_zero_point = 3 : i32, rhs_zero_point = -10 : i32} : tensor<2x4xi8>, tensor<4xi8> -> tensor<2x4xi32>
// CHECK-NEXT: qint.requantize %[[P]] {multiplier = array<i32: 1073741824>, shift = array<i32: -1>, contract = "single", zero_point = 3 : i32, min = -128 : i32, max = 5 : i32}
func.func @mul(%a: tensor<2x4x!a>, %b: tensor<4x!b>) -> tensor<2x4x!a> {
  %0 = nn.mul %a, %b {max = 1.0 : f32} : tensor<2x4x!a>, tensor<4x!b> -> tensor<2x4x!a>
  func.return %0 : tensor<2x4x!a>
}

// -----

// Sums of 32 bits: a product as it is, its change of scale, and a sum with it that saturates once; but no sum of two
// scales, nor one with a zero point or with a result of 32 bits.
!a = !quant.uniform<i16:f32, 0.5>
!b = !quant.uniform<i16:f32, 0.25>
!p = !quant.uniform<i32:f32, 0.125>
!s = !quant.uniform<i32:f32, 0.5>
!z = !quant.uniform<i32:f32, 0.5:1>

// CHECK-LABEL: func.func @wide
// CHECK: %[[P:.*]] = qint.mul %{{.*}}, %{{.*}} : tensor<4xi16>, tensor<4xi16> -> tensor<4xi32>
// CHECK-NEXT: %[[S:.*]] = qint.requantize %[[P]] {{.*}}min = -2147483648 : i32, max = 2147483647 : i32} : tensor<4xi32> -> tensor<4xi32>
// CHECK: qint.add %{{.*}}, %[[S]] {multipliers = array<i64: 536870912, 536870912>, shift = 29 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<4xi16>, tensor<4xi32> -> tensor<4xi16>
func.func @wide(%a: tensor<4x!a>, %b: tensor<4x!b>) -> tensor<4x!a> {
  %0 = nn.mul %a, %b : tensor<4x!a>, tensor<4x!b> -> tensor<4x!p>
  %1 = nn.requantize %0 : tensor<4x!p> -> tensor<4x!s>
  %2 = nn.add %a, %1 : tensor<4x!a>, tensor<4x!s> -> tensor<4x!a>
  func.return %2 : tensor<4x!a>
}

// CHECK-LABEL: func.func @no_wide
// CHECK-COUNT-3: nn.add %{{.*}}#qmlir.decision<float, "precision", "target cpu computes it on i8, i16, not on i32">
// CHECK-NOT: qint.
func.func @no_wide(%a: tensor<4x!a>, %p: tensor<4x!p>, %s: tensor<4x!s>, %z: tensor<4x!z>) -> (tensor<4x!a>, tensor<4x!a>, tensor<4x!s>) {
  %0 = nn.add %a, %p : tensor<4x!a>, tensor<4x!p> -> tensor<4x!a>
  %1 = nn.add %a, %z : tensor<4x!a>, tensor<4x!z> -> tensor<4x!a>
  %2 = nn.add %a, %s : tensor<4x!a>, tensor<4x!s> -> tensor<4x!s>
  func.return %0, %1, %2 : tensor<4x!a>, tensor<4x!a>, tensor<4x!s>
}

// -----

// Scales for each channel, storage of 32 bits, scales too far apart: fallbacks.
!c = !quant.uniform<i8:f32:0, {0.5,0.25}>
!u = !quant.uniform<i32:f32, 0.5>
!big = !quant.uniform<i8:f32, 1.0e+12>
!a = !quant.uniform<i8:f32, 0.5>

// CHECK-LABEL: func.func @fallbacks
// CHECK: nn.add %{{.*}}#qmlir.decision<float, "target", "activations with a scale for each channel have no integer form">{{.*}} : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
// CHECK: nn.mul %{{.*}}#qmlir.decision<float, "precision", "target cpu computes it on i8, i16, not on i32">
// CHECK: nn.add %{{.*}}#qmlir.decision<float, "factor", "its scales are a factor of 2e+12 apart, which no 32-bit multiplier bridges">
// CHECK-NOT: qint.
func.func @fallbacks(%c: tensor<2x!c>, %u: tensor<2x!u>, %b: tensor<2x!big>) -> (tensor<2x!c>, tensor<2x!u>, tensor<2x!a>) {
  %0 = nn.add %c, %c : tensor<2x!c>, tensor<2x!c> -> tensor<2x!c>
  %1 = nn.mul %u, %u : tensor<2x!u>, tensor<2x!u> -> tensor<2x!u>
  %2 = nn.add %b, %b : tensor<2x!big>, tensor<2x!big> -> tensor<2x!a>
  func.return %0, %1, %2 : tensor<2x!c>, tensor<2x!u>, tensor<2x!a>
}

// -----

// What onnxruntime does instead: a sum of two fused multiply-adds, of the integers as they were stored; a product whose
// zero point is added before it is rounded; a table of what is float32 in between. Quantization divides in float32.
!u = !quant.uniform<u8:f32, 0.5:128>
!v = !quant.uniform<u8:f32, 0.25:7>

// CHECK: builtin.module attributes {qmlir.numerics = "onnxruntime"}
module attributes {qmlir.numerics = "onnxruntime"} {
// CHECK-LABEL: func.func @onnxruntime
// CHECK-NEXT: %[[X:.*]] = quant.qcast %x {qmlir.quantization = "float32"} : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK: qint.float_add {{.*}} {ratios = array<i32: 8388608, -22, 8388608, -22>, constant = array<i32: -16547840, -15>, offset = 128 : i32, zero_point = -128 : i32, min = -128 : i32, max = 127 : i32}
// CHECK: qint.mul
// CHECK-NEXT: qint.requantize {{.*}}contract = "float_sum", constant = array<i32: 14680064, -21>, zero_point = -128 : i32
// CHECK: qint.lookup
func.func @onnxruntime(%x: tensor<4xf32>) -> (tensor<4x!v>, tensor<4x!v>, tensor<4x!v>) {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!u>
  %1 = nn.add %0, %0 : tensor<4x!u>, tensor<4x!u> -> tensor<4x!v>
  %2 = nn.mul %0, %0 : tensor<4x!u>, tensor<4x!u> -> tensor<4x!v>
  %3 = nn.relu %0 : tensor<4x!u> -> tensor<4x!v>
  func.return %1, %2, %3 : tensor<4x!v>, tensor<4x!v>, tensor<4x!v>
}
}

// -----

!u = !quant.uniform<u8:f32, 0.5:2>
!w = !quant.uniform<i8:f32, 0.5>

module attributes {qmlir.numerics = "onnxruntime"} {
// An operator on integers, of u8 by s8: each output's input is a row, padded with the zero point, and its products
// saturate in pairs. The zero point leaves with the bias: 4 − 2·(1 − 1 + 1 + 1) = 0.
// CHECK-LABEL: func.func @saturating
// CHECK: nn.pad {{.*}}value = -126 : i8
// CHECK-COUNT-4: nn.slice
// CHECK: %[[R:.*]] = nn.reshape %{{.*}} : tensor<1x2x1x4xi8> -> tensor<2x4xi8>
// CHECK-NEXT: %[[W:.*]] = nn.constant <tensor<1x4xi8>, [1, -1, 1, 1]>
// CHECK-NEXT: %[[B:.*]] = nn.constant <tensor<1xi32>, [0]>
// CHECK-NEXT: qint.saturating_fully_connected %[[R]], %[[W]], %[[B]] {zero_point = -128 : i32}
// CHECK-NEXT: qint.requantize {{.*}}contract = "float_even"
// CHECK-NEXT: nn.reshape
func.func @saturating(%x: tensor<1x2x2x1x!u>) -> tensor<1x2x1x1x!u> {
  %w = nn.constant <tensor<1x2x2x1xi8>, [1, -1, 1, 1]> : tensor<1x2x2x1x!w>
  %b = nn.constant <tensor<1xi32>, [4]> : tensor<1xi32>
  %0 = nn.conv2d %x, %w, %b {qmlir.integer_operator, padding = array<i64: 0, 1, 0, 0>} : tensor<1x2x2x1x!u>, tensor<1x2x2x1x!w>, tensor<1xi32> -> tensor<1x2x1x1x!u>
  func.return %0 : tensor<1x2x1x1x!u>
}
}

// -----

// LiteRT's reference kernels bring the operands of a sum to one scale first, 2·max of the two, and compute the factor of
// a product in float32.
!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25>
!y = !quant.uniform<i8:f32, 0.75:-5>
!w = !quant.uniform<i16:f32, 0.5>

module attributes {qmlir.numerics = "litert-reference"} {
// CHECK-LABEL: func.func @litert_reference
// CHECK: qint.rescaled_add {{.*}} {lhs_zero_point = 3 : i32, left = 20 : i32, multipliers = array<i32: 1073741824, 1073741824, 1431655765>, shifts = array<i32: 0, -1, -19>, operand_contract = "double", contract = "double", zero_point = -5 : i32, min = -128 : i32, max = 127 : i32}
// CHECK: qint.rescaled_add {{.*}} {left = 15 : i32, {{.*}}subtract = true
// CHECK: qint.mul
// CHECK-NEXT: qint.requantize {{.*}}multiplier = array<i32: 1431655808>, shift = array<i32: -2>, contract = "double"
func.func @litert_reference(%a: tensor<4x!a>, %b: tensor<4x!b>, %w: tensor<4x!w>) -> (tensor<4x!y>, tensor<4x!w>, tensor<4x!y>) {
  %0 = nn.add %a, %b : tensor<4x!a>, tensor<4x!b> -> tensor<4x!y>
  %1 = nn.sub %w, %w : tensor<4x!w>, tensor<4x!w> -> tensor<4x!w>
  %2 = nn.mul %a, %b : tensor<4x!a>, tensor<4x!b> -> tensor<4x!y>
  func.return %0, %1, %2 : tensor<4x!y>, tensor<4x!w>, tensor<4x!y>
}
}

// -----

// XNNPACK's sum has multipliers of 21 bits and one rounding.
!a = !quant.uniform<i8:f32, 0.5:3>
!y = !quant.uniform<i8:f32, 0.75:-5>

module attributes {qmlir.numerics = "litert-xnnpack"} {
// CHECK-LABEL: func.func @litert_xnnpack
// CHECK: qint.add {{.*}}multipliers = array<i64: 1398101, 1398101>, shift = 21 : i32
func.func @litert_xnnpack(%a: tensor<4x!a>) -> tensor<4x!y> {
  %0 = nn.add %a, %a : tensor<4x!a>, tensor<4x!a> -> tensor<4x!y>
  func.return %0 : tensor<4x!y>
}
}

// -----

// A maximum of one type is that of its integers; of two scales, slopes given by a tensor, squared differences and quotients, a table of all pairs of
// bytes; of 16 bits and two scales that of integers of the result's scale.
!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25>
!w = !quant.uniform<i16:f32, 0.5>
!v = !quant.uniform<i16:f32, 0.25>

// CHECK-LABEL: func.func @choices
// CHECK: nn.maximum %{{.*}}, %{{.*}} : tensor<4xi8>, tensor<4xi8> -> tensor<4xi8>
// CHECK: qint.pair_lookup %{{.*}}, %{{.*}}, <tensor<256x256xi8>, elided>
// CHECK: qint.pair_lookup
// CHECK: qint.pair_lookup
// CHECK: qint.pair_lookup
// CHECK: nn.minimum %{{.*}} : tensor<4xi16>, tensor<4xi16> -> tensor<4xi16>
// CHECK: %[[L:.*]] = qint.requantize %{{.*}} {multiplier = array<i32: 1073741824>, shift = array<i32: 1>, {{.*}} : tensor<4xi16> -> tensor<4xi16>
// CHECK-NEXT: %[[R:.*]] = qint.requantize %{{.*}} {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, {{.*}} : tensor<4xi16> -> tensor<4xi16>
// CHECK-NEXT: nn.minimum %[[L]], %[[R]] : tensor<4xi16>, tensor<4xi16> -> tensor<4xi16>
func.func @choices(%a: tensor<4x!a>, %b: tensor<4x!b>, %w: tensor<4x!w>, %v: tensor<4x!v>) -> (tensor<4x!a>, tensor<4x!a>, tensor<4x!a>, tensor<4x!a>, tensor<4x!a>, tensor<4x!w>, tensor<4x!w>) {
  %0 = nn.maximum %a, %a : tensor<4x!a>, tensor<4x!a> -> tensor<4x!a>
  %1 = nn.maximum %a, %b : tensor<4x!a>, tensor<4x!b> -> tensor<4x!a>
  %2 = nn.prelu %a, %b : tensor<4x!a>, tensor<4x!b> -> tensor<4x!a>
  %5 = nn.squared_difference %a, %b : tensor<4x!a>, tensor<4x!b> -> tensor<4x!a>
  %6 = nn.div %a, %b : tensor<4x!a>, tensor<4x!b> -> tensor<4x!a>
  %3 = nn.minimum %w, %w : tensor<4x!w>, tensor<4x!w> -> tensor<4x!w>
  %4 = nn.minimum %w, %v : tensor<4x!w>, tensor<4x!v> -> tensor<4x!w>
  func.return %0, %1, %2, %5, %6, %3, %4 : tensor<4x!a>, tensor<4x!a>, tensor<4x!a>, tensor<4x!a>, tensor<4x!a>, tensor<4x!w>, tensor<4x!w>
}

// -----

// Quotients of bytes are a table of pairs; of words one division, whatever the numerics.
!a = !quant.uniform<i8:f32, 0.5:3>
!h = !quant.uniform<i16:f32, 0.5>
!q = !quant.uniform<i16:f32, 0.25>

// CHECK-LABEL: func.func @quotients
// CHECK: qint.pair_lookup
// CHECK: qint.div %{{.*}} {multiplier = 1073741824 : i32, shift = 3 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<4xi16>, tensor<4xi16> -> tensor<4xi16>
func.func @quotients(%x: tensor<4x!a>, %y: tensor<4x!h>) -> (tensor<4x!a>, tensor<4x!q>) {
  %0 = nn.div %x, %x : tensor<4x!a>, tensor<4x!a> -> tensor<4x!a>
  %1 = nn.div %y, %y : tensor<4x!h>, tensor<4x!h> -> tensor<4x!q>
  func.return %0, %1 : tensor<4x!a>, tensor<4x!q>
}

// -----

// Of words one slope or the other is chosen.
!h = !quant.uniform<i16:f32, 0.5>
!s = !quant.uniform<i8:f32, 0.25:-1>

// CHECK-LABEL: func.func @prelu
// CHECK: %[[P:.*]] = qint.mul %[[X:.*]], %[[S:.*]] {rhs_zero_point = -1 : i32} : tensor<4xi16>, tensor<4xi8> -> tensor<4xi32>
// CHECK: %[[A:.*]] = qint.requantize %[[X]] {{.*}} : tensor<4xi16> -> tensor<4xi16>
// CHECK: %[[B:.*]] = qint.requantize %[[P]] {multiplier = array<i32: 1073741824>, shift = array<i32: -1>, {{.*}} : tensor<4xi32> -> tensor<4xi16>
// CHECK: %[[N:.*]] = nn.less %[[X]], %{{.*}} -> tensor<4xi1>
// CHECK: nn.where %[[N]], %[[B]], %[[A]]
func.func @prelu(%x: tensor<4x!h>, %s: tensor<4x!s>) -> tensor<4x!h> {
  %0 = nn.prelu %x, %s : tensor<4x!h>, tensor<4x!s> -> tensor<4x!h>
  func.return %0 : tensor<4x!h>
}

// -----

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25>
!w = !quant.uniform<i16:f32, 0.5>
!e = !quant.uniform<i16:f32, 1.0>
!y = !quant.uniform<i16:f32, 2.0e+8>

// Powers and remainders have a table of all pairs of bytes; of 16 bits they are computed on floats, unless one operand is
// a constant number: then the powers of the other are a table.
// CHECK-LABEL: func.func @pairs
// CHECK: qint.pair_lookup
// CHECK-NEXT: qint.pair_lookup
// CHECK: nn.pow {{.*}}"powers of two computed operands, or with several exponents, have an integer form of 8 bits only"
// CHECK: qint.interpolated_lookup %{{.*}} : tensor<4xi16> -> tensor<4xi16>
func.func @pairs(%a: tensor<4x!a>, %b: tensor<4x!b>, %w: tensor<4x!w>) -> (tensor<4x!a>, tensor<4x!b>, tensor<4x!w>, tensor<4x!y>) {
  %e = nn.constant <tensor<1xi16>, [3]> : tensor<1x!e>
  %0 = nn.pow %a, %b : tensor<4x!a>, tensor<4x!b> -> tensor<4x!a>
  %1 = nn.mod %a, %b : tensor<4x!a>, tensor<4x!b> -> tensor<4x!b>
  %2 = nn.pow %w, %w : tensor<4x!w>, tensor<4x!w> -> tensor<4x!w>
  %3 = nn.pow %w, %e : tensor<4x!w>, tensor<1x!e> -> tensor<4x!y>
  func.return %0, %1, %2, %3 : tensor<4x!a>, tensor<4x!b>, tensor<4x!w>, tensor<4x!y>
}

// -----

// Products of words have 64 bits where 32 might not hold them. Those with one positive number are a change of scale, or
// the integers as they are, where only the scale differs; without a runtime that multiplies.
!x = !quant.uniform<i16:f32, 0.5:-32768>
!z = !quant.uniform<i16:f32, 0.5:3>
!c = !quant.uniform<i16:f32, 0.5>
!y = !quant.uniform<i16:f32, 0.75:-32768>

// CHECK-LABEL: func.func @words
// CHECK: %[[P:.*]] = qint.mul %{{.*}}, %{{.*}} {lhs_zero_point = -32768 : i32, rhs_zero_point = 3 : i32} : tensor<4xi16>, tensor<4xi16> -> tensor<4xi64>
// CHECK-NEXT: qint.requantize %[[P]] {{.*}}contract = "single64"{{.*}} : tensor<4xi64> -> tensor<4xi16>
// CHECK: qint.requantize %{{.*}} {input_zero_point = -32768 : i32, multiplier = array<i32: 1610612736>, shift = array<i32: 1>, {{.*}} : tensor<4xi16> -> tensor<4xi16>
// CHECK-NEXT: nn.reshape %{{.*}} : tensor<4xi16> -> tensor<4xi16>
// CHECK-NOT: qint.mul
func.func @words(%x: tensor<4x!x>, %z: tensor<4x!z>) -> (tensor<4x!x>, tensor<4x!x>, tensor<4x!y>) {
  %n = nn.constant <tensor<1xi16>, [3]> : tensor<1x!c>
  %0 = nn.mul %x, %z : tensor<4x!x>, tensor<4x!z> -> tensor<4x!x>
  %1 = nn.mul %x, %n : tensor<4x!x>, tensor<1x!c> -> tensor<4x!x>
  %2 = nn.mul %n, %x : tensor<1x!c>, tensor<4x!x> -> tensor<4x!y>
  func.return %0, %1, %2 : tensor<4x!x>, tensor<4x!x>, tensor<4x!y>
}

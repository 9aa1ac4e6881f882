// RUN: qmlir-opt --nn-to-qint --elide-weights --split-input-file %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-10>

// Maxima and averages keep their scale; padding counts as the zero point.
// CHECK-LABEL: func.func @pools
// CHECK: qint.max_pool2d %{{.*}} {window = array<i64: 3, 3>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>} : tensor<1x4x4x2xi8> -> tensor<1x2x2x2xi8>
// CHECK-NEXT: qint.average_pool2d %{{.*}} {{{.*}}window = array<i64: 2, 2>, count_include_pad = true, zero_point = 3 : i32} : tensor<1x2x2x2xi8> -> tensor<1x1x1x2xi8>
// CHECK-NEXT: quant.scast
func.func @pools(%x: tensor<1x4x4x2x!a>) -> tensor<1x1x1x2x!a> {
  %0 = nn.max_pool2d %x {window = array<i64: 3, 3>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>} : tensor<1x4x4x2x!a> -> tensor<1x2x2x2x!a>
  %1 = nn.average_pool2d %0 {window = array<i64: 2, 2>, count_include_pad = true} : tensor<1x2x2x2x!a> -> tensor<1x1x1x2x!a>
  func.return %1 : tensor<1x1x1x2x!a>
}

!u = !quant.uniform<u8:f32, 0.5:131>

// Means of unsigned bytes round as unsigned ones do.
// CHECK-LABEL: func.func @unsigned
// CHECK: qint.average_pool2d %{{.*}} {{{.*}}zero_point = 3 : i32, offset = 128 : i32} : tensor<1x2x2x2xi8> -> tensor<1x1x1x2xi8>
func.func @unsigned(%x: tensor<1x2x2x2xf32>) -> tensor<1x1x1x2xf32> {
  %0 = quant.qcast %x : tensor<1x2x2x2xf32> to tensor<1x2x2x2x!u>
  %1 = nn.average_pool2d %0 {window = array<i64: 2, 2>} : tensor<1x2x2x2x!u> -> tensor<1x1x1x2x!u>
  %2 = quant.dcast %1 : tensor<1x1x1x2x!u> to tensor<1x1x1x2xf32>
  func.return %2 : tensor<1x1x1x2xf32>
}

// A global mean is a sum and a multiplier that divides: 0.5 / (0.25 · 16) = 2^-3.
// CHECK-LABEL: func.func @global
// CHECK: %[[S:.*]] = qint.global_sum_pool %{{.*}} {zero_point = 3 : i32} : tensor<1x4x4x2xi8> -> tensor<1x1x1x2xi32>
// CHECK-NEXT: qint.requantize %[[S]] {multiplier = array<i32: 1073741824>, shift = array<i32: -2>, contract = "single", zero_point = -10 : i32, min = -128 : i32, max = 127 : i32}
func.func @global(%x: tensor<1x4x4x2x!a>) -> tensor<1x1x1x2x!b> {
  %0 = nn.global_average_pool %x : tensor<1x4x4x2x!a> -> tensor<1x1x1x2x!b>
  func.return %0 : tensor<1x1x1x2x!b>
}

// -----

!a = !quant.uniform<i8:f32, 0.5:127>
!u = !quant.uniform<i32:f32, 0.5>

// CHECK-LABEL: func.func @long_sums_and_fallbacks
// CHECK: %[[S:.*]] = qint.global_sum_pool %{{.*}} {zero_point = 127 : i32} : tensor<1x3000x3000x1xi8> -> tensor<1x1x1x1xi64>
// CHECK-NEXT: qint.requantize %[[S]] {{.*}}contract = "single64"
// CHECK: nn.max_pool2d %{{.*}}#qmlir.decision<float, "precision", "target cpu computes it on i8, i16, not on i32">
func.func @long_sums_and_fallbacks(%x: tensor<1x3000x3000x1x!a>, %u: tensor<1x2x2x1x!u>) -> (tensor<1x1x1x1x!a>, tensor<1x1x1x1x!u>) {
  %0 = nn.global_average_pool %x : tensor<1x3000x3000x1x!a> -> tensor<1x1x1x1x!a>
  %1 = nn.max_pool2d %u {window = array<i64: 2, 2>} : tensor<1x2x2x1x!u> -> tensor<1x1x1x1x!u>
  func.return %0, %1 : tensor<1x1x1x1x!a>, tensor<1x1x1x1x!u>
}

// -----

// XNNPACK sums stored bytes and adds what the zero points make of it, in float32, before it rounds.
!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<u8:f32, 0.5:131>
!s = !quant.uniform<i8:f32, 0.25:-4>
!t = !quant.uniform<u8:f32, 0.25:124>

module attributes {qmlir.numerics = "litert-xnnpack"} {
// CHECK-LABEL: func.func @xnnpack
// CHECK: %[[A:.*]] = qint.global_sum_pool %{{.*}} : tensor<1x2x2x3xi8>
// CHECK: qint.requantize %[[A]] {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "float_sum", constant = array<i32: -10485760, -20>, min = -128 : i32, max = 127 : i32}
// CHECK: %[[B:.*]] = qint.global_sum_pool %{{.*}} {zero_point = -128 : i32} : tensor<1x2x2x3xi8>
// CHECK: qint.requantize %[[B]] {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "float_sum", constant = array<i32: -9043968, -16>, zero_point = -128 : i32, min = -128 : i32, max = 127 : i32}
func.func @xnnpack(%x: tensor<1x2x2x3x!a>, %y: tensor<1x2x2x3x!b>) -> (tensor<1x1x1x3x!s>, tensor<1x1x1x3x!t>) {
  %0 = nn.global_average_pool %x : tensor<1x2x2x3x!a> -> tensor<1x1x1x3x!s>
  %1 = nn.global_average_pool %y : tensor<1x2x2x3x!b> -> tensor<1x1x1x3x!t>
  func.return %0, %1 : tensor<1x1x1x3x!s>, tensor<1x1x1x3x!t>
}
}

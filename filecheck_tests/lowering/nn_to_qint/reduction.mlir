// Sums and means along axes become sums over the rows of images.

// RUN: qmlir-opt --nn-to-qint --split-input-file %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-10>

// Neighbouring axes are one already: 0.5 / (0.25 · 4) = 2^-1.
// CHECK-LABEL: func.func @mean
// CHECK: %[[R:.*]] = nn.reshape %{{.*}} {shape = array<i64: 3, 4, 1, 5>} : tensor<3x2x2x5xi8> -> tensor<3x4x1x5xi8>
// CHECK-NEXT: %[[S:.*]] = qint.global_sum_pool %[[R]] {zero_point = 3 : i32} : tensor<3x4x1x5xi8> -> tensor<3x1x1x5xi32>
// CHECK-NEXT: %[[Q:.*]] = qint.requantize %[[S]] {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", zero_point = -10 : i32,
// CHECK-NEXT: nn.reshape %[[Q]] {shape = array<i64: 3, 1, 1, 5>}
func.func @mean(%x: tensor<3x2x2x5x!a>) -> tensor<3x1x1x5x!b> {
  %0 = nn.reduce_mean %x {axes = array<i64: 1, 2>} : tensor<3x2x2x5x!a> -> tensor<3x1x1x5x!b>
  func.return %0 : tensor<3x1x1x5x!b>
}

// -----

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-10>

// Axes with others between them come first.
// CHECK-LABEL: func.func @sum
// CHECK: %[[T:.*]] = nn.transpose %{{.*}} {permutation = array<i64: 0, 2, 1, 3>} : tensor<3x4x2x5xi8> -> tensor<3x2x4x5xi8>
// CHECK-NEXT: %[[R:.*]] = nn.reshape %[[T]] {shape = array<i64: 1, 6, 1, 20>}
// CHECK-NEXT: %[[S:.*]] = qint.global_sum_pool %[[R]] {zero_point = 3 : i32} : tensor<1x6x1x20xi8> -> tensor<1x1x1x20xi32>
// CHECK-NEXT: %[[Q:.*]] = qint.requantize %[[S]] {multiplier = array<i32: 1073741824>, shift = array<i32: 2>,
// CHECK-NEXT: nn.reshape %[[Q]] {shape = array<i64: 1, 4, 1, 5>}
func.func @sum(%x: tensor<3x4x2x5x!a>) -> tensor<1x4x1x5x!b> {
  %0 = nn.reduce_sum %x {axes = array<i64: 0, 2>} : tensor<3x4x2x5x!a> -> tensor<1x4x1x5x!b>
  func.return %0 : tensor<1x4x1x5x!b>
}

// -----

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-10>

// TFLite's reference divides the multiplier of 0.5 / 0.25 by 6, two bits further left: 2^30 · 4 / 6, with a bit less.
// CHECK-LABEL: func.func @divided
// CHECK: qint.requantize %{{.*}} {multiplier = array<i32: 715827882>, shift = array<i32: 0>, contract = "double",
builtin.module attributes {qmlir.numerics = "litert-reference"} {
  func.func @divided(%x: tensor<6x5x!a>) -> tensor<1x5x!b> {
    %0 = nn.reduce_mean %x {axes = array<i64: 0>} : tensor<6x5x!a> -> tensor<1x5x!b>
    func.return %0 : tensor<1x5x!b>
  }
}

// -----

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-10>

// Running sums are those of the integers less the zero point, in 32 bits; then each is requantized: 0.5 / 0.25.
// CHECK-LABEL: func.func @cumulative
// CHECK: %[[X:.*]] = qint.requantize %{{.*}} {input_zero_point = 3 : i32, multiplier = array<i32: 1073741824>, shift = array<i32: 1>, contract = "single", min = -131 : i32, max = 124 : i32} : tensor<3x5xi8> -> tensor<3x5xi32>
// CHECK-NEXT: %[[S:.*]] = nn.cumulative_sum %[[X]] {axis = 1 : i64, reverse = true} : tensor<3x5xi32> -> tensor<3x5xi32>
// CHECK-NEXT: qint.requantize %[[S]] {multiplier = array<i32: 1073741824>, shift = array<i32: 2>, contract = "single", zero_point = -10 : i32, min = -128 : i32, max = 127 : i32}
func.func @cumulative(%x: tensor<3x5x!a>) -> tensor<3x5x!b> {
  %0 = nn.cumulative_sum %x {axis = 1 : i64, reverse = true} : tensor<3x5x!a> -> tensor<3x5x!b>
  func.return %0 : tensor<3x5x!b>
}

// -----

!w = !quant.uniform<i16:f32, 0.5>

// Sums that may exceed 32 bits have 64.
// CHECK-LABEL: func.func @long
// CHECK: %[[W:.*]] = nn.cast %{{.*}} : tensor<100000xi32> -> tensor<100000xi64>
// CHECK-NEXT: %[[S:.*]] = nn.cumulative_sum %[[W]] {axis = 0 : i64} : tensor<100000xi64> -> tensor<100000xi64>
// CHECK-NEXT: qint.requantize %[[S]] {{.*}}contract = "single64"
func.func @long(%x: tensor<100000x!w>) -> tensor<100000x!w> {
  %0 = nn.cumulative_sum %x {axis = 0 : i64} : tensor<100000x!w> -> tensor<100000x!w>
  func.return %0 : tensor<100000x!w>
}

// -----

!w = !quant.uniform<i16:f32, 0.5>

// Maxima of 16 bits are those of the integers.
// CHECK-LABEL: func.func @words
// CHECK: nn.reduce_max %{{.*}} : tensor<3x5xi16> -> tensor<3x1xi16>
func.func @words(%x: tensor<3x5x!w>) -> tensor<3x1x!w> {
  %0 = nn.reduce_max %x {axes = array<i64: 1>} : tensor<3x5x!w> -> tensor<3x1x!w>
  func.return %0 : tensor<3x1x!w>
}

// -----

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i16:f32, 0.25>

// So are sums with signs.
// CHECK-LABEL: func.func @signed
// CHECK: %[[X:.*]] = qint.requantize %{{.*}} {input_zero_point = 3 : i32, multiplier = array<i32: 1073741824>, shift = array<i32: 1>, contract = "single", min = -131 : i32, max = 124 : i32} : tensor<3x8xi8> -> tensor<3x8xi32>
// CHECK-NEXT: %[[S:.*]] = nn.hadamard %[[X]] {block = 4 : i64} : tensor<3x8xi32> -> tensor<3x8xi32>
// CHECK-NEXT: qint.requantize %[[S]] {multiplier = array<i32: 1073741824>, shift = array<i32: 2>, contract = "single", {{.*}}min = -32768 : i32, max = 32767 : i32} : tensor<3x8xi32> -> tensor<3x8xi16>
func.func @signed(%x: tensor<3x8x!a>) -> tensor<3x8x!b> {
  %0 = nn.hadamard %x {block = 4 : i64} : tensor<3x8x!a> -> tensor<3x8x!b>
  func.return %0 : tensor<3x8x!b>
}

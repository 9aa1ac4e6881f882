// RUN: qmlir-opt --qint-to-loops --split-input-file %s | filecheck %s

// A contraction and its requantization are one kernel; multipliers, shifts and the zero point of the result are data.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4xi8>) -> tensor<1x3xi8> {
  // Two channels of 8 outputs side by side, zeros where there is no output.
  // CHECK: qmlir.constant_buffer <tensor<16xi8>, [1, 2, 5, 6, 9, 10, 0, 0, 3, 4, 7, 8, 11, 12, 0, 0]>
  // CHECK: qmlir.constant_buffer <tensor<4xi32>, [100, 200, 300, 0]>
  // CHECK: qmlir.constant_buffer <tensor<4xi32>, [1073741824, 1073741825, 1073741826, 0]>
  // CHECK: qmlir.constant_buffer <tensor<4xi8>, [-4, -5, -6, 0]>
  // CHECK: qmlir.constant_buffer <tensor<4xi8>, [5, 5, 5, 0]>
  // CHECK: memref.alloc() {alignment = 64 : i64} : memref<1x3xi8>
  // CHECK: func.call @qint_fully_connected_0
  // CHECK-NOT: qint.requantize
  %w = nn.constant <tensor<3x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]> : tensor<3x4xi8>
  %b = nn.constant <tensor<3xi32>, [100, 200, 300]> : tensor<3xi32>
  %acc = qint.fully_connected %x, %w, %b {zero_point = -3 : i32} : tensor<1x4xi8>, tensor<3x4xi8>, tensor<3xi32> -> tensor<1x3xi32>
  %y = qint.requantize %acc {multiplier = array<i32: 1073741824, 1073741825, 1073741826>, shift = array<i32: -4, -5, -6>, contract = "single", zero_point = 5 : i32, min = -128 : i32, max = 127 : i32} : tensor<1x3xi32> -> tensor<1x3xi8>
  func.return %y : tensor<1x3xi8>
}
// The input is copied by a function that layers share. The zero point goes while it is widened.
// CHECK: func.func private @prepared_run_0(%x: memref<?xi8>, %to: memref<?xi16>, %k: index, %j: index, %n: index, %zero_point: index) attributes {qmlir.inner}
// CHECK: arith.subi %{{.*}} : vector<16xi16>
// The inner loops are another such function: the sizes are its arguments.
// CHECK: func.func private @qint_tile_times_block_0(%x: memref<?xi16>, %w: memref<?xi8>, %bias: memref<?xi32>, %p0: memref<?xi32>, %p1: memref<?xi8>, %p2: memref<?xi8>, %y: memref<?xi8>, %x_at: index, {{.*}}) attributes {qmlir.inner}
// CHECK-COUNT-3: vector.load %p
// CHECK: scf.for %output
// CHECK: scf.for %k = {{.*}} to %steps {{.*}} iter_args
// CHECK: arith.extsi {{.*}} : vector<8xi8> to vector<8xi16>
// CHECK: simd.dot_i16_pairs {{.*}} : vector<4xi32>, vector<8xi16>
// CHECK: simd.mul_shift_round {{.*}} : vector<4xi32>
// CHECK: arith.trunci {{.*}} : vector<4xi32> to vector<4xi8>
// CHECK: func.func private @qint_fully_connected_0(%x: memref<1x4xi8>, %w: memref<16xi8>, %bias: memref<4xi32>, %p0: memref<4xi32>, %p1: memref<4xi8>, %p2: memref<4xi8>, %y: memref<1x1x3xi8>, %begin: index, %end: index) attributes {qmlir.parallel}
// CHECK: %tile = memref.alloca() {alignment = 8 : i64} : memref<1x4xi16>
// CHECK: func.call @prepared_run_0
// CHECK: func.call @qint_tile_times_block_0

// -----

// Accumulators with another use are stored; data that do not fit i16 are multiplied one by one.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4xi8>) -> (tensor<1x3xi32>, tensor<1x3xi8>) {
  %w = nn.constant <tensor<3x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]> : tensor<3x4xi8>
  // CHECK: func.call @qint_fully_connected_0
  %acc = qint.fully_connected %x, %w {zero_point = 40000 : i32} : tensor<1x4xi8>, tensor<3x4xi8> -> tensor<1x3xi32>
  // CHECK: func.call @qint_requantize_0
  %y = qint.requantize %acc {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x3xi32> -> tensor<1x3xi8>
  func.return %acc, %y : tensor<1x3xi32>, tensor<1x3xi8>
}
// CHECK: func.func private @qint_tile_times_block_0
// CHECK-NOT: simd
// CHECK: arith.muli {{.*}} : vector<4xi32>
// CHECK: func.func private @qint_requantize_0

// -----

// Sums of 64 bits that fit 32 with these weights are taken in 32; they are widened where the bias is added.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4xi16>) -> tensor<1x2xi64> {
  %w = nn.constant <tensor<2x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8]> : tensor<2x4xi8>
  %b = nn.constant <tensor<2xi64>, [10000000000, 20]> : tensor<2xi64>
  %acc = qint.fully_connected %x, %w, %b : tensor<1x4xi16>, tensor<2x4xi8>, tensor<2xi64> -> tensor<1x2xi64>
  func.return %acc : tensor<1x2xi64>
}
// CHECK: func.func private @qint_tile_times_block_0(%x: memref<?xi16>, %w: memref<?xi8>, %p0: memref<?xi64>, %y: memref<?xi64>
// CHECK: simd.dot_i16_pairs {{.*}} : vector<4xi32>, vector<8xi16>
// CHECK: %[[WIDE:.*]] = arith.extsi {{.*}} : vector<4xi32> to vector<4xi64>
// CHECK: arith.addi %[[WIDE]], {{.*}} : vector<4xi64>

// -----

// Otherwise each pair of products is widened. Where a pair does not fit, or of both sides computed, the high and the low
// byte of the weights are multiplied by themselves, and sums over 128 pairs are widened.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4xi16>, %y: tensor<1x4xi16>, %m: tensor<4x2xi16>) -> (tensor<1x2xi64>, tensor<1x2xi64>) {
  %w = nn.constant <tensor<2x4xi16>, [32767, 32767, 32767, 4, 5, 6, 7, 8]> : tensor<2x4xi16>
  %0 = qint.fully_connected %x, %w : tensor<1x4xi16>, tensor<2x4xi16> -> tensor<1x2xi64>
  %1 = qint.matmul %y, %m : tensor<1x4xi16>, tensor<4x2xi16> -> tensor<1x2xi64>
  func.return %0, %1 : tensor<1x2xi64>, tensor<1x2xi64>
}
// CHECK: func.func private @qint_tile_times_block_0
// CHECK: simd.dot_i16_pairs {{.*}} : vector<4xi32>, vector<8xi16>
// CHECK-NEXT: arith.extsi {{.*}} : vector<4xi32> to vector<4xi64>
// CHECK: func.func private @qint_tile_times_block_1
// CHECK: %[[W:.*]] = vector.load %w
// CHECK-NEXT: %[[HIGH:.*]] = arith.shrsi %[[W]], %{{.*}} : vector<8xi16>
// CHECK-NEXT: %[[LOW:.*]] = arith.andi %[[W]], %{{.*}} : vector<8xi16>
// CHECK: simd.dot_i16_pairs %{{.*}}, %{{.*}}, %[[HIGH]] : vector<4xi32>, vector<8xi16>
// CHECK: simd.dot_i16_pairs %{{.*}}, %{{.*}}, %[[LOW]] : vector<4xi32>, vector<8xi16>
// CHECK: arith.extsi {{.*}} : vector<4xi32> to vector<4xi64>
// CHECK-NEXT: arith.shli

// -----

// Three taps of one channel each: a pair of taps a step, instead of a tap and a zero. The weights of the fourth are 0,
// and a row of the tile has one element more than the image, which the last output reads.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x3x6x1xi8>) -> tensor<1x3x4x1xi32> {
  // CHECK: qmlir.constant_buffer <tensor<16xi8>, [1, 2, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]>
  %w = nn.constant <tensor<1x1x3x1xi8>, [1, 2, 3]> : tensor<1x1x3x1xi8>
  %acc = qint.conv2d %x, %w {zero_point = 0 : i32} : tensor<1x3x6x1xi8>, tensor<1x1x3x1xi8> -> tensor<1x3x4x1xi32>
  func.return %acc : tensor<1x3x4x1xi32>
}
// CHECK: func.func private @qint_conv2d_0
// CHECK: memref.alloca() {alignment = 16 : i64} : memref<1x7xi16>

// -----

// Depthwise: two rows of taps are multiplied at once. A window of three rows that moves down by one begins at the first
// or at the second row of a band of two: the weights are packed for both, with zeros for the fourth row.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4x1x4xi8>) -> tensor<1x4x1x4xi8> {
  // CHECK: qmlir.constant_buffer <tensor<4x1x8xi8>, [1, 5, 2, 6, 3, 7, 4, 8, 9, 0, 10, 0, 11, 0, 12, 0, 0, 1, 0, 2, 0, 3, 0, 4, 5, 9, 6, 10, 7, 11, 8, 12]>
  // The zero point is in the bias, 100 + 3 · (1 + 5 + 9), and around the image.
  // CHECK: qmlir.constant_buffer <tensor<4xi32>, [145, 254, 363, 472]>
  // CHECK: func.call @qint_depthwise_conv2d_0
  // CHECK-NOT: qint.requantize
  %w = nn.constant <tensor<1x3x1x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]> : tensor<1x3x1x4xi8>
  %b = nn.constant <tensor<4xi32>, [100, 200, 300, 400]> : tensor<4xi32>
  %acc = qint.depthwise_conv2d %x, %w, %b {padding = array<i64: 1, 1, 0, 0>, zero_point = -3 : i32} : tensor<1x4x1x4xi8>, tensor<1x3x1x4xi8>, tensor<4xi32> -> tensor<1x4x1x4xi32>
  %y = qint.requantize %acc {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", zero_point = 5 : i32, min = -128 : i32, max = 127 : i32} : tensor<1x4x1x4xi32> -> tensor<1x4x1x4xi8>
  func.return %y : tensor<1x4x1x4xi8>
}
// CHECK: func.func private @prepared_band_0(%x: memref<?xi8>, %ring: memref<?xi16>, {{.*}}, %line0: index, %line1: index, %outside: index, %inside0: index, %inside1: index) attributes {qmlir.inner}
// CHECK: scf.if
// CHECK: %[[PAIRS:.*]] = vector.shuffle {{.*}} [0, 4, 1, 5, 2, 6, 3, 7] : vector<4xi8>, vector<4xi8>
// CHECK-NEXT: arith.extsi %[[PAIRS]] : vector<8xi8> to vector<8xi16>
// CHECK: } else {
// CHECK: arith.andi {{.*}} : vector<8xi16>
// CHECK: arith.ori {{.*}} : vector<8xi16>
// CHECK: func.func private @qint_depthwise_conv2d_strips_0(%ring: memref<?xi16>, %totals: memref<?xi32>, %x: memref<?xi8>, {{.*}}) attributes {qmlir.inner}
// CHECK: scf.for %line = {{.*}} iter_args
// CHECK: scf.for %band
// CHECK: func.call @prepared_band_0
// CHECK: scf.for %kh = {{.*}} iter_args
// CHECK: simd.dot_i16_pairs {{.*}} : vector<4xi32>, vector<8xi16>
// CHECK: simd.mul_shift_round {{.*}} : vector<4xi32>
// CHECK: func.func private @qint_depthwise_conv2d_0(%x: memref<4x1x4xi8>, %w: memref<4x1x8xi8>, %bias: memref<4xi32>, %p0: memref<4xi32>, %p1: memref<4xi8>, %p2: memref<4xi8>, %y: memref<4x1x4xi8>, %begin: index, %end: index) attributes {qmlir.parallel}
// CHECK: %ring = memref.alloca() {alignment = 32 : i64} : memref<2x8xi16>
// CHECK: func.call @qint_depthwise_conv2d_strips_0

// -----

// One row of taps at a time: a zero point beyond i16, sums of 64 bits, fewer than four channels.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4x1x4xi8>, %y: tensor<1x4x1x4xi16>, %z: tensor<1x4x1x3xi8>) -> (tensor<1x2x1x4xi32>, tensor<1x2x1x4xi64>, tensor<1x2x1x3xi32>) {
  %v = nn.constant <tensor<1x3x1x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]> : tensor<1x3x1x4xi8>
  %w = nn.constant <tensor<1x3x1x4xi16>, [32767, 2, 3, 4, 32767, 6, 7, 8, 9, 10, 11, 12]> : tensor<1x3x1x4xi16>
  %u = nn.constant <tensor<1x3x1x3xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9]> : tensor<1x3x1x3xi8>
  %0 = qint.depthwise_conv2d %x, %v {zero_point = 40000 : i32} : tensor<1x4x1x4xi8>, tensor<1x3x1x4xi8> -> tensor<1x2x1x4xi32>
  %1 = qint.depthwise_conv2d %y, %w : tensor<1x4x1x4xi16>, tensor<1x3x1x4xi16> -> tensor<1x2x1x4xi64>
  %2 = qint.depthwise_conv2d %z, %u : tensor<1x4x1x3xi8>, tensor<1x3x1x3xi8> -> tensor<1x2x1x3xi32>
  func.return %0, %1, %2 : tensor<1x2x1x4xi32>, tensor<1x2x1x4xi64>, tensor<1x2x1x3xi32>
}
// CHECK-NOT: simd
// CHECK: arith.muli {{.*}} : vector<4xi32>
// CHECK: memref<3x4xi32>
// CHECK: arith.muli {{.*}} : vector<4xi64>
// CHECK: memref<3x4xi16>
// CHECK: arith.muli {{.*}} : i32
// CHECK: memref<3x3xi16>

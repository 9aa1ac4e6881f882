// RUN: qmlir-opt --weights=inline --qint-to-loops="features=+thumb2,+dsp,+mve memory=small" %s | filecheck %s

// A processor that sums a register of products of bytes: four channels of one output share the data, which are read
// where they are, and each has a scalar sum. The bias loses 3 times the sum of the weights of its channel.
func.func @main(%x: tensor<1x2x2x16xi8>) -> tensor<1x2x2x3xi8> {
  %w = nn.constant <tensor<3x1x1x16xi8>, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, 3, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1]> : tensor<3x1x1x16xi8>
  %acc = qint.conv2d %x, %w {zero_point = 3 : i32} : tensor<1x2x2x16xi8>, tensor<3x1x1x16xi8> -> tensor<1x2x2x3xi32>
  %y = qint.requantize %acc {multiplier = array<i32: 1695099400>, shift = array<i32: -7>, contract = "single",
      min = -128 : i32, max = 127 : i32}
    : tensor<1x2x2x3xi32> -> tensor<1x2x2x3xi8>
  func.return %y : tensor<1x2x2x3xi8>
}

// CHECK: qmlir.constant_buffer {{.*}}-96, -144, 48, 0
// CHECK: vector.load %{{.*}} : memref<?xi8>, vector<64xi8>
// CHECK-COUNT-4: simd.dot_i8 %{{.*}} : vector<16xi8>
// CHECK-NOT: simd.dot_i8
// CHECK: simd.mul_shift_round %{{.*}} drops_33 : vector<4xi32>

// Taps of a depthwise convolution stay bytes until they are loaded to be multiplied.
func.func @taps(%x: tensor<1x4x4x8xi8>) -> tensor<1x2x2x8xi32> {
  %w = nn.constant <tensor<1x3x3x8xi8>, [2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2, 2]> : tensor<1x3x3x8xi8>
  %acc = qint.depthwise_conv2d %x, %w {zero_point = 3 : i32} : tensor<1x4x4x8xi8>, tensor<1x3x3x8xi8> -> tensor<1x2x2x8xi32>
  func.return %acc : tensor<1x2x2x8xi32>
}

// CHECK: func.func private @qint_depthwise_conv2d_strips_0(%{{.*}}: memref<?xi8>
// CHECK: arith.extsi %{{.*}} : vector<8xi8> to vector<8xi32>

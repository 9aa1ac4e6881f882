// RUN: qmlir-opt --qint-to-loops="features=+thumb2,+dsp" %s | filecheck %s
// RUN: qmlir-opt --qint-to-loops="features=+m" %s | filecheck %s

// Processors without vectors: two output channels at a time, of data and weights that stay bytes. Scalars are requantized
// in one of two lanes.
func.func @main(%x: tensor<1x2x2x4xi8>) -> tensor<1x2x2x3xi8> {
  %w = nn.constant <tensor<3x1x1x4xi8>, [1, -2, 3, 4, 5, -6, 7, 8, 9, 10, 11, -12]> : tensor<3x1x1x4xi8>
  %acc = qint.conv2d %x, %w {zero_point = 3 : i32} : tensor<1x2x2x4xi8>, tensor<3x1x1x4xi8> -> tensor<1x2x2x3xi32>
  %y = qint.requantize %acc {multiplier = array<i32: 1695099400>, shift = array<i32: -7>, contract = "single",
      min = -128 : i32, max = 127 : i32}
    : tensor<1x2x2x3xi32> -> tensor<1x2x2x3xi8>
  func.return %y : tensor<1x2x2x3xi8>
}

// The bias loses 3 times the sum of the weights of its channel.
// CHECK: qmlir.constant_buffer {{.*}}-18, -42, -54, 0
// CHECK: simd.dot_i8_quads %{{.*}} : vector<2xi32>, vector<8xi8>
// CHECK: simd.mul_shift_round %{{.*}} : vector<2xi32>

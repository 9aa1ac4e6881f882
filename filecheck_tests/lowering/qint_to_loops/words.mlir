// RUN: qmlir-opt --qint-to-loops="features=+thumb2,+dsp" %s | filecheck --check-prefixes=CHECK,DSP %s
// RUN: qmlir-opt --qint-to-loops="features=+m" %s | filecheck --check-prefixes=CHECK,RISCV %s

// Processors without vectors: two output channels at a time, of weights that stay bytes. Scalars are requantized in one
// of two lanes. A processor that multiplies halves of words reads data that a tile holds as i16, and of its weights the
// even bytes of a word come first; others read the data where they are.
func.func @main(%x: tensor<1x2x2x4xi8>) -> tensor<1x2x2x3xi8> {
  %w = nn.constant <tensor<3x1x1x4xi8>, [1, -2, 3, 4, 5, -6, 7, 8, 9, 10, 11, -12]> : tensor<3x1x1x4xi8>
  %acc = qint.conv2d %x, %w {zero_point = 3 : i32} : tensor<1x2x2x4xi8>, tensor<3x1x1x4xi8> -> tensor<1x2x2x3xi32>
  %y = qint.requantize %acc {multiplier = array<i32: 1695099400>, shift = array<i32: -7>, contract = "single",
      min = -128 : i32, max = 127 : i32}
    : tensor<1x2x2x3xi32> -> tensor<1x2x2x3xi8>
  func.return %y : tensor<1x2x2x3xi8>
}

// The bias loses 3 times the sum of the weights of its channel.
// DSP: qmlir.constant_buffer {{.*}}[1, 3, -2, 4, 5, 7, -6, 8, 9, 11, 10, -12
// RISCV: qmlir.constant_buffer {{.*}}[1, -2, 3, 4, 5, -6, 7, 8, 9, 10, 11, -12
// CHECK: qmlir.constant_buffer {{.*}}-18, -42, -54, 0
// DSP: simd.dot_i16_i8_quads %{{.*}} : vector<2xi32>, vector<8xi16>, vector<8xi8>
// RISCV: simd.dot_i8_quads %{{.*}} : vector<2xi32>, vector<8xi8>
// CHECK: simd.mul_shift_round %{{.*}} : vector<2xi32>

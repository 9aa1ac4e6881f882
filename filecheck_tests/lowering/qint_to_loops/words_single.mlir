// RUN: qmlir-opt --qint-to-loops="features=+thumb2,+dsp" %s | filecheck --check-prefix=DSP %s
// RUN: qmlir-opt --qint-to-loops="features=+m" %s | filecheck --check-prefix=RISCV %s

// Rows of a single output, on processors without vectors: as many output channels as have registers share the data, which
// are read where they are. Arm's profile M takes two steps in a turn of the loop.
func.func @main(%x: tensor<1x8xi8>) -> tensor<1x8xi32> {
  %w = nn.constant <tensor<8x8xi8>, [
    -5, 2, -2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2, 5, 1,
    -3, 4, 0, -4, 3, -1, -5, 2, -2, 5, 1, -3, 4, 0, -4, 3,
    -1, -5, 2, -2, 5, 1, -3, 4, 0, -4, 3, -1, -5, 2, -2, 5,
    1, -3, 4, 0, -4, 3, -1, -5, 2, -2, 5, 1, -3, 4, 0, -4
  ]> : tensor<8x8xi8>
  %acc = qint.fully_connected %x, %w {zero_point = 0 : i32} : tensor<1x8xi8>, tensor<8x8xi8> -> tensor<1x8xi32>
  func.return %acc : tensor<1x8xi32>
}

// DSP-COUNT-2: simd.dot_i8_quads %{{.*}} : vector<4xi32>, vector<16xi8>
// DSP-NOT: simd.dot
// RISCV: simd.dot_i8_quads %{{.*}} : vector<8xi32>, vector<32xi8>
// RISCV-NOT: simd.dot

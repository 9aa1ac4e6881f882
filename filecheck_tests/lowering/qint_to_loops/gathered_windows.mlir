// RUN: qmlir-opt --fold-constants --nn-to-loops --qint-to-loops=features=+avx2 --finish-loops --weights=inline %s | filecheck %s

// A 3x3 convolution of stride 2: the image is padded with the zero point as it is, and its windows are gathered, 9 · 16
// bytes each. They are reordered as the channels of a matrix product are. The bias is −(3 + 128) · 144.
// CHECK-LABEL: func.func @main
// CHECK: func.call @qint_conv2d_input_0({{.*}} : (memref<10x160xi8>, memref<11x176xi8>, index, index)
// CHECK: func.call @qint_conv2d_windows_0({{.*}} : (memref<11x176xi8>, memref<5x720xi8>, index, index)
// CHECK: <tensor<64xi32>, [-18864, -18864
func.func @main(%x: tensor<1x10x10x16xi8>) -> tensor<1x5x5x64xi32> {
  %1 = nn.constant <tensor<1x1x1x1xi8>, [1]> : tensor<1x1x1x1xi8>
  %w = nn.broadcast %1 {shape = array<i64: 64, 3, 3, 16>} : tensor<1x1x1x1xi8> -> tensor<64x3x3x16xi8>
  %acc = qint.conv2d %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 0, 1, 0>, zero_point = 3 : i32} : tensor<1x10x10x16xi8>, tensor<64x3x3x16xi8> -> tensor<1x5x5x64xi32>
  func.return %acc : tensor<1x5x5x64xi32>
}

// Fewer outputs than 64 do not share their windows: each step takes a pair of words, where the image has them.
// CHECK-LABEL: func.func @few
// CHECK-NOT: windows
// CHECK: func.return
func.func @few(%x: tensor<1x10x10x16xi8>) -> tensor<1x5x5x32xi32> {
  %1 = nn.constant <tensor<1x1x1x1xi8>, [1]> : tensor<1x1x1x1xi8>
  %w = nn.broadcast %1 {shape = array<i64: 32, 3, 3, 16>} : tensor<1x1x1x1xi8> -> tensor<32x3x3x16xi8>
  %acc = qint.conv2d %x, %w {strides = array<i64: 2, 2>, padding = array<i64: 1, 0, 1, 0>, zero_point = 3 : i32} : tensor<1x10x10x16xi8>, tensor<32x3x3x16xi8> -> tensor<1x5x5x32xi32>
  func.return %acc : tensor<1x5x5x32xi32>
}

// CHECK-LABEL: func.func private @reordered_pixels_0
// CHECK-LABEL: func.func private @qint_tile_times_block_0
// CHECK: simd.dot_u8_i8_quads {{.*}} pairs_fit : vector<16xi32>, vector<64xi8>

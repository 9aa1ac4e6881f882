// RUN: qmlir-opt --qint-to-loops="features=+amx-int8,+avx512vnni" --weights=elide %s | filecheck %s

// Two registers of 16 places beside one of 16 output channels, of which 8 are stored.
func.func @pixels(%x: tensor<1x7x7x32xi8>) -> tensor<1x7x7x8xi32> {
  %w = nn.constant <tensor<8x1x1x32xi8>, "0x01010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101010101"> : tensor<8x1x1x32xi8>
  %acc = qint.conv2d %x, %w {zero_point = 0 : i32} : tensor<1x7x7x32xi8>, tensor<8x1x1x32xi8> -> tensor<1x7x7x8xi32>
  func.return %acc : tensor<1x7x7x8xi32>
}

// CHECK-LABEL: @pixels
// CHECK: func.call @qint_matrices_0
// CHECK-LABEL: @qint_strip_times_block_0
// CHECK: [[SUMS:%.*]] = memref.alloca() {alignment = 64 : i64} : memref<512xi32>
// CHECK-COUNT-2: simd.load_matrix %bias[{{.*}}], {{.*}} : memref<?xi32>, vector<16x16xi32>
// CHECK: [[W:%.*]] = simd.load_matrix %w[{{.*}}], {{.*}} : memref<?xi8>, vector<8x64xi8>
// CHECK: simd.dot_i8_matrices {{.*}}, [[W]] : vector<16x16xi32>, vector<16x32xi8>, vector<8x64xi8>
// CHECK: simd.dot_i8_matrices {{.*}}, [[W]] : vector<16x16xi32>, vector<16x32xi8>, vector<8x64xi8>
// CHECK-COUNT-2: simd.store_matrix

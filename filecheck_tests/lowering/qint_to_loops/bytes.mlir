// RUN: qmlir-opt --fold-constants --nn-to-loops --qint-to-loops --finish-loops --weights=inline %s | filecheck %s
// RUN: qmlir-opt --fold-constants --nn-to-loops --qint-to-loops=features=+avx2 --finish-loops --weights=inline %s | filecheck --check-prefix=AVX2 %s
// RUN: qmlir-opt --fold-constants --nn-to-loops --qint-to-loops=features=+avx512vnni,+avx512f,+avx2 --finish-loops --weights=inline %s | filecheck --check-prefix=VNNI %s
// RUN: qmlir-opt --fold-constants --nn-to-loops --qint-to-loops=features=+neon,+dotprod --finish-loops --weights=inline %s | filecheck --check-prefix=SIGNED %s
// RUN: qmlir-opt --fold-constants --nn-to-loops --qint-to-loops=features=+neon,+dotprod,+i8mm --finish-loops --weights=inline %s | filecheck --check-prefix=I8MM %s
// RUN: qmlir-opt --fold-constants --nn-to-loops --qint-to-loops=features=+neon --finish-loops --weights=inline %s | filecheck --check-prefix=NEON %s

// Data from −128 to 127 with zero point 3, times weights that are all 1: the bias is −(3 + 128) · 32.
func.func @main(%x: tensor<24x32xi8>) -> tensor<24x64xi32> {
  %1 = nn.constant <tensor<1x1xi8>, [1]> : tensor<1x1xi8>
  %w = nn.broadcast %1 {shape = array<i64: 64, 32>} : tensor<1x1xi8> -> tensor<64x32xi8>
  %acc = qint.fully_connected %x, %w {zero_point = 3 : i32} : tensor<24x32xi8>, tensor<64x32xi8> -> tensor<24x64xi32>
  func.return %acc : tensor<24x64xi32>
}

// CHECK: simd.dot_i16_pairs {{.*}} : vector<16xi32>, vector<32xi16>
// CHECK-NOT: simd.dot_u8_i8_quads

// AVX2-LABEL: func.func @main
// AVX2: <tensor<64xi32>, [-4192, -4192
// AVX2-LABEL: func.func private @reordered_pixels_0
// AVX2: simd.permute_bytes {{.*}} : vector<32xi8>
// AVX2-LABEL: func.func private @qint_tile_times_block_0
// AVX2: simd.dot_u8_i8_quads {{.*}} pairs_fit : vector<16xi32>, vector<64xi8>

// VNNI-LABEL: func.func @main
// VNNI: <tensor<64xi32>, [-4192, -4192
// VNNI-LABEL: func.func private @qint_tile_times_block_0
// VNNI-COUNT-12: simd.dot_u8_i8_quads {{.*}} : vector<32xi32>, vector<128xi8>
// VNNI-NOT: pairs_fit

// Where the instruction takes signed data, they are read where they are, and the bias is −3 · 32.
// SIGNED-LABEL: func.func @main
// SIGNED: <tensor<64xi32>, [-96, -96
// SIGNED-LABEL: func.func private @qint_tile_times_block_0
// SIGNED-COUNT-6: simd.dot_i8_quads {{.*}} : vector<16xi32>, vector<64xi8>
// SIGNED-NOT: simd.dot

// I8MM-LABEL: func.func @main
// I8MM: <tensor<64xi32>, [-4192, -4192
// I8MM-LABEL: func.func private @qint_tile_times_block_0
// I8MM-COUNT-6: simd.dot_u8_i8_quads {{.*}} : vector<16xi32>, vector<64xi8>
// I8MM-NOT: pairs_fit

// NEON-LABEL: func.func private @qint_tile_times_block_0
// NEON-COUNT-5: simd.dot_i16_pairs {{.*}} : vector<16xi32>, vector<32xi16>
// NEON-NOT: simd.dot
// NEON: scf.yield

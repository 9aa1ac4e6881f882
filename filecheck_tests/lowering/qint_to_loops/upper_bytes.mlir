// RUN: qmlir-opt --qint-to-loops="features=+avx2,+avx512f,+avx512bw,+avx512vnni,+sse4a" --split-input-file %s | filecheck %s
// RUN: qmlir-opt --qint-to-loops="features=+avx2,+avx512f,+avx512bw,+avx512vnni" --split-input-file %s | filecheck --check-prefix=BOTH %s

// Products of words of two computed matrices take sums of pairs that wrap, and the upper bytes of two pairs as a quad, on
// processors that do this faster than products by both bytes of the weights. The steps take four terms.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xi16>, %m: tensor<8x2xi16>) -> tensor<4x2xi64> {
  %0 = qint.matmul %x, %m : tensor<4x8xi16>, tensor<8x2xi16> -> tensor<4x2xi64>
  func.return %0 : tensor<4x2xi64>
}
// CHECK: func.func private @qint_tile_times_block_0
// CHECK: %[[W:.*]] = vector.load %w{{.*}} : memref<?xi16>, vector<16xi16>
// CHECK-NEXT: %[[FIRST:.*]] = vector.shuffle %[[W]], %[[W]] [0, 1, 2, 3, 4, 5, 6, 7]
// CHECK-NEXT: %[[SECOND:.*]] = vector.shuffle %[[W]], %[[W]] [8, 9, 10, 11, 12, 13, 14, 15]
// CHECK: arith.shrsi %[[FIRST]]
// CHECK: %[[UPPER:.*]] = vector.bitcast {{.*}} : vector<8xi16> to vector<16xi8>
// CHECK: simd.dot_i16_pairs {{.*}} : vector<4xi32>, vector<8xi16>
// CHECK: simd.dot_i16_pairs {{.*}} : vector<4xi32>, vector<8xi16>
// CHECK: vector.shuffle {{.*}} [1, 5, 3, 7, 1, 5, 3, 7, 9, 13, 11, 15, 9, 13, 11, 15] : vector<16xi8>, vector<16xi8>
// CHECK: simd.dot_u8_i8_quads {{.*}}, %[[UPPER]] : vector<4xi32>, vector<16xi8>
// CHECK: simd.dot_u8_i8_quads {{.*}}, %[[UPPER]] : vector<4xi32>, vector<16xi8>
// CHECK: simd.dot_u8_i8_quads {{.*}}, %[[UPPER]] : vector<4xi32>, vector<16xi8>
// CHECK: simd.dot_u8_i8_quads {{.*}}, %[[UPPER]] : vector<4xi32>, vector<16xi8>
// CHECK: %[[SHARED:.*]] = simd.dot_u8_i8_quads {{.*}}, %[[UPPER]] : vector<4xi32>, vector<16xi8>
// CHECK-NEXT: scf.yield {{.*}}, %[[SHARED]] :
// CHECK: arith.subi
// CHECK: %[[WHOLE:.*]] = vector.shuffle {{.*}} [0, 4, 1, 5, 2, 6, 3, 7] : vector<4xi32>, vector<4xi32>
// CHECK-NEXT: vector.bitcast %[[WHOLE]] : vector<8xi32> to vector<4xi64>

// BOTH-NOT: simd.dot_u8_i8_quads
// BOTH: %[[HIGH:.*]] = arith.shrsi {{.*}} : vector<8xi16>
// BOTH: simd.dot_i16_pairs %{{.*}}, %{{.*}}, %[[HIGH]] : vector<4xi32>, vector<8xi16>
// BOTH-NOT: simd.dot_u8_i8_quads

// -----

// A last step would read beyond six terms; of three outputs, few share what a step computes of weights alone.
// CHECK-LABEL: func.func @main
// CHECK-NOT: simd.dot_u8_i8_quads
func.func @main(%x: tensor<4x6xi16>, %m: tensor<6x2xi16>, %y: tensor<3x8xi16>, %n: tensor<8x2xi16>) -> (tensor<4x2xi64>, tensor<3x2xi64>) {
  %0 = qint.matmul %x, %m : tensor<4x6xi16>, tensor<6x2xi16> -> tensor<4x2xi64>
  %1 = qint.matmul %y, %n : tensor<3x8xi16>, tensor<8x2xi16> -> tensor<3x2xi64>
  func.return %0, %1 : tensor<4x2xi64>, tensor<3x2xi64>
}

// -----

// Scores that are only rescaled keep the two parts of their sums: the lowest 16 bits, and what is above.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xi16>, %m: tensor<8x2xi16>) -> tensor<4x2xi16> {
  %0 = qint.matmul %x, %m : tensor<4x8xi16>, tensor<8x2xi16> -> tensor<4x2xi64>
  %1 = qint.requantize %0 {multiplier = array<i32: 1695099400>, shift = array<i32: -15>, contract = "single64", min = -32768 : i32, max = 32767 : i32} : tensor<4x2xi64> -> tensor<4x2xi16>
  func.return %1 : tensor<4x2xi16>
}
// CHECK: func.func private @qint_tile_times_block_0
// CHECK: %[[PARTS:.*]] = vector.shuffle {{.*}} [0, 1, 2, 3, 4, 5, 6, 7] : vector<4xi32>, vector<4xi32>
// CHECK-NEXT: vector.bitcast %[[PARTS]] : vector<8xi32> to vector<4xi64>
// CHECK: arith.muli {{.*}} : vector<2xi64>
// CHECK: arith.trunci {{.*}} : vector<4xi32> to vector<4xi16>

// -----

// A shift of 49 bits would leave the halves of lanes: the parts are joined.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xi16>, %m: tensor<8x2xi16>) -> tensor<4x2xi16> {
  %0 = qint.matmul %x, %m : tensor<4x8xi16>, tensor<8x2xi16> -> tensor<4x2xi64>
  %1 = qint.requantize %0 {multiplier = array<i32: 1695099400>, shift = array<i32: -18>, contract = "single64", min = -32768 : i32, max = 32767 : i32} : tensor<4x2xi64> -> tensor<4x2xi16>
  func.return %1 : tensor<4x2xi16>
}
// CHECK: vector.shuffle {{.*}} [0, 4, 1, 5, 2, 6, 3, 7] : vector<4xi32>, vector<4xi32>

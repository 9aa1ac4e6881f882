// RUN: qmlir-opt --qint-to-loops=features=+avx2 %s | filecheck %s
// RUN: qmlir-opt --qint-to-loops %s | filecheck --check-prefix=PORTABLE %s

// Quotients of words are computed in words. A layer's sums are rescaled by one operation on vectors of i32, shifted to the
// left before so that 33 bits are dropped: the weights show how large they are. They are below 2^30 then, and magnitudes of
// words at most 2^15, so that their products are summed by halves.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xi16>) -> tensor<4x8xi16> {
  %w = nn.constant <tensor<8x8xi8>, [
    1, -2, 3, -4, 5, -6, 7, -8,
    1, -2, 3, -4, 5, -6, 7, -8,
    1, -2, 3, -4, 5, -6, 7, -8,
    1, -2, 3, -4, 5, -6, 7, -8,
    1, -2, 3, -4, 5, -6, 7, -8,
    1, -2, 3, -4, 5, -6, 7, -8,
    1, -2, 3, -4, 5, -6, 7, -8,
    1, -2, 3, -4, 5, -6, 7, -8]> : tensor<8x8xi8>
  %m = qint.row_magnitudes %x {} : tensor<4x8xi16> -> tensor<4x1xi32>
  %q = qint.divide_rows %x {limit = 127 : i32} : tensor<4x8xi16> -> tensor<4x8xi8>
  %acc = qint.fully_connected %q, %w : tensor<4x8xi8>, tensor<8x8xi8> -> tensor<4x8xi32>
  %r = qint.requantize %acc {multiplier = array<i32: 1695099400>, shift = array<i32: 3>, contract = "single", min = -2147483648 : i32, max = 2147483647 : i32} : tensor<4x8xi32> -> tensor<4x8xi32>
  %p = qint.mul %r, %m : tensor<4x8xi32>, tensor<4x1xi32> -> tensor<4x8xi64>
  %y = qint.requantize %p {multiplier = array<i32: 1139453194>, shift = array<i32: -18>, contract = "single64", min = -32768 : i32, max = 32767 : i32} : tensor<4x8xi64> -> tensor<4x8xi16>
  func.return %y : tensor<4x8xi16>
}

// CHECK: func.func private @qint_row_magnitudes_0
// CHECK: arith.maxsi {{.*}} : vector<8xi16>
// CHECK: arith.minsi {{.*}} : vector<8xi16>
// CHECK: func.func private @qint_divide_rows_0
// CHECK: arith.muli {{.*}} : vector<8xi16>
// CHECK: arith.trunci {{.*}} : vector<8xi16> to vector<8xi8>
// CHECK: func.func private @qint_tile_times_block_0
// CHECK: arith.shli {{.*}} : vector<8xi32>
// CHECK: simd.mul_shift_round {{.*}} drops_33 : vector<8xi32>
// CHECK: func.func private @qint_mul_0
// CHECK-COUNT-4: simd.dot_i16_pairs {{.*}} : vector<8xi32>, vector<16xi16>

// PORTABLE: func.func private @qint_mul_0
// PORTABLE: arith.muli {{.*}} : vector<8xi64>
// PORTABLE-NOT: simd.dot_i16_pairs

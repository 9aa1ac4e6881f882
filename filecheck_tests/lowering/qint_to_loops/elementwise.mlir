// RUN: qmlir-opt --qint-to-loops --split-input-file %s | filecheck %s
// RUN: qmlir-opt --qint-to-loops=features=+avx512bw --split-input-file %s | filecheck --check-prefix=AVX512 %s

// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<6x24xi8>, %b: tensor<24xi8>) -> (tensor<6x24xi8>, tensor<6x24xi8>) {
  // CHECK: func.call @qint_add_0({{.*}}) : (memref<6x24xi8>, memref<24xi8>, memref<1xi32>, memref<1xi32>, memref<1xi64>, memref<6x24xi8>, index, index) -> ()
  %s = qint.add %a, %b {multipliers = array<i64: 1073741824, 2147483647>, shift = 31 : i32, min = -128 : i32, max = 127 : i32} : tensor<6x24xi8>, tensor<24xi8> -> tensor<6x24xi8>
  // CHECK: func.call @qint_mul_0({{.*}}) : (memref<6x24xi8>, memref<24xi8>, memref<1xi32>, memref<1xi8>, memref<6x24xi8>, index, index) -> ()
  %acc = qint.mul %a, %b {lhs_zero_point = 3 : i32} : tensor<6x24xi8>, tensor<24xi8> -> tensor<6x24xi32>
  %p = qint.requantize %acc {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<6x24xi32> -> tensor<6x24xi8>
  func.return %s, %p : tensor<6x24xi8>, tensor<6x24xi8>
}

// CHECK: func.func private @qint_add_0
// A multiplier that 16 bits and 16 bits do not hold: 64-bit products. A bit to the left for the operands, so that the
// sum's shift of 31 becomes one of 32.
// CHECK: arith.shli {{.*}} : vector<16xi32>
// CHECK: simd.mul_add_shift_round {{.*}} : vector<16xi32>
// CHECK: func.func private @qint_mul_0
// CHECK: arith.muli {{.*}} : vector<16xi32>
// CHECK: simd.mul_shift_round {{.*}} : vector<16xi32>

// -----

// Bytes are added by pairs of products: m = h·2^16 + l, so 196613 is 3·2^16 + 5 and −70000 is −1·2^16 − 4464. A pair has
// the left operand's half below. With zero points 128 higher and rounding, −16678618 = −255·2^16 + 33062; the shift is
// 18 − 16.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<96xi8>, %b: tensor<96xi8>) -> tensor<96xi8> {
  // CHECK: qmlir.constant_buffer <tensor<1xi32>, [-65533]>
  // CHECK: qmlir.constant_buffer <tensor<1xi32>, [-292552699]>
  // CHECK: qmlir.constant_buffer <tensor<1xi32>, [-255]>
  // CHECK: qmlir.constant_buffer <tensor<1xi32>, [33062]>
  // CHECK: qmlir.constant_buffer <tensor<1xi32>, [2]>
  %s = qint.add %a, %b {lhs_zero_point = 2 : i32, rhs_zero_point = -3 : i32, multipliers = array<i64: 196613, -70000>, shift = 18 : i32, min = -128 : i32, max = 127 : i32} : tensor<96xi8>, tensor<96xi8> -> tensor<96xi8>
  func.return %s : tensor<96xi8>
}
// CHECK: func.func private @qint_add_0
// CHECK-COUNT-2: arith.xori {{.*}} : vector<16xi8>
// CHECK: simd.add_bytes {{.*}} : vector<16xi8>, vector<16xi32>
// CHECK-NOT: simd.mul_add_shift_round

// AVX512-LABEL: func.func private @qint_add_0
// AVX512: simd.add_bytes {{.*}} : vector<32xi8>, vector<32xi32>

// -----

// The zero point of the result is in the constant: 2^17 − 7·2^18 − 2 · 128 · 2^16 = −282·2^16. Sums that differ in it
// share a kernel. A result of 16 bits is packed as other numbers are.
// CHECK-LABEL: func.func @main
func.func @main(%a: tensor<32xi8>) -> (tensor<32xi8>, tensor<32xi8>, tensor<32xi16>) {
  // CHECK: qmlir.constant_buffer <tensor<1xi32>, [-282]>
  // CHECK: func.call @qint_add_0
  %s = qint.add %a, %a {multipliers = array<i64: 65536, 65536>, shift = 18 : i32, zero_point = -7 : i32, min = -128 : i32, max = 127 : i32} : tensor<32xi8>, tensor<32xi8> -> tensor<32xi8>
  // CHECK: func.call @qint_add_0
  %t = qint.add %a, %a {multipliers = array<i64: 65536, 65536>, shift = 18 : i32, zero_point = 7 : i32, min = -128 : i32, max = 127 : i32} : tensor<32xi8>, tensor<32xi8> -> tensor<32xi8>
  // CHECK: func.call @qint_add_1
  %u = qint.add %a, %a {multipliers = array<i64: 65536, 65536>, shift = 18 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<32xi8>, tensor<32xi8> -> tensor<32xi16>
  func.return %s, %t, %u : tensor<32xi8>, tensor<32xi8>, tensor<32xi16>
}
// CHECK: func.func private @qint_add_1
// CHECK: %[[BOTH:.*]] = vector.bitcast {{.*}} : vector<16xi32> to vector<32xi16>
// CHECK: simd.dot_i16_pairs %{{.*}}, %[[BOTH]], %{{.*}} : vector<16xi32>, vector<32xi16>
// CHECK: simd.dot_i16_pairs %{{.*}}, %[[BOTH]], %{{.*}} : vector<16xi32>, vector<32xi16>

// -----

// A quotient has choices, so elements are divided one at a time.
// CHECK: func.call @qint_div_0
// CHECK: func.func private @qint_div_0
// CHECK-NOT: vector
// CHECK: arith.muli {{.*}} : i64
func.func @main(%x: tensor<4xi16>) -> tensor<4xi16> {
  %y = qint.div %x, %x {multiplier = 1073741824 : i32, shift = 3 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<4xi16>, tensor<4xi16> -> tensor<4xi16>
  func.return %y : tensor<4xi16>
}

// -----

// Words are added by pairs of products where the processor packs: 196613 is 3·2^16 + 5 and −70000 is −1·2^16 − 4464. With
// rounding and zero points, 2·196613 = 6·2^16 + 10 taken off and −3·70000 = −4·2^16 + 52144 added to 2^17.
// CHECK-LABEL: func.func @words
// AVX512-LABEL: func.func @words
func.func @words(%a: tensor<96xi16>, %b: tensor<96xi16>) -> tensor<96xi16> {
  // AVX512: qmlir.constant_buffer <tensor<1xi32>, [-65533]>
  // AVX512: qmlir.constant_buffer <tensor<1xi32>, [-292552699]>
  // AVX512: qmlir.constant_buffer <tensor<1xi32>, [-8]>
  // AVX512: qmlir.constant_buffer <tensor<1xi32>, [52134]>
  // AVX512: qmlir.constant_buffer <tensor<1xi32>, [2]>
  %s = qint.add %a, %b {lhs_zero_point = 2 : i32, rhs_zero_point = -3 : i32, multipliers = array<i64: 196613, -70000>, shift = 18 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<96xi16>, tensor<96xi16> -> tensor<96xi16>
  func.return %s : tensor<96xi16>
}
// CHECK: func.func private @qint_add_0
// CHECK: simd.mul_add_shift_round {{.*}} : vector<16xi32>
// AVX512: func.func private @qint_add_0
// AVX512: simd.add_words {{.*}} : vector<32xi16>, vector<32xi32>

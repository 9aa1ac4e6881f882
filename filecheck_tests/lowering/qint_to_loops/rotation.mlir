// RUN: qmlir-opt --nn-to-loops --qint-to-loops --split-input-file %s | filecheck %s
// RUN: qmlir-opt --nn-to-loops=features=+avx512bw --qint-to-loops=features=+avx512bw --split-input-file %s | filecheck --check-prefix=AVX512 %s

// The kernel reads words, adds words of 32 bits, and stores words. A sum of 32 words is below 2^20: 33 bits of the
// product are dropped behind a shift of sums by two bits to the left.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<6x32xi16>) -> tensor<6x32xi16> {
  %w = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 1>, contract = "single", min = -32768 : i32, max = 32767 : i32} : tensor<6x32xi16> -> tensor<6x32xi32>
  %h = nn.hadamard %w {block = 32 : i64} : tensor<6x32xi32> -> tensor<6x32xi32>
  // CHECK-NOT: @qint_requantize
  // CHECK: qmlir.constant_buffer <tensor<1xi8>, [-2]>
  // CHECK: func.call @nn_hadamard_0({{.*}}) : (memref<6x32xi16>, memref<1xi32>, memref<1xi8>, memref<1xi16>, memref<6x32xi16>, index, index) -> ()
  %y = qint.requantize %h {multiplier = array<i32: 1763395041>, shift = array<i32: 0>, contract = "single", min = -32768 : i32, max = 32767 : i32} : tensor<6x32xi32> -> tensor<6x32xi16>
  func.return %y : tensor<6x32xi16>
}
// CHECK: func.func private @nn_hadamard_0
// CHECK: vector.load {{.*}} vector<8xi16>
// CHECK: arith.extsi {{.*}} : vector<8xi16> to vector<8xi32>
// CHECK: arith.subi {{.*}} : vector<8xi32>
// CHECK: simd.mul_shift_round {{.*}} drops_33 : vector<8xi32>
// Neighbours are added and subtracted by products of pairs; stages within vectors swap lanes of two.
// AVX512: func.func private @nn_hadamard_0
// AVX512: %[[X:.*]] = vector.load {{.*}} vector<32xi16>
// AVX512: %[[SUMS:.*]] = simd.dot_i16_pairs %{{.*}}, %[[X]], %{{.*}} : vector<16xi32>, vector<32xi16>
// AVX512: %[[DIFFERENCES:.*]] = simd.dot_i16_pairs %{{.*}}, %[[X]], %{{.*}} : vector<16xi32>, vector<32xi16>
// AVX512: vector.shuffle %[[SUMS]], %[[DIFFERENCES]] [0, 1, 2, 3, 4, 5, 6, 7, 16, 17, 18, 19, 20, 21, 22, 23]
// AVX512: simd.mul_shift_round {{.*}} drops_33 : vector<32xi32>

// -----

// A clamp before the transform, or numbers for each channel behind it: kernels of their own.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x2xi16>) -> tensor<2x2xi16> {
  // CHECK: func.call @qint_requantize_0
  %w = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 1>, contract = "single", min = -5 : i32, max = 32767 : i32} : tensor<2x2xi16> -> tensor<2x2xi32>
  // CHECK: func.call @nn_hadamard_0({{.*}}) : (memref<2x2xi32>, memref<2x2xi32>, index, index) -> ()
  %h = nn.hadamard %w {block = 2 : i64} : tensor<2x2xi32> -> tensor<2x2xi32>
  // CHECK: func.call @qint_requantize_1
  %y = qint.requantize %h {multiplier = array<i32: 1763395041, 1763395042>, shift = array<i32: 0, 0>, contract = "single", min = -32768 : i32, max = 32767 : i32} : tensor<2x2xi32> -> tensor<2x2xi16>
  func.return %y : tensor<2x2xi16>
}

// -----

// Floats.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x16xf32>) -> tensor<2x16xf32> {
  // CHECK: func.call @nn_hadamard_0({{.*}}) : (memref<2x16xf32>, memref<2x16xf32>, index, index) -> ()
  %y = nn.hadamard %x {block = 16 : i64} : tensor<2x16xf32> -> tensor<2x16xf32>
  func.return %y : tensor<2x16xf32>
}
// CHECK: arith.addf {{.*}} : vector<8xf32>
// AVX512: arith.addf {{.*}} : vector<16xf32>

// RUN: qmlir-opt %s | qmlir-opt | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

func.func @product(%x: memref<?xi8>, %w: memref<?xi8>, %bias: memref<?xi32>, %y: memref<?xi32>, %at: index, %apart: index) {
  simd.prefetch %w[%at] : memref<?xi8>
  %0 = simd.load_matrix %bias[%at], %apart : memref<?xi32>, vector<16x8xi32>
  %1 = simd.load_matrix %x[%at], %apart : memref<?xi8>, vector<16x64xi8>
  %2 = simd.load_matrix %w[%at], %apart : memref<?xi8>, vector<16x32xi8>
  %3 = simd.dot_i8_matrices %0, %1, %2 : vector<16x8xi32>, vector<16x64xi8>, vector<16x32xi8>
  simd.store_matrix %3, %y[%at], %apart : vector<16x8xi32>, memref<?xi32>
  func.return
}

func.func @bytes(%x: vector<64xi32>) -> vector<64xi8> {
  %0 = simd.saturate_bytes %x : vector<64xi32>, vector<64xi8>
  func.return %0 : vector<64xi8>
}

// CHECK: simd.prefetch %w[%at] : memref<?xi8>
// CHECK-NEXT: %0 = simd.load_matrix %bias[%at], %apart : memref<?xi32>, vector<16x8xi32>
// CHECK-NEXT: %1 = simd.load_matrix %x[%at], %apart : memref<?xi8>, vector<16x64xi8>
// CHECK-NEXT: %2 = simd.load_matrix %w[%at], %apart : memref<?xi8>, vector<16x32xi8>
// CHECK-NEXT: %3 = simd.dot_i8_matrices %0, %1, %2 : vector<16x8xi32>, vector<16x64xi8>, vector<16x32xi8>
// CHECK-NEXT: simd.store_matrix %3, %y[%at], %apart : vector<16x8xi32>, memref<?xi32>

// CHECK: %0 = simd.saturate_bytes %x : vector<64xi32>, vector<64xi8>

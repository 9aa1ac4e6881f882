// RUN: qmlir-opt --verify-diagnostics --split-input-file %s

// C1: a register holds the result
func.func @load_c1(%x: memref<?xi8>, %i: index) {
  // expected-error@+1 {{the result must be a 2-D vector of i8 or i32 with at most 16 rows of at most 64 bytes, a multiple of 4, got vector<17x64xi8>}}
  %0 = simd.load_matrix %x[%i], %i : memref<?xi8>, vector<17x64xi8>
  func.return
}

// -----

func.func @load_c1_row(%x: memref<?xi8>, %i: index) {
  // expected-error@+1 {{a multiple of 4, got vector<16x6xi8>}}
  %0 = simd.load_matrix %x[%i], %i : memref<?xi8>, vector<16x6xi8>
  func.return
}

// -----

func.func @load_c1_element(%x: memref<?xi16>, %i: index) {
  // expected-error@+1 {{must be a 2-D vector of i8 or i32}}
  %0 = simd.load_matrix %x[%i], %i : memref<?xi16>, vector<16x16xi16>
  func.return
}

// -----

// C2: from a row of the same elements
func.func @load_c2(%x: memref<?xi32>, %i: index) {
  // expected-error@+1 {{the memref must be 1-D, of i8, got memref<?xi32>}}
  %0 = simd.load_matrix %x[%i], %i : memref<?xi32>, vector<16x64xi8>
  func.return
}

// -----

// C1: a register holds the value
func.func @store_c1(%x: vector<64xi32>, %y: memref<?xi32>, %i: index) {
  // expected-error@+1 {{the value must be a 2-D vector of i8 or i32}}
  simd.store_matrix %x, %y[%i], %i : vector<64xi32>, memref<?xi32>
  func.return
}

// -----

// C2: to a row of the same elements
func.func @store_c2(%x: vector<16x16xi32>, %y: memref<4x16xi32>, %i: index) {
  // expected-error@+1 {{the memref must be 1-D, of i32, got memref<4x16xi32>}}
  simd.store_matrix %x, %y[%i], %i : vector<16x16xi32>, memref<4x16xi32>
  func.return
}

// -----

// C1: a register holds the accumulators
func.func @dot_c1(%acc: vector<16x17xi32>, %a: vector<16x64xi8>, %b: vector<16x64xi8>) {
  // expected-error@+1 {{acc must be a 2-D vector}}
  %0 = simd.dot_i8_matrices %acc, %a, %b : vector<16x17xi32>, vector<16x64xi8>, vector<16x64xi8>
  func.return
}

// -----

// C2: a has the rows of acc, and a column for each row of the right-hand matrix
func.func @dot_c2(%acc: vector<16x16xi32>, %a: vector<16x60xi8>, %b: vector<16x64xi8>) {
  // expected-error@+1 {{a must have the 16 rows of acc and 4 columns for each of the 16 rows of b, got vector<16x60xi8>}}
  %0 = simd.dot_i8_matrices %acc, %a, %b : vector<16x16xi32>, vector<16x60xi8>, vector<16x64xi8>
  func.return
}

// -----

// C3: b has four columns for each of acc
func.func @dot_c3(%acc: vector<16x16xi32>, %a: vector<16x64xi8>, %b: vector<16x60xi8>) {
  // expected-error@+1 {{b must have 4 columns for each of the 16 of acc, got vector<16x60xi8>}}
  %0 = simd.dot_i8_matrices %acc, %a, %b : vector<16x16xi32>, vector<16x64xi8>, vector<16x60xi8>
  func.return
}

// -----

// C1: the line of a row of elements
func.func @prefetch_c1(%x: memref<2x4xi8>, %i: index) {
  // expected-error@+1 {{x must be a 1-D memref, got memref<2x4xi8>}}
  simd.prefetch %x[%i] : memref<2x4xi8>
  func.return
}

// -----

// C1: lanes in one row
func.func @saturate_c1(%x: vector<2x8xi32>) {
  // expected-error@+1 {{x must be a 1-D vector, got vector<2x8xi32>}}
  %0 = simd.saturate_bytes %x : vector<2x8xi32>, vector<2x8xi8>
  func.return
}

// -----

// C2: as many bytes
func.func @saturate_c2(%x: vector<16xi32>) {
  // expected-error@+1 {{the result must have the 16 lanes of x, got vector<8xi8>}}
  %0 = simd.saturate_bytes %x : vector<16xi32>, vector<8xi8>
  func.return
}

// -----

// C4: of two matrices
func.func @dot_c4(%acc: vector<16x16xi32>, %a: vector<16x64xi8>) {
  // expected-error@+1 {{a and b must be two values}}
  %0 = simd.dot_i8_matrices %acc, %a, %a : vector<16x16xi32>, vector<16x64xi8>, vector<16x64xi8>
  func.return
}

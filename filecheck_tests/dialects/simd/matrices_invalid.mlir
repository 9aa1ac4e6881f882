// RUN: qmlir-opt --verify-diagnostics --split-input-file %s

// C1: a register holds the result
%x, %i = "test.op"() : () -> (memref<?xi8>, index)
// load_c1: expected-error@+1 {{the result must be a 2-D vector of i8 or i32 with at most 16 rows of at most 64 bytes, a multiple of 4, got vector<17x64xi8>}}
%0 = simd.load_matrix %x[%i], %i : memref<?xi8>, vector<17x64xi8>

// -----

%x, %i = "test.op"() : () -> (memref<?xi8>, index)
// load_c1_row: expected-error@+1 {{a multiple of 4, got vector<16x6xi8>}}
%0 = simd.load_matrix %x[%i], %i : memref<?xi8>, vector<16x6xi8>

// -----

%x, %i = "test.op"() : () -> (memref<?xi16>, index)
// load_c1_element: expected-error@+1 {{must be a 2-D vector of i8 or i32}}
%0 = simd.load_matrix %x[%i], %i : memref<?xi16>, vector<16x16xi16>

// -----

// C2: from a row of the same elements
%x, %i = "test.op"() : () -> (memref<?xi32>, index)
// load_c2: expected-error@+1 {{the memref must be 1-D, of i8, got memref<?xi32>}}
%0 = simd.load_matrix %x[%i], %i : memref<?xi32>, vector<16x64xi8>

// -----

// C1: a register holds the value
%x, %y, %i = "test.op"() : () -> (vector<64xi32>, memref<?xi32>, index)
// store_c1: expected-error@+1 {{the value must be a 2-D vector of i8 or i32}}
simd.store_matrix %x, %y[%i], %i : vector<64xi32>, memref<?xi32>

// -----

// C2: to a row of the same elements
%x, %y, %i = "test.op"() : () -> (vector<16x16xi32>, memref<4x16xi32>, index)
// store_c2: expected-error@+1 {{the memref must be 1-D, of i32, got memref<4x16xi32>}}
simd.store_matrix %x, %y[%i], %i : vector<16x16xi32>, memref<4x16xi32>

// -----

// C1: a register holds the accumulators
%acc, %a, %b = "test.op"() : () -> (vector<16x17xi32>, vector<16x64xi8>, vector<16x64xi8>)
// dot_c1: expected-error@+1 {{acc must be a 2-D vector}}
%0 = simd.dot_i8_matrices %acc, %a, %b : vector<16x17xi32>, vector<16x64xi8>, vector<16x64xi8>

// -----

// C2: a has the rows of acc, and a column for each row of the right-hand matrix
%acc, %a, %b = "test.op"() : () -> (vector<16x16xi32>, vector<16x60xi8>, vector<16x64xi8>)
// dot_c2: expected-error@+1 {{a must have the 16 rows of acc and 4 columns for each of the 16 rows of b, got vector<16x60xi8>}}
%0 = simd.dot_i8_matrices %acc, %a, %b : vector<16x16xi32>, vector<16x60xi8>, vector<16x64xi8>

// -----

// C3: b has four columns for each of acc
%acc, %a, %b = "test.op"() : () -> (vector<16x16xi32>, vector<16x64xi8>, vector<16x60xi8>)
// dot_c3: expected-error@+1 {{b must have 4 columns for each of the 16 of acc, got vector<16x60xi8>}}
%0 = simd.dot_i8_matrices %acc, %a, %b : vector<16x16xi32>, vector<16x64xi8>, vector<16x60xi8>

// -----

// C1: the line of a row of elements
%x, %i = "test.op"() : () -> (memref<2x4xi8>, index)
// prefetch_c1: expected-error@+1 {{x must be a 1-D memref, got memref<2x4xi8>}}
simd.prefetch %x[%i] : memref<2x4xi8>

// -----

// C1: lanes in one row
%x = "test.op"() : () -> vector<2x8xi32>
// saturate_c1: expected-error@+1 {{x must be a 1-D vector, got vector<2x8xi32>}}
%0 = simd.saturate_bytes %x : vector<2x8xi32>, vector<2x8xi8>

// -----

// C2: as many bytes
%x = "test.op"() : () -> vector<16xi32>
// saturate_c2: expected-error@+1 {{the result must have the 16 lanes of x, got vector<8xi8>}}
%0 = simd.saturate_bytes %x : vector<16xi32>, vector<8xi8>

// -----

// C4: of two matrices
%acc, %a = "test.op"() : () -> (vector<16x16xi32>, vector<16x64xi8>)
// dot_c4: expected-error@+1 {{a and b must be two values}}
%0 = simd.dot_i8_matrices %acc, %a, %a : vector<16x16xi32>, vector<16x64xi8>, vector<16x64xi8>

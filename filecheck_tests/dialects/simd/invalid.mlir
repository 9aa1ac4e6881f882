// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

// C1: the accumulator is a 1-D vector
func.func @dot_c1(%acc: vector<2x4xi32>, %a: vector<16xi16>) {
  // expected-error@+1 {{acc must be a 1-D vector, got vector<2x4xi32>}}
  %0 = simd.dot_i16_pairs %acc, %a, %a : vector<2x4xi32>, vector<16xi16>
  func.return
}

// -----

// C2: the pairs are 1-D vectors
func.func @dot_c2(%acc: vector<8xi32>, %a: vector<2x8xi16>) {
  // expected-error@+1 {{a and b must be 1-D vectors, got vector<2x8xi16>}}
  %0 = simd.dot_i16_pairs %acc, %a, %a : vector<8xi32>, vector<2x8xi16>
  func.return
}

// -----

// C3: two lanes of the factors for each of the accumulator
func.func @dot_c3(%acc: vector<8xi32>, %a: vector<8xi16>) {
  // expected-error@+1 {{a must have twice the 8 lanes of acc, got 8}}
  %0 = simd.dot_i16_pairs %acc, %a, %a : vector<8xi32>, vector<8xi16>
  func.return
}

// -----

// C1: values are 1-D vectors
func.func @mul_shift_round_c1(%a: vector<2x4xi32>) {
  // expected-error@+1 {{operands must be 1-D vectors with an even number of lanes, got vector<2x4xi32>}}
  %0 = simd.mul_shift_round %a, %a, %a : vector<2x4xi32>
  func.return
}

// -----

// C1: with an even number of lanes
func.func @mul_shift_round_c1_lanes(%a: vector<3xi32>) {
  // expected-error@+1 {{operands must be 1-D vectors with an even number of lanes, got vector<3xi32>}}
  %0 = simd.mul_shift_round %a, %a, %a : vector<3xi32>
  func.return
}

// -----

// C1: values are 1-D vectors with an even number of lanes
func.func @mul_add_shift_round_c1(%a: vector<3xi32>) {
  // expected-error@+1 {{operands must be 1-D vectors with an even number of lanes, got vector<3xi32>}}
  %0 = simd.mul_add_shift_round %a, %a, %a, %a, %a : vector<3xi32>
  func.return
}

// -----

// C1: the accumulator is a 1-D vector
func.func @quads_c1(%acc: vector<2x4xi32>, %a: vector<32xi8>) {
  // expected-error@+1 {{acc must be a 1-D vector, got vector<2x4xi32>}}
  %0 = simd.dot_u8_i8_quads %acc, %a, %a : vector<2x4xi32>, vector<32xi8>
  func.return
}

// -----

// C2: the quads are 1-D vectors
func.func @quads_c2(%acc: vector<8xi32>, %a: vector<2x16xi8>) {
  // expected-error@+1 {{a and b must be 1-D vectors, got vector<2x16xi8>}}
  %0 = simd.dot_u8_i8_quads %acc, %a, %a : vector<8xi32>, vector<2x16xi8>
  func.return
}

// -----

// C3: four lanes of the factors for each of the accumulator
func.func @quads_c3(%acc: vector<8xi32>, %a: vector<16xi8>) {
  // expected-error@+1 {{a must have four times the 8 lanes of acc, got 16}}
  %0 = simd.dot_u8_i8_quads %acc, %a, %a : vector<8xi32>, vector<16xi8>
  func.return
}

// -----

// C1: bytes are permuted in groups of 16, or of 8
func.func @permute_c1(%x: vector<24xi8>) {
  // expected-error@+1 {{operands must be 1-D vectors with 8 or 16k lanes, got vector<24xi8>}}
  %0 = simd.permute_bytes %x, %x : vector<24xi8>
  func.return
}

// -----

// C1: places in a table are 16, 32, … at a time
func.func @lookup_c1(%table: vector<256xi8>, %x: vector<8xi8>) {
  // expected-error@+1 {{places must be a 1-D vector with 16k lanes, got vector<8xi8>}}
  %0 = simd.lookup_bytes %table, %x : vector<256xi8>, vector<8xi8>
  func.return
}

// -----

// C2: a table has a power of two of entries
func.func @lookup_c2(%table: vector<48xi8>, %x: vector<16xi8>) {
  // expected-error@+1 {{the table must have 16, 32, 64, 128 or 256 entries, got vector<48xi8>}}
  %0 = simd.lookup_bytes %table, %x : vector<48xi8>, vector<16xi8>
  func.return
}

// -----

// C1: the accumulator is a 1-D vector
func.func @signed_quads_c1(%acc: vector<2x4xi32>, %a: vector<32xi8>) {
  // expected-error@+1 {{acc must be a 1-D vector, got vector<2x4xi32>}}
  %0 = simd.dot_i8_quads %acc, %a, %a : vector<2x4xi32>, vector<32xi8>
  func.return
}

// -----

// C2: the quads are 1-D vectors
func.func @signed_quads_c2(%acc: vector<8xi32>, %a: vector<2x16xi8>) {
  // expected-error@+1 {{a and b must be 1-D vectors, got vector<2x16xi8>}}
  %0 = simd.dot_i8_quads %acc, %a, %a : vector<8xi32>, vector<2x16xi8>
  func.return
}

// -----

// C3: four lanes of the factors for each of the accumulator
func.func @signed_quads_c3(%acc: vector<8xi32>, %a: vector<16xi8>) {
  // expected-error@+1 {{a must have four times the 8 lanes of acc, got 16}}
  %0 = simd.dot_i8_quads %acc, %a, %a : vector<8xi32>, vector<16xi8>
  func.return
}

// -----

// C1: the accumulator is a 1-D vector
func.func @wide_quads_c1(%acc: vector<2x4xi32>, %a: vector<32xi16>, %b: vector<32xi8>) {
  // expected-error@+1 {{acc must be a 1-D vector, got vector<2x4xi32>}}
  %0 = simd.dot_i16_i8_quads %acc, %a, %b : vector<2x4xi32>, vector<32xi16>, vector<32xi8>
  func.return
}

// -----

// C2: the quads are 1-D vectors
func.func @wide_quads_c2(%acc: vector<8xi32>, %a: vector<32xi16>, %b: vector<2x16xi8>) {
  // expected-error@+1 {{a and b must be 1-D vectors, got vector<2x16xi8>}}
  %0 = simd.dot_i16_i8_quads %acc, %a, %b : vector<8xi32>, vector<32xi16>, vector<2x16xi8>
  func.return
}

// -----

// C3: four lanes of both factors for each of the accumulator
func.func @wide_quads_c3(%acc: vector<8xi32>, %a: vector<32xi16>, %b: vector<16xi8>) {
  // expected-error@+1 {{b must have four times the 8 lanes of acc, got 16}}
  %0 = simd.dot_i16_i8_quads %acc, %a, %b : vector<8xi32>, vector<32xi16>, vector<16xi8>
  func.return
}

// -----

// C1: bytes are 1-D vectors
func.func @add_bytes_c1(%a: vector<2x8xi8>, %k: vector<16xi32>) {
  // expected-error@+1 {{a and b must be 1-D vectors, got vector<2x8xi8>}}
  %0 = simd.add_bytes %a, %a, %k, %k, %k, %k, %k : vector<2x8xi8>, vector<16xi32>
  func.return
}

// -----

// C2: the others are 1-D vectors
func.func @add_bytes_c2(%a: vector<16xi8>, %k: vector<2x8xi32>) {
  // expected-error@+1 {{weights must be 1-D vectors with the 16 lanes of a, got vector<2x8xi32>}}
  %0 = simd.add_bytes %a, %a, %k, %k, %k, %k, %k : vector<16xi8>, vector<2x8xi32>
  func.return
}

// -----

// C3: with equally many lanes
func.func @add_bytes_c3(%a: vector<16xi8>, %k: vector<8xi32>) {
  // expected-error@+1 {{weights must be 1-D vectors with the 16 lanes of a, got vector<8xi32>}}
  %0 = simd.add_bytes %a, %a, %k, %k, %k, %k, %k : vector<16xi8>, vector<8xi32>
  func.return
}

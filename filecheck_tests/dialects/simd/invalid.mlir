// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

// C1: the accumulator is a 1-D vector
%acc, %a = "test.op"() : () -> (vector<2x4xi32>, vector<16xi16>)
// dot_c1: expected-error@+1 {{acc must be a 1-D vector, got vector<2x4xi32>}}
%0 = simd.dot_i16_pairs %acc, %a, %a : vector<2x4xi32>, vector<16xi16>

// -----

// C2: the pairs are 1-D vectors
%acc, %a = "test.op"() : () -> (vector<8xi32>, vector<2x8xi16>)
// dot_c2: expected-error@+1 {{a and b must be 1-D vectors, got vector<2x8xi16>}}
%0 = simd.dot_i16_pairs %acc, %a, %a : vector<8xi32>, vector<2x8xi16>

// -----

// C3: two lanes of the factors for each of the accumulator
%acc, %a = "test.op"() : () -> (vector<8xi32>, vector<8xi16>)
// dot_c3: expected-error@+1 {{a must have twice the 8 lanes of acc, got 8}}
%0 = simd.dot_i16_pairs %acc, %a, %a : vector<8xi32>, vector<8xi16>

// -----

// C1: values are 1-D vectors
%a = "test.op"() : () -> vector<2x4xi32>
// mul_shift_round_c1: expected-error@+1 {{operands must be 1-D vectors with an even number of lanes, got vector<2x4xi32>}}
%0 = simd.mul_shift_round %a, %a, %a : vector<2x4xi32>

// -----

// C1: with an even number of lanes
%a = "test.op"() : () -> vector<3xi32>
// mul_shift_round_c1_lanes: expected-error@+1 {{operands must be 1-D vectors with an even number of lanes, got vector<3xi32>}}
%0 = simd.mul_shift_round %a, %a, %a : vector<3xi32>

// -----

// C1: values are 1-D vectors with an even number of lanes
%a = "test.op"() : () -> vector<3xi32>
// mul_add_shift_round_c1: expected-error@+1 {{operands must be 1-D vectors with an even number of lanes, got vector<3xi32>}}
%0 = simd.mul_add_shift_round %a, %a, %a, %a, %a : vector<3xi32>

// -----

// C1: the accumulator is a 1-D vector
%acc, %a = "test.op"() : () -> (vector<2x4xi32>, vector<32xi8>)
// quads_c1: expected-error@+1 {{acc must be a 1-D vector, got vector<2x4xi32>}}
%0 = simd.dot_u8_i8_quads %acc, %a, %a : vector<2x4xi32>, vector<32xi8>

// -----

// C2: the quads are 1-D vectors
%acc, %a = "test.op"() : () -> (vector<8xi32>, vector<2x16xi8>)
// quads_c2: expected-error@+1 {{a and b must be 1-D vectors, got vector<2x16xi8>}}
%0 = simd.dot_u8_i8_quads %acc, %a, %a : vector<8xi32>, vector<2x16xi8>

// -----

// C3: four lanes of the factors for each of the accumulator
%acc, %a = "test.op"() : () -> (vector<8xi32>, vector<16xi8>)
// quads_c3: expected-error@+1 {{a must have four times the 8 lanes of acc, got 16}}
%0 = simd.dot_u8_i8_quads %acc, %a, %a : vector<8xi32>, vector<16xi8>

// -----

// C1: bytes are permuted in groups of 16, or of 8
%x = "test.op"() : () -> vector<24xi8>
// permute_c1: expected-error@+1 {{operands must be 1-D vectors with 8 or 16k lanes, got vector<24xi8>}}
%0 = simd.permute_bytes %x, %x : vector<24xi8>

// -----

// C1: places in a table are 16, 32, … at a time
%table, %x = "test.op"() : () -> (vector<256xi8>, vector<8xi8>)
// lookup_c1: expected-error@+1 {{places must be a 1-D vector with 16k lanes, got vector<8xi8>}}
%0 = simd.lookup_bytes %table, %x : vector<256xi8>, vector<8xi8>

// -----

// C2: a table has a power of two of entries
%table, %x = "test.op"() : () -> (vector<48xi8>, vector<16xi8>)
// lookup_c2: expected-error@+1 {{the table must have 16, 32, 64, 128 or 256 entries, got vector<48xi8>}}
%0 = simd.lookup_bytes %table, %x : vector<48xi8>, vector<16xi8>

// -----

// C1: the accumulator is a 1-D vector
%acc, %a = "test.op"() : () -> (vector<2x4xi32>, vector<32xi8>)
// signed_quads_c1: expected-error@+1 {{acc must be a 1-D vector, got vector<2x4xi32>}}
%0 = simd.dot_i8_quads %acc, %a, %a : vector<2x4xi32>, vector<32xi8>

// -----

// C2: the quads are 1-D vectors
%acc, %a = "test.op"() : () -> (vector<8xi32>, vector<2x16xi8>)
// signed_quads_c2: expected-error@+1 {{a and b must be 1-D vectors, got vector<2x16xi8>}}
%0 = simd.dot_i8_quads %acc, %a, %a : vector<8xi32>, vector<2x16xi8>

// -----

// C3: four lanes of the factors for each of the accumulator
%acc, %a = "test.op"() : () -> (vector<8xi32>, vector<16xi8>)
// signed_quads_c3: expected-error@+1 {{a must have four times the 8 lanes of acc, got 16}}
%0 = simd.dot_i8_quads %acc, %a, %a : vector<8xi32>, vector<16xi8>

// -----

// C1: the accumulator is a 1-D vector
%acc, %a, %b = "test.op"() : () -> (vector<2x4xi32>, vector<32xi16>, vector<32xi8>)
// wide_quads_c1: expected-error@+1 {{acc must be a 1-D vector, got vector<2x4xi32>}}
%0 = simd.dot_i16_i8_quads %acc, %a, %b : vector<2x4xi32>, vector<32xi16>, vector<32xi8>

// -----

// C2: the quads are 1-D vectors
%acc, %a, %b = "test.op"() : () -> (vector<8xi32>, vector<32xi16>, vector<2x16xi8>)
// wide_quads_c2: expected-error@+1 {{a and b must be 1-D vectors, got vector<2x16xi8>}}
%0 = simd.dot_i16_i8_quads %acc, %a, %b : vector<8xi32>, vector<32xi16>, vector<2x16xi8>

// -----

// C3: four lanes of both factors for each of the accumulator
%acc, %a, %b = "test.op"() : () -> (vector<8xi32>, vector<32xi16>, vector<16xi8>)
// wide_quads_c3: expected-error@+1 {{b must have four times the 8 lanes of acc, got 16}}
%0 = simd.dot_i16_i8_quads %acc, %a, %b : vector<8xi32>, vector<32xi16>, vector<16xi8>

// -----

// C2: the bytes of a dot product are 1-D vectors
%acc, %a = "test.op"() : () -> (i32, vector<2x8xi8>)
// dot_of_bytes_c2: expected-error@+1 {{a and b must be 1-D vectors, got vector<2x8xi8>}}
%0 = simd.dot_i8 %acc, %a, %a : vector<2x8xi8>

// -----

// C1: bytes are 1-D vectors
%a, %k = "test.op"() : () -> (vector<2x8xi8>, vector<16xi32>)
// add_bytes_c1: expected-error@+1 {{a and b must be 1-D vectors, got vector<2x8xi8>}}
%0 = simd.add_bytes %a, %a, %k, %k, %k, %k, %k : vector<2x8xi8>, vector<16xi32>

// -----

// C2: the others are 1-D vectors
%a, %k = "test.op"() : () -> (vector<16xi8>, vector<2x8xi32>)
// add_bytes_c2: expected-error@+1 {{weights must be 1-D vectors with the 16 lanes of a, got vector<2x8xi32>}}
%0 = simd.add_bytes %a, %a, %k, %k, %k, %k, %k : vector<16xi8>, vector<2x8xi32>

// -----

// C3: with equally many lanes
%a, %k = "test.op"() : () -> (vector<16xi8>, vector<8xi32>)
// add_bytes_c3: expected-error@+1 {{weights must be 1-D vectors with the 16 lanes of a, got vector<8xi32>}}
%0 = simd.add_bytes %a, %a, %k, %k, %k, %k, %k : vector<16xi8>, vector<8xi32>

// -----

// C1: words are 1-D vectors
%a, %k = "test.op"() : () -> (vector<2x8xi16>, vector<16xi32>)
// add_words_c1: expected-error@+1 {{a and b must be 1-D vectors, got vector<2x8xi16>}}
%0 = simd.add_words %a, %a, %k, %k, %k, %k, %k : vector<2x8xi16>, vector<16xi32>

// -----

// C2: the others are 1-D vectors
%a, %k = "test.op"() : () -> (vector<16xi16>, vector<2x8xi32>)
// add_words_c2: expected-error@+1 {{weights must be 1-D vectors with the 16 lanes of a, got vector<2x8xi32>}}
%0 = simd.add_words %a, %a, %k, %k, %k, %k, %k : vector<16xi16>, vector<2x8xi32>

// -----

// C3: with equally many lanes
%a, %k = "test.op"() : () -> (vector<16xi16>, vector<8xi32>)
// add_words_c3: expected-error@+1 {{weights must be 1-D vectors with the 16 lanes of a, got vector<8xi32>}}
%0 = simd.add_words %a, %a, %k, %k, %k, %k, %k : vector<16xi16>, vector<8xi32>

// RUN: qmlir-opt %s | qmlir-opt | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

func.func @f(%acc: vector<8xi32>, %a: vector<16xi16>, %b: vector<16xi16>, %q: vector<8xi32>, %s: vector<8xi32>) -> vector<8xi32> {
  %0 = simd.dot_i16_pairs %acc, %a, %b : vector<8xi32>, vector<16xi16>
  %1 = simd.mul_shift_round %0, %q, %s : vector<8xi32>
  %2 = simd.mul_add_shift_round %0, %q, %1, %s, %s : vector<8xi32>
  %3 = simd.mul_shift_round %2, %q, %s, %0 : vector<8xi32>
  %4 = simd.mul_shift_round %3, %q, %s drops_33 : vector<8xi32>
  %5 = simd.mul_shift_round %4, %q, %s, %0 drops_33 : vector<8xi32>
  func.return %5 : vector<8xi32>
}

func.func @bytes(%acc: vector<8xi32>, %x: vector<32xi8>, %places: vector<32xi8>, %w: vector<32xi8>) -> vector<8xi32> {
  %0 = simd.permute_bytes %x, %places : vector<32xi8>
  %1 = simd.dot_u8_i8_quads %acc, %0, %w : vector<8xi32>, vector<32xi8>
  %2 = simd.dot_u8_i8_quads %1, %0, %w pairs_fit : vector<8xi32>, vector<32xi8>
  %3 = simd.dot_i8_quads %2, %x, %w : vector<8xi32>, vector<32xi8>
  func.return %3 : vector<8xi32>
}

func.func @wide(%acc: vector<8xi32>, %x: vector<32xi16>, %w: vector<32xi8>) -> vector<8xi32> {
  %0 = simd.dot_i16_i8_quads %acc, %x, %w : vector<8xi32>, vector<32xi16>, vector<32xi8>
  func.return %0 : vector<8xi32>
}

func.func @dot(%acc: i32, %a: vector<16xi8>, %b: vector<16xi8>) -> i32 {
  %0 = simd.dot_i8 %acc, %a, %b : vector<16xi8>
  func.return %0 : i32
}

func.func @table(%table: vector<256xi8>, %places: vector<32xi8>) -> vector<32xi8> {
  %0 = simd.lookup_bytes %table, %places : vector<256xi8>, vector<32xi8>
  func.return %0 : vector<32xi8>
}

func.func @sum(%a: vector<16xi8>, %b: vector<16xi8>, %w: vector<16xi32>, %k: vector<16xi32>) -> vector<16xi8> {
  %0 = simd.add_bytes %a, %b, %w, %w, %k, %k, %k : vector<16xi8>, vector<16xi32>
  func.return %0 : vector<16xi8>
}

func.func @sum_of_words(%a: vector<16xi16>, %b: vector<16xi16>, %w: vector<16xi32>, %k: vector<16xi32>) -> vector<16xi16> {
  %0 = simd.add_words %a, %b, %w, %w, %k, %k, %k : vector<16xi16>, vector<16xi32>
  func.return %0 : vector<16xi16>
}

// CHECK: %0 = simd.dot_i16_pairs %acc, %a, %b : vector<8xi32>, vector<16xi16>
// CHECK-NEXT: %1 = simd.mul_shift_round %0, %q, %s : vector<8xi32>
// CHECK-NEXT: %2 = simd.mul_add_shift_round %0, %q, %1, %s, %s : vector<8xi32>
// CHECK-NEXT: %3 = simd.mul_shift_round %2, %q, %s, %0 : vector<8xi32>
// CHECK-NEXT: %4 = simd.mul_shift_round %3, %q, %s drops_33 : vector<8xi32>
// CHECK-NEXT: %5 = simd.mul_shift_round %4, %q, %s, %0 drops_33 : vector<8xi32>

// CHECK: %0 = simd.permute_bytes %x, %places : vector<32xi8>
// CHECK-NEXT: %1 = simd.dot_u8_i8_quads %acc, %0, %w : vector<8xi32>, vector<32xi8>
// CHECK-NEXT: %2 = simd.dot_u8_i8_quads %1, %0, %w pairs_fit : vector<8xi32>, vector<32xi8>
// CHECK-NEXT: %3 = simd.dot_i8_quads %2, %x, %w : vector<8xi32>, vector<32xi8>

// CHECK: %0 = simd.dot_i16_i8_quads %acc, %x, %w : vector<8xi32>, vector<32xi16>, vector<32xi8>

// CHECK: %0 = simd.dot_i8 %acc, %a, %b : vector<16xi8>

// CHECK: %0 = simd.lookup_bytes %table, %places : vector<256xi8>, vector<32xi8>

// CHECK: %0 = simd.add_bytes %a, %b, %w, %w, %k, %k, %k : vector<16xi8>, vector<16xi32>

// CHECK: %0 = simd.add_words %a, %b, %w, %w, %k, %k, %k : vector<16xi16>, vector<16xi32>

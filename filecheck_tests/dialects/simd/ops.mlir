// RUN: qmlir-opt %s | qmlir-opt | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

func.func @f(%acc: vector<8xi32>, %a: vector<16xi16>, %b: vector<16xi16>, %q: vector<8xi32>, %s: vector<8xi32>) -> vector<8xi32> {
  %0 = simd.dot_i16_pairs %acc, %a, %b : vector<8xi32>, vector<16xi16>
  %1 = simd.mul_shift_round %0, %q, %s : vector<8xi32>
  %2 = simd.mul_add_shift_round %0, %q, %1, %s, %s : vector<8xi32>
  func.return %2 : vector<8xi32>
}

// CHECK: %0 = simd.dot_i16_pairs %acc, %a, %b : vector<8xi32>, vector<16xi16>
// CHECK-NEXT: %1 = simd.mul_shift_round %0, %q, %s : vector<8xi32>
// CHECK-NEXT: %2 = simd.mul_add_shift_round %0, %q, %1, %s, %s : vector<8xi32>

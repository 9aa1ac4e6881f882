// RUN: qmlir-opt --loops-to-llvm %s | filecheck --check-prefix=PORTABLE %s
// RUN: qmlir-opt --loops-to-llvm="features=+neon" %s | filecheck %s
// RUN: qmlir-opt --loops-to-llvm="features=+neon,+dotprod" %s | filecheck --check-prefix=DOT %s
// RUN: qmlir-opt --loops-to-llvm="features=+neon,+dotprod,+i8mm" %s | filecheck --check-prefix=I8MM %s

// Nothing of another processor is called.
// PORTABLE-NOT: llvm.aarch64
// CHECK-NOT: llvm.x86
// DOT-NOT: llvm.x86
// I8MM-NOT: llvm.x86

// Products are added to the sums one by one (smlal): of the even lanes, then of the odd lanes.
func.func private @pairs(%acc: vector<8xi32>, %a: vector<16xi16>, %b: vector<16xi16>) -> vector<8xi32> {
  %0 = simd.dot_i16_pairs %acc, %a, %b : vector<8xi32>, vector<16xi16>
  func.return %0 : vector<8xi32>
}

// CHECK-LABEL: @pairs
// CHECK-COUNT-2: llvm.shufflevector {{.*}} [0, 2, 4, 6, 8, 10, 12, 14]
// CHECK: [[P0:%.*]] = llvm.call_intrinsic "llvm.aarch64.neon.smull.v4i32"
// CHECK-NEXT: llvm.add %{{.*}}, [[P0]] : vector<4xi32>
// CHECK: [[P1:%.*]] = llvm.call_intrinsic "llvm.aarch64.neon.smull.v4i32"
// CHECK-NEXT: llvm.add %{{.*}}, [[P1]] : vector<4xi32>
// CHECK-COUNT-2: llvm.shufflevector {{.*}} [1, 3, 5, 7, 9, 11, 13, 15]
// CHECK-COUNT-2: llvm.call_intrinsic "llvm.aarch64.neon.smull.v4i32"
// CHECK-NOT: smull
// CHECK: llvm.return

func.func private @four_pairs(%acc: vector<4xi32>, %a: vector<8xi16>, %b: vector<8xi16>) -> vector<4xi32> {
  %0 = simd.dot_i16_pairs %acc, %a, %b : vector<4xi32>, vector<8xi16>
  func.return %0 : vector<4xi32>
}

// CHECK-LABEL: @four_pairs
// CHECK-COUNT-2: llvm.call_intrinsic "llvm.aarch64.neon.smull.v4i32"
// CHECK: llvm.return

// Other numbers of lanes have the portable form, whose products are added one by one, too.
func.func private @three_pairs(%acc: vector<3xi32>, %a: vector<6xi16>, %b: vector<6xi16>) -> vector<3xi32> {
  %0 = simd.dot_i16_pairs %acc, %a, %b : vector<3xi32>, vector<6xi16>
  func.return %0 : vector<3xi32>
}

// CHECK-LABEL: @three_pairs
// CHECK: [[P0:%.*]] = llvm.mul
// CHECK-NEXT: [[S0:%.*]] = llvm.add %{{.*}}, [[P0]] : vector<3xi32>
// CHECK: [[P1:%.*]] = llvm.mul
// CHECK-NEXT: llvm.add [[S0]], [[P1]] : vector<3xi32>
// CHECK: llvm.return

// Without usdot: data minus 128 by sdot, and 128 times the sums of the weights, which do not depend on the data.
func.func private @quads(%w: memref<64xi8>, %x: memref<128xi8>, %y: memref<32xi32>) {
  %0 = arith.constant 0 : index
  %64 = arith.constant 64 : index
  %16 = arith.constant 16 : index
  %zero = arith.constant dense<0> : vector<16xi32>
  %b = vector.load %w[%0] : memref<64xi8>, vector<64xi8>
  %a0 = vector.load %x[%0] : memref<128xi8>, vector<64xi8>
  %a1 = vector.load %x[%64] : memref<128xi8>, vector<64xi8>
  %s0 = simd.dot_u8_i8_quads %zero, %a0, %b : vector<16xi32>, vector<64xi8>
  %s1 = simd.dot_u8_i8_quads %zero, %a1, %b pairs_fit : vector<16xi32>, vector<64xi8>
  vector.store %s0, %y[%0] : memref<32xi32>, vector<16xi32>
  vector.store %s1, %y[%16] : memref<32xi32>, vector<16xi32>
  func.return
}

// CHECK-LABEL: @quads
// CHECK: llvm.zext {{.*}} : vector<64xi8> to vector<64xi16>
// CHECK: llvm.sext {{.*}} : vector<64xi8> to vector<64xi16>
// CHECK-COUNT-4: llvm.mul {{.*}} : vector<16xi32>
// CHECK-NOT: llvm.aarch64
// CHECK: llvm.return

// DOT-LABEL: @quads
// DOT: [[B:%.*]] = llvm.load {{.*}} -> vector<64xi8>
// DOT-COUNT-4: "llvm.aarch64.neon.sdot.v4i32.v16i8"
// DOT: [[C:%.*]] = llvm.shl {{.*}} : vector<16xi32>
// DOT: llvm.xor {{.*}} : vector<64xi8>
// DOT-COUNT-4: "llvm.aarch64.neon.sdot.v4i32.v16i8"
// DOT: llvm.add {{.*}}, [[C]] : vector<16xi32>
// DOT: llvm.xor {{.*}} : vector<64xi8>
// DOT-COUNT-4: "llvm.aarch64.neon.sdot.v4i32.v16i8"
// DOT-NEXT: llvm.shufflevector
// DOT: llvm.add {{.*}}, [[C]] : vector<16xi32>
// DOT-NOT: "llvm.aarch64.neon.sdot
// DOT: llvm.return

// I8MM-LABEL: @quads
// I8MM-COUNT-8: "llvm.aarch64.neon.usdot.v4i32.v16i8"
// I8MM-NOT: dot
// I8MM: llvm.return

func.func private @signed_quads(%acc: vector<2xi32>, %a: vector<8xi8>, %b: vector<8xi8>) -> vector<2xi32> {
  %0 = simd.dot_i8_quads %acc, %a, %b : vector<2xi32>, vector<8xi8>
  func.return %0 : vector<2xi32>
}

// PORTABLE-LABEL: @signed_quads
// PORTABLE-COUNT-4: llvm.mul {{.*}} : vector<2xi32>
// CHECK-LABEL: @signed_quads
// CHECK-COUNT-4: llvm.mul {{.*}} : vector<2xi32>
// DOT-LABEL: @signed_quads
// DOT: llvm.call_intrinsic "llvm.aarch64.neon.sdot.v2i32.v8i8"({{.*}}) : (vector<2xi32>, vector<8xi8>, vector<8xi8>) -> vector<2xi32>
// I8MM-LABEL: @signed_quads
// I8MM: "llvm.aarch64.neon.sdot.v2i32.v8i8"

// A register that no instruction fills takes the portable form.
func.func private @three(%acc: vector<3xi32>, %a: vector<12xi8>, %b: vector<12xi8>) -> vector<3xi32> {
  %0 = simd.dot_u8_i8_quads %acc, %a, %b : vector<3xi32>, vector<12xi8>
  func.return %0 : vector<3xi32>
}

// DOT-LABEL: @three
// DOT-NOT: llvm.aarch64
// DOT-COUNT-4: llvm.mul {{.*}} : vector<3xi32>
// I8MM-LABEL: @three
// I8MM-NOT: llvm.aarch64
// I8MM: llvm.return

// Two products of 64 bits at a time, rounded by a shift to the left by a negative number.
func.func private @rescale(%a: vector<4xi32>, %m: vector<4xi32>, %s: vector<4xi32>) -> vector<4xi32> {
  %0 = simd.mul_shift_round %a, %m, %s : vector<4xi32>
  func.return %0 : vector<4xi32>
}

// CHECK-LABEL: @rescale
// CHECK: llvm.sub {{.*}} : vector<4xi32>
// CHECK: llvm.sext {{.*}} : vector<4xi32> to vector<4xi64>
// CHECK: llvm.mul {{.*}} : vector<2xi64>
// CHECK-NEXT: "llvm.aarch64.neon.srshl.v2i64"
// CHECK-NEXT: llvm.trunc {{.*}} : vector<2xi64> to vector<2xi32>
// CHECK: llvm.mul {{.*}} : vector<2xi64>
// CHECK-NEXT: "llvm.aarch64.neon.srshl.v2i64"

// The instruction rounds; the offset is added behind it.
func.func private @rescale_to_zero_point(%a: vector<4xi32>, %m: vector<4xi32>, %s: vector<4xi32>, %o: vector<4xi32>) -> vector<4xi32> {
  %0 = simd.mul_shift_round %a, %m, %s, %o : vector<4xi32>
  func.return %0 : vector<4xi32>
}

// CHECK-LABEL: @rescale_to_zero_point
// CHECK: "llvm.aarch64.neon.srshl.v2i64"
// CHECK: "llvm.aarch64.neon.srshl.v2i64"
// CHECK: llvm.add {{.*}}, %{{.*}} : vector<4xi32>

func.func private @rescale_two(%a: vector<2xi32>, %p: vector<2xi32>, %b: vector<2xi32>, %q: vector<2xi32>, %s: vector<2xi32>) -> vector<2xi32> {
  %0 = simd.mul_add_shift_round %a, %p, %b, %q, %s : vector<2xi32>
  func.return %0 : vector<2xi32>
}

// CHECK-LABEL: @rescale_two
// CHECK-COUNT-2: llvm.mul {{.*}} : vector<2xi64>
// CHECK-NEXT: llvm.add {{.*}} : vector<2xi64>
// CHECK-NEXT: "llvm.aarch64.neon.srshl.v2i64"

func.func private @sum(%a: vector<8xi8>, %w: vector<8xi32>) -> vector<8xi8> {
  %0 = simd.add_bytes %a, %a, %w, %w, %w, %w, %w : vector<8xi8>, vector<8xi32>
  func.return %0 : vector<8xi8>
}

// CHECK-LABEL: @sum
// CHECK: llvm.zext {{.*}} : vector<8xi8> to vector<8xi32>
// CHECK-COUNT-8: "llvm.aarch64.neon.smull.v4i32"
// CHECK: "llvm.smin.v8i32"

func.func private @permute(%x: vector<32xi8>, %y: vector<8xi8>) -> vector<8xi8> {
  %0 = simd.permute_bytes %x, %x : vector<32xi8>
  %1 = vector.shuffle %0, %0 [0, 1, 2, 3, 4, 5, 6, 7] : vector<32xi8>, vector<32xi8>
  %2 = simd.permute_bytes %1, %y : vector<8xi8>
  func.return %2 : vector<8xi8>
}

// CHECK-LABEL: @permute
// CHECK-COUNT-3: "llvm.aarch64.neon.tbl1.v16i8"

func.func private @lookup(%table: vector<256xi8>, %places: vector<16xi8>) -> vector<16xi8> {
  %0 = simd.lookup_bytes %table, %places : vector<256xi8>, vector<16xi8>
  func.return %0 : vector<16xi8>
}

// CHECK-LABEL: @lookup
// CHECK-COUNT-4: "llvm.aarch64.neon.tbl4.v16i8"

func.func private @lookup_few(%table: vector<32xi8>, %places: vector<16xi8>) -> vector<16xi8> {
  %0 = simd.lookup_bytes %table, %places : vector<32xi8>, vector<16xi8>
  func.return %0 : vector<16xi8>
}

// CHECK-LABEL: @lookup_few
// CHECK: "llvm.aarch64.neon.tbl2.v16i8"
// CHECK-NEXT: llvm.return

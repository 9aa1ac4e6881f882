// RUN: qmlir-opt --loops-to-llvm %s | filecheck %s
// RUN: qmlir-opt --loops-to-llvm="features=+avx2,+sse2" %s | filecheck --check-prefix=AVX2 %s
// RUN: qmlir-opt --loops-to-llvm="features=+avx512bw,+avx2,+sse2" %s | filecheck --check-prefix=AVX512 %s
// RUN: qmlir-opt --loops-to-llvm="features=+avx512vnni,+avx512bw,+avx2,+sse2" %s | filecheck --check-prefix=VNNI %s
// RUN: qmlir-opt --loops-to-llvm="features=+avx512vbmi,+avx512bw,+avx2,+sse2" %s | filecheck --check-prefix=VBMI %s
// RUN: qmlir-opt --loops-to-llvm="features=+simd128" %s | filecheck --check-prefix=WASM %s
// RUN: qmlir-opt --loops-to-llvm="features=+thumb2,+mve" %s | filecheck --check-prefix=MVE %s

func.func private @dot(%acc: vector<16xi32>, %a: vector<32xi16>, %b: vector<32xi16>) -> vector<16xi32> {
  %0 = simd.dot_i16_pairs %acc, %a, %b : vector<16xi32>, vector<32xi16>
  func.return %0 : vector<16xi32>
}

// CHECK: [[A0:%.*]] = llvm.shufflevector [[A:%.*]], [[A]] [0, 2, 4, 6
// CHECK-NEXT: llvm.sext [[A0]] : vector<16xi16> to vector<16xi32>
// CHECK: llvm.shufflevector [[A]], [[A]] [1, 3, 5, 7
// CHECK: llvm.mul
// CHECK-NOT: intrinsic
// CHECK: llvm.return

// AVX2: llvm.shufflevector [[A:%.*]], [[A]] [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15]
// AVX2: [[LOW:%.*]] = llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// AVX2: [[HIGH:%.*]] = llvm.call_intrinsic "llvm.x86.avx2.pmadd.wd"
// AVX2-NEXT: [[BOTH:%.*]] = llvm.shufflevector [[LOW]], [[HIGH]] [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15] : vector<8xi32>
// AVX2-NEXT: llvm.add %{{.*}}, [[BOTH]] : vector<16xi32>

// AVX512: [[P:%.*]] = llvm.call_intrinsic "llvm.x86.avx512.pmaddw.d.512"(%{{.*}}, %{{.*}}) : (vector<32xi16>, vector<32xi16>) -> vector<16xi32>
// AVX512-NEXT: llvm.add %{{.*}}, [[P]] : vector<16xi32>

// What is computed from factors and shifts alone stands behind them, once, and not in the loop.
func.func private @rescale(%x: memref<64xi32>, %m: memref<4xi32>, %s: memref<4xi32>, %y: memref<64xi32>) {
  %0 = arith.constant 0 : index
  %4 = arith.constant 4 : index
  %64 = arith.constant 64 : index
  %multiplier = vector.load %m[%0] : memref<4xi32>, vector<4xi32>
  %shift = vector.load %s[%0] : memref<4xi32>, vector<4xi32>
  scf.for %i = %0 to %64 step %4 {
    %a = vector.load %x[%i] : memref<64xi32>, vector<4xi32>
    %b = simd.mul_shift_round %a, %multiplier, %shift : vector<4xi32>
    %c = simd.mul_shift_round %b, %multiplier, %shift : vector<4xi32>
    vector.store %c, %y[%i] : memref<64xi32>, vector<4xi32>
  }
  func.return
}

// CHECK-LABEL: llvm.func internal @rescale
// CHECK: [[M:%.*]] = llvm.load {{.*}} -> vector<4xi32>
// CHECK: llvm.shufflevector [[M]], [[M]] [1, 1, 3, 3] : vector<4xi32>
// CHECK: [[S:%.*]] = llvm.load {{.*}} -> vector<4xi32>
// CHECK: [[DROP:%.*]] = llvm.sub {{.*}}, [[S]] : vector<4xi32>
// CHECK: llvm.shufflevector [[DROP]], [[DROP]] [1, 1, 3, 3] : vector<4xi32>
// CHECK: llvm.icmp
// CHECK-NOT: llvm.shufflevector
// CHECK-COUNT-4: llvm.mul {{.*}} : vector<2xi64>
// CHECK-NOT: llvm.mul {{.*}} : vector<2xi64>
// CHECK: llvm.return

// An offset becomes a part of the number that is added for rounding, which is computed once, and not in the loop.
func.func private @offset(%x: memref<64xi32>, %p: memref<4xi32>, %y: memref<64xi32>) {
  %0 = arith.constant 0 : index
  %4 = arith.constant 4 : index
  %64 = arith.constant 64 : index
  %multiplier = vector.load %p[%0] : memref<4xi32>, vector<4xi32>
  %shift = vector.load %p[%0] : memref<4xi32>, vector<4xi32>
  %offset = vector.load %p[%0] : memref<4xi32>, vector<4xi32>
  scf.for %i = %0 to %64 step %4 {
    %a = vector.load %x[%i] : memref<64xi32>, vector<4xi32>
    %b = simd.mul_shift_round %a, %multiplier, %shift, %offset : vector<4xi32>
    vector.store %b, %y[%i] : memref<64xi32>, vector<4xi32>
  }
  func.return
}

// CHECK-LABEL: llvm.func internal @offset
// CHECK: llvm.load
// CHECK: llvm.load
// CHECK: [[O:%.*]] = llvm.load {{.*}} -> vector<4xi32>
// CHECK: llvm.bitcast [[O]]
// CHECK: llvm.shl {{.*}} : vector<2xi64>
// CHECK: llvm.icmp
// CHECK-COUNT-2: llvm.mul {{.*}} : vector<2xi64>
// CHECK: llvm.ashr {{.*}} : vector<4xi32>
// CHECK-NEXT: llvm.getelementptr
// CHECK: llvm.return

// With 33 bits dropped, the number is added once to the high halves of the products.
func.func private @high(%x: memref<64xi32>, %p: memref<4xi32>, %y: memref<64xi32>) {
  %0 = arith.constant 0 : index
  %4 = arith.constant 4 : index
  %64 = arith.constant 64 : index
  %multiplier = vector.load %p[%0] : memref<4xi32>, vector<4xi32>
  %shift = vector.load %p[%0] : memref<4xi32>, vector<4xi32>
  %offset = vector.load %p[%0] : memref<4xi32>, vector<4xi32>
  scf.for %i = %0 to %64 step %4 {
    %a = vector.load %x[%i] : memref<64xi32>, vector<4xi32>
    %b = simd.mul_shift_round %a, %multiplier, %shift, %offset drops_33 : vector<4xi32>
    vector.store %b, %y[%i] : memref<64xi32>, vector<4xi32>
  }
  func.return
}

// CHECK-LABEL: llvm.func internal @high
// CHECK: [[O:%.*]] = llvm.load {{.*}} -> vector<4xi32>
// CHECK: llvm.shl {{.*}} : vector<4xi32>
// CHECK: llvm.icmp
// CHECK-NOT: llvm.add {{.*}} : vector<2xi64>
// CHECK-COUNT-2: llvm.mul {{.*}} : vector<2xi64>
// CHECK: llvm.add {{.*}} : vector<4xi32>
// CHECK: llvm.ashr {{.*}} : vector<4xi32>


// The bytes of quads: one instruction with VNNI; sums of pairs that do not saturate only where they are said to fit.
func.func private @quads(%acc: vector<16xi32>, %a: vector<64xi8>, %b: vector<64xi8>) -> vector<16xi32> {
  %0 = simd.dot_u8_i8_quads %acc, %a, %b pairs_fit : vector<16xi32>, vector<64xi8>
  func.return %0 : vector<16xi32>
}

func.func private @any_quads(%acc: vector<16xi32>, %a: vector<64xi8>, %b: vector<64xi8>) -> vector<16xi32> {
  %0 = simd.dot_u8_i8_quads %acc, %a, %b : vector<16xi32>, vector<64xi8>
  func.return %0 : vector<16xi32>
}

// CHECK-LABEL: @quads
// CHECK-COUNT-4: llvm.zext {{.*}} : vector<16xi8> to vector<16xi32>
// CHECK: llvm.return

// AVX2-LABEL: @quads
// AVX2-COUNT-2: "llvm.x86.avx2.pmadd.ub.sw"(%{{.*}}, %{{.*}}) : (vector<32xi8>, vector<32xi8>) -> vector<16xi16>
// AVX2-COUNT-2: "llvm.x86.avx2.pmadd.wd"
// AVX2: llvm.return

// AVX2-LABEL: @any_quads
// AVX2-NOT: pmadd.ub.sw
// AVX2: llvm.return

// VNNI-LABEL: @quads
// VNNI: "llvm.x86.avx512.vpdpbusd.512"(%{{.*}}, %{{.*}}, %{{.*}}) : (vector<16xi32>, vector<16xi32>, vector<16xi32>)
// VNNI-LABEL: @any_quads
// VNNI: "llvm.x86.avx512.vpdpbusd.512"

func.func private @permute(%x: vector<32xi8>, %places: vector<32xi8>) -> vector<32xi8> {
  %0 = simd.permute_bytes %x, %places : vector<32xi8>
  func.return %0 : vector<32xi8>
}

// CHECK-LABEL: @permute
// CHECK-COUNT-32: llvm.insertelement
// AVX2-LABEL: @permute
// AVX2: llvm.call_intrinsic "llvm.x86.avx2.pshuf.b"

func.func private @lookup(%table: vector<256xi8>, %places: vector<64xi8>) -> vector<64xi8> {
  %0 = simd.lookup_bytes %table, %places : vector<256xi8>, vector<64xi8>
  func.return %0 : vector<64xi8>
}

// CHECK-LABEL: @lookup
// CHECK-COUNT-64: llvm.insertelement
// AVX2-LABEL: @lookup
// AVX2: llvm.call_intrinsic "llvm.x86.avx2.pshuf.b"
// AVX2: llvm.call_intrinsic "llvm.ssub.sat.v32i8"
// VBMI-LABEL: @lookup
// VBMI-COUNT-2: "llvm.x86.avx512.vpermi2var.qi.512"
// VBMI: llvm.icmp "slt"
// VBMI-NEXT: llvm.select

// A table of 32 entries is two rows, or one register of which places take entries without a choice.
func.func private @lookup_few(%table: vector<32xi8>, %places: vector<32xi8>) -> vector<32xi8> {
  %0 = simd.lookup_bytes %table, %places : vector<32xi8>, vector<32xi8>
  func.return %0 : vector<32xi8>
}

// CHECK-LABEL: @lookup_few
// CHECK-COUNT-32: llvm.insertelement
// AVX2-LABEL: @lookup_few
// AVX2-COUNT-2: "llvm.x86.avx2.pshuf.b"
// AVX2-NOT: "llvm.x86.avx2.pshuf.b"
// VBMI-LABEL: @lookup_few
// VBMI: "llvm.x86.avx512.permvar.qi.512"
// VBMI-NEXT: llvm.shufflevector

// A table of 16 entries is one row on every processor that permutes bytes.
func.func private @lookup_row(%table: vector<16xi8>, %places: vector<32xi8>) -> vector<32xi8> {
  %0 = simd.lookup_bytes %table, %places : vector<16xi8>, vector<32xi8>
  func.return %0 : vector<32xi8>
}

// MVE-LABEL: @lookup_few
// MVE: [[SLOT:%.*]] = llvm.alloca
// MVE: llvm.store %{{.*}}, [[SLOT]]
// MVE-COUNT-2: "llvm.arm.mve.vldr.gather.offset.v16i8.p0.v16i8"([[SLOT]]
// WASM-LABEL: @lookup_few
// WASM-COUNT-4: "llvm.wasm.swizzle"
// WASM-LABEL: @lookup_row
// WASM-COUNT-2: "llvm.wasm.swizzle"
// WASM-NOT: llvm.insertelement
// WASM: llvm.return
// AVX2-LABEL: @lookup_row
// AVX2: "llvm.x86.avx2.pshuf.b"
// AVX2-NEXT: llvm.return
// VBMI-LABEL: @lookup_row
// VBMI: "llvm.x86.avx2.pshuf.b"
// VBMI-NEXT: llvm.return

// Bytes of a and b in turn, and then in turn with zeros; what is packed twice is in order again.
func.func private @sum(%a: vector<32xi8>, %b: vector<32xi8>, %w: vector<32xi32>, %k: vector<32xi32>) -> vector<32xi8> {
  %0 = simd.add_bytes %a, %b, %w, %w, %k, %k, %k : vector<32xi8>, vector<32xi32>
  func.return %0 : vector<32xi8>
}

// CHECK-LABEL: @sum
// CHECK: llvm.zext {{.*}} : vector<32xi8> to vector<32xi32>
// CHECK: "llvm.smin.v32i32"
// CHECK: llvm.trunc {{.*}} : vector<32xi32> to vector<32xi8>

// AVX2-LABEL: @sum
// AVX2: [[TURNS:%.*]] = llvm.shufflevector %{{.*}}, %{{.*}} [0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 16, 48
// AVX2-NEXT: llvm.shufflevector [[TURNS]], %{{.*}} [0, 32, 1, 33, 2, 34, 3, 35, 4, 36, 5, 37, 6, 38, 7, 39, 16, 48
// The factors of the first sums.
// AVX2: llvm.shufflevector {{.*}} [0, 1, 2, 3, 16, 17, 18, 19] : vector<32xi32>
// AVX2: "llvm.x86.avx2.pmadd.wd"
// AVX2: "llvm.x86.avx2.packssdw"
// AVX2: "llvm.x86.avx2.packssdw"
// AVX2-NEXT: "llvm.x86.avx2.packsswb"
// AVX512-LABEL: @sum
// AVX512-COUNT-2: "llvm.x86.avx2.packssdw"

// What is packed twice is in order again by one shuffle.
func.func private @saturate(%x: vector<64xi32>) -> vector<64xi8> {
  %0 = simd.saturate_bytes %x : vector<64xi32>, vector<64xi8>
  func.return %0 : vector<64xi8>
}

// CHECK-LABEL: @saturate
// CHECK: "llvm.smax.v64i32"
// CHECK: "llvm.smin.v64i32"
// CHECK: llvm.trunc {{.*}} : vector<64xi32> to vector<64xi8>

// AVX512-LABEL: @saturate
// AVX512-COUNT-2: "llvm.x86.avx512.packssdw.512"
// AVX512-NEXT: [[MIXED:%.*]] = llvm.call_intrinsic "llvm.x86.avx512.packsswb.512"
// AVX512-NEXT: llvm.shufflevector [[MIXED]], [[MIXED]] [0, 1, 2, 3, 16, 17, 18, 19, 32, 33, 34, 35, 48, 49, 50, 51, 4, 5, 6, 7

// Words of a and b in turn; what is packed is in order again.
func.func private @sum_of_words(%a: vector<32xi16>, %b: vector<32xi16>, %w: vector<32xi32>, %k: vector<32xi32>) -> vector<32xi16> {
  %0 = simd.add_words %a, %b, %w, %w, %k, %k, %k : vector<32xi16>, vector<32xi32>
  func.return %0 : vector<32xi16>
}

// CHECK-LABEL: @sum_of_words
// CHECK: "llvm.smin.v32i32"
// CHECK: llvm.trunc {{.*}} : vector<32xi32> to vector<32xi16>

// AVX2-LABEL: @sum_of_words
// AVX2: llvm.shufflevector %{{.*}}, %{{.*}} [0, 16, 1, 17, 2, 18, 3, 19, 8, 24, 9, 25, 10, 26, 11, 27]
// AVX2-COUNT-2: "llvm.x86.avx2.pmadd.wd"
// AVX2: llvm.shufflevector %{{.*}}, %{{.*}} [4, 20, 5, 21, 6, 22, 7, 23, 12, 28, 13, 29, 14, 30, 15, 31]
// AVX2-COUNT-2: "llvm.x86.avx2.pmadd.wd"
// AVX2: "llvm.x86.avx2.packssdw"
// AVX512-LABEL: @sum_of_words
// AVX512-COUNT-4: "llvm.x86.avx512.pmaddw.d.512"
// AVX512: "llvm.x86.avx512.packssdw.512"

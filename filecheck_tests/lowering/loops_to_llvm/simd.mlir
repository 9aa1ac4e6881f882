// RUN: qmlir-opt --loops-to-llvm %s | filecheck %s
// RUN: qmlir-opt --loops-to-llvm="features=+avx2,+sse2" %s | filecheck --check-prefix=AVX2 %s
// RUN: qmlir-opt --loops-to-llvm="features=+avx512bw,+avx2,+sse2" %s | filecheck --check-prefix=AVX512 %s

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

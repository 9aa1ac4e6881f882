// RUN: qmlir-opt --loops-to-llvm="features=+thumb2,+dsp,+mve index-bitwidth=32" %s | filecheck --check-prefix=MVE %s
// RUN: qmlir-opt --loops-to-llvm="features=+avx2" %s | filecheck --check-prefix=AVX2 %s

// Sixteen products of bytes are added to a scalar at once.
func.func private @dot(%acc: i32, %a: vector<16xi8>, %b: vector<16xi8>) -> i32 {
  %0 = simd.dot_i8 %acc, %a, %b : vector<16xi8>
  func.return %0 : i32
}

// MVE-LABEL: @dot
// MVE: llvm.call_intrinsic "llvm.arm.mve.vmldava.v16i8"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (i32, i32, i32, i32, vector<16xi8>, vector<16xi8>) -> i32
// MVE-NEXT: llvm.return
// AVX2-LABEL: @dot
// AVX2: llvm.mul %{{.*}} : vector<16xi32>
// AVX2: llvm.call_intrinsic "llvm.vector.reduce.add.v16i32"
// AVX2: llvm.add %{{.*}} : i32

func.func private @half_a_register(%acc: i32, %a: vector<8xi8>, %b: vector<8xi8>) -> i32 {
  %0 = simd.dot_i8 %acc, %a, %b : vector<8xi8>
  func.return %0 : i32
}

// MVE-LABEL: @half_a_register
// MVE-NOT: vmldava
// MVE: llvm.call_intrinsic "llvm.vector.reduce.add.v8i32"

// The upper halves of products are rounded where the lower halves only carry.
func.func private @by_33(%a: vector<8xi32>, %m: vector<8xi32>, %s: vector<8xi32>, %o: vector<8xi32>) -> vector<8xi32> {
  %0 = simd.mul_shift_round %a, %m, %s, %o drops_33 : vector<8xi32>
  func.return %0 : vector<8xi32>
}

// MVE-LABEL: @by_33
// MVE: %[[LEFT:.*]] = llvm.add %{{.*}} : vector<8xi32>
// MVE-COUNT-2: llvm.call_intrinsic "llvm.arm.mve.vshl.vector.v4i32.v4i32"
// MVE: llvm.add %{{.*}} : vector<8xi32>
// MVE-NEXT: llvm.return

func.func private @by_any(%a: vector<4xi32>, %m: vector<4xi32>, %s: vector<4xi32>) -> vector<4xi32> {
  %0 = simd.mul_shift_round %a, %m, %s : vector<4xi32>
  func.return %0 : vector<4xi32>
}

// MVE-LABEL: @by_any
// MVE-NOT: llvm.arm.mve
// MVE: llvm.return

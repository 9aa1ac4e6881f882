// RUN: qmlir-opt --loops-to-llvm="features=+sse2" %s | filecheck %s
// RUN: qmlir-opt --loops-to-llvm="features=+sse2,+avx2" %s | filecheck --check-prefix=WIDE %s
// RUN: qmlir-opt --loops-to-llvm %s | filecheck --check-prefix=WIDE %s

// Lanes of 32 bits that are shifted by distances of their own become lanes of 64 bits on x86 without AVX2: LLVM would
// compute the powers of two by conversions from floats.
// CHECK-LABEL: @own
// CHECK: [[X:%.*]] = llvm.zext %{{.*}} : vector<4xi32> to vector<4xi64>
// CHECK-NEXT: [[BY:%.*]] = llvm.zext %{{.*}} : vector<4xi32> to vector<4xi64>
// CHECK-NEXT: [[Y:%.*]] = llvm.shl [[X]], [[BY]] : vector<4xi64>
// CHECK-NEXT: llvm.trunc [[Y]] : vector<4xi64> to vector<4xi32>
// WIDE-LABEL: @own
// WIDE-NEXT: llvm.shl %{{.*}}, %{{.*}} : vector<4xi32>
func.func private @own(%x: vector<4xi32>, %by: vector<4xi32>) -> vector<4xi32> {
  %0 = arith.shli %x, %by : vector<4xi32>
  func.return %0 : vector<4xi32>
}

// One distance of all lanes takes an instruction.
// CHECK-LABEL: @one
// CHECK-NOT: llvm.zext
// CHECK: llvm.shl %{{.*}}, %{{.*}} : vector<4xi32>
func.func private @one(%x: vector<4xi32>) -> vector<4xi32> {
  %by = arith.constant dense<3> : vector<4xi32>
  %0 = arith.shli %x, %by : vector<4xi32>
  func.return %0 : vector<4xi32>
}

// RUN: qmlir-opt --loops-to-llvm="features=+amx-int8" %s | filecheck %s

// Distances are in bytes; a loop carries a register.
func.func private @product(%x: memref<?xi8>, %w: memref<?xi8>, %bias: memref<?xi32>, %y: memref<?xi32>, %at: index, %apart: index) {
  %0 = arith.constant 0 : index
  %1 = arith.constant 1 : index
  simd.prefetch %w[%at] : memref<?xi8>
  %start = simd.load_matrix %bias[%0], %0 : memref<?xi32>, vector<16x16xi32>
  %sums = scf.for %i = %0 to %at step %1 iter_args(%acc = %start) -> (vector<16x16xi32>) {
    %a = simd.load_matrix %x[%i], %apart : memref<?xi8>, vector<16x24xi8>
    %b = simd.load_matrix %w[%i], %apart : memref<?xi8>, vector<6x64xi8>
    %next = simd.dot_i8_matrices %acc, %a, %b : vector<16x16xi32>, vector<16x24xi8>, vector<6x64xi8>
    scf.yield %next : vector<16x16xi32>
  }
  simd.store_matrix %sums, %y[%at], %apart : vector<16x16xi32>, memref<?xi32>
  func.return
}

// CHECK-LABEL: @product
// CHECK: llvm.call_intrinsic "llvm.prefetch.p0"
// CHECK: [[START:%.*]] = llvm.call_intrinsic "llvm.x86.tileloadd64.internal"({{.*}}) : (i16, i16, !llvm.ptr, i64) -> !llvm.x86_amx
// CHECK: ^{{.*}}([[ACC:%.*]]: !llvm.x86_amx):
// CHECK: "llvm.x86.tileloadd64.internal"
// CHECK: "llvm.x86.tileloadd64.internal"
// CHECK: "llvm.x86.tdpbssd.internal"({{.*}}) : (i16, i16, i16, !llvm.x86_amx, !llvm.x86_amx, !llvm.x86_amx) -> !llvm.x86_amx
// CHECK: [[BYTES:%.*]] = llvm.mul {{.*}} : i64
// CHECK: "llvm.x86.tilestored64.internal"({{.*}}, [[BYTES]], {{.*}}) : (i16, i16, !llvm.ptr, i64, !llvm.x86_amx)

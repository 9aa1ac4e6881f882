// RUN: qmlir-opt --hoist-scratch --split-input-file %s | filecheck %s
// RUN: qmlir-opt --hoist-scratch=least=8 --split-input-file %s | filecheck %s --check-prefix=LEAST
// RUN: qmlir-opt --hoist-scratch --plan-memory --loops-to-llvm --split-input-file %s | filecheck %s --check-prefix=LLVM

// The tile of 2,000 bytes becomes an argument, once for one thread, three times in whole cache lines for three. The few
// bytes of %sums stay on the stack.

// CHECK-LABEL: func.func @main
// CHECK: %[[ONE:.*]] = memref.alloc() {alignment = 64 : i64} : memref<1000xi16>
// CHECK-NEXT: func.call @f(%{{.*}}, %{{.*}}, %[[ONE]], %{{.*}}, %{{.*}}) :
// CHECK: %[[SHARES:.*]] = memref.alloc() {alignment = 64 : i64} : memref<6144xi8>
// CHECK: %[[TILE:.*]] = memref.view %[[SHARES]][%{{.*}}][] : memref<6144xi8> to memref<1000xi16>
// CHECK-NEXT: func.call @f(%{{.*}}, %{{.*}}, %[[TILE]], %{{.*}}, %{{.*}}) {qmlir.threads = 3 : i64}
// CHECK: func.func private @f(%x: memref<64xi8>, %y: memref<64xi8>, %tile: memref<1000xi16>, %begin: index, %end: index)
// CHECK-SAME: qmlir.parallel
// CHECK-SAME: qmlir.scratch = 1 : i64
// CHECK-NEXT: %sums = memref.alloca
// CHECK-NOT: memref.alloca

// From 8 bytes on, none stay there.
// LEAST: func.func private @f(%x: memref<64xi8>, %y: memref<64xi8>, %tile: memref<1000xi16>, %sums: memref<8xi32>,
// LEAST-NOT: memref.alloca
// LEAST: scf.for

// Share s has the tile that begins s times 2,048 bytes behind the first.
// LLVM: llvm.mlir.global external constant @main_arena_size(6144 : i64)
// LLVM-LABEL: llvm.func internal @f.share(%frame: !llvm.ptr, %share: i64, %begin: i64, %end: i64)
// LLVM: %[[BYTES:.*]] = llvm.mlir.constant(2048) : i64
// LLVM: %[[APART:.*]] = llvm.mul %share, %[[BYTES]]
// LLVM-NEXT: %[[OWN:.*]] = llvm.getelementptr inbounds %{{.*}}[%[[APART]]] : (!llvm.ptr, i64) -> !llvm.ptr, i8
// LLVM-NEXT: llvm.call @f(%{{.*}}, %{{.*}}, %[[OWN]], %begin, %end)
func.func @main(%x: memref<64xi8>, %y: memref<64xi8>, %z: memref<64xi8>) attributes {qmlir.inputs = 1 : i64} {
  %none = arith.constant 0 : index
  %all = arith.constant 64 : index
  func.call @f(%x, %y, %none, %all) : (memref<64xi8>, memref<64xi8>, index, index) -> ()
  func.call @f(%x, %z, %none, %all) {qmlir.threads = 3 : i64} : (memref<64xi8>, memref<64xi8>, index, index) -> ()
  func.return
}
func.func private @f(%x: memref<64xi8>, %y: memref<64xi8>, %begin: index, %end: index) attributes {qmlir.parallel} {
  %tile = memref.alloca() {alignment = 64 : i64} : memref<1000xi16>
  %sums = memref.alloca() {alignment = 64 : i64} : memref<8xi32>
  %one = arith.constant 1 : index
  %zero = arith.constant 0 : i16
  %nought = arith.constant 0 : i32
  memref.store %zero, %tile[%begin] : memref<1000xi16>
  memref.store %nought, %sums[%one] : memref<8xi32>
  scf.for %i = %begin to %end step %one {
    %v = memref.load %x[%i] : memref<64xi8>
    memref.store %v, %y[%i] : memref<64xi8>
  }
  func.return
}

// -----

// A kernel that another function than the entry calls keeps its buffers: only the entry's memory is planned.
// CHECK-LABEL: func.func @main
// CHECK-NOT: memref.alloc()
// CHECK: func.func private @f
// CHECK: memref.alloca() {alignment = 64 : i64} : memref<1000xi8>
func.func @main(%y: memref<64xi8>) attributes {qmlir.inputs = 0 : i64} {
  func.call @through(%y) : (memref<64xi8>) -> ()
  func.return
}
func.func private @through(%y: memref<64xi8>) {
  %none = arith.constant 0 : index
  %all = arith.constant 64 : index
  func.call @f(%y, %none, %all) : (memref<64xi8>, index, index) -> ()
  func.return
}
func.func private @f(%y: memref<64xi8>, %begin: index, %end: index) attributes {qmlir.parallel} {
  %tile = memref.alloca() {alignment = 64 : i64} : memref<1000xi8>
  %v = memref.load %tile[%begin] : memref<1000xi8>
  memref.store %v, %y[%begin] : memref<64xi8>
  func.return
}

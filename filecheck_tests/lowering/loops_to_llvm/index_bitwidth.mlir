// RUN: qmlir-opt --plan-memory --loops-to-llvm="index-bitwidth=32" %s | filecheck %s

// An index is an i32, an address has four bytes, and copies count their bytes in 32 bits.
func.func @main(%x: memref<8xi32>, %y: memref<8xi32>)
    attributes {qmlir.inputs = 1 : i64} {
  %zero = arith.constant 0 : index
  %n = arith.constant 8 : index
  func.call @k(%x, %y, %zero, %n) : (memref<8xi32>, memref<8xi32>, index, index) -> ()
  "memref.copy"(%x, %y) : (memref<8xi32>, memref<8xi32>) -> ()
  func.return
}

// CHECK: llvm.func @main
// CHECK: llvm.load %{{.*}} {alignment = 4 : i64
// CHECK: llvm.call @k(%{{.*}}) : (!llvm.ptr, !llvm.ptr, i32, i32) -> ()
// CHECK: llvm.call_intrinsic "llvm.memcpy.p0.p0.i32"

func.func private @k(%x: memref<8xi32>, %y: memref<8xi32>, %begin: index, %end: index) {
  %one = arith.constant 1 : index
  scf.for %i = %begin to %end step %one {
    %v = memref.load %x[%i] : memref<8xi32>
    %j = arith.index_cast %i : index to i32
    %w = arith.addi %v, %j : i32
    memref.store %w, %y[%i] : memref<8xi32>
  }
  func.return
}

// CHECK: llvm.func internal @k(%{{.*}}: !llvm.ptr {{.*}}, %{{.*}}: i32, %{{.*}}: i32)
// CHECK: llvm.getelementptr inbounds %{{.*}}[%{{.*}}] : (!llvm.ptr, i32)
// CHECK-NOT: i64 to i32
// CHECK: llvm.return

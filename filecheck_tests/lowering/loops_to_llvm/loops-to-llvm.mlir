// RUN: qmlir-opt --loops-to-llvm %s | filecheck %s

// A kernel of one loop with a carried value: blocks with arguments, one index for an address, internal linkage.

func.func private @row_sum(%x: memref<8x16xf32>, %y: memref<8xf32>, %begin: index, %end: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %n = arith.constant 16 : index
  %zero = arith.constant 0.0 : f32
  scf.for %i = %begin to %end step %c1 {
    %sum = scf.for %j = %c0 to %n step %c1 iter_args(%s = %zero) -> (f32) {
      %v = memref.load %x[%i, %j] : memref<8x16xf32>
      %t = arith.addf %s, %v : f32
      scf.yield %t : f32
    }
    memref.store %sum, %y[%i] : memref<8xf32>
  }
  func.return
}

// CHECK: llvm.func internal @row_sum([[X:%.*]]: !llvm.ptr {llvm.align = 4 : i64, llvm.readonly}, [[Y:%.*]]: !llvm.ptr {llvm.align = 4 : i64}, [[BEGIN:%.*]]: i64, [[END:%.*]]: i64) attributes {no_unwind, no_inline} {
// CHECK: llvm.br ^[[OUTER:bb.]]([[BEGIN]] : i64)
// CHECK-NEXT: ^[[OUTER]]([[I:%.*]]: i64):
// CHECK-NEXT: [[MORE:%.*]] = llvm.icmp "slt" [[I]], [[END]] : i64
// CHECK-NEXT: llvm.cond_br [[MORE]], ^{{.*}}, ^{{.*}}
// CHECK: ^{{.*}}([[J:%.*]]: i64, [[S:%.*]]: f32):
// CHECK: [[ROW:%.*]] = llvm.mul [[I]], %{{.*}} overflow<nsw> : i64
// CHECK-NEXT: [[INDEX:%.*]] = llvm.add [[ROW]], [[J]] overflow<nsw> : i64
// CHECK-NEXT: [[P:%.*]] = llvm.getelementptr inbounds [[X]][[[INDEX]]] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT: [[V:%.*]] = llvm.load [[P]] {alignment = 4 : i64} : !llvm.ptr -> f32
// CHECK-NEXT: [[T:%.*]] = llvm.fadd [[S]], [[V]] : f32
// CHECK: llvm.store [[S]], %{{.*}} {alignment = 4 : i64} : f32, !llvm.ptr
// CHECK: llvm.return

// A function that kernels call takes rows of elements whose number it does not know.

func.func private @fill(%row: memref<?xf32>, %at: index) attributes {qmlir.inner} {
  %zero = arith.constant 0.0 : f32
  memref.store %zero, %row[%at] : memref<?xf32>
  func.return
}

func.func private @fill_all(%x: memref<8x16xf32>, %begin: index, %end: index) attributes {qmlir.parallel} {
  %flat = memref.reinterpret_cast %x to offset: [0], sizes: [128], strides: [1] : memref<8x16xf32> to memref<128xf32>
  %row = "memref.cast"(%flat) : (memref<128xf32>) -> memref<?xf32>
  func.call @fill(%row, %begin) : (memref<?xf32>, index) -> ()
  func.return
}

// CHECK: llvm.func internal @fill([[ROW:%.*]]: !llvm.ptr {llvm.align = 4 : i64}, [[AT:%.*]]: i64) attributes {no_unwind, no_inline} {
// CHECK: [[P:%.*]] = llvm.getelementptr inbounds [[ROW]][[[AT]]] : (!llvm.ptr, i64) -> !llvm.ptr, f32
// CHECK-NEXT: llvm.store %{{.*}}, [[P]] {alignment = 4 : i64} : f32, !llvm.ptr
// CHECK: llvm.func internal @fill_all([[X:%.*]]: !llvm.ptr {llvm.align = 4 : i64}, [[BEGIN:%.*]]: i64, %{{.*}}: i64)
// CHECK: llvm.call @fill([[X]], [[BEGIN]]) : (!llvm.ptr, i64) -> ()

// RUN: qmlir-opt --plan-memory --loops-to-llvm %s | filecheck %s

// CHECK: builtin.module {

// The entry has the ABI's four pointers. What the plan knows of a kernel's arguments stands on them: %x is the
// caller's, the weights and the arena start on a cache line, and nothing that is written is seen twice.

func.func @main(%x: memref<16xi8>, %y: memref<16xi8>) attributes {qmlir.inputs = 1 : i64} {
  %w = qmlir.constant_buffer <tensor<4xi8>, [1, 2, 3, 4]> : memref<4xi8>
  %a = memref.alloc() {alignment = 64 : i64} : memref<16xi8>
  func.call @apart(%x, %w, %a) : (memref<16xi8>, memref<4xi8>, memref<16xi8>) -> ()
  func.call @in_place(%a, %a) : (memref<16xi8>, memref<16xi8>) -> ()
  func.call @apart(%a, %w, %y) : (memref<16xi8>, memref<4xi8>, memref<16xi8>) -> ()
  func.return
}
func.func private @apart(%x: memref<16xi8>, %w: memref<4xi8>, %y: memref<16xi8>) {
  %c0 = arith.constant 0 : index
  %v = memref.load %x[%c0] : memref<16xi8>
  memref.store %v, %y[%c0] : memref<16xi8>
  func.return
}
func.func private @in_place(%x: memref<16xi8>, %y: memref<16xi8>) {
  %c0 = arith.constant 0 : index
  %v = memref.load %x[%c0] : memref<16xi8>
  memref.store %v, %y[%c0] : memref<16xi8>
  func.return
}

// CHECK: llvm.func @main([[W:%.*]]: !llvm.ptr {llvm.noalias, llvm.align = 64 : i64, llvm.readonly}, [[A:%.*]]: !llvm.ptr {llvm.noalias, llvm.align = 64 : i64}, [[IN:%.*]]: !llvm.ptr {llvm.noalias, llvm.readonly}, [[OUT:%.*]]: !llvm.ptr {llvm.noalias, llvm.readonly}) attributes {no_unwind} {
// CHECK: [[X:%.*]] = llvm.load [[IN]] {alignment = 8 : i64} : !llvm.ptr -> !llvm.ptr
// CHECK-NEXT: [[Y:%.*]] = llvm.load [[OUT]] {alignment = 8 : i64} : !llvm.ptr -> !llvm.ptr
// CHECK-NEXT: llvm.call @apart([[X]], [[W]], [[A]]) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> ()
// CHECK-NEXT: llvm.call @in_place([[A]], [[A]]) : (!llvm.ptr, !llvm.ptr) -> ()
// CHECK-NEXT: llvm.call @apart([[A]], [[W]], [[Y]]) : (!llvm.ptr, !llvm.ptr, !llvm.ptr) -> ()
// CHECK-NEXT: llvm.return

// What it wants of its caller stands beside it.
// CHECK: llvm.mlir.global external constant @main_weights(dense<{{.*}}> : tensor<64xi8>) {addr_space = 0 : i32, alignment = 64 : i64} : !llvm.array<64 x i8>
// CHECK-NEXT: llvm.mlir.global external constant @main_arena_size(64 : i64) {addr_space = 0 : i32} : i64

// CHECK: @apart(%{{.*}}: !llvm.ptr {llvm.align = 1 : i64, llvm.noalias, llvm.readonly}, %{{.*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.noalias, llvm.readonly}, %{{.*}}: !llvm.ptr {llvm.align = 1 : i64, llvm.noalias})
// CHECK: @in_place(%{{.*}}: !llvm.ptr {llvm.align = 64 : i64, llvm.readonly}, %{{.*}}: !llvm.ptr {llvm.align = 64 : i64})

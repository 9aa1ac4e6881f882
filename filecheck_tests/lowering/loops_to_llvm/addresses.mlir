// RUN: qmlir-opt --plan-memory --loops-to-llvm %s | filecheck %s
// RUN: qmlir-opt --plan-memory --loops-to-llvm=index_bitwidth=32 %s | filecheck %s --check-prefix=NARROW

// The address of a buffer is an integer as wide as an index; an external function takes it so.
func.func private @told(index) -> () attributes {qmlir.external}
func.func @main(%x: memref<16xi8>, %y: memref<4x4xf32>) attributes {qmlir.inputs = 1 : i64} {
  %0 = "memref.extract_aligned_pointer_as_index"(%y) : (memref<4x4xf32>) -> index
  func.call @told(%0) : (index) -> ()
  func.return
}

// CHECK:      llvm.load %{{.*}}
// CHECK-NEXT: [[Y:%.*]] = llvm.load %{{.*}} {alignment = 8 : i64} : !llvm.ptr -> !llvm.ptr
// CHECK-NEXT: [[A:%.*]] = llvm.ptrtoint [[Y]] : !llvm.ptr to i64
// CHECK-NEXT: llvm.call @told([[A]]) : (i64) -> ()
// NARROW:     [[B:%.*]] = llvm.ptrtoint %{{.*}} : !llvm.ptr to i32
// NARROW-NEXT: llvm.call @told([[B]]) : (i32) -> ()

// RUN: qmlir-opt --share-items="threads=2" --loops-to-llvm --split-input-file %s | filecheck %s
// RUN: qmlir-opt --loops-to-llvm --split-input-file %s | filecheck %s --check-prefix=ONE

// The entry computes one sample. For a batch, two threads share as many samples as they can evenly, each with an arena
// of its own: 2 times the 3 cache lines that 160 bytes take. The other samples come one after another.
module attributes {qmlir.arena_size = 160 : i64, qmlir.weights_blob = #qmlir.weights<tensor<0xi8>, []>} {
  func.func @net(%weights: memref<0xi8>, %arena: memref<0xi8>, %x: memref<1x4xf32>, %s: memref<4xf32>, %y: memref<1x4xf32>)
      attributes {qmlir.inputs = 2 : i64, qmlir.samples = {most = 8 : i64, inputs = array<i1: true, false>}} {
    "memref.copy"(%x, %y) : (memref<1x4xf32>, memref<1x4xf32>) -> ()
    func.return
  }
}

// CHECK: llvm.func @net(
// CHECK: llvm.mlir.global external constant @net_arena_size(384 : i64)
// CHECK: llvm.func @net_batch(%{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %{{.*}}: !llvm.ptr, %[[N:.*]]: i64)
// CHECK: %[[REST:.*]] = llvm.urem %[[N]], %[[TWO:.*]] : i64
// CHECK: %[[EVEN:.*]] = llvm.sub %[[N]], %[[REST]]
// CHECK: %[[SHARE:.*]] = llvm.mlir.addressof @net_batch.share
// CHECK: llvm.call @qmlir.pool2.run(%[[SHARE]], %[[FRAME:.*]], %[[EVEN]], %[[TWO]])
// CHECK: llvm.call @net_batch.share(%[[FRAME]], %{{.*}}, %[[EVEN]], %[[N]])

// %x and %y are 16 bytes further on for each sample, and %s is where it is.
// CHECK: llvm.func internal @net_batch.share(%[[F:.*]]: !llvm.ptr, %[[S:.*]]: i64, %[[BEGIN:.*]]: i64, %[[END:.*]]: i64)
// CHECK: %[[LINES:.*]] = llvm.mlir.constant(192) : i64
// CHECK: %[[STEP:.*]] = llvm.mlir.constant(16) : i64
// CHECK: llvm.mul %[[S]], %[[LINES]]
// CHECK: ^{{.*}}(%[[I:.*]]: i64):
// CHECK: llvm.icmp "slt" %[[I]], %[[END]]
// CHECK-COUNT-2: llvm.mul %[[I]], %[[STEP]]
// CHECK: llvm.call @net(
// CHECK: llvm.func @qmlir.pool2.run

// ONE: llvm.mlir.global external constant @net_arena_size(160 : i64)
// ONE-NOT: qmlir.pool2.run

// RUN: qmlir-opt --share-items="threads=4 least-work=50" --split-input-file %s | filecheck %s
// RUN: qmlir-opt --share-items --split-input-file %s | filecheck %s --check-prefix=ONE
// RUN: qmlir-opt --plan-memory --share-items="threads=3 least-work=1" --loops-to-llvm --split-input-file %s | filecheck %s --check-prefix=LLVM

// Each item of @copy is 2 operations. 400 items are 800: enough for four shares. 60 items are 120: two shares of 50.
// 24 items are 48: less than a share, so one thread computes them, and one item is never divided.

// ONE-NOT: qmlir.threads

// CHECK-LABEL: func.func @main
// CHECK: func.call @copy(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {qmlir.threads = 4 : i64}
// CHECK: func.call @copy(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {qmlir.threads = 2 : i64}
// CHECK: func.call @copy(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (
// CHECK: func.call @copy(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) : (

// The pool calls back with a frame that holds the arguments, on a range of the items.
// LLVM-LABEL: llvm.func @main
// LLVM: %[[FRAME:.*]] = llvm.alloca
// LLVM: llvm.store %{{.*}}, %[[FRAME]]
// LLVM: %[[SHARE:.*]] = llvm.mlir.addressof @copy.share
// LLVM-NEXT: llvm.call @qmlir.pool2.run(%[[SHARE]], %[[FRAME]], %{{.*}}, %{{.*}}) : (!llvm.ptr, !llvm.ptr, i64, i64) -> ()
// LLVM: llvm.call @copy(
// LLVM: llvm.func internal @copy.share(%frame: !llvm.ptr, %share: i64, %begin: i64, %end: i64)
// LLVM: %[[X:.*]] = llvm.load %frame
// LLVM: %[[Y:.*]] = llvm.load
// LLVM-NEXT: llvm.call @copy(%[[X]], %[[Y]], %begin, %end)
// LLVM: llvm.func @qmlir.pool2.run(!llvm.ptr, !llvm.ptr, i64, i64)

func.func @main(%x: memref<400xi8>, %y: memref<400xi8>) attributes {qmlir.inputs = 1 : i64} {
  %zero = arith.constant 0 : index
  %all = arith.constant 400 : index
  %some = arith.constant 60 : index
  %few = arith.constant 24 : index
  %one = arith.constant 1 : index
  func.call @copy(%x, %y, %zero, %all) : (memref<400xi8>, memref<400xi8>, index, index) -> ()
  func.call @copy(%x, %y, %zero, %some) : (memref<400xi8>, memref<400xi8>, index, index) -> ()
  func.call @copy(%x, %y, %zero, %few) : (memref<400xi8>, memref<400xi8>, index, index) -> ()
  func.call @copy(%x, %y, %zero, %one) : (memref<400xi8>, memref<400xi8>, index, index) -> ()
  func.return
}
func.func private @copy(%x: memref<400xi8>, %y: memref<400xi8>, %begin: index, %end: index) attributes {qmlir.parallel} {
  %one = arith.constant 1 : index
  scf.for %i = %begin to %end step %one {
    %v = memref.load %x[%i] : memref<400xi8>
    memref.store %v, %y[%i] : memref<400xi8>
  }
  func.return
}

// -----

// The bounds of the inner loop are those in the middle of the outer one: 200 trips, of 2 operations, for each of 2 items.
// CHECK-LABEL: func.func @main
// CHECK: func.call @rows(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) {qmlir.threads = 2 : i64}
func.func @main(%x: memref<2x400xi8>, %y: memref<2x400xi8>) attributes {qmlir.inputs = 1 : i64} {
  %zero = arith.constant 0 : index
  %two = arith.constant 2 : index
  func.call @rows(%x, %y, %zero, %two) : (memref<2x400xi8>, memref<2x400xi8>, index, index) -> ()
  func.return
}
func.func private @rows(%x: memref<2x400xi8>, %y: memref<2x400xi8>, %begin: index, %end: index) attributes {qmlir.parallel} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %each = arith.constant 200 : index
  scf.for %i = %begin to %end step %one {
    %last = arith.muli %i, %each : index
    scf.for %j = %zero to %last step %one {
      %v = memref.load %x[%i, %j] : memref<2x400xi8>
      memref.store %v, %y[%i, %j] : memref<2x400xi8>
    }
  }
  func.return
}

// -----

// Not shared: a function without qmlir.parallel, and a range that does not begin at 0.
// CHECK-LABEL: func.func @main
// CHECK-NOT: qmlir.threads
func.func @main(%x: memref<400xi8>, %y: memref<400xi8>) attributes {qmlir.inputs = 1 : i64} {
  %zero = arith.constant 0 : index
  %one = arith.constant 1 : index
  %all = arith.constant 400 : index
  func.call @whole(%x, %y, %zero, %all) : (memref<400xi8>, memref<400xi8>, index, index) -> ()
  func.call @copy(%x, %y, %one, %all) : (memref<400xi8>, memref<400xi8>, index, index) -> ()
  func.return
}
func.func private @whole(%x: memref<400xi8>, %y: memref<400xi8>, %a: index, %b: index) {
  %one = arith.constant 1 : index
  scf.for %i = %a to %b step %one {
    %v = memref.load %x[%i] : memref<400xi8>
    memref.store %v, %y[%i] : memref<400xi8>
  }
  func.return
}
func.func private @copy(%x: memref<400xi8>, %y: memref<400xi8>, %begin: index, %end: index) attributes {qmlir.parallel} {
  %one = arith.constant 1 : index
  scf.for %i = %begin to %end step %one {
    %v = memref.load %x[%i] : memref<400xi8>
    memref.store %v, %y[%i] : memref<400xi8>
  }
  func.return
}

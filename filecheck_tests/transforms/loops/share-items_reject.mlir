// RUN: not qmlir-opt --share-items="threads=0" %s 2>&1 | filecheck %s --check-prefix=NONE
// RUN: not qmlir-opt --share-items="threads=257" %s 2>&1 | filecheck %s --check-prefix=MANY
// RUN: not qmlir-opt --share-items="threads=two" %s 2>&1 | filecheck %s --check-prefix=TEXT
// RUN: not qmlir-opt --share-items="threads=2 least-work=0" %s 2>&1 | filecheck %s --check-prefix=WORK
// RUN: not qmlir-opt --share-items="threads=2" %s 2>&1 | filecheck %s --check-prefix=ENTRY

// NONE: threads: must be a number from 1 to 256, got 0
// MANY: threads: must be a number from 1 to 256, got 257
// TEXT: threads
// TEXT-SAME: two
// WORK: least-work: must be positive, got 0
// ENTRY: share-items: needs one function with the attribute qmlir.inputs, got 0
func.func @main(%x: memref<4xi8>) {
  func.return
}

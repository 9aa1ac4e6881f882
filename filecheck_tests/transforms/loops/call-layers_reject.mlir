// RUN: not qmlir-opt --call-layers %s 2>&1 | filecheck %s
// RUN: not qmlir-opt --call-layers=function=f %s 2>&1 | filecheck %s --check-prefix=TAKEN
// RUN: not qmlir-opt --call-layers=function=a-b %s 2>&1 | filecheck %s --check-prefix=NAME

builtin.module {
  func.func @f(%x: memref<4xf32>) {
    func.return
  }
}

// CHECK: call-layers: needs one function of straight code with the attribute qmlir.inputs, got 0
// TAKEN: call-layers: needs a module without a function f, got one of that name
// NAME: call-layers: function must be an identifier of C, got a-b

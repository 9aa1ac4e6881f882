// RUN: not qmlir-opt --plan-memory %s 2>&1 | filecheck %s

func.func @main() {
  func.return
}

// CHECK: plan-memory: needs one function with the attribute qmlir.inputs, got 0

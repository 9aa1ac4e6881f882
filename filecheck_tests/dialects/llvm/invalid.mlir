// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

llvm.func @lanes(%v: vector<4xf32>) {
  // expected-error@+1 {{as many lanes, got vector<4xf32> and vector<2xi32>}}
  %0 = "llvm.fptosi"(%v) : (vector<4xf32>) -> vector<2xi32>
  llvm.return
}

// -----

llvm.func @scalar(%v: vector<4xf32>) {
  // expected-error@+1 {{as many lanes}}
  %0 = "llvm.fptoui"(%v) : (vector<4xf32>) -> i32
  llvm.return
}

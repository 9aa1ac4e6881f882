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

// -----

llvm.func @compared(%v: vector<4xf32>) {
  // expected-error@+1 {{llvm.fcmp: operands and result must have as many lanes, got vector<4xf32> and i1}}
  %0 = "llvm.fcmp"(%v, %v) <{predicate = 2 : i64}> : (vector<4xf32>, vector<4xf32>) -> i1
  llvm.return
}

// -----

llvm.func @predicate(%x: f32) {
  // expected-error@+1 {{expected a predicate of _false, oeq, ogt, oge, olt, ole, one, ord, ueq, ugt, uge, ult, ule, une, uno, _true, got larger}}
  %0 = llvm.fcmp "larger" %x, %x : f32
  llvm.return
}

// -----

llvm.func @no_predicate(%x: f32) {
  // expected-error@+1 {{there is no predicate 16}}
  %0 = "llvm.fcmp"(%x, %x) <{predicate = 16 : i64}> : (f32, f32) -> i1
  llvm.return
}

// -----

llvm.func @selected(%c: vector<2xi1>, %v: vector<4xf32>) {
  // expected-error@+1 {{conditions and lanes must be as many, got vector<2xi1> and vector<4xf32>}}
  %0 = llvm.select %c, %v, %v : vector<2xi1>, vector<4xf32>
  llvm.return
}

// -----

llvm.func @flags(%x: i32) {
  // expected-error@+1 {{llvm.add: 0 : i32 should be of base attribute llvm.overflow}}
  %0 = "llvm.add"(%x, %x) <{overflowFlags = 0 : i32}> : (i32, i32) -> i32
  llvm.return
}

// The operations that complete xDSL's llvm dialect.

// RUN: qmlir-opt %s | qmlir-opt | filecheck %s

llvm.func @f(%v: vector<4xf32>, %i: i64) {
  // CHECK: llvm.extractelement %v[%i : i64] : vector<4xf32>
  %e = llvm.extractelement %v[%i : i64] : vector<4xf32>
  // CHECK-NEXT: llvm.fptosi %{{.*}} : f32 to i32
  %s = llvm.fptosi %e : f32 to i32
  // CHECK-NEXT: llvm.fptoui %v : vector<4xf32> to vector<4xi8>
  %u = llvm.fptoui %v : vector<4xf32> to vector<4xi8>
  // CHECK-NEXT: llvm.uitofp %{{.*}} : vector<4xi8> to vector<4xf32>
  %w = llvm.uitofp %u : vector<4xi8> to vector<4xf32>
  llvm.return
}

// Overflow flags are upstream's in the generic form too.

// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt --mlir-print-op-generic | filecheck %s --check-prefix=GENERIC

// CHECK-LABEL: llvm.func @overflow
// GENERIC: sym_name = "overflow"
llvm.func @overflow(%a: i32, %v: vector<4xi64>) {
  // CHECK: llvm.add %{{.*}}, %{{.*}} : i32
  // GENERIC: "llvm.add"(%{{.*}}, %{{.*}}) <{overflowFlags = #llvm.overflow<none>}> : (i32, i32) -> i32
  %0 = llvm.add %a, %a : i32
  // CHECK-NEXT: llvm.sub %{{.*}}, %{{.*}} overflow<nsw> : i32
  // GENERIC-NEXT: "llvm.sub"(%{{.*}}, %{{.*}}) <{overflowFlags = #llvm.overflow<nsw>}>
  %1 = llvm.sub %a, %a overflow<nsw> : i32
  // CHECK-NEXT: llvm.mul %{{.*}}, %{{.*}} overflow<nuw> : vector<4xi64>
  // GENERIC-NEXT: "llvm.mul"(%{{.*}}, %{{.*}}) <{overflowFlags = #llvm.overflow<nuw>}>
  %2 = llvm.mul %v, %v overflow<nuw> : vector<4xi64>
  // CHECK-NEXT: llvm.shl %{{.*}}, %{{.*}} {note = "mine"} : i32
  %3 = llvm.shl %a, %a {note = "mine"} : i32
  llvm.return
}

// Comparisons and selections lane by lane.

// CHECK-LABEL: llvm.func @lanes
llvm.func @lanes(%v: vector<4xf32>, %x: f64) {
  // CHECK: llvm.fcmp "ogt" %{{.*}}, %{{.*}} : vector<4xf32>
  // GENERIC: "llvm.fcmp"(%{{.*}}, %{{.*}}) <{predicate = 2 : i64, fastmathFlags = #llvm.fastmath<none>}> : (vector<4xf32>, vector<4xf32>) -> vector<4xi1>
  %c = llvm.fcmp "ogt" %v, %v : vector<4xf32>
  // CHECK-NEXT: llvm.select %{{.*}}, %{{.*}}, %{{.*}} : vector<4xi1>, vector<4xf32>
  %s = llvm.select %c, %v, %v : vector<4xi1>, vector<4xf32>
  // CHECK-NEXT: llvm.fcmp "une" %{{.*}}, %{{.*}} {fastmathFlags = #llvm.fastmath<nnan>} : f64
  %d = llvm.fcmp "une" %x, %x {fastmathFlags = #llvm.fastmath<nnan>} : f64
  // CHECK-NEXT: llvm.select %{{.*}}, %{{.*}}, %{{.*}} : i1, vector<4xf32>
  %t = llvm.select %d, %v, %v : i1, vector<4xf32>
  llvm.return
}

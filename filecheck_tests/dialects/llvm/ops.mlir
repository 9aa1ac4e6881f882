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

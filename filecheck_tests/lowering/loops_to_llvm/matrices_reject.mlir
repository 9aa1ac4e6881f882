// RUN: not qmlir-opt --loops-to-llvm="features=+avx512vnni" %s 2>&1 | filecheck %s

func.func private @product(%x: memref<?xi8>, %at: index) {
  %0 = simd.load_matrix %x[%at], %at : memref<?xi8>, vector<16x64xi8>
  func.return
}

// CHECK: simd.load_matrix "product": needs a matrix unit, got no feature amx-int8; --loops-to-llvm=features=+amx-int8

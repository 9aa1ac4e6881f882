// RUN: qmlir-opt --qint-to-loops --elide-weights --split-input-file %s | filecheck %s
// RUN: qmlir-opt --qint-to-loops="features=+sse2" --elide-weights --split-input-file %s | filecheck %s --check-prefix=SSE2

// Exponentials of words, one after another; on x86 the places of all rows in the table as vectors, and then the entries
// of eight places in a vector.
// CHECK-LABEL: func.func @main
// SSE2-LABEL: func.func @main
func.func @main(%x: tensor<3x8xi16>) -> tensor<3x8xi16> {
  // CHECK: func.call @qint_exponentials_0({{.*}}) : (memref<3x8x1xi16>, memref<4xi16>, memref<3x8x1xi16>, index, index) -> ()
  %y = qint.exponentials %x, <tensor<4xi16>, [32767, 12054, 4434, 0]> {axis = 1 : i64} : tensor<3x8xi16> -> tensor<3x8xi16>
  func.return %y : tensor<3x8xi16>
}
// CHECK: func.func private @qint_exponentials_0
// CHECK-NOT: vector.store
// CHECK: memref.store %{{.*}}, %y

// SSE2: func.func private @qint_exponentials_0
// SSE2: %[[PLACES:.*]] = memref.alloca() {{.*}}: memref<256x8xi16>
// SSE2: arith.subi %{{.*}}, %{{.*}} : vector<8xi16>
// SSE2: %[[PLACE:.*]] = arith.minui %{{.*}}, %{{.*}} : vector<8xi16>
// SSE2: vector.store %[[PLACE]], %[[PLACES]]
// SSE2-COUNT-8: memref.load %[[PLACES]]
// SSE2-COUNT-8: vector.insert {{.*}} : i16 into vector<8xi16>
// SSE2: vector.store %{{.*}}, %y

// -----

// Columns, and bytes, are other kernels.
// SSE2-LABEL: func.func @main
func.func @main(%x: tensor<8x3xi16>, %y: tensor<3x8xi8>) -> (tensor<8x3xi16>, tensor<3x8xi16>) {
  %0 = qint.exponentials %x, <tensor<4xi16>, [32767, 12054, 4434, 0]> {axis = 0 : i64} : tensor<8x3xi16> -> tensor<8x3xi16>
  %1 = qint.exponentials %y, <tensor<4xi16>, [32767, 12054, 4434, 0]> {axis = 1 : i64} : tensor<3x8xi8> -> tensor<3x8xi16>
  func.return %0, %1 : tensor<8x3xi16>, tensor<3x8xi16>
}
// SSE2-NOT: vector.insert

// RUN: qmlir-opt --nn-to-loops %s | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x3x4x5x6xf32>) -> tensor<2x3x2x5x6xf32> {
  // Neighbours that are not resized are one dimension; weights are rounded to the element type.
  // CHECK: %[[T:.*]] = qmlir.constant_buffer <tensor<2x2xi64>, [0, 1, 2, 3]>
  // CHECK: %[[W:.*]] = qmlir.constant_buffer <tensor<2x2xf32>, [0.1, 0.9, 0.5, 0.5]>
  // CHECK: func.call @nn_resize_0({{.*}}, %[[T]], %[[W]], {{.*}}) : (memref<6x4x30xf32>, memref<2x2xi64>, memref<2x2xf32>, memref<6x2x30xf32>, index, index) -> ()
  %0 = nn.resize %x {axes = array<i64: 2>, taps = [#qmlir.weights<tensor<2x2xi64>, [0, 1, 2, 3]>], weights = [#qmlir.weights<tensor<2x2xf64>, [0.1, 0.9, 0.5, 0.5]>]} : tensor<2x3x4x5x6xf32> -> tensor<2x3x2x5x6xf32>
  func.return %0 : tensor<2x3x2x5x6xf32>
}

// CHECK: func.func private @nn_resize_0
// CHECK: vector.load
// CHECK: arith.mulf
// CHECK-NEXT: arith.addf

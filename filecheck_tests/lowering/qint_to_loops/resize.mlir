// RUN: qmlir-opt --qint-to-loops %s | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4x5x16xi8>) -> tensor<1x2x5x16xi32> {
  // CHECK: %[[W:.*]] = qmlir.constant_buffer <tensor<2x2xi32>, [1, 3, 2, 2]>
  // CHECK: func.call @qint_resize_0({{.*}}, %[[W]], {{.*}}) : (memref<1x4x80xi8>, memref<2x2xi64>, memref<2x2xi32>, memref<1x2x80xi32>, index, index) -> ()
  %0 = qint.resize %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<2x2xi64>, [0, 1, 2, 3]>], weights = [#qmlir.weights<tensor<2x2xi32>, [1, 3, 2, 2]>], zero_point = -5 : i32} : tensor<1x4x5x16xi8> -> tensor<1x2x5x16xi32>
  func.return %0 : tensor<1x2x5x16xi32>
}

// CHECK: func.func private @qint_resize_0
// CHECK: arith.extsi
// CHECK: arith.muli

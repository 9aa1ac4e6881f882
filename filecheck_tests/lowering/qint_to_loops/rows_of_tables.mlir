// RUN: qmlir-opt --nn-to-loops --qint-to-loops --split-input-file %s | filecheck %s
// RUN: qmlir-opt --nn-to-loops --split-input-file %s | filecheck %s --check-prefix=LEFT

// A table of which rows are looked up is a layer's weights, too: the look-up waits for the layer, and reads its form.
// CHECK-LABEL: func.func @main
// CHECK: %[[T:.*]] = qmlir.constant_buffer <tensor<1x2x4x2xi8>, [1, 2, 5, 6, 9, 10, 0, 0, 3, 4, 7, 8, 11, 12, 0, 0]>
// CHECK: func.call @nn_gather_packed_0(%[[T]]
// CHECK: qmlir.constant_buffer <tensor<16xi8>, [1, 2, 5, 6, 9, 10, 0, 0, 3, 4, 7, 8, 11, 12, 0, 0]>
// CHECK: func.call @qint_fully_connected_0
// CHECK: func.func private @nn_gather_packed_0(%x: memref<1x2x4x2xi8>, %p1: memref<2xi64>, %y: memref<2x4xi8>
// LEFT: nn.gather
func.func @main(%x: tensor<1x4xi8>, %at: tensor<2xi64>) -> (tensor<2x4xi8>, tensor<1x3xi32>) {
  %t = nn.constant <tensor<3x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]> : tensor<3x4xi8>
  %w = nn.constant <tensor<3x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]> : tensor<3x4xi8>
  %rows = nn.gather %t, %at {axis = 0 : i64} : tensor<3x4xi8>, tensor<2xi64> -> tensor<2x4xi8>
  %acc = qint.fully_connected %x, %w {zero_point = 0 : i32} : tensor<1x4xi8>, tensor<3x4xi8> -> tensor<1x3xi32>
  func.return %rows, %acc : tensor<2x4xi8>, tensor<1x3xi32>
}

// -----

// Another table is looked up where it lies.
// CHECK: func.call @nn_gather_0
// CHECK-NOT: nn_gather_packed
// LEFT-NOT: nn.gather
func.func @main(%x: tensor<1x4xi8>, %at: tensor<2xi64>) -> (tensor<2x4xi8>, tensor<1x3xi32>) {
  %t = nn.constant <tensor<3x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13]> : tensor<3x4xi8>
  %w = nn.constant <tensor<3x4xi8>, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]> : tensor<3x4xi8>
  %rows = nn.gather %t, %at {axis = 0 : i64} : tensor<3x4xi8>, tensor<2xi64> -> tensor<2x4xi8>
  %acc = qint.fully_connected %x, %w {zero_point = 0 : i32} : tensor<1x4xi8>, tensor<3x4xi8> -> tensor<1x3xi32>
  func.return %rows, %acc : tensor<2x4xi8>, tensor<1x3xi32>
}

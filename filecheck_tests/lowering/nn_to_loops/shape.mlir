// RUN: qmlir-opt --nn-to-loops %s | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x3x4x5xi8>, %f: tensor<2x3xf32>) -> (tensor<1x4x5x3xi8>, tensor<1x5x6x5xi8>, tensor<2x7xf32>) {
  // Dimensions that stay neighbours are one.
  // CHECK: func.call @nn_transpose_0({{.*}}) : (memref<3x20xi8>, memref<20x3xi8>, index, index) -> ()
  %t = nn.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x3x4x5xi8> -> tensor<1x4x5x3xi8>
  // CHECK: func.call @nn_pad_0({{.*}}) : (memref<3x20xi8>, memref<5x30xi8>, index, index) -> ()
  %p = nn.pad %x {low = array<i64: 0, 1, 2, 0>, high = array<i64: 0, 1, 0, 0>, value = -7 : i8} : tensor<1x3x4x5xi8> -> tensor<1x5x6x5xi8>
  // CHECK: %[[C:.*]] = qmlir.constant_buffer <tensor<2x4xf32>
  // CHECK: func.call @nn_concat_0(%{{.*}}, %[[C]], %{{.*}}) : (memref<2x3xf32>, memref<2x4xf32>, memref<2x7xf32>, index, index) -> ()
  %c = nn.constant <tensor<2x4xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]> : tensor<2x4xf32>
  %k = nn.concat %f, %c {axis = 1 : i64} : tensor<2x3xf32>, tensor<2x4xf32> -> tensor<2x7xf32>
  func.return %t, %p, %k : tensor<1x4x5x3xi8>, tensor<1x5x6x5xi8>, tensor<2x7xf32>
}

// CHECK: func.func private @nn_pad_0
// CHECK: arith.cmpi ult
// CHECK: scf.if

// Sums and products of two tensors, broadcast.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-128>

// CHECK-LABEL: func.func @float
func.func @float(%x: tensor<2x3xf32>, %y: tensor<4x1x3xf32>) {
  // CHECK: nn.add %x, %y : tensor<2x3xf32>, tensor<4x1x3xf32> -> tensor<4x2x3xf32>
  // GENERIC: "nn.add"(%{{.*}}, %{{.*}}) : (tensor<2x3xf32>, tensor<4x1x3xf32>) -> tensor<4x2x3xf32>
  %0 = nn.add %x, %y : tensor<2x3xf32>, tensor<4x1x3xf32> -> tensor<4x2x3xf32>
  // CHECK: nn.mul %x, %x {min = 0.000000e+00 : f32, max = 6.000000e+00 : f32} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  // GENERIC: "nn.mul"(%{{.*}}, %{{.*}}) <{min = 0.000000e+00 : f32, max = 6.000000e+00 : f32}>
  %1 = nn.mul %x, %x {min = 0.0 : f32, max = 6.0 : f32} : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: func.func @quantized
func.func @quantized(%x: tensor<2x3x!a>, %y: tensor<3x!b>) {
  // CHECK: nn.add %x, %y : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<3x!quant.uniform<i8:f32, 2.500000e-01:-128>> -> tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %0 = nn.add %x, %y : tensor<2x3x!a>, tensor<3x!b> -> tensor<2x3x!a>
  // CHECK: nn.mul %x, %y {min = 0.000000e+00 : f32} :
  %1 = nn.mul %x, %y {min = 0.0 : f32} : tensor<2x3x!a>, tensor<3x!b> -> tensor<2x3x!b>
  func.return
}

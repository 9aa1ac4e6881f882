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

// CHECK-LABEL: func.func @more
func.func @more(%a0: tensor<2x3x4xf32>, %a1: tensor<2x3x4xf32>, %a2: tensor<1x3x3x4xf32>, %a3: tensor<4xf32>, %a4: tensor<3x1xf32>, %a5: tensor<5x7xf64>, %a6: tensor<7xf64>, %a7: tensor<40xf32>, %a8: tensor<40xf32>, %a9: tensor<300xi64>, %a10: tensor<300xi64>) {
  // CHECK: nn.sub %a0, %a1 : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  %0 = nn.sub %a0, %a1 : tensor<2x3x4xf32>, tensor<2x3x4xf32> -> tensor<2x3x4xf32>
  // CHECK: nn.sub %a2, %a3 {min = 0.000000e+00 : f32, max = 1.500000e+00 : f32} : tensor<1x3x3x4xf32>, tensor<4xf32> -> tensor<1x3x3x4xf32>
  %1 = nn.sub %a2, %a3 {min = 0.000000e+00 : f32, max = 1.500000e+00 : f32} : tensor<1x3x3x4xf32>, tensor<4xf32> -> tensor<1x3x3x4xf32>
  // CHECK: nn.div %a0, %a4 : tensor<2x3x4xf32>, tensor<3x1xf32> -> tensor<2x3x4xf32>
  %2 = nn.div %a0, %a4 : tensor<2x3x4xf32>, tensor<3x1xf32> -> tensor<2x3x4xf32>
  // CHECK: nn.mod %a7, %a8 {truncated = true} : tensor<40xf32>, tensor<40xf32> -> tensor<40xf32>
  %4 = nn.mod %a7, %a8 {truncated = true} : tensor<40xf32>, tensor<40xf32> -> tensor<40xf32>
  // CHECK: nn.mod %a9, %a10 : tensor<300xi64>, tensor<300xi64> -> tensor<300xi64>
  %5 = nn.mod %a9, %a10 : tensor<300xi64>, tensor<300xi64> -> tensor<300xi64>
  // CHECK: nn.pow %a0, %a3 : tensor<2x3x4xf32>, tensor<4xf32> -> tensor<2x3x4xf32>
  %6 = nn.pow %a0, %a3 : tensor<2x3x4xf32>, tensor<4xf32> -> tensor<2x3x4xf32>
  // CHECK: nn.maximum %a0, %a4 : tensor<2x3x4xf32>, tensor<3x1xf32> -> tensor<2x3x4xf32>
  %8 = nn.maximum %a0, %a4 : tensor<2x3x4xf32>, tensor<3x1xf32> -> tensor<2x3x4xf32>
  // CHECK: nn.minimum %a0, %a4 : tensor<2x3x4xf32>, tensor<3x1xf32> -> tensor<2x3x4xf32>
  %10 = nn.minimum %a0, %a4 : tensor<2x3x4xf32>, tensor<3x1xf32> -> tensor<2x3x4xf32>
  // CHECK: nn.prelu %a0, %a4 : tensor<2x3x4xf32>, tensor<3x1xf32> -> tensor<2x3x4xf32>
  %12 = nn.prelu %a0, %a4 : tensor<2x3x4xf32>, tensor<3x1xf32> -> tensor<2x3x4xf32>
  // CHECK: nn.squared_difference %a0, %a4 : tensor<2x3x4xf32>, tensor<3x1xf32> -> tensor<2x3x4xf32>
  %14 = nn.squared_difference %a0, %a4 : tensor<2x3x4xf32>, tensor<3x1xf32> -> tensor<2x3x4xf32>
  func.return
}

// Reductions, places of extremes, running sums.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @ops
func.func @ops(%a0: tensor<3x50xf32>, %a1: tensor<3x50xf64>, %a2: tensor<3x7x4xf32>, %a3: tensor<3x40xi8>, %a4: tensor<3x7x10xf32>, %a5: tensor<3x9xi32>) {
  // CHECK: nn.reduce_sum %a0 {axes = array<i64: 1>} : tensor<3x50xf32> -> tensor<3x1xf32>
  %0 = nn.reduce_sum %a0 {axes = array<i64: 1>} : tensor<3x50xf32> -> tensor<3x1xf32>
  // CHECK: nn.reduce_prod %a0 {axes = array<i64: 1>} : tensor<3x50xf32> -> tensor<3x1xf32>
  %2 = nn.reduce_prod %a0 {axes = array<i64: 1>} : tensor<3x50xf32> -> tensor<3x1xf32>
  // CHECK: nn.reduce_max %a0 {axes = array<i64: 1>} : tensor<3x50xf32> -> tensor<3x1xf32>
  %4 = nn.reduce_max %a0 {axes = array<i64: 1>} : tensor<3x50xf32> -> tensor<3x1xf32>
  // CHECK: nn.reduce_min %a0 {axes = array<i64: 1>} : tensor<3x50xf32> -> tensor<3x1xf32>
  %6 = nn.reduce_min %a0 {axes = array<i64: 1>} : tensor<3x50xf32> -> tensor<3x1xf32>
  // CHECK: nn.arg_max %a2 {axis = 1 : i64} : tensor<3x7x4xf32> -> tensor<3x1x4xi64>
  %8 = nn.arg_max %a2 {axis = 1 : i64} : tensor<3x7x4xf32> -> tensor<3x1x4xi64>
  // CHECK: nn.arg_max %a3 {axis = 1 : i64, last = true} : tensor<3x40xi8> -> tensor<3x1xi64>
  %9 = nn.arg_max %a3 {axis = 1 : i64, last = true} : tensor<3x40xi8> -> tensor<3x1xi64>
  // CHECK: nn.arg_min %a2 {axis = 1 : i64} : tensor<3x7x4xf32> -> tensor<3x1x4xi64>
  %10 = nn.arg_min %a2 {axis = 1 : i64} : tensor<3x7x4xf32> -> tensor<3x1x4xi64>
  // CHECK: nn.arg_min %a3 {axis = 1 : i64, last = true} : tensor<3x40xi8> -> tensor<3x1xi64>
  %11 = nn.arg_min %a3 {axis = 1 : i64, last = true} : tensor<3x40xi8> -> tensor<3x1xi64>
  // CHECK: nn.cumulative_sum %a4 {axis = 1 : i64} : tensor<3x7x10xf32> -> tensor<3x7x10xf32>
  %12 = nn.cumulative_sum %a4 {axis = 1 : i64} : tensor<3x7x10xf32> -> tensor<3x7x10xf32>
  // CHECK: nn.cumulative_sum %a5 {axis = 1 : i64, reverse = true} : tensor<3x9xi32> -> tensor<3x9xi32>
  %13 = nn.cumulative_sum %a5 {axis = 1 : i64, reverse = true} : tensor<3x9xi32> -> tensor<3x9xi32>
  // CHECK: nn.cumulative_product %a4 {axis = 1 : i64} : tensor<3x7x10xf32> -> tensor<3x7x10xf32>
  %14 = nn.cumulative_product %a4 {axis = 1 : i64} : tensor<3x7x10xf32> -> tensor<3x7x10xf32>
  // CHECK: nn.cumulative_product %a5 {axis = 1 : i64, reverse = true} : tensor<3x9xi32> -> tensor<3x9xi32>
  %15 = nn.cumulative_product %a5 {axis = 1 : i64, reverse = true} : tensor<3x9xi32> -> tensor<3x9xi32>
  // CHECK: nn.reduce_mean %a2 {axes = array<i64: 0, 2>} : tensor<3x7x4xf32> -> tensor<1x7x1xf32>
  %m0 = nn.reduce_mean %a2 {axes = array<i64: 0, 2>} : tensor<3x7x4xf32> -> tensor<1x7x1xf32>
  %q = quant.qcast %a0 : tensor<3x50xf32> to tensor<3x50x!quant.uniform<i8:f32, 0.5:3>>
  // A sum and a mean have scales of their own.
  // CHECK: nn.reduce_sum %q {axes = array<i64: 1>} : tensor<3x50x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<3x1x!quant.uniform<i8:f32, 4.000000e+00>>
  %m1 = nn.reduce_sum %q {axes = array<i64: 1>} : tensor<3x50x!quant.uniform<i8:f32, 0.5:3>> -> tensor<3x1x!quant.uniform<i8:f32, 4.0>>
  // CHECK: nn.reduce_mean %q {axes = array<i64: 1>} : tensor<3x50x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<3x1x!quant.uniform<i8:f32, 1.000000e-01>>
  %m2 = nn.reduce_mean %q {axes = array<i64: 1>} : tensor<3x50x!quant.uniform<i8:f32, 0.5:3>> -> tensor<3x1x!quant.uniform<i8:f32, 0.1>>
  func.return
}

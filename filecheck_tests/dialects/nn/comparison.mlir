// Comparisons and the choice by them.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @ops
func.func @ops(%a0: tensor<2x3x4xf32>, %a1: tensor<3x4xf32>, %a2: tensor<5x7xf64>, %a3: tensor<7xf64>, %a4: tensor<9xf32>, %a5: tensor<3x1xi1>, %a6: tensor<2x1x4xf32>, %a7: tensor<4xf32>, %a8: tensor<2x1x4xi64>, %a9: tensor<4xi64>, %q: tensor<4x!quant.uniform<i8:f32, 0.5>>, %r: tensor<4x!quant.uniform<i8:f32, 0.25:3>>, %c: tensor<4xi1>) {
  // CHECK: nn.equal %a0, %a1 : tensor<2x3x4xf32>, tensor<3x4xf32> -> tensor<2x3x4xi1>
  %0 = nn.equal %a0, %a1 : tensor<2x3x4xf32>, tensor<3x4xf32> -> tensor<2x3x4xi1>
  // CHECK: nn.less %a0, %a1 : tensor<2x3x4xf32>, tensor<3x4xf32> -> tensor<2x3x4xi1>
  %2 = nn.less %a0, %a1 : tensor<2x3x4xf32>, tensor<3x4xf32> -> tensor<2x3x4xi1>
  // CHECK: nn.less_equal %a0, %a1 : tensor<2x3x4xf32>, tensor<3x4xf32> -> tensor<2x3x4xi1>
  %4 = nn.less_equal %a0, %a1 : tensor<2x3x4xf32>, tensor<3x4xf32> -> tensor<2x3x4xi1>
  // CHECK: nn.is_nan %a4 : tensor<9xf32> -> tensor<9xi1>
  %6 = nn.is_nan %a4 : tensor<9xf32> -> tensor<9xi1>
  // CHECK: nn.is_inf %a4 {negative = false} : tensor<9xf32> -> tensor<9xi1>
  %7 = nn.is_inf %a4 {negative = false} : tensor<9xf32> -> tensor<9xi1>
  // CHECK: nn.where %a5, %a6, %a7 : tensor<3x1xi1>, tensor<2x1x4xf32>, tensor<4xf32> -> tensor<2x3x4xf32>
  %8 = nn.where %a5, %a6, %a7 : tensor<3x1xi1>, tensor<2x1x4xf32>, tensor<4xf32> -> tensor<2x3x4xf32>
  // CHECK: nn.equal %q, %r : {{.*}} -> tensor<4xi1>
  %10 = nn.equal %q, %r : tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.25:3>> -> tensor<4xi1>
  // CHECK: nn.is_nan %q : {{.*}} -> tensor<4xi1>
  %11 = nn.is_nan %q : tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4xi1>
  // CHECK: nn.where %c, %q, %q : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
  %12 = nn.where %c, %q, %q : tensor<4xi1>, tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// Rows with scales of their own: magnitudes, quotients, products.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!x = !quant.uniform<i16:f32, 0.5>
!q = !quant.uniform<i8:f32, 0.25>
!m = !quant.uniform<i32<0:32768>:f32, 0.5>

// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<2x3x5xf32>, %a: tensor<3x5x!x>) {
  // CHECK: %[[M:.*]] = nn.row_magnitudes %x : tensor<2x3x5xf32> -> tensor<2x3x1xf32>
  %m = nn.row_magnitudes %x : tensor<2x3x5xf32> -> tensor<2x3x1xf32>
  // CHECK: %[[Q:.*]] = nn.divide_rows %x : tensor<2x3x5xf32> -> tensor<2x3x5xf32>
  %q = nn.divide_rows %x : tensor<2x3x5xf32> -> tensor<2x3x5xf32>
  // CHECK: nn.multiply_rows %[[Q]], %[[M]] : tensor<2x3x5xf32>, tensor<2x3x1xf32> -> tensor<2x3x5xf32>
  %y = nn.multiply_rows %q, %m : tensor<2x3x5xf32>, tensor<2x3x1xf32> -> tensor<2x3x5xf32>
  // CHECK: nn.row_magnitudes %a : tensor<3x5x!quant.uniform<i16:f32, 5.{{.*}}>> -> tensor<3x1x!quant.uniform<i32<0:32768>:f32, 5.{{.*}}>>
  %n = nn.row_magnitudes %a : tensor<3x5x!x> -> tensor<3x1x!m>
  // CHECK: nn.divide_rows %a : {{.*}} -> tensor<3x5x!quant.uniform<i8:f32, 2.{{.*}}>>
  %p = nn.divide_rows %a : tensor<3x5x!x> -> tensor<3x5x!q>
  func.return
}

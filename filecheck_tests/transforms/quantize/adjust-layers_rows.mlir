// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy}" --adjust-layers %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy}" --correct-bias %s | filecheck %s --check-prefix=NEAREST
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy rounding=nearest}" --adjust-layers %s | filecheck %s --check-prefix=NEAREST

// Both inputs are always the same, so the quotients of a row are 1 and 1. Their sums get no bias, which would be
// multiplied by the row's magnitude, so it is their mean, too, that the weights are rounded for: 0.8 becomes 1, not 0.
// Without data to vary, a covariance would say nothing.
// CHECK-LABEL: func.func @main
// CHECK: nn.constant <tensor<2x2xf32>, [1.0, 0.0, 0.0, 0.0]> {qmlir.unrounded = #qmlir.weights<tensor<2x2xf32>, [0.4, 0.4, 0.1, 0.3]>}
// CHECK: nn.fully_connected %{{[^,]*}}, %{{[^,]*}} : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
// NEAREST-LABEL: func.func @main
// NEAREST: nn.constant <tensor<2x2xf32>, [0.4, 0.4, 0.1, 0.3]> : tensor<2x2xf32>
// NEAREST: nn.fully_connected %{{[^,]*}}, %{{[^,]*}} : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %m = nn.row_magnitudes %x : tensor<1x2xf32> -> tensor<1x1xf32>
  %q = nn.divide_rows %x : tensor<1x2xf32> -> tensor<1x2xf32>
  %0 = quant.qcast %q : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 0.0078740157480314959>>
  %1 = quant.dcast %0 : tensor<1x2x!quant.uniform<i8:f32, 0.0078740157480314959>> to tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [0.4, 0.4, 0.1, 0.3]> : tensor<2x2xf32>
  %wq = quant.qcast %w : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8<-127:127>:f32, 1.0>>
  %wd = quant.dcast %wq : tensor<2x2x!quant.uniform<i8<-127:127>:f32, 1.0>> to tensor<2x2xf32>
  %2 = nn.fully_connected %1, %wd : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  %3 = quant.qcast %2 : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i32:f32, 0.0001220703125>>
  %4 = quant.dcast %3 : tensor<1x2x!quant.uniform<i32:f32, 0.0001220703125>> to tensor<1x2xf32>
  %y = nn.multiply_rows %4, %m : tensor<1x2xf32>, tensor<1x1xf32> -> tensor<1x2xf32>
  func.return %y : tensor<1x2xf32>
}

// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy}" --correct-bias %s | filecheck %s

// Inputs [1, 1] and [3, 1]. The weight 0.3 is stored as 0.25, so that sums are 0.05·x₀ too low, 0.1 in the mean: the
// bias, which there was none, takes it back. What the second layer reads is right in the mean, and its weights are
// exact: nothing to correct.
// CHECK-LABEL: func.func @main
// CHECK: %[[B:.*]] = nn.constant <tensor<1xf32>, [0.1000000{{.*}}]>
// CHECK: nn.fully_connected %{{.*}}, %{{.*}}, %[[B]] : tensor<1x2xf32>, tensor<1x2xf32>, tensor<1xf32>
// CHECK: nn.fully_connected %{{.*}}, %{{.*}} : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %0 = quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 0.25>>
  %1 = quant.dcast %0 : tensor<1x2x!quant.uniform<i8:f32, 0.25>> to tensor<1x2xf32>
  %w = nn.constant <tensor<1x2xf32>, [0.3, 0.5]> : tensor<1x2xf32>
  %wq = quant.qcast %w : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 0.25>>
  %wd = quant.dcast %wq : tensor<1x2x!quant.uniform<i8:f32, 0.25>> to tensor<1x2xf32>
  %2 = nn.fully_connected %1, %wd : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  %3 = quant.qcast %2 : tensor<1x1xf32> to tensor<1x1x!quant.uniform<i16:f32, 0.0009765625>>
  %4 = quant.dcast %3 : tensor<1x1x!quant.uniform<i16:f32, 0.0009765625>> to tensor<1x1xf32>
  %v = nn.constant <tensor<1x1xf32>, [0.0]> : tensor<1x1xf32>
  %vq = quant.qcast %v : tensor<1x1xf32> to tensor<1x1x!quant.uniform<i8:f32, 0.25>>
  %vd = quant.dcast %vq : tensor<1x1x!quant.uniform<i8:f32, 0.25>> to tensor<1x1xf32>
  %5 = nn.fully_connected %4, %vd : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
  func.return %5 : tensor<1x1xf32>
}

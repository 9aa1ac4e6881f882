// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy}" --round-weights %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy}" --round-weights --quantize-ops %s | filecheck %s --check-prefix=FOLDED

// Both inputs are always the same, so the sums are 0.8·x₀ and 0.4·x₀: 1·x₀ comes nearer to the first than 0·x₀, which
// the nearest integers make of it. Of the second 0·x₀ is as near as it gets. The layer reads what the cast makes of the
// weights; what they were is remembered until they are stored.
// CHECK-LABEL: func.func @together
// CHECK: %[[W:.*]] = nn.constant <tensor<2x2xf32>, [1.0, 0.0, 0.0, 0.0]> {qmlir.unrounded = #qmlir.weights<tensor<2x2xf32>, [0.4, 0.4, 0.1, 0.3]>}
// CHECK-NEXT: quant.qcast %[[W]] : tensor<2x2xf32>
// FOLDED-LABEL: func.func @together
// FOLDED: nn.constant <tensor<2x2xi8>, [1, 0, 0, 0]> : tensor<2x2x!quant.uniform
func.func @together(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
  %0 = quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 0.25>>
  %1 = quant.dcast %0 : tensor<1x2x!quant.uniform<i8:f32, 0.25>> to tensor<1x2xf32>
  %w = nn.constant <tensor<2x2xf32>, [0.4, 0.4, 0.1, 0.3]> : tensor<2x2xf32>
  %wq = quant.qcast %w : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8<-127:127>:f32, 1.0>>
  %wd = quant.dcast %wq : tensor<2x2x!quant.uniform<i8<-127:127>:f32, 1.0>> to tensor<2x2xf32>
  %2 = nn.fully_connected %1, %wd : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  %3 = quant.qcast %2 : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 0.25>>
  %4 = quant.dcast %3 : tensor<1x2x!quant.uniform<i8:f32, 0.25>> to tensor<1x2xf32>
  func.return %4 : tensor<1x2xf32>
}

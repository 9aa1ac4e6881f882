// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy}" --round-weights --quantize-ops %s | filecheck %s

// An operation that turns out to have no integer form goes on with the weights that it had.
// CHECK-LABEL: func.func @float
// CHECK: %[[W:.*]] = nn.constant <tensor<1x2xf32>, [0.4, 0.4]> : tensor<1x2xf32>
// CHECK: nn.fully_connected %{{.*}}, %[[W]] {qmlir.decision = #qmlir.decision<float, "factor"
func.func @float(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  %0 = quant.qcast %x : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8:f32, 0.25>>
  %1 = quant.dcast %0 : tensor<1x2x!quant.uniform<i8:f32, 0.25>> to tensor<1x2xf32>
  %w = nn.constant <tensor<1x2xf32>, [0.4, 0.4]> : tensor<1x2xf32>
  %wq = quant.qcast %w : tensor<1x2xf32> to tensor<1x2x!quant.uniform<i8<-127:127>:f32, 1.0>>
  %wd = quant.dcast %wq : tensor<1x2x!quant.uniform<i8<-127:127>:f32, 1.0>> to tensor<1x2xf32>
  %2 = nn.fully_connected %1, %wd : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  %3 = quant.qcast %2 : tensor<1x1xf32> to tensor<1x1x!quant.uniform<i8:f32, 1.0e-20>>
  %4 = quant.dcast %3 : tensor<1x1x!quant.uniform<i8:f32, 1.0e-20>> to tensor<1x1xf32>
  func.return %4 : tensor<1x1xf32>
}

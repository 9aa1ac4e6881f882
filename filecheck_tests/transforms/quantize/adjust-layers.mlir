// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy}" --adjust-layers %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy rounding=nearest}" --adjust-layers %s | filecheck %s --check-prefix=NEAREST
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy rounding=gptq}" --adjust-layers %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy effort=best}" --adjust-layers %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy effort=fast}" --adjust-layers %s | filecheck %s --check-prefix=NEAREST
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy effort=fast rounding=gptq}" --adjust-layers %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/correlated.npy rounding=adaround}" --adjust-layers %s | filecheck %s --check-prefix=UP-OR-DOWN
// RUN: not qmlir-opt --adjust-layers %s 2>&1 | filecheck %s --check-prefix=NONE

// NONE: adjust-layers: needs data; give some before: --apply-policy="settings={data=samples.npy}"

// Both inputs are always the same, 3.5 in the mean, so the sums are 0.8·x₀ and 0.4·x₀. Rounded together, the first
// weights give 1·x₀, which is 0.7 too much in the mean; the nearest integers give 0, which is 2.8 too little. The bias
// takes either back.
// AdaRound rounds one of the two up as well.
// UP-OR-DOWN: nn.constant <tensor<2x2xf32>, [0.0, 1.0, 0.0, 0.0]> {qmlir.unrounded = #qmlir.weights<tensor<2x2xf32>, [0.4, 0.4, 0.1, 0.3]>}
// UP-OR-DOWN: nn.constant <tensor<2xf32>, [-0.{{70|69}}
// CHECK-LABEL: func.func @main
// CHECK: nn.constant <tensor<2x2xf32>, [1.0, 0.0, 0.0, 0.0]> {qmlir.unrounded = #qmlir.weights<tensor<2x2xf32>, [0.4, 0.4, 0.1, 0.3]>}
// CHECK: %[[B:.*]] = nn.constant <tensor<2xf32>, [-0.{{70|69}}{{[0-9]*}}, 1.{{4|39}}{{[0-9]*}}]>
// CHECK-NEXT: nn.fully_connected %{{.*}}, %{{.*}}, %[[B]]
// NEAREST-LABEL: func.func @main
// NEAREST: nn.constant <tensor<2x2xf32>, [0.4, 0.4, 0.1, 0.3]> : tensor<2x2xf32>
// NEAREST: nn.constant <tensor<2xf32>, [2.8{{[0-9]*}}, 1.{{4|39}}{{[0-9]*}}]>
func.func @main(%x: tensor<1x2xf32>) -> tensor<1x2xf32> {
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

// RUN: qmlir-opt --set-interface=type=float %s | filecheck %s

func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 0.5:3>>) -> tensor<4x!quant.uniform<i8:f32, 0.25>> {
  %1 = nn.relu %x : tensor<4x!quant.uniform<i8:f32, 0.5:3>> -> tensor<4x!quant.uniform<i8:f32, 0.25>>
  func.return %1 : tensor<4x!quant.uniform<i8:f32, 0.25>>
}

// CHECK: func.func @main(%x: tensor<4xf32>) -> tensor<4xf32>
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %x
// CHECK-NEXT: %[[Y:.*]] = nn.relu %[[Q]]
// CHECK-NEXT: %[[F:.*]] = quant.dcast %[[Y]]
// CHECK-NEXT: func.return %[[F]]

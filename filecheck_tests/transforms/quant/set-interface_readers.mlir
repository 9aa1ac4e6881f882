// RUN: qmlir-opt --set-interface=type=int8 %s | filecheck %s

// The input holds the finer integers; a layer in wider steps gets them in these, and a float operation as floats.

func.func @main(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %1 = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.25:3>>
  %2 = nn.relu %0 : tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  %3 = nn.relu %1 : tensor<4x!quant.uniform<i8:f32, 0.25:3>> -> tensor<4x!quant.uniform<i8:f32, 0.25:3>>
  %4 = nn.sin %x : tensor<4xf32> -> tensor<4xf32>
  %5 = quant.qcast %4 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.125>>
  %6 = quant.dcast %5 : tensor<4x!quant.uniform<i8:f32, 0.125>> to tensor<4xf32>
  %7 = quant.dcast %2 : tensor<4x!quant.uniform<i8:f32, 0.5>> to tensor<4xf32>
  %8 = quant.dcast %3 : tensor<4x!quant.uniform<i8:f32, 0.25:3>> to tensor<4xf32>
  func.return %6, %7, %8, %x : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4xf32>
}

// CHECK: func.func @main(%x: tensor<4x!quant.uniform<i8:f32, 2.500000e-01:3>>)
// CHECK-NEXT: %[[FLOATS:.*]] = quant.dcast %x
// CHECK-NEXT: %[[WIDE:.*]] = nn.requantize %x : {{.*}} -> tensor<4x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK-NEXT: nn.relu %[[WIDE]]
// CHECK-NEXT: nn.relu %x
// CHECK-NEXT: nn.sin %[[FLOATS]]
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: func.return %{{.*}}, %{{.*}}, %{{.*}}, %x

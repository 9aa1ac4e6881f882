// RUN: qmlir-opt --gather-casts %s | filecheck %s

// The file casts before a reshape: data movement takes integers, so the cast moves behind it, to what computes.
// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[R:.*]] = nn.reshape %{{.*}} : tensor<1x4x!quant.uniform<u8:f32, 5.000000e-01>> -> tensor<4x!quant.uniform<u8:f32, 5.000000e-01>>
// CHECK-NEXT: %[[D:.*]] = quant.dcast %[[R]]
// CHECK-NEXT: nn.relu %[[D]] : tensor<4xf32> -> tensor<4xf32>
func.func @main(%a: tensor<1x4x!quant.uniform<u8:f32, 0.5>>) -> tensor<4xf32> {
  %0 = quant.dcast %a : tensor<1x4x!quant.uniform<u8:f32, 0.5>> to tensor<1x4xf32>
  %1 = nn.reshape %0 {shape = array<i64: 4>} : tensor<1x4xf32> -> tensor<4xf32>
  %2 = nn.relu %1 : tensor<4xf32> -> tensor<4xf32>
  func.return %2 : tensor<4xf32>
}

// -----

!q = !quant.uniform<u8:f32, 0.5:8>

// A relu that a layer reads keeps the steps of what it reads, so that the layer reads integers.
// CHECK-LABEL: func.func @relu_keeps_steps
// CHECK: %[[R:.*]] = nn.relu
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %[[R]] : tensor<1x4xf32> to tensor<1x4x!quant.uniform<u8:f32, 5.000000e-01:8>>
// CHECK-NEXT: %[[D:.*]] = quant.dcast %[[Q]]
// CHECK-NEXT: nn.fully_connected %[[D]], %w
func.func @relu_keeps_steps(%x: tensor<1x4x!q>, %w: tensor<2x4xf32>) -> tensor<1x2xf32> {
  %0 = quant.dcast %x : tensor<1x4x!q> to tensor<1x4xf32>
  %1 = nn.relu %0 : tensor<1x4xf32> -> tensor<1x4xf32>
  %2 = nn.fully_connected %1, %w : tensor<1x4xf32>, tensor<2x4xf32> -> tensor<1x2xf32>
  func.return %2 : tensor<1x2xf32>
}

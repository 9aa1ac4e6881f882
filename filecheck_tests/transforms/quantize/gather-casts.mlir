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

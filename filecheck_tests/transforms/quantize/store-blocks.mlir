// RUN: qmlir-opt --store-blocks %s | filecheck %s
// RUN: qmlir-opt --apply-policy="settings={precision=float16 weight-precision=int4 granularity=group-64}" --store-blocks %s | filecheck %s --check-prefix=ALL

// The weight of the largest magnitude in a block is the least of its integers; the zero point is half of their range.

// CHECK-LABEL: func.func @layer
// CHECK-NEXT: %[[W:.*]] = nn.constant <tensor<1x3xui4>, [0x0, 0xc, 0x8]> {qmlir.name = #qmlir.name<tensors ["w"]>}
// CHECK-NEXT: %[[S:.*]] = nn.constant <tensor<1x1xf32>, [0.5]>
// CHECK-NEXT: %[[Z:.*]] = nn.constant <tensor<1x1xui4>, [0x8]>
// CHECK-NEXT: nn.blocked_fully_connected %x, %[[W]], %[[S]], %[[Z]] {qmlir.decision = #qmlir.decision<float, "half", "the policy computes it in floats, on weights of int4 in blocks of 32">, max = 6.000000e+00 : f32, block = 32 : i64}
// ALL-LABEL: func.func @layer
// ALL: nn.blocked_fully_connected {{.*}}block = 64
func.func @layer(%x: tensor<2x3xf32>) -> tensor<2x1xf32> {
  %w = nn.constant <tensor<1x3xf32>, [-4.0, 2.0, 0.0]> {qmlir.name = #qmlir.name<tensors ["w"]>} : tensor<1x3xf32>
  %y = nn.fully_connected %x, %w {max = 6.0 : f32, qmlir.policy = {precision = "float16", weight_precision = "int4"}} : tensor<2x3xf32>, tensor<1x3xf32> -> tensor<2x1xf32>
  func.return %y : tensor<2x1xf32>
}

// Not where the policy names no bits of weights, or keeps the layer in floats; nor weights that are computed.

// CHECK-LABEL: func.func @others
// CHECK-COUNT-4: nn.fully_connected
// ALL-LABEL: func.func @others
// ALL: nn.blocked_fully_connected {{.*}}block = 64
// ALL-COUNT-3: nn.fully_connected
func.func @others(%x: tensor<2x3xf32>, %v: tensor<1x3xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>) {
  %w = nn.constant <tensor<1x3xf32>, [-4.0, 2.0, 0.0]> : tensor<1x3xf32>
  %a = nn.fully_connected %x, %w : tensor<2x3xf32>, tensor<1x3xf32> -> tensor<2x1xf32>
  %b = nn.fully_connected %x, %w {qmlir.policy = {precision = "float16", weight_precision = "same"}} : tensor<2x3xf32>, tensor<1x3xf32> -> tensor<2x1xf32>
  %c = nn.fully_connected %x, %w {qmlir.policy = {keep_float = true, precision = "float16", weight_precision = "int4"}} : tensor<2x3xf32>, tensor<1x3xf32> -> tensor<2x1xf32>
  %d = nn.fully_connected %x, %v {qmlir.policy = {precision = "float16", weight_precision = "int4"}} : tensor<2x3xf32>, tensor<1x3xf32> -> tensor<2x1xf32>
  func.return %a, %b, %c, %d : tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>
}

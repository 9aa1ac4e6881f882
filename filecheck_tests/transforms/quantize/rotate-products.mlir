// Layers read products of computed tensors rotated, in blocks of the largest power of two; products with constants stay.

// RUN: qmlir-opt --weights=inline --rotate-products %s | filecheck %s

!t = tensor<1x48xf32>

// CHECK-LABEL: func.func @gated
// CHECK: %[[P:.*]] = nn.mul %a, %b
// CHECK: %[[R:.*]] = nn.hadamard %[[P]] {block = 16 : i64} : tensor<1x48xf32> -> tensor<1x48xf32>
// CHECK: nn.constant <tensor<1x48xf32>, [1.0, 0.0, 0.0
// CHECK: nn.fully_connected %[[R]], %{{.*}} {qmlir.rotated = "reads products rotated in blocks of 16"}
// CHECK: %[[S:.*]] = nn.mul %a, %{{.*}}
// CHECK-NEXT: nn.fully_connected %[[S]], %{{[a-z0-9]*}} :
func.func @gated(%a: !t, %b: !t) -> (tensor<1x1xf32>, tensor<1x1xf32>) {
  %w = nn.constant <tensor<1x48xf32>, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]> : tensor<1x48xf32>
  %half = nn.constant <tensor<1xf32>, [0.5]> : tensor<1xf32>
  %0 = nn.mul %a, %b : !t, !t -> !t
  %1 = nn.fully_connected %0, %w : !t, tensor<1x48xf32> -> tensor<1x1xf32>
  %2 = nn.mul %a, %half : !t, tensor<1xf32> -> !t
  %3 = nn.fully_connected %2, %w : !t, tensor<1x48xf32> -> tensor<1x1xf32>
  func.return %1, %3 : tensor<1x1xf32>, tensor<1x1xf32>
}

// Results of GELU and layer normalizations with their gains are rotated as well; layers that read one tensor, each with
// a reshape of its own, share the transform. An RMS normalization stays.
// CHECK-LABEL: func.func @encoder
// CHECK: nn.layer_norm
// CHECK: %[[N:.*]] = nn.mul
// CHECK: %[[F:.*]] = nn.reshape %[[N]]
// CHECK: %[[R:.*]] = nn.hadamard %[[F]] {block = 16 : i64}
// CHECK: nn.fully_connected %[[R]], %{{.*}} {qmlir.rotated = "reads a normalization rotated in blocks of 16"}
// CHECK-NOT: nn.hadamard
// CHECK: %[[Y:.*]] = nn.fully_connected %[[R]], %{{.*}} {qmlir.rotated = "reads a normalization rotated in blocks of 16"}
// CHECK: %[[G:.*]] = nn.gelu %[[Y]]
// CHECK: %[[H:.*]] = nn.hadamard %[[G]] {block = 16 : i64}
// CHECK: nn.fully_connected %[[H]], %{{.*}} {qmlir.rotated = "reads a function's results rotated in blocks of 16"}
// CHECK: nn.rms_norm
// CHECK-NOT: nn.hadamard
// CHECK: return
func.func @encoder(%x: tensor<1x2x16xf32>, %w: tensor<2x16xf32>) -> (tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>) {
  %v = nn.constant <tensor<1x16xf32>, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]> : tensor<1x16xf32>
  %u = nn.constant <tensor<16x16xf32>, "0x0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f0000803f"> : tensor<16x16xf32>
  %g = nn.constant <tensor<16xf32>, [1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0, 1.0, 2.0]> : tensor<16xf32>
  %0 = nn.layer_norm %x {axis = 2 : i64, epsilon = 1.0e-6 : f32} : tensor<1x2x16xf32> -> tensor<1x2x16xf32>
  %1 = nn.mul %0, %g : tensor<1x2x16xf32>, tensor<16xf32> -> tensor<1x2x16xf32>
  %2 = nn.reshape %1 {shape = array<i64: 2, 16>} : tensor<1x2x16xf32> -> tensor<2x16xf32>
  %3 = nn.fully_connected %2, %v : tensor<2x16xf32>, tensor<1x16xf32> -> tensor<2x1xf32>
  %4 = nn.reshape %1 {shape = array<i64: 2, 16>} : tensor<1x2x16xf32> -> tensor<2x16xf32>
  %5 = nn.fully_connected %4, %u : tensor<2x16xf32>, tensor<16x16xf32> -> tensor<2x16xf32>
  %6 = nn.gelu %5 : tensor<2x16xf32> -> tensor<2x16xf32>
  %7 = nn.fully_connected %6, %v : tensor<2x16xf32>, tensor<1x16xf32> -> tensor<2x1xf32>
  %8 = nn.rms_norm %w {axis = 1 : i64, epsilon = 1.0e-6 : f32} : tensor<2x16xf32> -> tensor<2x16xf32>
  %9 = nn.fully_connected %8, %v : tensor<2x16xf32>, tensor<1x16xf32> -> tensor<2x1xf32>
  func.return %3, %7, %9 : tensor<2x1xf32>, tensor<2x1xf32>, tensor<2x1xf32>
}

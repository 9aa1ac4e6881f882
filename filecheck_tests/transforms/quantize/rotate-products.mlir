// Layers read products of computed tensors rotated, in blocks of the largest power of two; products with constants stay.

// RUN: qmlir-opt --rotate-products %s | filecheck %s

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

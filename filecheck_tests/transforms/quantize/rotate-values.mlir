// The layers before and behind attention's values are rotated; what is computed with single values is left.

// RUN: qmlir-opt --rotate-values --split-input-file %s | filecheck %s

!t = tensor<2x2xf32>

// CHECK-LABEL: func.func @attention
// CHECK: nn.fully_connected %x, %{{.*}} {{.*}}qmlir.rotated = "values rotated in heads of 2 by Hadamard matrices of order 2"
// CHECK: nn.matmul {{.*}}qmlir.rotated = "values rotated in heads of 2
// CHECK: nn.fully_connected {{.*}}qmlir.rotated = "values rotated in heads of 2
func.func @attention(%x: !t, %s: !t) -> !t {
  %w = nn.constant <tensor<2x2xf32>, [1.0, 0.0, 0.0, 1.0]> : !t
  %v = nn.fully_connected %x, %w : !t, !t -> !t
  %p = nn.softmax %s {axis = 1 : i64} : !t -> !t
  %a = nn.matmul %p, %v : !t, !t -> !t
  %o = nn.fully_connected %a, %w : !t, !t -> !t
  func.return %o : !t
}

// -----

!t = tensor<2x2xf32>

// CHECK-LABEL: func.func @clamped
// CHECK: nn.matmul {{.*}}qmlir.rotated = "values not rotated: nn.relu \22nn.relu\22 computes with single elements of them"
func.func @clamped(%x: !t, %s: !t) -> !t {
  %w = nn.constant <tensor<2x2xf32>, [1.0, 0.0, 0.0, 1.0]> : !t
  %v = nn.fully_connected %x, %w : !t, !t -> !t
  %r = nn.relu %v : !t -> !t
  %p = nn.softmax %s {axis = 1 : i64} : !t -> !t
  %a = nn.matmul %p, %r : !t, !t -> !t
  %o = nn.fully_connected %a, %w : !t, !t -> !t
  func.return %o : !t
}

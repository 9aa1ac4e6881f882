// RUN: qmlir-opt --rotate-keys --split-input-file %s | filecheck %s

// Rows are rotated where they enter, queries where they meet them; the factor is divided.
// CHECK-LABEL: func.func @main
// CHECK: %[[K:.*]] = nn.hadamard %k {block = 16 : i64}
// CHECK-NEXT: %n = nn.scatter_nd %s, %[[K]], %i
// CHECK-NEXT: %t = nn.transpose %n
// CHECK-NEXT: %[[Q:.*]] = nn.hadamard %q {block = 16 : i64}
// CHECK-NEXT: %p = nn.matmul %[[Q]], %t {qmlir.rotated = "queries and keys rotated in blocks of 16"}
// CHECK: %[[C:.*]] = nn.constant <tensor<1xf32>, [0.015625]>
// CHECK-NEXT: %y = nn.mul %p, %[[C]]
// CHECK-NEXT: func.return %y, %n
func.func @main(%q: tensor<2x16xf32>, %k: tensor<2x16xf32>, %i: tensor<2x1xi64>, %s: tensor<8x16xf32> {qmlir.state = #qmlir.state<1>})
    -> (tensor<2x8xf32>, tensor<8x16xf32>) {
  %n = nn.scatter_nd %s, %k, %i : tensor<8x16xf32>, tensor<2x16xf32>, tensor<2x1xi64> -> tensor<8x16xf32>
  %t = nn.transpose %n {permutation = array<i64: 1, 0>} : tensor<8x16xf32> -> tensor<16x8xf32>
  %p = nn.matmul %q, %t : tensor<2x16xf32>, tensor<16x8xf32> -> tensor<2x8xf32>
  %c = nn.constant <tensor<1xf32>, [0.25]> : tensor<1xf32>
  %y = nn.mul %p, %c : tensor<2x8xf32>, tensor<1xf32> -> tensor<2x8xf32>
  func.return %y, %n : tensor<2x8xf32>, tensor<8x16xf32>
}

// -----

// Without a factor, there is one more product.
// CHECK-LABEL: func.func @main
// CHECK: %p = nn.matmul
// CHECK: nn.constant <tensor<f32>, [0.0625]>
// CHECK: %[[Y:.*]] = nn.mul %p,
// CHECK: func.return %[[Y]], %n
func.func @main(%q: tensor<2x16xf32>, %k: tensor<2x16xf32>, %i: tensor<2x1xi64>, %s: tensor<8x16xf32> {qmlir.state = #qmlir.state<1>})
    -> (tensor<2x8xf32>, tensor<8x16xf32>) {
  %n = nn.scatter_nd %s, %k, %i : tensor<8x16xf32>, tensor<2x16xf32>, tensor<2x1xi64> -> tensor<8x16xf32>
  %t = nn.transpose %n {permutation = array<i64: 1, 0>} : tensor<8x16xf32> -> tensor<16x8xf32>
  %p = nn.matmul %q, %t : tensor<2x16xf32>, tensor<16x8xf32> -> tensor<2x8xf32>
  func.return %p, %n : tensor<2x8xf32>, tensor<8x16xf32>
}

// -----

// Values are read as rows: no keys. Nor are what something else reads, too, or rows of 12 elements, whose blocks have 4.
// CHECK-LABEL: func.func @main
// CHECK-NOT: nn.hadamard
func.func @main(%q: tensor<2x8xf32>, %k: tensor<2x16xf32>, %i: tensor<2x1xi64>, %s: tensor<8x16xf32> {qmlir.state = #qmlir.state<2>},
    %a: tensor<2x16xf32>, %r: tensor<8x16xf32> {qmlir.state = #qmlir.state<3>}, %b: tensor<2x12xf32>,
    %u: tensor<8x12xf32> {qmlir.state = #qmlir.state<5>})
    -> (tensor<2x16xf32>, tensor<2x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<2x8xf32>, tensor<8x12xf32>) {
  %n = nn.scatter_nd %s, %k, %i : tensor<8x16xf32>, tensor<2x16xf32>, tensor<2x1xi64> -> tensor<8x16xf32>
  %p = nn.matmul %q, %n : tensor<2x8xf32>, tensor<8x16xf32> -> tensor<2x16xf32>
  %m = nn.scatter_nd %r, %a, %i : tensor<8x16xf32>, tensor<2x16xf32>, tensor<2x1xi64> -> tensor<8x16xf32>
  %t = nn.transpose %m {permutation = array<i64: 1, 0>} : tensor<8x16xf32> -> tensor<16x8xf32>
  %o = nn.matmul %k, %t : tensor<2x16xf32>, tensor<16x8xf32> -> tensor<2x8xf32>
  %e = nn.relu %m : tensor<8x16xf32> -> tensor<8x16xf32>
  %v = nn.scatter_nd %u, %b, %i : tensor<8x12xf32>, tensor<2x12xf32>, tensor<2x1xi64> -> tensor<8x12xf32>
  %w = nn.transpose %v {permutation = array<i64: 1, 0>} : tensor<8x12xf32> -> tensor<12x8xf32>
  %z = nn.matmul %b, %w : tensor<2x12xf32>, tensor<12x8xf32> -> tensor<2x8xf32>
  func.return %p, %o, %n, %m, %z, %v : tensor<2x16xf32>, tensor<2x8xf32>, tensor<8x16xf32>, tensor<8x16xf32>, tensor<2x8xf32>, tensor<8x12xf32>
}

// RUN: qmlir-opt --attention-scores %s | filecheck %s

// The divisor of the scores becomes part of the layer that computes the query, which keeps its node.
// CHECK-LABEL: func.func @factor
// CHECK: %[[W:.*]] = nn.constant <tensor<2x2xf32>, [0.5, 1.0, 1.5, 2.0]>
// CHECK: %[[Q:.*]] = nn.fully_connected %x, %[[W]] {qmlir.name = #qmlir.name<nodes ["query"], absorbed ["q"]>} : tensor<3x2xf32>, tensor<2x2xf32> -> tensor<3x2xf32>
// CHECK: %[[S:.*]] = nn.matmul %[[Q]], %k {qmlir.name = #qmlir.name<nodes ["scale"], tensors ["s"]>} : tensor<3x2xf32>, tensor<2x3xf32> -> tensor<3x3xf32>
// CHECK: nn.softmax %[[S]]
func.func @factor(%x: tensor<3x2xf32>, %k: tensor<2x3xf32>) -> tensor<3x3xf32> {
  %w = nn.constant <tensor<2x2xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<2x2xf32>
  %c = nn.constant <tensor<f32>, [2.0]> : tensor<f32>
  %q = nn.fully_connected %x, %w {qmlir.name = #qmlir.name<nodes ["query"], tensors ["q"]>} : tensor<3x2xf32>, tensor<2x2xf32> -> tensor<3x2xf32>
  %s = nn.matmul %q, %k : tensor<3x2xf32>, tensor<2x3xf32> -> tensor<3x3xf32>
  %t = nn.div %s, %c {qmlir.name = #qmlir.name<nodes ["scale"], tensors ["s"]>} : tensor<3x3xf32>, tensor<f32> -> tensor<3x3xf32>
  %p = nn.softmax %t {axis = 1 : i64} : tensor<3x3xf32> -> tensor<3x3xf32>
  func.return %p : tensor<3x3xf32>
}

// A fully connected layer whose weights have parameters for blocks: assembly format, generic form and round trip.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC

!data = !quant.uniform<i8:f32, 0.5:3>
!result = !quant.uniform<i8:f32, 0.25:-128>

// CHECK-LABEL: func.func @layer
func.func @layer(%x: tensor<1x5xf32>, %w: tensor<2x5xui4>, %s: tensor<2x2xf32>, %z: tensor<2x2xui4>, %b: tensor<2xf32>, %q: tensor<1x5x!data>, %v: tensor<2x5xi8>, %f: tensor<2x2xf32>) {
  // CHECK: nn.blocked_fully_connected %x, %w, %s, %z {block = 3 : i64} : tensor<1x5xf32>, tensor<2x5xui4>, tensor<2x2xf32>, tensor<2x2xui4> -> tensor<1x2xf32>
  // GENERIC: "nn.blocked_fully_connected"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) <{block = 3 : i64}>
  %0 = nn.blocked_fully_connected %x, %w, %s, %z {block = 3 : i64} : tensor<1x5xf32>, tensor<2x5xui4>, tensor<2x2xf32>, tensor<2x2xui4> -> tensor<1x2xf32>
  // CHECK: nn.blocked_fully_connected %q, %v, %s, %f, %b {block = 4 : i64, max = 6.000000e+00 : f32} :
  %1 = nn.blocked_fully_connected %q, %v, %s, %f, %b {block = 4 : i64, max = 6.0 : f32} : tensor<1x5x!data>, tensor<2x5xi8>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2x!result>
  func.return
}

// RUN: qmlir-opt --round-halves %s | filecheck %s

// A layer in f16 computes in f32 and rounds once. A value is widened once for all its readers, and constants are at once.

// CHECK-LABEL: func.func @main
// CHECK-NEXT: %[[X:.*]] = nn.cast %x : tensor<1x2xf16> -> tensor<1x2xf32>
// CHECK-NEXT: %[[W:.*]] = nn.constant <tensor<2x2xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<2x2xf32>
// CHECK-NEXT: %[[A:.*]] = nn.fully_connected %[[X]], %[[W]] {qmlir.name = #qmlir.name<nodes ["fc"], tensors ["a"]>, max = 6.000000e+00 : f32} : {{.*}} -> tensor<1x2xf32>
// CHECK-NEXT: %[[H:.*]] = nn.cast %[[A]] : tensor<1x2xf32> -> tensor<1x2xf16>
// CHECK-NEXT: %[[B:.*]] = nn.cast %[[H]] : tensor<1x2xf16> -> tensor<1x2xf32>
// CHECK-NEXT: %[[S:.*]] = nn.add %[[B]], %[[X]] : {{.*}} -> tensor<1x2xf32>
// CHECK-NEXT: %[[Y:.*]] = nn.cast %[[S]] : tensor<1x2xf32> -> tensor<1x2xf16>
// CHECK-NEXT: %[[T:.*]] = nn.transpose %[[Y]] {{.*}} -> tensor<2x1xf16>
// CHECK-NEXT: func.return %[[T]]
func.func @main(%x: tensor<1x2xf16>) -> tensor<2x1xf16> {
  %w = nn.constant <tensor<2x2xf16>, [1.0, 2.0, 3.0, 4.0]> : tensor<2x2xf16>
  %a = nn.fully_connected %x, %w {max = 6.0 : f32, qmlir.name = #qmlir.name<nodes ["fc"], tensors ["a"]>} : tensor<1x2xf16>, tensor<2x2xf16> -> tensor<1x2xf16>
  %s = nn.add %a, %x : tensor<1x2xf16>, tensor<1x2xf16> -> tensor<1x2xf16>
  %y = nn.transpose %s {permutation = array<i64: 1, 0>} : tensor<1x2xf16> -> tensor<2x1xf16>
  func.return %y : tensor<2x1xf16>
}

// Results that are not floats, and operations on f32 and integers, stay as they are.

// CHECK-LABEL: func.func @others
// CHECK-NEXT: %[[X:.*]] = nn.cast %x : tensor<4xbf16> -> tensor<4xf32>
// CHECK-NEXT: %[[L:.*]] = nn.less %[[X]], %[[X]] : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>
// CHECK-NEXT: %[[R:.*]] = nn.relu %z : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT: func.return %[[L]], %[[R]]
func.func @others(%x: tensor<4xbf16>, %z: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xf32>) {
  %0 = nn.less %x, %x : tensor<4xbf16>, tensor<4xbf16> -> tensor<4xi1>
  %1 = nn.relu %z : tensor<4xf32> -> tensor<4xf32>
  func.return %0, %1 : tensor<4xi1>, tensor<4xf32>
}

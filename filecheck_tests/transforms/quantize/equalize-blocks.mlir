// Gains in front of divided rows are divided block by block, and the scales of the blocks multiplied.

// RUN: qmlir-opt --apply-policy="settings={data=%S/Inputs/samples.npy}" --equalize-blocks --split-input-file %s | filecheck %s

// Rows [1, 0.25] and [3, 0.25]: the second block has 1/6 of its rows in the mean. The gain is divided by the root of
// that in quarters, 10/4, and the scale multiplied, so that the function stays.
// CHECK-LABEL: func.func @gained
// CHECK: %[[G:.*]] = nn.constant <tensor<2xf32>, [1.0, 0.62{{[0-9]*}}]>
// CHECK-NEXT: nn.mul %x, %[[G]] {qmlir.channel_factors = #qmlir.weights<tensor<2xf32>, [1.0, 2.5]>}
// CHECK: %[[S:.*]] = nn.constant <tensor<1x2xf32>, [0.5, 0.4]>
// CHECK-NEXT: nn.blocked_fully_connected %{{.*}}, %w, %[[S]], %z
func.func @gained(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  calib.observe %x {name = "x", range = [0.0, 3.0]} : tensor<1x2xf32>
  %g = nn.constant <tensor<2xf32>, [1.0, 0.25]> : tensor<2xf32>
  %r = nn.mul %x, %g : tensor<1x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  calib.observe %r {name = "r", range = [0.0, 3.0]} : tensor<1x2xf32>
  %q = nn.divide_rows %r : tensor<1x2xf32> -> tensor<1x2xf32>
  calib.observe %q {name = "q", range = [-1.0, 1.0]} : tensor<1x2xf32>
  %w = nn.constant <tensor<1x2xui4>, [0x3, 0xf]> : tensor<1x2xui4>
  %s = nn.constant <tensor<1x2xf32>, [0.5, 1.0]> : tensor<1x2xf32>
  %z = nn.constant <tensor<1x2xf32>, [7.5, 8.0]> : tensor<1x2xf32>
  %y = nn.blocked_fully_connected %q, %w, %s, %z {block = 1 : i64} : tensor<1x2xf32>, tensor<1x2xui4>, tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  calib.observe %y {name = "y", range = [-9.0, 9.0]} : tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}

// -----

// CHECK-LABEL: func.func @read_by_others
// CHECK: nn.constant <tensor<2xf32>, [1.0, 0.25]>
// CHECK-NEXT: nn.mul %x, %g : tensor<1x2xf32>
// CHECK: nn.constant <tensor<1x2xf32>, [0.5, 1.0]>
func.func @read_by_others(%x: tensor<1x2xf32>) -> (tensor<1x1xf32>, tensor<1x2xf32>) {
  calib.observe %x {name = "x", range = [0.0, 3.0]} : tensor<1x2xf32>
  %g = nn.constant <tensor<2xf32>, [1.0, 0.25]> : tensor<2xf32>
  %r = nn.mul %x, %g : tensor<1x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  calib.observe %r {name = "r", range = [0.0, 3.0]} : tensor<1x2xf32>
  %q = nn.divide_rows %r : tensor<1x2xf32> -> tensor<1x2xf32>
  calib.observe %q {name = "q", range = [-1.0, 1.0]} : tensor<1x2xf32>
  %w = nn.constant <tensor<1x2xui4>, [0x3, 0xf]> : tensor<1x2xui4>
  %s = nn.constant <tensor<1x2xf32>, [0.5, 1.0]> : tensor<1x2xf32>
  %z = nn.constant <tensor<1x2xf32>, [7.5, 8.0]> : tensor<1x2xf32>
  %y = nn.blocked_fully_connected %q, %w, %s, %z {block = 1 : i64} : tensor<1x2xf32>, tensor<1x2xui4>, tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  calib.observe %y {name = "y", range = [-9.0, 9.0]} : tensor<1x1xf32>
  func.return %y, %r : tensor<1x1xf32>, tensor<1x2xf32>
}

// -----

// CHECK-LABEL: func.func @scalar
// CHECK: nn.mul %{{.*}}, %g : tensor<f32>, tensor<f32>
func.func @scalar(%x: tensor<1x2xf32>) -> tensor<f32> {
  calib.observe %x {name = "x", range = [0.0, 3.0]} : tensor<1x2xf32>
  %m = nn.reduce_max %x {axes = array<i64: 0, 1>} : tensor<1x2xf32> -> tensor<1x1xf32>
  %s = nn.reshape %m {shape = array<i64>} : tensor<1x1xf32> -> tensor<f32>
  %g = nn.constant <tensor<f32>, [2.0]> : tensor<f32>
  %y = nn.mul %s, %g : tensor<f32>, tensor<f32> -> tensor<f32>
  calib.observe %y {name = "y", range = [0.0, 6.0]} : tensor<f32>
  func.return %y : tensor<f32>
}

// -----

// A gain that a layer computes: its scales are divided, row by row. The rows are [1, 0.25] and [9, 0.25], so that the
// second block has 5/36 of its rows in the mean.

// CHECK-LABEL: func.func @gated
// CHECK: %[[U:.*]] = nn.constant <tensor<2x2xf32>, [1.0, 1.0, 0.6875, 0.6875]>
// CHECK-NEXT: nn.blocked_fully_connected %{{.*}}, %u, %[[U]], %uz {block = 1 : i64}
// CHECK: nn.multiply_rows %{{.*}} {qmlir.channel_factors = #qmlir.weights<tensor<2xf32>, [1.0, 2.75]>
// CHECK: calib.observe %{{.*}} {name = "p", range = [6.875000e-01 : f64, 3.000000e+00 : f64
// CHECK: nn.mul %x, %{{.*}} {qmlir.channel_factors = #qmlir.weights<tensor<2xf32>, [1.0, 2.75]>}
// CHECK: %[[S:.*]] = nn.constant <tensor<1x2xf32>, [0.5, 0.3636{{.*}}]>
// CHECK-NEXT: nn.blocked_fully_connected %{{.*}}, %w, %[[S]], %z
func.func @gated(%x: tensor<1x2xf32>) -> tensor<1x1xf32> {
  calib.observe %x {name = "x", range = [0.0, 3.0]} : tensor<1x2xf32>
  %m = nn.row_magnitudes %x : tensor<1x2xf32> -> tensor<1x1xf32>
  %d = nn.divide_rows %x : tensor<1x2xf32> -> tensor<1x2xf32>
  %u = nn.constant <tensor<2x2xui4>, [0x9, 0x8, 0x8, 0x9]> : tensor<2x2xui4>
  %us = nn.constant <tensor<2x2xf32>, [1.0, 1.0, 0.25, 0.25]> : tensor<2x2xf32>
  %uz = nn.constant <tensor<2x2xui4>, [0x8, 0x8, 0x8, 0x8]> : tensor<2x2xui4>
  %l = nn.blocked_fully_connected %d, %u, %us, %uz {block = 1 : i64} : tensor<1x2xf32>, tensor<2x2xui4>, tensor<2x2xf32>, tensor<2x2xui4> -> tensor<1x2xf32>
  %p = nn.multiply_rows %l, %m : tensor<1x2xf32>, tensor<1x1xf32> -> tensor<1x2xf32>
  calib.observe %p {name = "p", range = [0.0, 3.0]} : tensor<1x2xf32>
  %r = nn.mul %x, %p : tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x2xf32>
  calib.observe %r {name = "r", range = [0.0, 9.0]} : tensor<1x2xf32>
  %q = nn.divide_rows %r : tensor<1x2xf32> -> tensor<1x2xf32>
  %w = nn.constant <tensor<1x2xui4>, [0x3, 0xf]> : tensor<1x2xui4>
  %s = nn.constant <tensor<1x2xf32>, [0.5, 1.0]> : tensor<1x2xf32>
  %z = nn.constant <tensor<1x2xf32>, [7.5, 8.0]> : tensor<1x2xf32>
  %y = nn.blocked_fully_connected %q, %w, %s, %z {block = 1 : i64} : tensor<1x2xf32>, tensor<1x2xui4>, tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}

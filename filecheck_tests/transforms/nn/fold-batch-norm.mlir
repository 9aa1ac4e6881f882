// RUN: qmlir-opt --fold-batch-norm %s | filecheck %s

// A batch normalization behind a convolution: weights and bias take it in.
// CHECK-LABEL: func.func @conv2d
// CHECK-DAG: %[[W:.*]] = nn.constant <tensor<2x1x1x1xf32>, [6.0, 20.0]> {qmlir.name = #qmlir.name<tensors ["w"], absorbed ["scale"]>}
// CHECK-DAG: %[[B:.*]] = nn.constant <tensor<2xf32>, [11.0, 25.0]> {qmlir.name = #qmlir.name<tensors ["b"], absorbed ["offset"]>}
// CHECK: nn.conv2d %x, %[[W]], %[[B]] {qmlir.name = #qmlir.name<nodes ["conv", "bn"], tensors ["y"], absorbed ["conv_out", "bn.scaled"]>}
// CHECK-NEXT: func.return
func.func @conv2d(%x: tensor<1x4x4x1xf32>) -> tensor<1x4x4x2xf32> {
  %w = nn.constant <tensor<2x1x1x1xf32>, [2.0, 5.0]> {qmlir.name = #qmlir.name<tensors ["w"]>} : tensor<2x1x1x1xf32>
  %b = nn.constant <tensor<2xf32>, [3.0, 6.0]> {qmlir.name = #qmlir.name<tensors ["b"]>} : tensor<2xf32>
  %scale = nn.constant <tensor<2xf32>, [3.0, 4.0]> {qmlir.name = #qmlir.name<tensors ["scale"]>} : tensor<2xf32>
  %offset = nn.constant <tensor<2xf32>, [2.0, 1.0]> {qmlir.name = #qmlir.name<tensors ["offset"]>} : tensor<2xf32>
  %c = nn.conv2d %x, %w, %b {qmlir.name = #qmlir.name<nodes ["conv"], tensors ["conv_out"]>} : tensor<1x4x4x1xf32>, tensor<2x1x1x1xf32>, tensor<2xf32> -> tensor<1x4x4x2xf32>
  %s = nn.mul %c, %scale {qmlir.name = #qmlir.name<tensors ["bn.scaled"]>} : tensor<1x4x4x2xf32>, tensor<2xf32> -> tensor<1x4x4x2xf32>
  %y = nn.add %s, %offset {qmlir.name = #qmlir.name<nodes ["bn"], tensors ["y"]>} : tensor<1x4x4x2xf32>, tensor<2xf32> -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}

// The scale may come first and clamp; channels are last in depthwise weights.
// CHECK-LABEL: func.func @depthwise
// CHECK: %[[W:.*]] = nn.constant <tensor<1x1x1x2xf32>, [6.0, 20.0]>
// CHECK: nn.depthwise_conv2d %x, %[[W]] {min = 0.000000e+00 : f32}
// CHECK-NEXT: func.return
func.func @depthwise(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32> {
  %w = nn.constant <tensor<1x1x1x2xf32>, [2.0, 5.0]> : tensor<1x1x1x2xf32>
  %scale = nn.constant <tensor<1x1x2xf32>, [3.0, 4.0]> : tensor<1x1x2xf32>
  %c = nn.depthwise_conv2d %x, %w : tensor<1x4x4x2xf32>, tensor<1x1x1x2xf32> -> tensor<1x4x4x2xf32>
  %y = nn.mul %scale, %c {min = 0.0 : f32} : tensor<1x1x2xf32>, tensor<1x4x4x2xf32> -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}

// Through a reshape that keeps the channels last.
// CHECK-LABEL: func.func @fully_connected
// CHECK: %[[W:.*]] = nn.constant <tensor<2x1xf32>, [6.0, 20.0]>
// CHECK: %[[Y:.*]] = nn.fully_connected %x, %[[W]]
// CHECK-NEXT: nn.reshape %[[Y]]
// CHECK-NEXT: func.return
func.func @fully_connected(%x: tensor<6x1xf32>) -> tensor<3x2x2xf32> {
  %w = nn.constant <tensor<2x1xf32>, [2.0, 5.0]> : tensor<2x1xf32>
  %scale = nn.constant <tensor<2xf32>, [3.0, 4.0]> : tensor<2xf32>
  %c = nn.fully_connected %x, %w : tensor<6x1xf32>, tensor<2x1xf32> -> tensor<6x2xf32>
  %r = nn.reshape %c {shape = array<i64: 3, 2, 2>} : tensor<6x2xf32> -> tensor<3x2x2xf32>
  %y = nn.mul %r, %scale : tensor<3x2x2xf32>, tensor<2xf32> -> tensor<3x2x2xf32>
  func.return %y : tensor<3x2x2xf32>
}

// A scale before a padded convolution folds: padding counts as zero, and a scaled zero is zero.
// CHECK-LABEL: func.func @scale_before_padding
// CHECK: %[[W:.*]] = nn.constant <tensor<1x1x1x2xf32>, [6.0, 20.0]>
// CHECK: nn.conv2d %x, %[[W]] {padding
// CHECK-NEXT: func.return
func.func @scale_before_padding(%x: tensor<1x4x4x2xf32>) -> tensor<1x6x6x1xf32> {
  %w = nn.constant <tensor<1x1x1x2xf32>, [2.0, 5.0]> : tensor<1x1x1x2xf32>
  %scale = nn.constant <tensor<2xf32>, [3.0, 4.0]> : tensor<2xf32>
  %s = nn.mul %x, %scale : tensor<1x4x4x2xf32>, tensor<2xf32> -> tensor<1x4x4x2xf32>
  %y = nn.conv2d %s, %w {padding = array<i64: 1, 1, 1, 1>} : tensor<1x4x4x2xf32>, tensor<1x1x1x2xf32> -> tensor<1x6x6x1xf32>
  func.return %y : tensor<1x6x6x1xf32>
}

// An offset there does not.
// CHECK-LABEL: func.func @not_offset_before_padding
// CHECK: nn.add
// CHECK: nn.conv2d
func.func @not_offset_before_padding(%x: tensor<1x4x4x2xf32>) -> tensor<1x6x6x1xf32> {
  %w = nn.constant <tensor<1x1x1x2xf32>, [2.0, 5.0]> : tensor<1x1x1x2xf32>
  %offset = nn.constant <tensor<2xf32>, [3.0, 4.0]> : tensor<2xf32>
  %s = nn.add %x, %offset : tensor<1x4x4x2xf32>, tensor<2xf32> -> tensor<1x4x4x2xf32>
  %y = nn.conv2d %s, %w {padding = array<i64: 1, 1, 1, 1>} : tensor<1x4x4x2xf32>, tensor<1x1x1x2xf32> -> tensor<1x6x6x1xf32>
  func.return %y : tensor<1x6x6x1xf32>
}

// Without padding it becomes a bias: 2 · 3 + 5 · 4.
// CHECK-LABEL: func.func @offset_without_padding
// CHECK: %[[B:.*]] = nn.constant <tensor<1xf32>, [26.0]>
// CHECK: nn.conv2d %x, %w, %[[B]]
// CHECK-NEXT: func.return
func.func @offset_without_padding(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x1xf32> {
  %w = nn.constant <tensor<1x1x1x2xf32>, [2.0, 5.0]> : tensor<1x1x1x2xf32>
  %offset = nn.constant <tensor<2xf32>, [3.0, 4.0]> : tensor<2xf32>
  %s = nn.add %x, %offset : tensor<1x4x4x2xf32>, tensor<2xf32> -> tensor<1x4x4x2xf32>
  %y = nn.conv2d %s, %w : tensor<1x4x4x2xf32>, tensor<1x1x1x2xf32> -> tensor<1x4x4x1xf32>
  func.return %y : tensor<1x4x4x1xf32>
}

// Through a flattening into each column.
// CHECK-LABEL: func.func @before_flattening
// CHECK: %[[X:.*]] = nn.reshape %x
// CHECK-NEXT: %[[W:.*]] = nn.constant <tensor<1x4xf32>, [10.0, 200.0, 30.0, 400.0]>
// CHECK-NEXT: nn.fully_connected %[[X]], %[[W]]
// CHECK-NEXT: func.return
func.func @before_flattening(%x: tensor<3x2x2xf32>) -> tensor<3x1xf32> {
  %w = nn.constant <tensor<1x4xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<1x4xf32>
  %scale = nn.constant <tensor<2xf32>, [10.0, 100.0]> : tensor<2xf32>
  %s = nn.mul %x, %scale : tensor<3x2x2xf32>, tensor<2xf32> -> tensor<3x2x2xf32>
  %f = nn.reshape %s {shape = array<i64: 3, 4>} : tensor<3x2x2xf32> -> tensor<3x4xf32>
  %y = nn.fully_connected %f, %w : tensor<3x4xf32>, tensor<1x4xf32> -> tensor<3x1xf32>
  func.return %y : tensor<3x1xf32>
}

// CHECK-LABEL: func.func @merge
// CHECK-NEXT: %[[C:.*]] = nn.constant <tensor<1x2xf32>, [3.0, 8.0]>
// CHECK-NEXT: nn.mul %x, %[[C]]
// CHECK-NEXT: func.return
func.func @merge(%x: tensor<3x2xf32>) -> tensor<3x2xf32> {
  %c = nn.constant <tensor<2xf32>, [1.0, 2.0]> : tensor<2xf32>
  %d = nn.constant <tensor<1x2xf32>, [3.0, 4.0]> : tensor<1x2xf32>
  %a = nn.mul %x, %c : tensor<3x2xf32>, tensor<2xf32> -> tensor<3x2xf32>
  %y = nn.mul %a, %d : tensor<3x2xf32>, tensor<1x2xf32> -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// Not for a value with another user, a clamp in between, a constant along another dimension, or a row and a column.
// CHECK-LABEL: func.func @not_shared
// CHECK: nn.conv2d
// CHECK: nn.mul
func.func @not_shared(%x: tensor<1x4x4x1xf32>) -> (tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>) {
  %w = nn.constant <tensor<2x1x1x1xf32>, [2.0, 5.0]> : tensor<2x1x1x1xf32>
  %scale = nn.constant <tensor<2xf32>, [3.0, 4.0]> : tensor<2xf32>
  %c = nn.conv2d %x, %w : tensor<1x4x4x1xf32>, tensor<2x1x1x1xf32> -> tensor<1x4x4x2xf32>
  %y = nn.mul %c, %scale : tensor<1x4x4x2xf32>, tensor<2xf32> -> tensor<1x4x4x2xf32>
  func.return %c, %y : tensor<1x4x4x2xf32>, tensor<1x4x4x2xf32>
}

// Not into weights that are also a table of embeddings.
// CHECK-LABEL: func.func @not_into_a_table
// CHECK: nn.gather
// CHECK: nn.mul
// CHECK: nn.fully_connected
func.func @not_into_a_table(%i: tensor<3xi64>) -> tensor<3x2xf32> {
  %table = nn.constant <tensor<2x2xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<2x2xf32>
  %scale = nn.constant <tensor<2xf32>, [10.0, 100.0]> : tensor<2xf32>
  %x = nn.gather %table, %i {axis = 0 : i64} : tensor<2x2xf32>, tensor<3xi64> -> tensor<3x2xf32>
  %s = nn.mul %x, %scale : tensor<3x2xf32>, tensor<2xf32> -> tensor<3x2xf32>
  %y = nn.fully_connected %s, %table : tensor<3x2xf32>, tensor<2x2xf32> -> tensor<3x2xf32>
  func.return %y : tensor<3x2xf32>
}

// CHECK-LABEL: func.func @not_clamped
// CHECK: nn.conv2d
// CHECK: nn.mul
func.func @not_clamped(%x: tensor<1x4x4x1xf32>) -> tensor<1x4x4x2xf32> {
  %w = nn.constant <tensor<2x1x1x1xf32>, [2.0, 5.0]> : tensor<2x1x1x1xf32>
  %scale = nn.constant <tensor<2xf32>, [3.0, 4.0]> : tensor<2xf32>
  %c = nn.conv2d %x, %w {min = 0.0 : f32} : tensor<1x4x4x1xf32>, tensor<2x1x1x1xf32> -> tensor<1x4x4x2xf32>
  %y = nn.mul %c, %scale : tensor<1x4x4x2xf32>, tensor<2xf32> -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}

// A scale folds through data movement, as that of a transposed convolution, if each output channel has one factor.
// CHECK-LABEL: func.func @through_depth_to_space
// CHECK: nn.constant <tensor<4x1xf32>, [6.0, 15.0, 14.0, 22.0]>
// CHECK: nn.fully_connected
// CHECK-NEXT: nn.reshape
// CHECK-NEXT: nn.transpose
// CHECK-NEXT: nn.slice
// CHECK-NEXT: func.return
func.func @through_depth_to_space(%x: tensor<3x1xf32>) -> tensor<2x2x3xf32> {
  %w = nn.constant <tensor<4x1xf32>, [2.0, 5.0, 7.0, 11.0]> : tensor<4x1xf32>
  %scale = nn.constant <tensor<2x1x1xf32>, [3.0, 2.0]> : tensor<2x1x1xf32>
  %c = nn.fully_connected %x, %w : tensor<3x1xf32>, tensor<4x1xf32> -> tensor<3x4xf32>
  %r = nn.reshape %c {shape = array<i64: 3, 2, 2>} : tensor<3x4xf32> -> tensor<3x2x2xf32>
  %t = nn.transpose %r {permutation = array<i64: 1, 2, 0>} : tensor<3x2x2xf32> -> tensor<2x2x3xf32>
  %s = nn.slice %t {offsets = array<i64: 0, 0, 0>, sizes = array<i64: 2, 2, 3>, strides = array<i64: 1, 1, 1>} : tensor<2x2x3xf32> -> tensor<2x2x3xf32>
  %y = nn.mul %s, %scale : tensor<2x2x3xf32>, tensor<2x1x1xf32> -> tensor<2x2x3xf32>
  func.return %y : tensor<2x2x3xf32>
}

// CHECK-LABEL: func.func @not_within_a_channel
// CHECK: nn.mul
func.func @not_within_a_channel(%x: tensor<3x1xf32>) -> tensor<4x3xf32> {
  %w = nn.constant <tensor<4x1xf32>, [2.0, 5.0, 7.0, 11.0]> : tensor<4x1xf32>
  %scale = nn.constant <tensor<3xf32>, [3.0, 2.0, 4.0]> : tensor<3xf32>
  %c = nn.fully_connected %x, %w : tensor<3x1xf32>, tensor<4x1xf32> -> tensor<3x4xf32>
  %t = nn.transpose %c {permutation = array<i64: 1, 0>} : tensor<3x4xf32> -> tensor<4x3xf32>
  %y = nn.mul %t, %scale : tensor<4x3xf32>, tensor<3xf32> -> tensor<4x3xf32>
  func.return %y : tensor<4x3xf32>
}

// CHECK-LABEL: func.func @not_along_rows
// CHECK: nn.conv2d
// CHECK: nn.mul
func.func @not_along_rows(%x: tensor<1x2x4x1xf32>) -> tensor<1x2x4x2xf32> {
  %w = nn.constant <tensor<2x1x1x1xf32>, [2.0, 5.0]> : tensor<2x1x1x1xf32>
  %scale = nn.constant <tensor<2x1x1xf32>, [3.0, 4.0]> : tensor<2x1x1xf32>
  %c = nn.conv2d %x, %w : tensor<1x2x4x1xf32>, tensor<2x1x1x1xf32> -> tensor<1x2x4x2xf32>
  %y = nn.mul %c, %scale : tensor<1x2x4x2xf32>, tensor<2x1x1xf32> -> tensor<1x2x4x2xf32>
  func.return %y : tensor<1x2x4x2xf32>
}

// CHECK-LABEL: func.func @not_row_and_column
// CHECK: nn.mul
// CHECK: nn.mul
func.func @not_row_and_column(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %c = nn.constant <tensor<2xf32>, [1.0, 2.0]> : tensor<2xf32>
  %d = nn.constant <tensor<2x1xf32>, [3.0, 4.0]> : tensor<2x1xf32>
  %a = nn.mul %x, %c : tensor<2x2xf32>, tensor<2xf32> -> tensor<2x2xf32>
  %y = nn.mul %a, %d : tensor<2x2xf32>, tensor<2x1xf32> -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

// A product that does not fit into f32 stays two factors.
// CHECK-LABEL: func.func @not_overflowing
// CHECK: nn.fully_connected
// CHECK: nn.mul
func.func @not_overflowing(%x: tensor<1x1xf32>) -> tensor<1x1xf32> {
  %w = nn.constant <tensor<1x1xf32>, [1.0e30]> : tensor<1x1xf32>
  %scale = nn.constant <tensor<1xf32>, [1.0e30]> : tensor<1xf32>
  %c = nn.fully_connected %x, %w : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
  %y = nn.mul %c, %scale : tensor<1x1xf32>, tensor<1xf32> -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}

// A scale behind a layer whose weights have a scale for each block stays, because the weights are no floats.
// CHECK-LABEL: func.func @blocks
// CHECK: nn.blocked_fully_connected
// CHECK: nn.mul
func.func @blocks(%x: tensor<3x4xf32>) -> tensor<3x1xf32> {
  %w = nn.constant <tensor<1x4xi4>, [0x1, 0x2, 0x3, 0x4]> : tensor<1x4xi4>
  %s = nn.constant <tensor<1x2xf32>, [1.0, 2.0]> : tensor<1x2xf32>
  %z = nn.constant <tensor<1x2xi4>, [0x0, 0x0]> : tensor<1x2xi4>
  %scale = nn.constant <tensor<1xf32>, [3.0]> : tensor<1xf32>
  %c = nn.blocked_fully_connected %x, %w, %s, %z {block = 2 : i64} : tensor<3x4xf32>, tensor<1x4xi4>, tensor<1x2xf32>, tensor<1x2xi4> -> tensor<3x1xf32>
  %y = nn.mul %c, %scale : tensor<3x1xf32>, tensor<1xf32> -> tensor<3x1xf32>
  func.return %y : tensor<3x1xf32>
}

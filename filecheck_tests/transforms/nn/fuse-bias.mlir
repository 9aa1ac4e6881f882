// RUN: qmlir-opt --fuse-bias %s | filecheck %s

// CHECK-LABEL: func.func @conv2d
// CHECK: %[[B:.*]] = nn.constant <tensor<2xf32>, [3.0, 4.0]> {qmlir.name = #qmlir.name<tensors ["offset"]>}
// CHECK: nn.conv2d %x, %w, %[[B]] {qmlir.name = #qmlir.name<nodes ["conv", "plus"], tensors ["y"], absorbed ["conv_out"]>}
// CHECK-NEXT: func.return
func.func @conv2d(%x: tensor<1x4x4x1xf32>) -> tensor<1x4x4x2xf32> {
  %w = nn.constant <tensor<2x1x1x1xf32>, [2.0, 5.0]> : tensor<2x1x1x1xf32>
  %offset = nn.constant <tensor<1x1x1x2xf32>, [3.0, 4.0]> {qmlir.name = #qmlir.name<tensors ["offset"]>} : tensor<1x1x1x2xf32>
  %c = nn.conv2d %x, %w {qmlir.name = #qmlir.name<nodes ["conv"], tensors ["conv_out"]>} : tensor<1x4x4x1xf32>, tensor<2x1x1x1xf32> -> tensor<1x4x4x2xf32>
  %y = nn.add %c, %offset {qmlir.name = #qmlir.name<nodes ["plus"], tensors ["y"]>} : tensor<1x4x4x2xf32>, tensor<1x1x1x2xf32> -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}

// One value for all channels, the constant first, a clamp on the sum, a bias there already.
// CHECK-LABEL: func.func @depthwise
// CHECK: %[[B:.*]] = nn.constant <tensor<2xf32>, [4.0, 5.0]>
// CHECK: nn.depthwise_conv2d %x, %w, %[[B]] {max = 6.000000e+00 : f32}
// CHECK-NEXT: func.return
func.func @depthwise(%x: tensor<1x4x4x2xf32>) -> tensor<1x4x4x2xf32> {
  %w = nn.constant <tensor<1x1x1x2xf32>, [2.0, 5.0]> : tensor<1x1x1x2xf32>
  %b = nn.constant <tensor<2xf32>, [1.0, 2.0]> : tensor<2xf32>
  %offset = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %c = nn.depthwise_conv2d %x, %w, %b : tensor<1x4x4x2xf32>, tensor<1x1x1x2xf32>, tensor<2xf32> -> tensor<1x4x4x2xf32>
  %y = nn.add %offset, %c {max = 6.0 : f32} : tensor<f32>, tensor<1x4x4x2xf32> -> tensor<1x4x4x2xf32>
  func.return %y : tensor<1x4x4x2xf32>
}

// A product with a constant matrix becomes a fully connected layer, and then takes a bias.
// CHECK-LABEL: func.func @matmul
// CHECK-DAG: %[[W:.*]] = nn.constant <tensor<2x3xf32>, [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]>
// CHECK-DAG: %[[B:.*]] = nn.constant <tensor<2xf32>, [7.0, 8.0]>
// CHECK: nn.fully_connected %x, %[[W]], %[[B]] : tensor<4x3xf32>
// CHECK-NEXT: func.return
func.func @matmul(%x: tensor<4x3xf32>) -> tensor<4x2xf32> {
  %w = nn.constant <tensor<3x2xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<3x2xf32>
  %offset = nn.constant <tensor<1x2xf32>, [7.0, 8.0]> : tensor<1x2xf32>
  %c = nn.matmul %x, %w : tensor<4x3xf32>, tensor<3x2xf32> -> tensor<4x2xf32>
  %y = nn.add %c, %offset : tensor<4x2xf32>, tensor<1x2xf32> -> tensor<4x2xf32>
  func.return %y : tensor<4x2xf32>
}

// Of any rank, between reshapes.
// CHECK-LABEL: func.func @batched_matmul
// CHECK: %[[X:.*]] = nn.reshape %x {shape = array<i64: 20, 3>}
// CHECK: %[[Y:.*]] = nn.fully_connected %[[X]], %{{.*}}, %{{.*}} {qmlir.name = #qmlir.name<nodes ["product"], tensors ["y"], absorbed ["c"]>, min = 0.000000e+00 : f32}
// CHECK-NEXT: %{{.*}} = nn.reshape %[[Y]] {shape = array<i64: 5, 4, 2>}
// CHECK-NEXT: func.return
func.func @batched_matmul(%x: tensor<5x4x3xf32>) -> tensor<5x4x2xf32> {
  %w = nn.constant <tensor<3x2xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<3x2xf32>
  %offset = nn.constant <tensor<2xf32>, [7.0, 8.0]> : tensor<2xf32>
  %c = nn.matmul %x, %w {qmlir.name = #qmlir.name<nodes ["product"], tensors ["c"]>} : tensor<5x4x3xf32>, tensor<3x2xf32> -> tensor<5x4x2xf32>
  %y = nn.add %c, %offset {min = 0.0 : f32, qmlir.name = #qmlir.name<tensors ["y"]>} : tensor<5x4x2xf32>, tensor<2xf32> -> tensor<5x4x2xf32>
  func.return %y : tensor<5x4x2xf32>
}

// One matrix for all that it multiplies, whatever dimensions it has in front.
// CHECK-LABEL: func.func @one_matrix
// CHECK: %[[W:.*]] = nn.constant <tensor<2x3xf32>, [1.0, 3.0, 5.0, 2.0, 4.0, 6.0]>
// CHECK: %[[X:.*]] = nn.reshape %x {shape = array<i64: 20, 3>}
// CHECK-NEXT: %[[Y:.*]] = nn.fully_connected %[[X]], %[[W]]
// CHECK-NEXT: %{{.*}} = nn.reshape %[[Y]] {shape = array<i64: 5, 4, 2>}
// CHECK-NEXT: func.return
func.func @one_matrix(%x: tensor<5x4x3xf32>) -> tensor<5x4x2xf32> {
  %w = nn.constant <tensor<1x3x2xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<1x3x2xf32>
  %y = nn.matmul %x, %w : tensor<5x4x3xf32>, tensor<1x3x2xf32> -> tensor<5x4x2xf32>
  func.return %y : tensor<5x4x2xf32>
}

// A constant first factor is the weights too, of the columns of the second.
// CHECK-LABEL: func.func @constant_first
// CHECK-DAG: %[[W:.*]] = nn.constant <tensor<2x3xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> {qmlir.name = #qmlir.name<tensors ["w"]>}
// CHECK-DAG: %[[T:.*]] = nn.transpose %x {permutation = array<i64: 0, 2, 1>} : tensor<5x3x4xf32> -> tensor<5x4x3xf32>
// CHECK: %[[X:.*]] = nn.reshape %[[T]] {shape = array<i64: 20, 3>}
// CHECK-NEXT: %[[Y:.*]] = nn.fully_connected %[[X]], %[[W]] {qmlir.name = #qmlir.name<nodes ["product"], tensors ["y"]>, max = 6.000000e+00 : f32}
// CHECK-NEXT: %[[Z:.*]] = nn.reshape %[[Y]] {shape = array<i64: 5, 4, 2>}
// CHECK-NEXT: %{{.*}} = nn.transpose %[[Z]] {permutation = array<i64: 0, 2, 1>} : tensor<5x4x2xf32> -> tensor<5x2x4xf32>
// CHECK-NEXT: func.return
func.func @constant_first(%x: tensor<5x3x4xf32>) -> tensor<5x2x4xf32> {
  %w = nn.constant <tensor<2x3xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> {qmlir.name = #qmlir.name<tensors ["w"]>} : tensor<2x3xf32>
  %y = nn.matmul %w, %x {max = 6.0 : f32, qmlir.name = #qmlir.name<nodes ["product"], tensors ["y"]>} : tensor<2x3xf32>, tensor<5x3x4xf32> -> tensor<5x2x4xf32>
  func.return %y : tensor<5x2x4xf32>
}

// A matrix for each of a batch is no layer's weights: it stays a product, and so do two computed factors.
// CHECK-LABEL: func.func @several_matrices
// CHECK: nn.matmul %x, %{{.*}} : tensor<2x1x3xf32>, tensor<2x3x1xf32>
// CHECK-NEXT: nn.matmul %x, %z
// CHECK-NOT: nn.fully_connected
func.func @several_matrices(%x: tensor<2x1x3xf32>, %z: tensor<2x3x1xf32>) -> (tensor<2x1x1xf32>, tensor<2x1x1xf32>) {
  %w = nn.constant <tensor<2x3x1xf32>, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]> : tensor<2x3x1xf32>
  %y = nn.matmul %x, %w : tensor<2x1x3xf32>, tensor<2x3x1xf32> -> tensor<2x1x1xf32>
  %q = nn.matmul %x, %z : tensor<2x1x3xf32>, tensor<2x3x1xf32> -> tensor<2x1x1xf32>
  func.return %y, %q : tensor<2x1x1xf32>, tensor<2x1x1xf32>
}

// Not a matrix for each element of the batch, nor a computed one.
// CHECK-LABEL: func.func @not_matmul
// CHECK: nn.matmul
// CHECK: nn.matmul
func.func @not_matmul(%x: tensor<2x1x2xf32>, %w: tensor<1x2xf32>) -> tensor<2x1x2xf32> {
  %ws = nn.constant <tensor<2x2x1xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<2x2x1xf32>
  %c = nn.matmul %x, %ws : tensor<2x1x2xf32>, tensor<2x2x1xf32> -> tensor<2x1x1xf32>
  %y = nn.matmul %c, %w : tensor<2x1x1xf32>, tensor<1x2xf32> -> tensor<2x1x2xf32>
  func.return %y : tensor<2x1x2xf32>
}

// Not a constant along rows, which are as many as channels here.
// CHECK-LABEL: func.func @not_along_rows
// CHECK: nn.add
func.func @not_along_rows(%x: tensor<2x1xf32>) -> tensor<2x2xf32> {
  %w = nn.constant <tensor<2x1xf32>, [2.0, 5.0]> : tensor<2x1xf32>
  %offset = nn.constant <tensor<2x1xf32>, [3.0, 4.0]> : tensor<2x1xf32>
  %c = nn.fully_connected %x, %w : tensor<2x1xf32>, tensor<2x1xf32> -> tensor<2x2xf32>
  %y = nn.add %c, %offset : tensor<2x2xf32>, tensor<2x1xf32> -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

// Not a constant that widens the result, nor behind a clamp.
// CHECK-LABEL: func.func @not_widening
// CHECK: nn.add
func.func @not_widening(%x: tensor<1x1xf32>) -> tensor<1x1x1xf32> {
  %w = nn.constant <tensor<1x1xf32>, [2.0]> : tensor<1x1xf32>
  %offset = nn.constant <tensor<1x1x1xf32>, [3.0]> : tensor<1x1x1xf32>
  %c = nn.fully_connected %x, %w : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
  %y = nn.add %c, %offset : tensor<1x1xf32>, tensor<1x1x1xf32> -> tensor<1x1x1xf32>
  func.return %y : tensor<1x1x1xf32>
}

// CHECK-LABEL: func.func @not_clamped
// CHECK: nn.add
func.func @not_clamped(%x: tensor<1x1xf32>) -> tensor<1x1xf32> {
  %w = nn.constant <tensor<1x1xf32>, [2.0]> : tensor<1x1xf32>
  %offset = nn.constant <tensor<1xf32>, [3.0]> : tensor<1xf32>
  %c = nn.fully_connected %x, %w {min = 0.0 : f32} : tensor<1x1xf32>, tensor<1x1xf32> -> tensor<1x1xf32>
  %y = nn.add %c, %offset : tensor<1x1xf32>, tensor<1xf32> -> tensor<1x1xf32>
  func.return %y : tensor<1x1xf32>
}

// A layer whose weights have a scale for each block keeps its integers, and adds the constant to the bias it has.
// CHECK-LABEL: func.func @blocks
// CHECK: %[[B:.*]] = nn.constant <tensor<2xf32>, [4.0, 6.0]>
// CHECK: %[[Y:.*]] = nn.blocked_fully_connected %x, %w, %s, %z, %[[B]] {qmlir.name = #qmlir.name<nodes ["product"], tensors ["y"], absorbed ["c"]>, block = 2 : i64, max = 6.000000e+00 : f32} : tensor<3x4xf32>, tensor<2x4xi4>
// CHECK-NEXT: %{{.*}} = nn.reshape %[[Y]] {shape = array<i64: 1, 3, 2>}
// CHECK-NEXT: func.return
func.func @blocks(%x: tensor<3x4xf32>) -> tensor<1x3x2xf32> {
  %w = nn.constant <tensor<2x4xi4>, [0x1, 0x2, 0x3, 0x4, 0x5, 0x6, 0x7, 0x8]> : tensor<2x4xi4>
  %s = nn.constant <tensor<2x2xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<2x2xf32>
  %z = nn.constant <tensor<2x2xi4>, [0x0, 0x0, 0x0, 0x0]> : tensor<2x2xi4>
  %b = nn.constant <tensor<2xf32>, [1.0, 2.0]> : tensor<2xf32>
  %offset = nn.constant <tensor<2xf32>, [3.0, 4.0]> : tensor<2xf32>
  %c = nn.blocked_fully_connected %x, %w, %s, %z, %b {block = 2 : i64, qmlir.name = #qmlir.name<nodes ["product"], tensors ["c"]>} : tensor<3x4xf32>, tensor<2x4xi4>, tensor<2x2xf32>, tensor<2x2xi4>, tensor<2xf32> -> tensor<3x2xf32>
  %r = nn.reshape %c {shape = array<i64: 1, 3, 2>} : tensor<3x2xf32> -> tensor<1x3x2xf32>
  %y = nn.add %r, %offset {max = 6.0 : f32, qmlir.name = #qmlir.name<tensors ["y"]>} : tensor<1x3x2xf32>, tensor<2xf32> -> tensor<1x3x2xf32>
  func.return %y : tensor<1x3x2xf32>
}

// A bias that is computed stays apart.
// CHECK-LABEL: func.func @blocks_with_a_computed_bias
// CHECK: nn.blocked_fully_connected
// CHECK: nn.add
func.func @blocks_with_a_computed_bias(%x: tensor<3x4xf32>, %b: tensor<1xf32>) -> tensor<3x1xf32> {
  %w = nn.constant <tensor<1x4xi4>, [0x1, 0x2, 0x3, 0x4]> : tensor<1x4xi4>
  %s = nn.constant <tensor<1x2xf32>, [1.0, 2.0]> : tensor<1x2xf32>
  %z = nn.constant <tensor<1x2xi4>, [0x0, 0x0]> : tensor<1x2xi4>
  %offset = nn.constant <tensor<1xf32>, [3.0]> : tensor<1xf32>
  %c = nn.blocked_fully_connected %x, %w, %s, %z, %b {block = 2 : i64} : tensor<3x4xf32>, tensor<1x4xi4>, tensor<1x2xf32>, tensor<1x2xi4>, tensor<1xf32> -> tensor<3x1xf32>
  %y = nn.add %c, %offset : tensor<3x1xf32>, tensor<1xf32> -> tensor<3x1xf32>
  func.return %y : tensor<3x1xf32>
}

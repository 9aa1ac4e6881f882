// Scales and zero points of blocks become integers of 8 bits where fewer are asked for weights; their constants say so.

// RUN: qmlir-opt --quantize-block-scales --split-input-file %s | filecheck %s
// RUN: qmlir-opt --quantize-block-scales --nn-to-qint --split-input-file %s | filecheck %s --check-prefix=EXACT

!x = !quant.uniform<i8:f32, 0.5>
!y = !quant.uniform<i8:f32, 1.0>

// Scales are 110 and 33 times 0x3c15, 0.00909424, which suits them better than the least bf16 of which 127 are 1 or more.
// Zero points have 5 bits behind the point, as none is 4 or more from 8. The second moves from 4.4 to 4.40625, which keeps
// the block's mean weight nearest to what it was.

// CHECK-LABEL: func.func @offsets
// CHECK: %[[Z:.*]] = nn.constant <tensor<1x2xf32>, [7.25, 4.40625]> {qmlir.levels = #qmlir.levels<affine, bits = 8, least = -128, size = 2, scales = #qmlir.weights<tensor<1x1xf8E8M0FNU>, [0x7a]>, offsets = #qmlir.weights<tensor<1x1xf32>, [8.0]>>}
// CHECK-NEXT: %[[S:.*]] = nn.constant <tensor<1x2xf32>, [1.0003662, 0.30010986]> {qmlir.levels = #qmlir.levels<affine, bits = 7, least = 0, size = 2, scales = #qmlir.weights<tensor<1x1xbf16>, [0x3c15]>, offsets = #qmlir.weights<tensor<0x1xf32>, []>>}
// CHECK-NEXT: nn.blocked_fully_connected %x, %w, %[[S]], %[[Z]]

// The integer form has these integers, times 32 and times 32 · (8 − z).

// EXACT-LABEL: func.func @offsets
// EXACT: nn.constant <tensor<1x2xi16>, [3520, 1056]>
// EXACT-NEXT: nn.constant <tensor<1x2xi16>, [2640, 3795]>
// EXACT-NEXT: qint.affine_fully_connected
func.func @offsets(%x: tensor<1x4x!x>) -> tensor<1x1x!y> {
  %w = nn.constant <tensor<1x4xui4>, [0x0, 0xf, 0x1, 0xe]> : tensor<1x4xui4>
  %s = nn.constant <tensor<1x2xf32>, [1.0, 0.3]> : tensor<1x2xf32>
  %z = nn.constant <tensor<1x2xf32>, [7.25, 4.4]> : tensor<1x2xf32>
  %y = nn.blocked_fully_connected %x, %w, %s, %z {block = 2 : i64, qmlir.policy = {weight_precision = "int4"}} : tensor<1x4x!x>, tensor<1x4xui4>, tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1x!y>
  func.return %y : tensor<1x1x!y>
}

// -----

!x = !quant.uniform<i8:f32, 0.5>
!y = !quant.uniform<i8:f32, 1.0>

// Zero points that are whole numbers stay, as integers or as floats; a negative scale takes a multiplier of 8 bits.

// CHECK-LABEL: func.func @whole
// CHECK: %[[S:.*]] = nn.constant <tensor<1x2xf32>, [0.99975586, -0.49987793]> {qmlir.levels = #qmlir.levels<affine, bits = 8, least = -128, {{.*}}[0x3c02]
// CHECK-NEXT: nn.blocked_fully_connected %x, %w, %[[S]], %i
// CHECK: %[[Z:.*]] = nn.constant <tensor<1x2xf32>, [8.0, 3.0]> {qmlir.levels = {{.*}}scales = #qmlir.weights<tensor<1x1xf8E8M0FNU>, [0x7f]>
// CHECK: nn.blocked_fully_connected %x, %w, %{{.*}}, %[[Z]]
// EXACT-LABEL: func.func @whole
// EXACT: nn.constant <tensor<1x2xi32>, [126, -63]>
// EXACT: qint.blocked_fully_connected
// EXACT: nn.constant <tensor<1x2xi32>, [126, -63]>
// EXACT: qint.blocked_fully_connected
func.func @whole(%x: tensor<1x4x!x>) -> (tensor<1x1x!y>, tensor<1x1x!y>) {
  %w = nn.constant <tensor<1x4xui4>, [0x0, 0xf, 0x1, 0xe]> : tensor<1x4xui4>
  %s = nn.constant <tensor<1x2xf32>, [1.0, -0.5]> : tensor<1x2xf32>
  %i = nn.constant <tensor<1x2xui4>, [0x8, 0x3]> : tensor<1x2xui4>
  %f = nn.constant <tensor<1x2xf32>, [8.0, 3.0]> : tensor<1x2xf32>
  %y = nn.blocked_fully_connected %x, %w, %s, %i {block = 2 : i64, qmlir.policy = {weight_precision = "int4"}} : tensor<1x4x!x>, tensor<1x4xui4>, tensor<1x2xf32>, tensor<1x2xui4> -> tensor<1x1x!y>
  %t = nn.blocked_fully_connected %x, %w, %s, %f {block = 2 : i64, qmlir.policy = {weight_precision = "int4"}} : tensor<1x4x!x>, tensor<1x4xui4>, tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1x!y>
  func.return %y, %t : tensor<1x1x!y>, tensor<1x1x!y>
}

// -----

!x = !quant.uniform<i8:f32, 0.5>
!y = !quant.uniform<i8:f32, 1.0>

// Not where weights have 8 bits, where a zero point is further than 7.9 from 8, nor in a layer of floats.

// CHECK-LABEL: func.func @others
// CHECK-NOT: qmlir.levels
// CHECK: func.return
// EXACT-LABEL: func.func @others
func.func @others(%x: tensor<1x4x!x>, %f: tensor<1x4xf32>) -> (tensor<1x1x!y>, tensor<1x1x!y>, tensor<1x1xf32>) {
  %w = nn.constant <tensor<1x4xui4>, [0x0, 0xf, 0x1, 0xe]> : tensor<1x4xui4>
  %s = nn.constant <tensor<1x2xf32>, [1.0, 0.3]> : tensor<1x2xf32>
  %z = nn.constant <tensor<1x2xf32>, [7.25, 4.4]> : tensor<1x2xf32>
  %far = nn.constant <tensor<1x2xf32>, [7.25, 17.0]> : tensor<1x2xf32>
  %0 = nn.blocked_fully_connected %x, %w, %s, %z {block = 2 : i64} : tensor<1x4x!x>, tensor<1x4xui4>, tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1x!y>
  %1 = nn.blocked_fully_connected %x, %w, %s, %far {block = 2 : i64, qmlir.policy = {weight_precision = "int4"}} : tensor<1x4x!x>, tensor<1x4xui4>, tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1x!y>
  %2 = nn.blocked_fully_connected %f, %w, %s, %z {block = 2 : i64, qmlir.policy = {weight_precision = "int4"}} : tensor<1x4xf32>, tensor<1x4xui4>, tensor<1x2xf32>, tensor<1x2xf32> -> tensor<1x1xf32>
  func.return %0, %1, %2 : tensor<1x1x!y>, tensor<1x1x!y>, tensor<1x1xf32>
}

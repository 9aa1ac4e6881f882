// RUN: qmlir-opt --qint-to-linalg %s | filecheck %s

// The padding is the data's zero point, and the accumulators start as the bias.
// CHECK-LABEL: func.func @conv2d
// CHECK: tensor.pad %{{.*}} low[0, 1, 0, 0] high[0, 1, 0, 0]
// CHECK: tensor.yield %{{.*}} : i8
// CHECK: linalg.generic
// CHECK: linalg.yield %{{.*}} : i32
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, ((d1 * 2) + d4), (d2 + (d5 * 2)), d6)>,
// CHECK-SAME: affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d3, d4, d5, d6)>, affine_map<(d0, d1, d2, d3, d4, d5, d6) -> (d0, d1, d2, d3)>]
// CHECK-SAME: iterator_types = ["parallel", "parallel", "parallel", "parallel", "reduction", "reduction", "reduction"]
// CHECK: arith.subi %{{.*}}, %{{.*}} : i32
// CHECK: arith.muli
// CHECK-NOT: qint
func.func @conv2d(%x: tensor<1x4x4x2xi8>, %w: tensor<3x3x2x2xi8>, %b: tensor<3xi32>) -> tensor<1x2x2x3xi32> {
  %acc = qint.conv2d %x, %w, %b {zero_point = -5 : i32, strides = array<i64: 2, 1>, dilations = array<i64: 1, 2>, padding = array<i64: 1, 1, 0, 0>} : tensor<1x4x4x2xi8>, tensor<3x3x2x2xi8>, tensor<3xi32> -> tensor<1x2x2x3xi32>
  func.return %acc : tensor<1x2x2x3xi32>
}

// Output channel o reads input channel o div 2: five dimensions, then four again.
// CHECK-LABEL: func.func @depthwise
// CHECK: tensor.expand_shape %{{.*}} into tensor<2x2x3x2xi8>
// CHECK: -> tensor<1x3x3x3x2xi32>
// CHECK: tensor.expand_shape %{{.*}} into tensor<1x3x3x6xi32>
func.func @depthwise(%x: tensor<1x4x4x3xi8>, %w: tensor<1x2x2x6xi8>) -> tensor<1x3x3x6xi32> {
  %acc = qint.depthwise_conv2d %x, %w : tensor<1x4x4x3xi8>, tensor<1x2x2x6xi8> -> tensor<1x3x3x6xi32>
  func.return %acc : tensor<1x3x3x6xi32>
}

// Output channel o sees the input channels of group o div 3: five dimensions, then four again.
// CHECK-LABEL: func.func @grouped
// CHECK: tensor.expand_shape %{{.*}} output_shape [1, 6, 5, 2, 2]
// CHECK: tensor.expand_shape %{{.*}} output_shape [2, 3, 3, 2, 2]
// CHECK: affine_map<(d0, d1, d2, d3, d4, d5, d6, d7) -> (d0, (d1 + d5), (d2 + d6), d3, d7)>
// CHECK: tensor.expand_shape %{{.*}} into tensor<1x4x4x6xi32>
func.func @grouped(%x: tensor<1x6x5x4xi8>, %w: tensor<6x3x2x2xi8>) -> tensor<1x4x4x6xi32> {
  %acc = qint.conv2d %x, %w {groups = 2 : i64} : tensor<1x6x5x4xi8>, tensor<6x3x2x2xi8> -> tensor<1x4x4x6xi32>
  func.return %acc : tensor<1x4x4x6xi32>
}

// CHECK-LABEL: func.func @fully_connected
// CHECK: linalg.fill
// CHECK: linalg.generic {{.*}}iterator_types = ["parallel", "parallel", "reduction"]
func.func @fully_connected(%x: tensor<2x4xi8>, %w: tensor<3x4xi8>) -> tensor<2x3xi32> {
  %acc = qint.fully_connected %x, %w : tensor<2x4xi8>, tensor<3x4xi8> -> tensor<2x3xi32>
  func.return %acc : tensor<2x3xi32>
}

// A batch of one broadcasts.
// CHECK-LABEL: func.func @matmul
// CHECK: affine_map<(d0, d1, d2, d3) -> (0, d1, d3)>, affine_map<(d0, d1, d2, d3) -> (d0, d3, d2)>
func.func @matmul(%a: tensor<1x3x4xi8>, %b: tensor<2x4x5xi8>) -> tensor<2x3x5xi32> {
  %acc = qint.matmul %a, %b : tensor<1x3x4xi8>, tensor<2x4x5xi8> -> tensor<2x3x5xi32>
  func.return %acc : tensor<2x3x5xi32>
}

// RUN: qmlir-opt --qint-to-linalg %s | filecheck %s

// CHECK-LABEL: func.func @movement
// CHECK: tensor.collapse_shape
// CHECK: tensor.expand_shape
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1) -> (d1, d0)>, affine_map<(d0, d1) -> (d0, d1)>]
// CHECK: arith.constant dense<[{{\[7\], \[-1\], \[0\]}}]> : tensor<3x1xi8>
// CHECK-COUNT-2: tensor.insert_slice
// CHECK: tensor.pad %{{.*}} low[1, 0] high[0, 0]
func.func @movement(%x: tensor<4x6xi8>) -> tensor<4x9xi8> {
  %a = nn.reshape %x {shape = array<i64: 8, 3>} : tensor<4x6xi8> -> tensor<8x3xi8>
  %b = nn.transpose %a {permutation = array<i64: 1, 0>} : tensor<8x3xi8> -> tensor<3x8xi8>
  %c = nn.constant <tensor<3x1xi8>, [7, -1, 0]> : tensor<3x1xi8>
  %d = nn.concat %b, %c {axis = 1 : i64} : tensor<3x8xi8>, tensor<3x1xi8> -> tensor<3x9xi8>
  %e = nn.pad %d {low = array<i64: 1, 0>, high = array<i64: 0, 0>, value = 5 : i8} : tensor<3x9xi8> -> tensor<4x9xi8>
  func.return %e : tensor<4x9xi8>
}

// Of reshapes, a pad and a slice.
// CHECK-LABEL: func.func @dilate
// CHECK: tensor.pad %{{.*}} low[0, 0] high[0, 6]
// CHECK: tensor.extract_slice %{{.*}}[0, 0, 0] [2, 9, 2] [1, 1, 1]
func.func @dilate(%x: tensor<2x3x2xi8>) -> tensor<2x9x2xi8> {
  %y = nn.dilate %x {dilations = array<i64: 1, 4, 1>, value = -7 : i8} : tensor<2x3x2xi8> -> tensor<2x9x2xi8>
  func.return %y : tensor<2x9x2xi8>
}

// CHECK-LABEL: func.func @of_one_element
// CHECK: tensor.extract
// CHECK: tensor.splat %{{.*}} : tensor<i8>
func.func @of_one_element(%x: tensor<1x1xi8>) -> tensor<i8> {
  %y = nn.reshape %x {shape = array<i64>} : tensor<1x1xi8> -> tensor<i8>
  func.return %y : tensor<i8>
}

// CHECK-LABEL: func.func @broadcast
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d1, 0)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>]
func.func @broadcast(%x: tensor<3x1xi8>) -> tensor<2x3x4xi8> {
  %y = nn.broadcast %x {shape = array<i64: 2, 3, 4>} : tensor<3x1xi8> -> tensor<2x3x4xi8>
  func.return %y : tensor<2x3x4xi8>
}

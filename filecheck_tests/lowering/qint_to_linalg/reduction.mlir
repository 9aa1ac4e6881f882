// RUN: qmlir-opt --qint-to-linalg %s | filecheck %s

// CHECK-LABEL: func.func @greatest
// CHECK: arith.constant -128 : i8
// CHECK: linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d1)>], iterator_types = ["reduction", "parallel", "reduction"]}
// CHECK: arith.maxsi
// CHECK: tensor.expand_shape
func.func @greatest(%x: tensor<2x3x4xi8>) -> tensor<1x3x1xi8> {
  %y = nn.reduce_max %x {axes = array<i64: 0, 2>} : tensor<2x3x4xi8> -> tensor<1x3x1xi8>
  func.return %y : tensor<1x3x1xi8>
}

// The greatest byte, 255, is −1 upstream.
// CHECK-LABEL: func.func @least
// CHECK: arith.constant -1 : i8
// CHECK: arith.minui
func.func @least(%x: tensor<3xui8>) -> tensor<1xui8> {
  %y = nn.reduce_min %x {axes = array<i64: 0>} : tensor<3xui8> -> tensor<1xui8>
  func.return %y : tensor<1xui8>
}

// RUN: qmlir-opt --qint-to-tosa %s | filecheck %s

// CHECK-LABEL: func.func @greatest
// CHECK-NEXT: "tosa.reduce_max"(%x) <{axis = 0 : i32}> : (tensor<2x3x4xi8>) -> tensor<1x3x4xi8>
// CHECK-NEXT: "tosa.reduce_max"(%{{.*}}) <{axis = 2 : i32}> : (tensor<1x3x4xi8>) -> tensor<1x3x1xi8>
func.func @greatest(%x: tensor<2x3x4xi8>) -> tensor<1x3x1xi8> {
  %y = nn.reduce_max %x {axes = array<i64: 0, 2>} : tensor<2x3x4xi8> -> tensor<1x3x1xi8>
  func.return %y : tensor<1x3x1xi8>
}

// CHECK-LABEL: func.func @least
// CHECK-NEXT: "tosa.reduce_min"(%x) <{axis = 0 : i32}>
func.func @least(%x: tensor<3xi16>) -> tensor<1xi16> {
  %y = nn.reduce_min %x {axes = array<i64: 0>} : tensor<3xi16> -> tensor<1xi16>
  func.return %y : tensor<1xi16>
}

// RUN: qmlir-opt --qint-to-tosa %s | filecheck %s

// CHECK-LABEL: func.func @movement
// CHECK: "tosa.reshape"({{.*}}) : (tensor<4x6xi8>, !tosa.shape<2>) -> tensor<8x3xi8>
// CHECK: "tosa.transpose"({{.*}}) <{perms = array<i32: 1, 0>}>
// CHECK: "tosa.const"() <{values = dense<[{{\[7\], \[-1\], \[0\]}}]> : tensor<3x1xi8>}>
// CHECK: "tosa.concat"({{.*}}) <{axis = 1 : i32}>
// CHECK: "tosa.const_shape"() <{values = dense<[1, 0, 0, 0]> : tensor<4xindex>}>
// CHECK: "tosa.pad"
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
// CHECK: "tosa.reshape"({{.*}}) : (tensor<2x3x2xi8>, !tosa.shape<2>) -> tensor<6x2xi8>
// CHECK: "tosa.pad"({{.*}}) -> tensor<6x8xi8>
// CHECK: "tosa.reshape"({{.*}}) -> tensor<2x12x2xi8>
// CHECK: "tosa.slice"({{.*}}) -> tensor<2x9x2xi8>
func.func @dilate(%x: tensor<2x3x2xi8>) -> tensor<2x9x2xi8> {
  %y = nn.dilate %x {dilations = array<i64: 1, 4, 1>, value = -7 : i8} : tensor<2x3x2xi8> -> tensor<2x9x2xi8>
  func.return %y : tensor<2x9x2xi8>
}

// CHECK-LABEL: func.func @of_one_element
// CHECK: "tosa.const_shape"() <{values = dense<> : tensor<0xindex>}> : () -> !tosa.shape<0>
func.func @of_one_element(%x: tensor<1x1xi8>) -> tensor<i8> {
  %y = nn.reshape %x {shape = array<i64>} : tensor<1x1xi8> -> tensor<i8>
  func.return %y : tensor<i8>
}

// CHECK-LABEL: func.func @broadcast
// CHECK: "tosa.reshape"(%x, %{{.*}}) : (tensor<3x1xi8>, !tosa.shape<3>) -> tensor<1x3x1xi8>
// CHECK: "tosa.const_shape"() <{values = dense<[2, 1, 4]> : tensor<3xindex>}>
// CHECK: "tosa.tile"({{.*}}) : (tensor<1x3x1xi8>, !tosa.shape<3>) -> tensor<2x3x4xi8>
func.func @broadcast(%x: tensor<3x1xi8>) -> tensor<2x3x4xi8> {
  %y = nn.broadcast %x {shape = array<i64: 2, 3, 4>} : tensor<3x1xi8> -> tensor<2x3x4xi8>
  func.return %y : tensor<2x3x4xi8>
}

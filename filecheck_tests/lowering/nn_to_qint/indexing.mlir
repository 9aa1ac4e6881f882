// RUN: qmlir-opt --nn-to-qint %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>

// Selection is the same on integers; indices are none of its data.
// CHECK-LABEL: func.func @selection
// CHECK-NEXT: %[[X:.*]] = quant.scast %x
// CHECK-NEXT: %[[S:.*]] = nn.slice %[[X]] {offsets = array<i64: 3>, sizes = array<i64: 2>, strides = array<i64: -1>} : tensor<4xi8> -> tensor<2xi8>
// CHECK-NEXT: %[[B:.*]] = nn.broadcast %[[S]] {shape = array<i64: 3, 2>} : tensor<2xi8> -> tensor<3x2xi8>
// CHECK-NEXT: %[[G:.*]] = nn.gather %[[B]], %i {axis = 0 : i64} : tensor<3x2xi8>, tensor<5x1xi64> -> tensor<5x1x2xi8>
// CHECK-NEXT: %[[N:.*]] = nn.gather_nd %[[B]], %i : tensor<3x2xi8>, tensor<5x1xi64> -> tensor<5x2xi8>
// CHECK-NEXT: %[[P:.*]] = nn.scatter_nd %[[B]], %[[N]], %i : tensor<3x2xi8>, tensor<5x2xi8>, tensor<5x1xi64> -> tensor<3x2xi8>
func.func @selection(%x: tensor<4x!a>, %i: tensor<5x1xi64>) -> (tensor<5x1x2x!a>, tensor<3x2x!a>) {
  %0 = nn.slice %x {offsets = array<i64: 3>, sizes = array<i64: 2>, strides = array<i64: -1>} : tensor<4x!a> -> tensor<2x!a>
  %1 = nn.broadcast %0 {shape = array<i64: 3, 2>} : tensor<2x!a> -> tensor<3x2x!a>
  %2 = nn.gather %1, %i {axis = 0 : i64} : tensor<3x2x!a>, tensor<5x1xi64> -> tensor<5x1x2x!a>
  %3 = nn.gather_nd %1, %i : tensor<3x2x!a>, tensor<5x1xi64> -> tensor<5x2x!a>
  %4 = nn.scatter_nd %1, %3, %i : tensor<3x2x!a>, tensor<5x2x!a>, tensor<5x1xi64> -> tensor<3x2x!a>
  func.return %2, %4 : tensor<5x1x2x!a>, tensor<3x2x!a>
}

// Wide integers are moved as they are, where nothing computes on them.
!wide = !quant.uniform<i32:f32, 0.5>

// CHECK-LABEL: func.func @wide
// CHECK-NEXT: %[[I:.*]] = quant.scast %x
// CHECK-NEXT: %[[G:.*]] = nn.gather %[[I]], %i {{.*}} : tensor<4xi32>, tensor<2xi64> -> tensor<2xi32>
// CHECK-NEXT: quant.scast %[[G]]
func.func @wide(%x: tensor<4x!wide>, %i: tensor<2xi64>) -> tensor<2x!wide> {
  %0 = nn.gather %x, %i {axis = 0 : i64} : tensor<4x!wide>, tensor<2xi64> -> tensor<2x!wide>
  func.return %0 : tensor<2x!wide>
}

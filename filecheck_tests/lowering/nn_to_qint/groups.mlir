// A convolution in groups keeps them.

// RUN: qmlir-opt --nn-to-qint %s | filecheck %s

!x = !quant.uniform<i8:f32, 0.5>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.5, 0.25, 0.5, 0.25}>

// CHECK-LABEL: func.func @groups
// CHECK: qint.conv2d %{{.*}} {groups = 2 : i64} : tensor<1x4x4x4xi8>, tensor<4x1x1x2xi8> -> tensor<1x4x4x4xi32>
func.func @groups(%x: tensor<1x4x4x4x!x>) -> tensor<1x4x4x4x!x> {
  %w = nn.constant <tensor<4x1x1x2xi8>, [1, 2, 3, 4, 5, 6, 7, 8]> : tensor<4x1x1x2x!w>
  %y = nn.conv2d %x, %w {groups = 2 : i64} : tensor<1x4x4x4x!x>, tensor<4x1x1x2x!w> -> tensor<1x4x4x4x!x>
  func.return %y : tensor<1x4x4x4x!x>
}

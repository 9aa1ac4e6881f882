// RUN: qmlir-opt --nn-to-qint --qint-to-tosa --elide-weights %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25>

// CHECK-LABEL: func.func @main
// CHECK: "tosa.gather"
func.func @main(%x: tensor<2x3x!a>, %s: tensor<3x!b>) -> tensor<2x3x!a> {
  %0 = nn.prelu %x, %s : tensor<2x3x!a>, tensor<3x!b> -> tensor<2x3x!a>
  func.return %0 : tensor<2x3x!a>
}

// A table of all pairs of bytes; 65,536 entries are made by what lowers to it.

// RUN: qmlir-opt --nn-to-qint --elide-weights %s | filecheck %s
// RUN: qmlir-opt --nn-to-qint --inline-weights --mlir-print-op-generic %s | qmlir-opt --elide-weights | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25>

// CHECK-LABEL: func.func @pair_lookup
// CHECK: qint.pair_lookup %{{.*}}, %{{.*}}, <tensor<256x256xi8>, elided> : tensor<2x3xi8>, tensor<3xi8> -> tensor<2x3xi8>
func.func @pair_lookup(%x: tensor<2x3x!a>, %s: tensor<3x!b>) -> tensor<2x3x!a> {
  %0 = nn.prelu %x, %s : tensor<2x3x!a>, tensor<3x!b> -> tensor<2x3x!a>
  func.return %0 : tensor<2x3x!a>
}

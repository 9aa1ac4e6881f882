// Normalizations along an axis.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!unit = !quant.uniform<i8:f32, 0.00390625:-128>

// CHECK-LABEL: func.func @softmax
func.func @softmax(%x: tensor<2x3xf32>, %q: tensor<2x3x!a>) {
  // CHECK: nn.softmax %x {axis = 1 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  // GENERIC: "nn.softmax"(%{{.*}}) <{axis = 1 : i64}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %0 = nn.softmax %x {axis = 1 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>
  // CHECK: nn.softmax %q {axis = 0 : i64} : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<2x3x!quant.uniform<i8:f32, 3.906250e-03:-128>>
  %1 = nn.softmax %q {axis = 0 : i64} : tensor<2x3x!a> -> tensor<2x3x!unit>
  func.return
}

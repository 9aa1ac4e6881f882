// RUN: qmlir-opt --nn-to-qint --verify-integer-only %s | filecheck %s
// RUN: qmlir-opt --nn-to-qint --qint-to-loops --verify-integer-only %s | filecheck %s --check-prefix=LOOPS
// RUN: qmlir-opt --nn-to-qint --nn-to-loops --qint-to-loops --verify-integer-only %s | filecheck %s --check-prefix=LOOPS

// A quantization of an input and a dequantization of an output are entry and exit, also where they are moved.
// CHECK: func.func @main
// CHECK: quant.qcast
// CHECK: qint.requantize
// CHECK: quant.dcast
// LOOPS: func.func @main
func.func @main(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  %0 = nn.reshape %x {shape = array<i64: 2, 2>} : tensor<4xf32> -> tensor<2x2xf32>
  %1 = quant.qcast %0 : tensor<2x2xf32> to tensor<2x2x!quant.uniform<i8:f32, 0.5>>
  %2 = nn.relu %1 : tensor<2x2x!quant.uniform<i8:f32, 0.5>> -> tensor<2x2x!quant.uniform<i8:f32, 0.25>>
  %3 = quant.dcast %2 : tensor<2x2x!quant.uniform<i8:f32, 0.25>> to tensor<2x2xf32>
  func.return %3 : tensor<2x2xf32>
}

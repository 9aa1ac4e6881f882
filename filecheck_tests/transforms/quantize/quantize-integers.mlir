// RUN: qmlir-opt --quantize-integers %s | filecheck %s

// Booleans fit 8 bits.
// CHECK-LABEL: func.func @booleans
// CHECK-NEXT: %[[I:.*]] = nn.cast %x : tensor<4xi1> -> tensor<4xi8>
// CHECK-NEXT: %[[Q:.*]] = quant.scast %[[I]] : tensor<4xi8> to tensor<4x!quant.uniform<i8:f32, 1.0
// CHECK-NEXT: nn.requantize %[[Q]] {{.*}} -> tensor<4x!quant.uniform<i8:f32, 7.812500e-03:-128>>
// CHECK-NEXT: func.return
func.func @booleans(%x: tensor<4xi1>) -> tensor<4x!quant.uniform<i8:f32, 0.0078125:-128>> {
  %0 = nn.cast %x : tensor<4xi1> -> tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.0078125:-128>>
  func.return %1 : tensor<4x!quant.uniform<i8:f32, 0.0078125:-128>>
}

// Wider integers are clamped first: to 8 bits if these hold the type's range, to 16 otherwise. Floats that others read stay.
// CHECK-LABEL: func.func @clamped
// CHECK: nn.constant <tensor<i64>, [127]>
// CHECK: nn.minimum
// CHECK: nn.constant <tensor<i64>, [-127]>
// CHECK: nn.maximum
// CHECK: nn.cast %{{.*}} : tensor<4xi64> -> tensor<4xi8>
// CHECK: nn.constant <tensor<i64>, [32767]>
// CHECK: nn.cast %{{.*}} : tensor<4xi64> -> tensor<4xi16>
func.func @clamped(%x: tensor<4xi64>) -> (tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 2.0>>) {
  %0 = nn.cast %x : tensor<4xi64> -> tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  %2 = quant.qcast %0 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 2.0>>
  func.return %1, %2 : tensor<4x!quant.uniform<i8:f32, 0.5>>, tensor<4x!quant.uniform<i8:f32, 2.0>>
}

// What 16 bits do not hold stays a cast through floats, and so do floats that were floats before.
// CHECK-LABEL: func.func @far
// CHECK: quant.qcast
// CHECK: quant.qcast
func.func @far(%x: tensor<4xi64>, %y: tensor<4xf16>) -> (tensor<4x!quant.uniform<i8:f32, 500.0>>, tensor<4x!quant.uniform<i8:f32, 0.5>>) {
  %0 = nn.cast %x : tensor<4xi64> -> tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 500.0>>
  %2 = nn.cast %y : tensor<4xf16> -> tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return %1, %3 : tensor<4x!quant.uniform<i8:f32, 500.0>>, tensor<4x!quant.uniform<i8:f32, 0.5>>
}

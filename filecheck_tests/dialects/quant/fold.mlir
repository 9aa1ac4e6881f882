// A storage cast and the cast back fold; a quantizing cast and its inverse stay, for they say that a value is quantized.

// RUN: qmlir-opt --canonicalize %s | filecheck %s

!q = !quant.uniform<u8:f32, 2.0:128>
!other = !quant.uniform<u8:f32, 3.0:128>

// CHECK-LABEL: func.func @scast(
// CHECK-NEXT: func.return %x
func.func @scast(%x: tensor<4x!q>) -> tensor<4x!q> {
  %0 = quant.scast %x : tensor<4x!q> to tensor<4xi8>
  %1 = quant.scast %0 : tensor<4xi8> to tensor<4x!q>
  func.return %1 : tensor<4x!q>
}

// CHECK-LABEL: func.func @scast_of_another_type(
// CHECK-NEXT: quant.scast
// CHECK-NEXT: quant.scast
func.func @scast_of_another_type(%x: tensor<4x!q>) -> tensor<4x!other> {
  %0 = quant.scast %x : tensor<4x!q> to tensor<4xi8>
  %1 = quant.scast %0 : tensor<4xi8> to tensor<4x!other>
  func.return %1 : tensor<4x!other>
}

// CHECK-LABEL: func.func @dcast(
// CHECK-NEXT: quant.qcast
// CHECK-NEXT: quant.dcast
func.func @dcast(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = quant.qcast %x : tensor<4xf32> to tensor<4x!q>
  %1 = quant.dcast %0 : tensor<4x!q> to tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

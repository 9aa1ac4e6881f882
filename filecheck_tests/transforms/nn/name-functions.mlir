// RUN: qmlir-opt --name-functions %s | filecheck %s

// x · (1 + erf(x / √2)) / 2, halved at the end.
// CHECK-LABEL: func.func @divided
// CHECK-NEXT: %[[Y:.*]] = nn.gelu %x : tensor<4xf32>
// CHECK-NEXT: func.return %[[Y]]
func.func @divided(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = nn.constant <tensor<f32>, [1.4142135]> : tensor<f32>
  %one = nn.constant <tensor<f32>, [1.0]> : tensor<f32>
  %half = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %0 = nn.div %x, %root : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.erf %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %one : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.mul %x, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %4 = nn.mul %3, %half : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %4 : tensor<4xf32>
}

// (x / 2) · (1 + tanh(√(2/π) · (x + 0.044715 · x³))), x³ as a power.
// CHECK-LABEL: func.func @tanh
// CHECK-NEXT: %[[Y:.*]] = nn.gelu %x {tanh = true} : tensor<4xf32>
// CHECK-NEXT: func.return %[[Y]]
func.func @tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %three = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %k = nn.constant <tensor<f32>, [0.044715]> : tensor<f32>
  %c = nn.constant <tensor<f32>, [0.7978846]> : tensor<f32>
  %one = nn.constant <tensor<f32>, [1.0]> : tensor<f32>
  %half = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %0 = nn.pow %x, %three : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.mul %k, %0 : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %x, %1 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %3 = nn.mul %c, %2 : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %4 = nn.tanh %3 : tensor<4xf32> -> tensor<4xf32>
  %5 = nn.add %4, %one : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %6 = nn.mul %half, %x : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %7 = nn.mul %6, %5 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %7 : tensor<4xf32>
}

// Divided by another number than √2, and with an inner value that is read elsewhere: no GELU.
// CHECK-LABEL: func.func @other_number
// CHECK-NOT: nn.gelu
// CHECK-LABEL: func.func @read_elsewhere
// CHECK-NOT: nn.gelu
func.func @other_number(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = nn.constant <tensor<f32>, [1.5]> : tensor<f32>
  %one = nn.constant <tensor<f32>, [1.0]> : tensor<f32>
  %half = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %0 = nn.div %x, %root : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.erf %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %one : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.mul %x, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %4 = nn.mul %3, %half : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %4 : tensor<4xf32>
}
func.func @read_elsewhere(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %root = nn.constant <tensor<f32>, [1.4142135]> : tensor<f32>
  %one = nn.constant <tensor<f32>, [1.0]> : tensor<f32>
  %half = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %0 = nn.div %x, %root : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.erf %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %one : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.mul %x, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %4 = nn.mul %3, %half : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %4, %1 : tensor<4xf32>, tensor<4xf32>
}

// Comparisons with an infinity are tests for it; comparisons with other numbers, with both infinities and with a tensor
// that is broadcast stay.
// CHECK-LABEL: func.func @infinities
// CHECK: nn.is_inf %x {positive = false} : tensor<2xf32>
// CHECK-NEXT: nn.is_inf %x {negative = false} : tensor<2xf32>
// CHECK-NEXT: nn.equal %x, %two
// CHECK-NEXT: nn.equal %x, %both
// CHECK-NEXT: nn.equal %s, %wide
func.func @infinities(%x: tensor<2xf32>, %s: tensor<1xf32>) -> (tensor<2xi1>, tensor<2xi1>, tensor<2xi1>, tensor<2xi1>, tensor<2xi1>) {
  %low = nn.constant <tensor<f32>, "0x000080ff"> : tensor<f32>
  %high = nn.constant <tensor<1xf32>, "0x0000807f"> : tensor<1xf32>
  %two = nn.constant <tensor<f32>, [2.0]> : tensor<f32>
  %both = nn.constant <tensor<2xf32>, "0x0000807f000080ff"> : tensor<2xf32>
  %wide = nn.constant <tensor<2xf32>, "0x0000807f0000807f"> : tensor<2xf32>
  %0 = nn.equal %x, %low : tensor<2xf32>, tensor<f32> -> tensor<2xi1>
  %1 = nn.equal %high, %x : tensor<1xf32>, tensor<2xf32> -> tensor<2xi1>
  %2 = nn.equal %x, %two : tensor<2xf32>, tensor<f32> -> tensor<2xi1>
  %3 = nn.equal %x, %both : tensor<2xf32>, tensor<2xf32> -> tensor<2xi1>
  %4 = nn.equal %s, %wide : tensor<1xf32>, tensor<2xf32> -> tensor<2xi1>
  func.return %0, %1, %2, %3, %4 : tensor<2xi1>, tensor<2xi1>, tensor<2xi1>, tensor<2xi1>, tensor<2xi1>
}

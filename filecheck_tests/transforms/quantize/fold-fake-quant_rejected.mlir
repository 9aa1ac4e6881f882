// RUN: qmlir-opt --fold-fake-quant %s | filecheck %s

// What is no quantization stays as it is.

// It multiplies by another scale than it divides by.
// CHECK-LABEL: func.func @other_scale
// CHECK-NOT: quant.
func.func @other_scale(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %t = nn.constant <tensor<f32>, [0.75]> : tensor<f32>
  %z = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %u = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.round %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.clamp %2 {min = -128.0 : f32, max = 127.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.sub %3, %u : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %5 = nn.mul %4, %t : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %5 : tensor<4xf32>
}

// It has no upper bound.
// CHECK-LABEL: func.func @no_bounds
// CHECK-NOT: quant.
func.func @no_bounds(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %t = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %z = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %u = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.round %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.clamp %2 {min = -128.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.sub %3, %u : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %5 = nn.mul %4, %t : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %5 : tensor<4xf32>
}

// Its upper bound is no whole number.
// CHECK-LABEL: func.func @fraction
// CHECK-NOT: quant.
func.func @fraction(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %t = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %z = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %u = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.round %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.clamp %2 {min = -128.0 : f32, max = 100.5 : f32} : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.sub %3, %u : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %5 = nn.mul %4, %t : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %5 : tensor<4xf32>
}

// Its integers have more than 16 bits.
// CHECK-LABEL: func.func @wide
// CHECK-NOT: quant.
func.func @wide(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %t = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %z = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %u = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.round %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.clamp %2 {min = -70000.0 : f32, max = 70000.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.sub %3, %u : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %5 = nn.mul %4, %t : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %5 : tensor<4xf32>
}

// It subtracts another zero point than it adds.
// CHECK-LABEL: func.func @other_shift
// CHECK-NOT: quant.
func.func @other_shift(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %t = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %z = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %u = nn.constant <tensor<f32>, [4.0]> : tensor<f32>
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.round %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.clamp %2 {min = -128.0 : f32, max = 127.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.sub %3, %u : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %5 = nn.mul %4, %t : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %5 : tensor<4xf32>
}

// The integers are read elsewhere.
// CHECK-LABEL: func.func @middle
// CHECK-NOT: quant.
func.func @middle(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %s = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %t = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %z = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %u = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.round %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.clamp %2 {min = -128.0 : f32, max = 127.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.sub %3, %u : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %5 = nn.mul %4, %t : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %5, %3 : tensor<4xf32>, tensor<4xf32>
}

// It does not round.
// CHECK-LABEL: func.func @truncated
// CHECK-NOT: quant.
func.func @truncated(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %t = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %z = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %u = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.ceil %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.clamp %2 {min = -128.0 : f32, max = 127.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.sub %3, %u : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %5 = nn.mul %4, %t : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %5 : tensor<4xf32>
}

// A negative scale makes no quantized type.
// CHECK-LABEL: func.func @negative
// CHECK-NOT: quant.
func.func @negative(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.constant <tensor<f32>, [-0.5]> : tensor<f32>
  %t = nn.constant <tensor<f32>, [-0.5]> : tensor<f32>
  %z = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %u = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.round %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.clamp %2 {min = -128.0 : f32, max = 127.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.sub %3, %u : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %5 = nn.mul %4, %t : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %5 : tensor<4xf32>
}

// It rounds twice.
// CHECK-LABEL: func.func @twice
// CHECK-NOT: quant.
func.func @twice(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.round %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.clamp %1 {min = -128.0 : f32, max = 127.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %3 = nn.floor %2 : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %4 : tensor<4xf32>
}

// The scale is computed at run time.
// CHECK-LABEL: func.func @computed
// CHECK-NOT: quant.
func.func @computed(%x: tensor<4xf32>, %s: tensor<f32>) -> tensor<4xf32> {
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.round %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.clamp %1 {min = -128.0 : f32, max = 127.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %3 = nn.mul %2, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %3 : tensor<4xf32>
}

// Subtracted as 8-bit integers, −128 − 3 would wrap.
// CHECK-LABEL: func.func @wraps
// CHECK-NOT: quant.
func.func @wraps(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %z = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %n = nn.constant <tensor<i8>, [3]> : tensor<i8>
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.round %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.clamp %2 {min = -128.0 : f32, max = 127.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.cast %3 : tensor<4xf32> -> tensor<4xi8>
  %5 = nn.sub %4, %n : tensor<4xi8>, tensor<i8> -> tensor<4xi8>
  %6 = nn.cast %5 : tensor<4xi8> -> tensor<4xf32>
  %7 = nn.mul %6, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %7 : tensor<4xf32>
}

// An upper bound differs between elements.
// CHECK-LABEL: func.func @bound_of_each
// CHECK-NOT: quant.
func.func @bound_of_each(%x: tensor<2xf32>) -> tensor<2xf32> {
  %s = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %z = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %h = nn.constant <tensor<2xf32>, [127.0, 100.0]> : tensor<2xf32>
  %0 = nn.div %x, %s : tensor<2xf32>, tensor<f32> -> tensor<2xf32>
  %1 = nn.round %0 : tensor<2xf32> -> tensor<2xf32>
  %2 = nn.add %1, %z : tensor<2xf32>, tensor<f32> -> tensor<2xf32>
  %3 = nn.minimum %2, %h : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
  %4 = nn.sub %3, %z : tensor<2xf32>, tensor<f32> -> tensor<2xf32>
  %5 = nn.mul %4, %s : tensor<2xf32>, tensor<f32> -> tensor<2xf32>
  func.return %5 : tensor<2xf32>
}

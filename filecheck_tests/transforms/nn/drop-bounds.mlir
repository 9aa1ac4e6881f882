// RUN: qmlir-opt --drop-bounds %s | filecheck %s

!q = !quant.uniform<i8<-127:127>:f32, 0.5>

// Infinite bounds, in either place.
// CHECK-LABEL: func.func @infinite
// CHECK-NOT: nn.m
// CHECK: func.return %x, %x
func.func @infinite(%x: tensor<1x4xf32>) -> (tensor<1x4xf32>, tensor<1x4xf32>) {
  %low = nn.constant <tensor<f32>, [0xFF800000]> : tensor<f32>
  %high = nn.constant <tensor<1x4xf32>, [0x7F800000, 0x7F800000, 0x7F800000, 0x7F800000]> : tensor<1x4xf32>
  %a = nn.maximum %x, %low : tensor<1x4xf32>, tensor<f32> -> tensor<1x4xf32>
  %b = nn.minimum %high, %x : tensor<1x4xf32>, tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %a, %b : tensor<1x4xf32>, tensor<1x4xf32>
}

// The shape stays.
// CHECK-LABEL: func.func @repeated
// CHECK: %[[Y:.*]] = nn.broadcast %x {qmlir.name = #qmlir.name<nodes ["max"], tensors ["y"]>, shape = array<i64: 2, 1, 4>}
// CHECK-NEXT: func.return %[[Y]]
func.func @repeated(%x: tensor<1x4xf32>) -> tensor<2x1x4xf32> {
  %low = nn.constant <tensor<2x1x1xf32>, [0xFF800000, 0xFF800000]> : tensor<2x1x1xf32>
  %y = nn.maximum %x, %low {qmlir.name = #qmlir.name<nodes ["max"], tensors ["y"]>} : tensor<1x4xf32>, tensor<2x1x1xf32> -> tensor<2x1x4xf32>
  func.return %y : tensor<2x1x4xf32>
}

// The least integer of a type, and the least stored integer of a quantized type.
// CHECK-LABEL: func.func @integers
// CHECK-NOT: nn.m
// CHECK: func.return %x, %q
func.func @integers(%x: tensor<4xi16>, %q: tensor<4x!q>) -> (tensor<4xi16>, tensor<4x!q>) {
  %low = nn.constant <tensor<i16>, [-32768]> : tensor<i16>
  %least = nn.constant <tensor<4xi8>, [-127, -127, -127, -127]> : tensor<4x!q>
  %a = nn.maximum %x, %low : tensor<4xi16>, tensor<i16> -> tensor<4xi16>
  %b = nn.maximum %q, %least : tensor<4x!q>, tensor<4x!q> -> tensor<4x!q>
  func.return %a, %b : tensor<4xi16>, tensor<4x!q>
}

// CHECK-LABEL: func.func @clamps
// CHECK-NEXT: %[[Y:.*]] = nn.clamp %x {max = 6.000000e+00 : f32}
// CHECK-NEXT: func.return %x, %[[Y]]
func.func @clamps(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %a = nn.clamp %x {min = 0xFF800000 : f32, max = 0x7F800000 : f32} : tensor<4xf32> -> tensor<4xf32>
  %b = nn.clamp %x {min = 0xFF800000 : f32, max = 6.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  func.return %a, %b : tensor<4xf32>, tensor<4xf32>
}

// Bounds that some element may pass: the other infinity, the largest finite number, and a bound for some elements.
// CHECK-LABEL: func.func @stays
// CHECK: nn.maximum
// CHECK: nn.maximum
// CHECK: nn.maximum
// CHECK: nn.maximum
func.func @stays(%x: tensor<4xf32>, %q: tensor<4x!q>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x!q>) {
  %high = nn.constant <tensor<f32>, [0x7F800000]> : tensor<f32>
  %largest = nn.constant <tensor<f32>, [-3.40282347E+38]> : tensor<f32>
  %some = nn.constant <tensor<4xf32>, [0xFF800000, 0xFF800000, 0xFF800000, 0.0]> : tensor<4xf32>
  %least = nn.constant <tensor<4xi8>, [-128, -128, -128, -128]> : tensor<4x!quant.uniform<i8:f32, 0.5>>
  %a = nn.maximum %x, %high : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %b = nn.maximum %x, %largest : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %c = nn.maximum %x, %some : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %d = nn.maximum %q, %least : tensor<4x!q>, tensor<4x!quant.uniform<i8:f32, 0.5>> -> tensor<4x!q>
  func.return %a, %b, %c, %d : tensor<4xf32>, tensor<4xf32>, tensor<4xf32>, tensor<4x!q>
}

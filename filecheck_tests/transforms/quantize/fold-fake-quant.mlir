// RUN: qmlir-opt --fold-fake-quant %s | filecheck %s

// Divide, round, shift, clip, shift back, multiply: the bounds are those of the storage.
// CHECK-LABEL: func.func @divide
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %x {{.*}}qmlir.quantization = "float32"{{.*}} to tensor<4x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: %[[Y:.*]] = quant.dcast %[[Q]]
// CHECK-NEXT: func.return %[[Y]]
func.func @divide(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %z = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.round %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.clamp %2 {min = -128.0 : f32, max = 127.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.sub %3, %z : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %5 = nn.mul %4, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %5 : tensor<4xf32>
}

// Multiplied by the reciprocal, with the zero point added before rounding, and integers between; bounds of 7 bits.
// CHECK-LABEL: func.func @multiply
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %x {{.*}}"float32_reciprocal"{{.*}} to tensor<4x!quant.uniform<u8<0:127>:f32, 2.500000e-01:64>>
// CHECK-NEXT: %[[Y:.*]] = quant.dcast %[[Q]]
// CHECK-NEXT: func.return %[[Y]]
func.func @multiply(%x: tensor<4xf32>) -> tensor<4xf32> {
  %r = nn.constant <tensor<f32>, [4.0]> : tensor<f32>
  %s = nn.constant <tensor<f32>, [0.25]> : tensor<f32>
  %z = nn.constant <tensor<f32>, [64.0]> : tensor<f32>
  %n = nn.constant <tensor<i32>, [-64]> : tensor<i32>
  %0 = nn.mul %r, %x : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %1 = nn.add %z, %0 : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %2 = nn.round %1 : tensor<4xf32> -> tensor<4xf32>
  %3 = nn.clamp %2 {min = 0.0 : f32, max = 127.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.cast %3 : tensor<4xf32> -> tensor<4xi32>
  %5 = nn.add %4, %n : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
  %6 = nn.cast %5 : tensor<4xi32> -> tensor<4xf32>
  %7 = nn.mul %6, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %7 : tensor<4xf32>
}

// Clipped in steps before it is rounded, by maximum and minimum; 4 bits.
// CHECK-LABEL: func.func @four_bits
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %x {{.*}} to tensor<4x!quant.uniform<i4:f32, 5.000000e-01>>
// CHECK-NEXT: quant.dcast %[[Q]]
func.func @four_bits(%x: tensor<4xf32>) -> tensor<4xf32> {
  %s = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %a = nn.constant <tensor<f32>, [-8.0]> : tensor<f32>
  %b = nn.constant <tensor<f32>, [7.0]> : tensor<f32>
  %0 = nn.div %x, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.maximum %0, %a : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %2 = nn.minimum %1, %b : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.round %2 : tensor<4xf32> -> tensor<4xf32>
  %4 = nn.mul %3, %s : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %4 : tensor<4xf32>
}

// Clipped before it is scaled, rounded by floor, and divided by levels a unit at the end: a learned clip.
// CHECK-LABEL: func.func @clip_first
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %x {{.*}} to tensor<4x!quant.uniform<u8:f32, 3.125000e-02>>
// CHECK-NEXT: %[[Y:.*]] = quant.dcast %[[Q]]
// CHECK-NEXT: func.return %[[Y]]
func.func @clip_first(%x: tensor<4xf32>) -> tensor<4xf32> {
  %n = nn.constant <tensor<f32>, [32.0]> : tensor<f32>
  %h = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %a = nn.constant <tensor<f32>, [7.96875]> : tensor<f32>
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.minimum %0, %a : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %2 = nn.mul %1, %n : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.add %2, %h : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %4 = nn.floor %3 : tensor<4xf32> -> tensor<4xf32>
  %5 = nn.div %4, %n : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %5 : tensor<4xf32>
}

// A scale for each channel; a constant is quantized like any tensor.
// CHECK-LABEL: func.func @channels
// CHECK: %[[W:.*]] = nn.constant <tensor<2x3xf32>
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %[[W]] {{.*}} to tensor<2x3x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>
// CHECK-NEXT: quant.dcast %[[Q]]
func.func @channels() -> tensor<2x3xf32> {
  %w = nn.constant <tensor<2x3xf32>, [1.0, 2.0, -1.0, 0.5, 0.25, 9.0]> : tensor<2x3xf32>
  %s = nn.constant <tensor<2x1xf32>, [0.5, 0.25]> : tensor<2x1xf32>
  %0 = nn.div %w, %s : tensor<2x3xf32>, tensor<2x1xf32> -> tensor<2x3xf32>
  %1 = nn.round %0 : tensor<2x3xf32> -> tensor<2x3xf32>
  %2 = nn.clamp %1 {min = -127.0 : f32, max = 127.0 : f32} : tensor<2x3xf32> -> tensor<2x3xf32>
  %3 = nn.mul %2, %s : tensor<2x3xf32>, tensor<2x1xf32> -> tensor<2x3xf32>
  func.return %3 : tensor<2x3xf32>
}

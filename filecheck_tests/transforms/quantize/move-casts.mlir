// RUN: qmlir-opt --move-casts --split-input-file %s | filecheck %s

!q = !quant.uniform<u8:f32, 0.5:128>

// A dequantization sinks below what only moves, and below maxima.
// CHECK-LABEL: func.func @sink
// CHECK-NEXT: %[[P:.*]] = nn.max_pool2d %x {{.*}} -> tensor<1x1x1x2x!quant.uniform<u8:f32, 5.000000e-01:128>>
// CHECK-NEXT: %[[R:.*]] = nn.reshape %[[P]] {{.*}} : tensor<1x1x1x2x!quant.uniform<u8:f32, 5.000000e-01:128>> -> tensor<1x2x!quant
// CHECK-NEXT: %[[F:.*]] = quant.dcast %[[R]]
// CHECK-NEXT: func.return %[[F]]
func.func @sink(%x: tensor<1x2x2x2x!q>) -> tensor<1x2xf32> {
  %0 = quant.dcast %x : tensor<1x2x2x2x!q> to tensor<1x2x2x2xf32>
  %1 = nn.max_pool2d %0 {window = array<i64: 2, 2>} : tensor<1x2x2x2xf32> -> tensor<1x1x1x2xf32>
  %2 = nn.reshape %1 {shape = array<i64: 1, 2>} : tensor<1x1x1x2xf32> -> tensor<1x2xf32>
  func.return %2 : tensor<1x2xf32>
}

// -----

!q = !quant.uniform<i8:f32, 0.5:3>
!other = !quant.uniform<i8:f32, 0.25>

// A quantization rises above them: a concat of two types becomes one of quantizations, of which one says nothing new.
// CHECK-LABEL: func.func @rise
// CHECK-NEXT: %[[F:.*]] = quant.dcast %y
// CHECK-NEXT: %[[Y:.*]] = quant.qcast %[[F]] : tensor<2xf32> to tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
// CHECK-NEXT: %[[C:.*]] = nn.concat %x, %[[Y]] {{.*}} -> tensor<4x!quant
// CHECK-NEXT: func.return %[[C]], %[[C]]
func.func @rise(%x: tensor<2x!q>, %y: tensor<2x!other>) -> (tensor<4x!q>, tensor<4x!q>) {
  %0 = quant.dcast %x : tensor<2x!q> to tensor<2xf32>
  %1 = quant.dcast %y : tensor<2x!other> to tensor<2xf32>
  %2 = nn.concat %0, %1 {axis = 0 : i64} : tensor<2xf32>, tensor<2xf32> -> tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!q>
  %4 = quant.qcast %2 : tensor<4xf32> to tensor<4x!q>
  func.return %3, %4 : tensor<4x!q>, tensor<4x!q>
}

// What is put between elements moves with them where the type holds it.
// CHECK-LABEL: func.func @dilate
// CHECK: nn.dilate %x {{.*}}value = 1.500000e+00 : f32} : tensor<2x!quant
// CHECK: nn.dilate %{{.*}}value = 1.250000e+00 : f32} : tensor<2xf32>
func.func @dilate(%x: tensor<2x!q>) -> (tensor<3xf32>, tensor<3xf32>) {
  %0 = quant.dcast %x : tensor<2x!q> to tensor<2xf32>
  %1 = nn.dilate %0 {dilations = array<i64: 2>, value = 1.5 : f32} : tensor<2xf32> -> tensor<3xf32>
  %2 = nn.dilate %0 {dilations = array<i64: 2>, value = 1.25 : f32} : tensor<2xf32> -> tensor<3xf32>
  func.return %1, %2 : tensor<3xf32>, tensor<3xf32>
}

!c = !quant.uniform<i8:f32:0, {0.5,0.25}>

// What stays: a pad with a value that the type does not hold, scales for each channel, a result that is read as floats
// too, and what computes.
// CHECK-LABEL: func.func @stay
// CHECK: %[[P:.*]] = nn.pad %x {{.*}}value = 1.500000e+00 : f32} : tensor<2x!quant
// CHECK: nn.pad %{{.*}}value = 1.250000e+00 : f32} : tensor<2xf32>
// CHECK: nn.reshape %{{.*}} : tensor<2xf32>
// CHECK: nn.reshape %f {{.*}} : tensor<2xf32>
// CHECK: nn.relu %{{.*}} : tensor<2xf32>
func.func @stay(%x: tensor<2x!q>, %c: tensor<2x!c>, %f: tensor<2xf32>) -> (tensor<3xf32>, tensor<3xf32>, tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2x!q>, tensor<2xf32>) {
  %0 = quant.dcast %x : tensor<2x!q> to tensor<2xf32>
  %1 = nn.pad %0 {low = array<i64: 1>, high = array<i64: 0>, value = 1.5 : f32} : tensor<2xf32> -> tensor<3xf32>
  %2 = nn.pad %0 {low = array<i64: 1>, high = array<i64: 0>, value = 1.25 : f32} : tensor<2xf32> -> tensor<3xf32>
  %3 = quant.dcast %c : tensor<2x!c> to tensor<2xf32>
  %4 = nn.reshape %3 {shape = array<i64: 1, 2>} : tensor<2xf32> -> tensor<1x2xf32>
  %5 = nn.reshape %f {shape = array<i64: 1, 2>} : tensor<2xf32> -> tensor<1x2xf32>
  %6 = quant.qcast %5 : tensor<1x2xf32> to tensor<1x2x!q>
  %7 = nn.relu %0 : tensor<2xf32> -> tensor<2xf32>
  func.return %1, %2, %4, %5, %6, %7 : tensor<3xf32>, tensor<3xf32>, tensor<1x2xf32>, tensor<1x2xf32>, tensor<1x2x!q>, tensor<2xf32>
}

// -----

!q = !quant.uniform<i8:f32, 0.5>

// Casts of one value by several readers become the first of them, before all that read it.
// CHECK-LABEL: func.func @readers
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %x
// CHECK-NEXT: %[[R:.*]] = nn.reshape %[[Q]]
// CHECK-NEXT: %[[A:.*]] = nn.broadcast %[[R]]
// CHECK-NEXT: %[[B:.*]] = nn.broadcast %[[R]]
// CHECK-NEXT: func.return %[[A]], %[[B]]
func.func @readers(%x: tensor<2x3xf32>) -> (tensor<4x2x3x!q>, tensor<4x2x3x!q>) {
  %0 = nn.reshape %x {shape = array<i64: 1, 2, 3>} : tensor<2x3xf32> -> tensor<1x2x3xf32>
  %1 = nn.broadcast %0 {shape = array<i64: 4, 2, 3>} : tensor<1x2x3xf32> -> tensor<4x2x3xf32>
  %2 = quant.qcast %1 : tensor<4x2x3xf32> to tensor<4x2x3x!q>
  %3 = nn.broadcast %0 {shape = array<i64: 4, 2, 3>} : tensor<1x2x3xf32> -> tensor<4x2x3xf32>
  %4 = quant.qcast %3 : tensor<4x2x3xf32> to tensor<4x2x3x!q>
  func.return %2, %4 : tensor<4x2x3x!q>, tensor<4x2x3x!q>
}

// RUN: qmlir-opt --fold-pads %s | filecheck %s

// One side only, beside the padding that the convolution has; the other reader keeps the pad.
// CHECK-LABEL: func.func @convolution
// CHECK-NEXT: %[[P:.*]] = nn.pad %x
// CHECK-NEXT: %[[Y:.*]] = nn.conv2d %x, %w {qmlir.name = #qmlir.name<nodes ["conv"], tensors ["y"]>, strides = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 0>} : tensor<1x8x8x3xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x4x4xf32>
// CHECK-NEXT: func.return %[[P]], %[[Y]]
func.func @convolution(%x: tensor<1x8x8x3xf32>, %w: tensor<4x3x3x3xf32>) -> (tensor<1x9x9x3xf32>, tensor<1x4x4x4xf32>) {
  %p = nn.pad %x {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f32, qmlir.name = #qmlir.name<nodes ["pad"], tensors ["p"]>} : tensor<1x8x8x3xf32> -> tensor<1x9x9x3xf32>
  %y = nn.conv2d %p, %w {strides = array<i64: 2, 2>, padding = array<i64: 0, 1, 0, 0>, qmlir.name = #qmlir.name<nodes ["conv"], tensors ["y"]>} : tensor<1x9x9x3xf32>, tensor<4x3x3x3xf32> -> tensor<1x4x4x4xf32>
  func.return %p, %y : tensor<1x9x9x3xf32>, tensor<1x4x4x4xf32>
}

// A causal convolution over one dimension: the pad is behind a reshape.
// CHECK-LABEL: func.func @causal
// CHECK-NEXT: %[[X:.*]] = nn.reshape %x {shape = array<i64: 1, 1, 10, 3>}
// CHECK-NEXT: nn.depthwise_conv2d %[[X]], %w {dilations = array<i64: 1, 2>, padding = array<i64: 0, 0, 4, 0>} : tensor<1x1x10x3xf32>, tensor<1x1x3x3xf32> -> tensor<1x1x10x3xf32>
func.func @causal(%x: tensor<1x10x3xf32>, %w: tensor<1x1x3x3xf32>) -> tensor<1x1x10x3xf32> {
  %p = nn.pad %x {low = array<i64: 0, 4, 0>, high = array<i64: 0, 0, 0>, value = 0.0 : f32} : tensor<1x10x3xf32> -> tensor<1x14x3xf32>
  %r = nn.reshape %p {shape = array<i64: 1, 1, 14, 3>} : tensor<1x14x3xf32> -> tensor<1x1x14x3xf32>
  %y = nn.depthwise_conv2d %r, %w {dilations = array<i64: 1, 2>} : tensor<1x1x14x3xf32>, tensor<1x1x3x3xf32> -> tensor<1x1x10x3xf32>
  func.return %y : tensor<1x1x10x3xf32>
}

// Quantized: 0.0 is the zero point.
// CHECK-LABEL: func.func @quantized
// CHECK-NEXT: %[[X:.*]] = quant.dcast %x
// CHECK-NEXT: nn.conv2d %[[X]], %w {padding = array<i64: 1, 1, 1, 1>}
func.func @quantized(%x: tensor<1x8x8x3x!quant.uniform<i8:f32, 0.5:-5>>, %w: tensor<4x3x3x3xf32>) -> tensor<1x8x8x4xf32> {
  %p = nn.pad %x {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 1, 1, 0>, value = 0.0 : f32} : tensor<1x8x8x3x!quant.uniform<i8:f32, 0.5:-5>> -> tensor<1x10x10x3x!quant.uniform<i8:f32, 0.5:-5>>
  %d = quant.dcast %p : tensor<1x10x10x3x!quant.uniform<i8:f32, 0.5:-5>> to tensor<1x10x10x3xf32>
  %y = nn.conv2d %d, %w : tensor<1x10x10x3xf32>, tensor<4x3x3x3xf32> -> tensor<1x8x8x4xf32>
  func.return %y : tensor<1x8x8x4xf32>
}

// Zeros count in a mean. They count in no maximum over elements that are 0 and more.
// CHECK-LABEL: func.func @pools
// CHECK-NEXT: nn.average_pool2d %x {window = array<i64: 2, 2>, count_include_pad = true, padding = array<i64: 1, 0, 1, 0>}
// CHECK-NEXT: %[[R:.*]] = nn.relu %x
// CHECK-NEXT: nn.max_pool2d %[[R]] {window = array<i64: 2, 2>, padding = array<i64: 1, 0, 1, 0>}
// CHECK-NEXT: nn.max_pool2d %x {window = array<i64: 2, 2>, padding = array<i64: 1, 0, 1, 0>}
// CHECK-NEXT: nn.max_pool2d %q {window = array<i64: 2, 2>, padding = array<i64: 1, 0, 1, 0>}
func.func @pools(%x: tensor<1x4x4x1xf32>, %q: tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5:-128>>) -> (tensor<1x4x4x1xf32>, tensor<1x4x4x1xf32>, tensor<1x4x4x1xf32>, tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5:-128>>) {
  %p = nn.pad %x {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : tensor<1x4x4x1xf32> -> tensor<1x5x5x1xf32>
  %a = nn.average_pool2d %p {window = array<i64: 2, 2>} : tensor<1x5x5x1xf32> -> tensor<1x4x4x1xf32>
  %r = nn.relu %x : tensor<1x4x4x1xf32> -> tensor<1x4x4x1xf32>
  %1 = nn.pad %r {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : tensor<1x4x4x1xf32> -> tensor<1x5x5x1xf32>
  %b = nn.max_pool2d %1 {window = array<i64: 2, 2>} : tensor<1x5x5x1xf32> -> tensor<1x4x4x1xf32>
  %2 = nn.pad %x {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 0, 0, 0>, value = 0xFF800000 : f32} : tensor<1x4x4x1xf32> -> tensor<1x5x5x1xf32>
  %c = nn.max_pool2d %2 {window = array<i64: 2, 2>} : tensor<1x5x5x1xf32> -> tensor<1x4x4x1xf32>
  %3 = nn.pad %q {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5:-128>> -> tensor<1x5x5x1x!quant.uniform<i8:f32, 0.5:-128>>
  %d = nn.max_pool2d %3 {window = array<i64: 2, 2>} : tensor<1x5x5x1x!quant.uniform<i8:f32, 0.5:-128>> -> tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5:-128>>
  func.return %a, %b, %c, %d : tensor<1x4x4x1xf32>, tensor<1x4x4x1xf32>, tensor<1x4x4x1xf32>, tensor<1x4x4x1x!quant.uniform<i8:f32, 0.5:-128>>
}

// These stay: another value, another axis, a pad as wide as the window, a mean that does not count its own padding,
// a maximum over elements below 0, and one whose window may step over the image.
// CHECK-LABEL: func.func @others
// CHECK-COUNT-6: nn.pad
func.func @others(%x: tensor<1x4x4x1xf32>, %w: tensor<1x2x2x1xf32>, %v: tensor<1x2x2x2xf32>) -> (tensor<1x4x4x1xf32>, tensor<1x3x3x1xf32>, tensor<1x5x4x1xf32>, tensor<1x5x4x1xf32>, tensor<1x4x4x1xf32>, tensor<1x3x3x1xf32>) {
  %0 = nn.pad %x {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 0, 0, 0>, value = 1.0 : f32} : tensor<1x4x4x1xf32> -> tensor<1x5x5x1xf32>
  %a = nn.conv2d %0, %w : tensor<1x5x5x1xf32>, tensor<1x2x2x1xf32> -> tensor<1x4x4x1xf32>
  %1 = nn.pad %x {low = array<i64: 0, 0, 0, 0>, high = array<i64: 0, 0, 0, 1>, value = 0.0 : f32} : tensor<1x4x4x1xf32> -> tensor<1x4x4x2xf32>
  %b = nn.conv2d %1, %v : tensor<1x4x4x2xf32>, tensor<1x2x2x2xf32> -> tensor<1x3x3x1xf32>
  %2 = nn.pad %x {low = array<i64: 0, 2, 1, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : tensor<1x4x4x1xf32> -> tensor<1x6x5x1xf32>
  %c = nn.conv2d %2, %w : tensor<1x6x5x1xf32>, tensor<1x2x2x1xf32> -> tensor<1x5x4x1xf32>
  %3 = nn.pad %x {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : tensor<1x4x4x1xf32> -> tensor<1x5x5x1xf32>
  %d = nn.average_pool2d %3 {window = array<i64: 2, 2>, padding = array<i64: 0, 1, 0, 0>} : tensor<1x5x5x1xf32> -> tensor<1x5x4x1xf32>
  %4 = nn.pad %x {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : tensor<1x4x4x1xf32> -> tensor<1x5x5x1xf32>
  %e = nn.max_pool2d %4 {window = array<i64: 2, 2>} : tensor<1x5x5x1xf32> -> tensor<1x4x4x1xf32>
  %5 = nn.relu %x : tensor<1x4x4x1xf32> -> tensor<1x4x4x1xf32>
  %6 = nn.pad %5 {low = array<i64: 0, 1, 1, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.0 : f32} : tensor<1x4x4x1xf32> -> tensor<1x5x5x1xf32>
  %f = nn.max_pool2d %6 {window = array<i64: 2, 2>, dilations = array<i64: 2, 2>} : tensor<1x5x5x1xf32> -> tensor<1x3x3x1xf32>
  func.return %a, %b, %c, %d, %e, %f : tensor<1x4x4x1xf32>, tensor<1x3x3x1xf32>, tensor<1x5x4x1xf32>, tensor<1x5x4x1xf32>, tensor<1x4x4x1xf32>, tensor<1x3x3x1xf32>
}

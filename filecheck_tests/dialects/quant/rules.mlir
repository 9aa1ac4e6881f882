// What the scale rules admit: float everywhere, equal types, the exact product, a bias that is not quantized yet.

// RUN: qmlir-opt %s | filecheck %s

!data = !quant.uniform<i8:f32, 0.5:3>
!weights = !quant.uniform<i8:f32:0, {0.5, 0.25}>
!bias = !quant.uniform<i32:f32:0, {0.25, 0.125}>

// CHECK-LABEL: func.func @same_scale
func.func @same_scale(%x: tensor<1x4x4x2x!data>, %y: tensor<1x4x4x2xf32>) {
  // CHECK: nn.max_pool2d
  %0 = nn.max_pool2d %x {window = array<i64: 2, 2>} : tensor<1x4x4x2x!data> -> tensor<1x3x3x2x!data>
  // CHECK: nn.max_pool2d
  %1 = nn.max_pool2d %y {window = array<i64: 2, 2>} : tensor<1x4x4x2xf32> -> tensor<1x3x3x2xf32>
  func.return
}

// CHECK-LABEL: func.func @accumulator_scale
func.func @accumulator_scale(%x: tensor<1x1x1x1x!data>, %w: tensor<2x1x1x1x!weights>, %b: tensor<2x!bias>, %f: tensor<2xf32>) {
  // CHECK: nn.conv2d
  %0 = nn.conv2d %x, %w, %b : tensor<1x1x1x1x!data>, tensor<2x1x1x1x!weights>, tensor<2x!bias> -> tensor<1x1x1x2x!data>
  // CHECK: nn.conv2d
  %1 = nn.conv2d %x, %w, %f : tensor<1x1x1x1x!data>, tensor<2x1x1x1x!weights>, tensor<2xf32> -> tensor<1x1x1x2x!data>
  // CHECK: nn.conv2d
  %2 = nn.conv2d %x, %w : tensor<1x1x1x1x!data>, tensor<2x1x1x1x!weights> -> tensor<1x1x1x2x!data>
  func.return
}

// Contractions on f32 and on quantized types; what is at its default is not printed.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!data = !quant.uniform<i8:f32, 0.5:3>
!result = !quant.uniform<i8:f32, 0.25:-128>
!weights = !quant.uniform<i8<-127:127>:f32:0, {0.5, 0.25}>
!last = !quant.uniform<i8<-127:127>:f32:3, {0.5, 0.25}>
!bias = !quant.uniform<i32:f32:0, {0.25, 0.125}>

// CHECK-LABEL: func.func @conv2d
func.func @conv2d(%x: tensor<1x6x5x3xf32>, %w: tensor<2x3x2x3xf32>, %b: tensor<2xf32>) {
  // CHECK: nn.conv2d %x, %w : tensor<1x6x5x3xf32>, tensor<2x3x2x3xf32> -> tensor<1x4x4x2xf32>
  // GENERIC: "nn.conv2d"(%{{.*}}, %{{.*}}) <{strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>, groups = 1 : i64}> : (tensor<1x6x5x3xf32>, tensor<2x3x2x3xf32>) -> tensor<1x4x4x2xf32>
  %0 = nn.conv2d %x, %w {strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>} : tensor<1x6x5x3xf32>, tensor<2x3x2x3xf32> -> tensor<1x4x4x2xf32>
  // CHECK: nn.conv2d %x, %w, %b {strides = array<i64: 2, 1>, padding = array<i64: 1, 0, 1, 2>, dilations = array<i64: 1, 3>, min = 0.000000e+00 : f32} : tensor<1x6x5x3xf32>, tensor<2x3x2x3xf32>, tensor<2xf32> -> tensor<1x3x5x2xf32>
  %1 = nn.conv2d %x, %w, %b {strides = array<i64: 2, 1>, padding = array<i64: 1, 0, 1, 2>, dilations = array<i64: 1, 3>, min = 0.0 : f32} : tensor<1x6x5x3xf32>, tensor<2x3x2x3xf32>, tensor<2xf32> -> tensor<1x3x5x2xf32>
  func.return
}

// CHECK-LABEL: func.func @quantized_conv2d
func.func @quantized_conv2d(%x: tensor<1x1x1x3x!data>, %w: tensor<2x1x1x3x!weights>, %b: tensor<2x!bias>, %f: tensor<2xf32>, %i: tensor<2xi32>, %l: tensor<2xi64>) {
  // CHECK: nn.conv2d %x, %w, %b : tensor<1x1x1x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2x1x1x3x!quant.uniform<i8<-127:127>:f32:0, {5.000000e-01,2.500000e-01}>>, tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>> -> tensor<1x1x1x2x!quant.uniform<i8:f32, 2.500000e-01:-128>>
  %0 = nn.conv2d %x, %w, %b : tensor<1x1x1x3x!data>, tensor<2x1x1x3x!weights>, tensor<2x!bias> -> tensor<1x1x1x2x!result>
  // A bias that is not quantized yet, and plain integers whose scale is implied.
  // CHECK: tensor<2xf32> -> tensor<1x1x1x2x!quant
  %1 = nn.conv2d %x, %w, %f : tensor<1x1x1x3x!data>, tensor<2x1x1x3x!weights>, tensor<2xf32> -> tensor<1x1x1x2x!result>
  // CHECK: tensor<2xi32> -> tensor<1x1x1x2x!quant
  %2 = nn.conv2d %x, %w, %i : tensor<1x1x1x3x!data>, tensor<2x1x1x3x!weights>, tensor<2xi32> -> tensor<1x1x1x2x!result>
  // CHECK: tensor<2xi64> -> tensor<1x1x1x2x!quant
  %3 = nn.conv2d %x, %w, %l : tensor<1x1x1x3x!data>, tensor<2x1x1x3x!weights>, tensor<2xi64> -> tensor<1x1x1x2x!result>
  func.return
}

// CHECK-LABEL: func.func @grouped_conv2d
func.func @grouped_conv2d(%x: tensor<1x6x5x6xf32>, %w: tensor<4x3x2x3xf32>) {
  // CHECK: nn.conv2d %x, %w {groups = 2 : i64} : tensor<1x6x5x6xf32>, tensor<4x3x2x3xf32> -> tensor<1x4x4x4xf32>
  %0 = nn.conv2d %x, %w {groups = 2 : i64} : tensor<1x6x5x6xf32>, tensor<4x3x2x3xf32> -> tensor<1x4x4x4xf32>
  func.return
}

// CHECK-LABEL: func.func @depthwise_conv2d
func.func @depthwise_conv2d(%x: tensor<1x4x4x1xf32>, %w: tensor<1x3x3x2xf32>, %b: tensor<2xf32>, %q: tensor<1x4x4x2x!data>, %v: tensor<1x3x3x2x!last>) {
  // CHECK: nn.depthwise_conv2d %x, %w, %b {max = 6.000000e+00 : f32, padding = array<i64: 1, 1, 1, 1>} : tensor<1x4x4x1xf32>, tensor<1x3x3x2xf32>, tensor<2xf32> -> tensor<1x4x4x2xf32>
  // GENERIC: "nn.depthwise_conv2d"
  %0 = nn.depthwise_conv2d %x, %w, %b {max = 6.0 : f32, padding = array<i64: 1, 1, 1, 1>} : tensor<1x4x4x1xf32>, tensor<1x3x3x2xf32>, tensor<2xf32> -> tensor<1x4x4x2xf32>
  // CHECK: nn.depthwise_conv2d %q, %v : tensor<1x4x4x2x!quant{{.*}}>, tensor<1x3x3x2x!quant{{.*}}> -> tensor<1x2x2x2x!quant.uniform<i8:f32, 2.500000e-01:-128>>
  %1 = nn.depthwise_conv2d %q, %v : tensor<1x4x4x2x!data>, tensor<1x3x3x2x!last> -> tensor<1x2x2x2x!result>
  func.return
}

// CHECK-LABEL: func.func @fully_connected
func.func @fully_connected(%x: tensor<1x3xf32>, %w: tensor<2x3xf32>, %b: tensor<2xf32>, %q: tensor<1x3x!data>, %v: tensor<2x3x!weights>, %c: tensor<2x!bias>) {
  // CHECK: nn.fully_connected %x, %w : tensor<1x3xf32>, tensor<2x3xf32> -> tensor<1x2xf32>
  // GENERIC: "nn.fully_connected"(%{{.*}}, %{{.*}}) : (tensor<1x3xf32>, tensor<2x3xf32>) -> tensor<1x2xf32>
  %0 = nn.fully_connected %x, %w : tensor<1x3xf32>, tensor<2x3xf32> -> tensor<1x2xf32>
  // CHECK: nn.fully_connected %x, %w, %b {min = -1.000000e+00 : f32, max = 1.000000e+00 : f32} : tensor<1x3xf32>, tensor<2x3xf32>, tensor<2xf32> -> tensor<1x2xf32>
  %1 = nn.fully_connected %x, %w, %b {min = -1.0 : f32, max = 1.0 : f32} : tensor<1x3xf32>, tensor<2x3xf32>, tensor<2xf32> -> tensor<1x2xf32>
  // CHECK: nn.fully_connected %q, %v, %c :
  %2 = nn.fully_connected %q, %v, %c : tensor<1x3x!data>, tensor<2x3x!weights>, tensor<2x!bias> -> tensor<1x2x!result>
  func.return
}

// CHECK-LABEL: func.func @matmul
func.func @matmul(%a: tensor<2x1x3x4xf32>, %b: tensor<5x4x2xf32>, %q: tensor<3x4x!data>, %r: tensor<4x2x!result>) {
  // CHECK: nn.matmul %a, %b : tensor<2x1x3x4xf32>, tensor<5x4x2xf32> -> tensor<2x5x3x2xf32>
  // GENERIC: "nn.matmul"(%{{.*}}, %{{.*}}) : (tensor<2x1x3x4xf32>, tensor<5x4x2xf32>) -> tensor<2x5x3x2xf32>
  %0 = nn.matmul %a, %b : tensor<2x1x3x4xf32>, tensor<5x4x2xf32> -> tensor<2x5x3x2xf32>
  // CHECK: nn.matmul %q, %r {min = 0.000000e+00 : f32} :
  %1 = nn.matmul %q, %r {min = 0.0 : f32} : tensor<3x4x!data>, tensor<4x2x!result> -> tensor<3x2x!result>
  func.return
}

// Pools: maxima and averages over windows keep the type, a global average has one of its own.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-128>

// CHECK-LABEL: func.func @float
func.func @float(%x: tensor<1x6x5x3xf32>) {
  // CHECK: nn.max_pool2d %x {window = array<i64: 3, 2>} : tensor<1x6x5x3xf32> -> tensor<1x4x4x3xf32>
  // GENERIC: "nn.max_pool2d"(%{{.*}}) <{window = array<i64: 3, 2>, strides = array<i64: 1, 1>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}>
  %0 = nn.max_pool2d %x {window = array<i64: 3, 2>, strides = array<i64: 1, 1>} : tensor<1x6x5x3xf32> -> tensor<1x4x4x3xf32>
  // CHECK: nn.max_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 1>, dilations = array<i64: 2, 1>} : tensor<1x6x5x3xf32> -> tensor<1x2x3x3xf32>
  %1 = nn.max_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 1>, dilations = array<i64: 2, 1>} : tensor<1x6x5x3xf32> -> tensor<1x2x3x3xf32>
  // CHECK: nn.average_pool2d %x {window = array<i64: 2, 2>} : tensor<1x6x5x3xf32> -> tensor<1x5x4x3xf32>
  // GENERIC: "nn.average_pool2d"(%{{.*}}) <{window = array<i64: 2, 2>, count_include_pad = false
  %2 = nn.average_pool2d %x {window = array<i64: 2, 2>, count_include_pad = false} : tensor<1x6x5x3xf32> -> tensor<1x5x4x3xf32>
  // CHECK: nn.average_pool2d %x {window = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, count_include_pad = true} : tensor<1x6x5x3xf32> -> tensor<1x7x6x3xf32>
  %3 = nn.average_pool2d %x {window = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>, count_include_pad = true} : tensor<1x6x5x3xf32> -> tensor<1x7x6x3xf32>
  // CHECK: nn.global_average_pool %x : tensor<1x6x5x3xf32> -> tensor<1x1x1x3xf32>
  // GENERIC: "nn.global_average_pool"(%{{.*}}) : (tensor<1x6x5x3xf32>) -> tensor<1x1x1x3xf32>
  %4 = nn.global_average_pool %x : tensor<1x6x5x3xf32> -> tensor<1x1x1x3xf32>
  func.return
}

// A dilated window may step over the image: on floats the maximum is −∞ there, the mean NaN.
// CHECK-LABEL: func.func @beside_the_image
func.func @beside_the_image(%x: tensor<1x1x4x3xf32>) {
  // CHECK: nn.max_pool2d %x
  %0 = nn.max_pool2d %x {window = array<i64: 2, 1>, padding = array<i64: 1, 1, 0, 0>, dilations = array<i64: 2, 1>} : tensor<1x1x4x3xf32> -> tensor<1x1x4x3xf32>
  func.return
}

// CHECK-LABEL: func.func @quantized
func.func @quantized(%x: tensor<1x6x5x3x!a>) {
  // CHECK: nn.max_pool2d %x {window = array<i64: 3, 2>} : tensor<1x6x5x3x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<1x4x4x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %0 = nn.max_pool2d %x {window = array<i64: 3, 2>} : tensor<1x6x5x3x!a> -> tensor<1x4x4x3x!a>
  // CHECK: nn.average_pool2d %x
  %1 = nn.average_pool2d %x {window = array<i64: 3, 2>} : tensor<1x6x5x3x!a> -> tensor<1x4x4x3x!a>
  // CHECK: nn.global_average_pool %x : tensor<1x6x5x3x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<1x1x1x3x!quant.uniform<i8:f32, 2.500000e-01:-128>>
  %2 = nn.global_average_pool %x : tensor<1x6x5x3x!a> -> tensor<1x1x1x3x!b>
  func.return
}

// CHECK-LABEL: func.func @places
func.func @places(%x: tensor<1x6x5x3xf32>, %u: tensor<1x6x5x3xui8>) {
  // CHECK: nn.max_pool2d_indices %x {window = array<i64: 3, 2>} : tensor<1x6x5x3xf32> -> tensor<1x4x4x3xi64>
  // GENERIC: "nn.max_pool2d_indices"
  %0 = nn.max_pool2d_indices %x {window = array<i64: 3, 2>} : tensor<1x6x5x3xf32> -> tensor<1x4x4x3xi64>
  // CHECK: nn.max_pool2d %u {window = array<i64: 3, 2>} : tensor<1x6x5x3xui8> -> tensor<1x4x4x3xui8>
  %1 = nn.max_pool2d %u {window = array<i64: 3, 2>} : tensor<1x6x5x3xui8> -> tensor<1x4x4x3xui8>
  func.return
}

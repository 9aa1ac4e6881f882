// Integer contractions: i32 accumulators; a zero point of 0 is not printed.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @conv2d
func.func @conv2d(%x: tensor<1x6x5x3xi8>, %w: tensor<2x3x2x3xi8>, %b: tensor<2xi32>) {
  // CHECK: qint.conv2d %x, %w : tensor<1x6x5x3xi8>, tensor<2x3x2x3xi8> -> tensor<1x4x4x2xi32>
  // GENERIC: "qint.conv2d"(%{{.*}}, %{{.*}}) <{zero_point = 0 : i32, strides = array<i64: 1, 1>, groups = 1 : i64, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}> : (tensor<1x6x5x3xi8>, tensor<2x3x2x3xi8>) -> tensor<1x4x4x2xi32>
  %0 = qint.conv2d %x, %w {zero_point = 0 : i32, strides = array<i64: 1, 1>} : tensor<1x6x5x3xi8>, tensor<2x3x2x3xi8> -> tensor<1x4x4x2xi32>
  // CHECK: qint.conv2d %x, %w, %b {zero_point = -128 : i32, padding = array<i64: 1, 1, 1, 0>} : tensor<1x6x5x3xi8>, tensor<2x3x2x3xi8>, tensor<2xi32> -> tensor<1x6x5x2xi32>
  %1 = qint.conv2d %x, %w, %b {zero_point = -128 : i32, padding = array<i64: 1, 1, 1, 0>} : tensor<1x6x5x3xi8>, tensor<2x3x2x3xi8>, tensor<2xi32> -> tensor<1x6x5x2xi32>
  func.return
}

// CHECK-LABEL: func.func @grouped_conv2d
func.func @grouped_conv2d(%x: tensor<1x6x5x6xi8>, %w: tensor<4x3x2x3xi8>) {
  // CHECK: qint.conv2d %x, %w {groups = 2 : i64} : tensor<1x6x5x6xi8>, tensor<4x3x2x3xi8> -> tensor<1x4x4x4xi32>
  %0 = qint.conv2d %x, %w {groups = 2 : i64} : tensor<1x6x5x6xi8>, tensor<4x3x2x3xi8> -> tensor<1x4x4x4xi32>
  func.return
}

// CHECK-LABEL: func.func @depthwise_conv2d
func.func @depthwise_conv2d(%x: tensor<1x4x4x1xi8>, %w: tensor<1x3x3x2xi8>, %b: tensor<2xi32>) {
  // CHECK: qint.depthwise_conv2d %x, %w, %b {strides = array<i64: 2, 1>} :
  // GENERIC: "qint.depthwise_conv2d"
  %0 = qint.depthwise_conv2d %x, %w, %b {strides = array<i64: 2, 1>} : tensor<1x4x4x1xi8>, tensor<1x3x3x2xi8>, tensor<2xi32> -> tensor<1x1x2x2xi32>
  func.return
}

// CHECK-LABEL: func.func @fully_connected
func.func @fully_connected(%x: tensor<1x3xi16>, %w: tensor<2x3xi8>, %b: tensor<2xi32>) {
  // CHECK: qint.fully_connected %x, %w, %b {zero_point = 3 : i32} : tensor<1x3xi16>, tensor<2x3xi8>, tensor<2xi32> -> tensor<1x2xi32>
  // GENERIC: "qint.fully_connected"(%{{.*}}, %{{.*}}, %{{.*}}) <{zero_point = 3 : i32}>
  %0 = qint.fully_connected %x, %w, %b {zero_point = 3 : i32} : tensor<1x3xi16>, tensor<2x3xi8>, tensor<2xi32> -> tensor<1x2xi32>
  func.return
}

// CHECK-LABEL: func.func @matmul
func.func @matmul(%a: tensor<2x1x3x4xi8>, %b: tensor<5x4x2xi8>) {
  // CHECK: qint.matmul %a, %b : tensor<2x1x3x4xi8>, tensor<5x4x2xi8> -> tensor<2x5x3x2xi32>
  // GENERIC: "qint.matmul"(%{{.*}}, %{{.*}}) <{lhs_zero_point = 0 : i32, rhs_zero_point = 0 : i32}>
  %0 = qint.matmul %a, %b : tensor<2x1x3x4xi8>, tensor<5x4x2xi8> -> tensor<2x5x3x2xi32>
  // CHECK: qint.matmul %a, %b {rhs_zero_point = -1 : i32} :
  %1 = qint.matmul %a, %b {lhs_zero_point = 0 : i32, rhs_zero_point = -1 : i32} : tensor<2x1x3x4xi8>, tensor<5x4x2xi8> -> tensor<2x5x3x2xi32>
  func.return
}

// CHECK-LABEL: func.func @sums_of_64_bits
func.func @sums_of_64_bits(%x: tensor<1x3xi16>, %w: tensor<2x3xi8>, %b: tensor<2xi64>, %m: tensor<3x2xi16>) {
  // CHECK: qint.fully_connected %x, %w, %b : tensor<1x3xi16>, tensor<2x3xi8>, tensor<2xi64> -> tensor<1x2xi64>
  %0 = qint.fully_connected %x, %w, %b : tensor<1x3xi16>, tensor<2x3xi8>, tensor<2xi64> -> tensor<1x2xi64>
  // CHECK: qint.matmul %x, %m : tensor<1x3xi16>, tensor<3x2xi16> -> tensor<1x2xi64>
  %1 = qint.matmul %x, %m : tensor<1x3xi16>, tensor<3x2xi16> -> tensor<1x2xi64>
  func.return
}

// CHECK-LABEL: func.func @data_of_32_bits
func.func @data_of_32_bits(%x: tensor<1x3xi32>, %w: tensor<2x3xi8>, %m: tensor<3x2xi16>) {
  // CHECK: qint.fully_connected %x, %w : tensor<1x3xi32>, tensor<2x3xi8> -> tensor<1x2xi64>
  %0 = qint.fully_connected %x, %w : tensor<1x3xi32>, tensor<2x3xi8> -> tensor<1x2xi64>
  // CHECK: qint.matmul %x, %m : tensor<1x3xi32>, tensor<3x2xi16> -> tensor<1x2xi64>
  %1 = qint.matmul %x, %m : tensor<1x3xi32>, tensor<3x2xi16> -> tensor<1x2xi64>
  func.return
}

// CHECK-LABEL: func.func @saturating
func.func @saturating(%x: tensor<1x3xi8>, %w: tensor<2x3xi8>, %b: tensor<2xi32>) {
  // CHECK: qint.saturating_fully_connected %x, %w, %b {zero_point = -128 : i32} : tensor<1x3xi8>, tensor<2x3xi8>, tensor<2xi32> -> tensor<1x2xi32>
  // GENERIC: "qint.saturating_fully_connected"(%{{.*}}, %{{.*}}, %{{.*}}) <{zero_point = -128 : i32}>
  %0 = qint.saturating_fully_connected %x, %w, %b {zero_point = -128 : i32} : tensor<1x3xi8>, tensor<2x3xi8>, tensor<2xi32> -> tensor<1x2xi32>
  func.return
}

// CHECK-LABEL: func.func @affine
func.func @affine(%x: tensor<1x4xi8>, %w: tensor<2x4xi8>, %m: tensor<2x2xi16>, %k: tensor<2x2xi32>, %b: tensor<2xi64>) {
  // CHECK: qint.affine_fully_connected %x, %w, %m, %k : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi16>, tensor<2x2xi32> -> tensor<1x2xi64>
  // GENERIC: "qint.affine_fully_connected"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) <{zero_point = 0 : i32}>
  %0 = qint.affine_fully_connected %x, %w, %m, %k : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi16>, tensor<2x2xi32> -> tensor<1x2xi64>
  // CHECK: qint.affine_fully_connected %x, %w, %m, %k, %b {zero_point = 3 : i32} :
  %1 = qint.affine_fully_connected %x, %w, %m, %k, %b {zero_point = 3 : i32} : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi16>, tensor<2x2xi32>, tensor<2xi64> -> tensor<1x2xi64>
  func.return
}

// CHECK-LABEL: func.func @blocked
func.func @blocked(%x: tensor<1x4xi8>, %w: tensor<2x4xi8>, %m: tensor<2x2xi32>, %b: tensor<2xi64>) {
  // CHECK: qint.blocked_fully_connected %x, %w, %m : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi32> -> tensor<1x2xi64>
  // GENERIC: "qint.blocked_fully_connected"(%{{.*}}, %{{.*}}, %{{.*}}) <{zero_point = 0 : i32}>
  %0 = qint.blocked_fully_connected %x, %w, %m : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi32> -> tensor<1x2xi64>
  // CHECK: qint.blocked_fully_connected %x, %w, %m, %b {zero_point = 3 : i32} :
  %1 = qint.blocked_fully_connected %x, %w, %m, %b {zero_point = 3 : i32} : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi32>, tensor<2xi64> -> tensor<1x2xi64>
  func.return
}

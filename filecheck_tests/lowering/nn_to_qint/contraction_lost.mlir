// A factor between scales that is too small for any multiplier: the sums would be lost.

// RUN: qmlir-opt --split-input-file --nn-to-qint %s | filecheck %s

!x = !quant.uniform<i16:f32, 1.0>
!w = !quant.uniform<i16:f32:0, {1.0, 1.0e-12}>
!y = !quant.uniform<i16:f32, 1.0>

// Sums of 64 bits that come to more than half a step.
// CHECK-LABEL: func.func @lost
// CHECK: nn.fully_connected
// CHECK-SAME: <float, "factor", "its sums in channel 1 reach 600000000000, and their factor 1e-12 has no multiplier">
func.func @lost(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi16>, [1, 2, 0, 0]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xi64>, [0, 600000000000]> : tensor<2xi64>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xi64> -> tensor<1x2x!y>
  func.return %0 : tensor<1x2x!y>
}

// -----

!x = !quant.uniform<i16:f32, 1.0>
!w = !quant.uniform<i16:f32:0, {1.0, 1.0e-12}>
!y = !quant.uniform<i16:f32, 1.0>

// Sums that never do are 0, exactly.
// CHECK-LABEL: func.func @nothing
// CHECK: qint.requantize {{.*}}multiplier = array<i32: 1073741824, 0>
func.func @nothing(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi16>, [1, 2, 30000, 30000]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xi64>, [0, 400000000000]> : tensor<2xi64>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xi64> -> tensor<1x2x!y>
  func.return %0 : tensor<1x2x!y>
}

// -----

!x = !quant.uniform<i16:f32, 1.0>
!w = !quant.uniform<i16:f32:0, {1.0, 1.0e-12}>
!y = !quant.uniform<i16:f32, 1.0>

// LiteRT has no such multipliers either, and its bits are what counts.
// CHECK-LABEL: func.func @followed
// CHECK: qint.requantize {{.*}}multiplier = array<i32: 1073741824, 0>
builtin.module attributes {qmlir.numerics = "litert-reference"} {
func.func @followed(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi16>, [1, 2, 0, 0]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xi64>, [0, 600000000000]> : tensor<2xi64>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xi64> -> tensor<1x2x!y>
  func.return %0 : tensor<1x2x!y>
}
}

// -----

!x = !quant.uniform<i16:f32, 1.0:1>
!w = !quant.uniform<i16:f32:0, {1.0, 1.0e-12}>
!y = !quant.uniform<i16:f32, 1.0>

// For data with a zero point LiteRT has no kernel: they round as by default, where no sums may be lost.
// CHECK-LABEL: func.func @not_followed
// CHECK: <float, "factor", "its sums in channel 1 reach 600000000000, and their factor 1e-12 has no multiplier">
builtin.module attributes {qmlir.numerics = "litert-reference"} {
func.func @not_followed(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi16>, [1, 2, 0, 0]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xi64>, [0, 600000000000]> : tensor<2xi64>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2xi64> -> tensor<1x2x!y>
  func.return %0 : tensor<1x2x!y>
}
}

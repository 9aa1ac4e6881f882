// A layer with parameters for blocks becomes sums of blocks with integer multipliers; the last block is filled up.

// RUN: qmlir-opt --nn-to-qint %s | filecheck %s

!x = !quant.uniform<i8:f32, 0.5:-5>
!y = !quant.uniform<i8:f32, 1.0>

// The scales of an output are shares of the largest, which has 2^15 − 1. The bias counts in steps of s_x · s / (2^15 − 1).

// CHECK-LABEL: func.func @shorter_last_block
// CHECK: %[[X:.*]] = nn.pad %{{.*}} {low = array<i64: 0, 0>, high = array<i64: 0, 1>, value = -5 : i8} : tensor<1x3xi8> -> tensor<1x4xi8>
// CHECK-NEXT: nn.constant <tensor<2x4xi8>, [1, 2, 2, 0, -3, 4, -5, 0]>
// CHECK-NEXT: nn.constant <tensor<2x2xi32>, [32767, 16384, -8192, 32767]>
// CHECK-NEXT: nn.constant <tensor<2xi64>, [65534, 0]>
// CHECK-NEXT: qint.blocked_fully_connected %[[X]], %{{.*}}, %{{.*}}, %{{.*}} {zero_point = -5 : i32} : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi32>, tensor<2xi64> -> tensor<1x2xi64>
// CHECK-NEXT: qint.requantize %{{.*}} {multiplier = array<i32: {{.*}}>, shift = array<i32: {{.*}}>, contract = "single64",
func.func @shorter_last_block(%x: tensor<1x3x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x3xi8>, [1, 2, 3, -4, 3, -5]> : tensor<2x3xi8>
  %s = nn.constant <tensor<2x2xf32>, [0.5, 0.25, -0.25, 1.0]> : tensor<2x2xf32>
  %z = nn.constant <tensor<2x2xi8>, [0, 1, -1, 0]> : tensor<2x2xi8>
  %b = nn.constant <tensor<2xf32>, [0.5, 0.0]> : tensor<2xf32>
  %y = nn.blocked_fully_connected %x, %w, %s, %z, %b {block = 2 : i64} : tensor<1x3x!x>, tensor<2x3xi8>, tensor<2x2xf32>, tensor<2x2xi8>, tensor<2xf32> -> tensor<1x2x!y>
  func.return %y : tensor<1x2x!y>
}

// Zero points that are no whole numbers are offsets: c = 8 in the middle of 1 to 15, and (8 − z) · s as a multiplier.

// CHECK-LABEL: func.func @offsets
// CHECK: nn.constant <tensor<2x4xi8>, [-7, -6, 7, 1, 0, -1, 2, -2]>
// CHECK-NEXT: nn.constant <tensor<2x2xi16>, [32767, 16384, -8192, 32767]>
// CHECK-NEXT: nn.constant <tensor<2x2xi32>, [16384, 65534, -4096, 0]>
// CHECK-NEXT: qint.affine_fully_connected %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} {zero_point = -5 : i32} : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi16>, tensor<2x2xi32> -> tensor<1x2xi64>
// CHECK-NEXT: qint.requantize %{{.*}} contract = "single64",
func.func @offsets(%x: tensor<1x4x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x4xi8>, [1, 2, 15, 9, 8, 7, 10, 6]> : tensor<2x4xi8>
  %s = nn.constant <tensor<2x2xf32>, [0.5, 0.25, -0.25, 1.0]> : tensor<2x2xf32>
  %z = nn.constant <tensor<2x2xf32>, [7.5, 4.0, 7.5, 8.0]> : tensor<2x2xf32>
  %y = nn.blocked_fully_connected %x, %w, %s, %z {block = 2 : i64} : tensor<1x4x!x>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<1x2x!y>
  func.return %y : tensor<1x2x!y>
}

// CHECK-LABEL: func.func @refused
// CHECK: nn.blocked_fully_connected %{{.*}}#qmlir.decision<float, "blocked", "its zero points do not fit 16 bits">
// CHECK: nn.blocked_fully_connected %{{.*}}#qmlir.decision<float, "computed-weights", "its weights are computed at run time; only constant weights can be quantized">
func.func @refused(%x: tensor<1x2x!x>, %v0: tensor<2x2xi8>) {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2xi8>
  %s = nn.constant <tensor<2x1xf32>, [0.5, 0.25]> : tensor<2x1xf32>
  %v = nn.constant <tensor<2x1xf32>, [0.5, 40000.0]> : tensor<2x1xf32>
  %0 = nn.blocked_fully_connected %x, %w, %s, %v {block = 2 : i64} : tensor<1x2x!x>, tensor<2x2xi8>, tensor<2x1xf32>, tensor<2x1xf32> -> tensor<1x2x!y>
  %z = nn.constant <tensor<2x1xi8>, [0, 0]> : tensor<2x1xi8>
  %1 = nn.blocked_fully_connected %x, %v0, %s, %z {block = 2 : i64} : tensor<1x2x!x>, tensor<2x2xi8>, tensor<2x1xf32>, tensor<2x1xi8> -> tensor<1x2x!y>
  func.return
}

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

// CHECK-LABEL: func.func @refused
// CHECK: nn.blocked_fully_connected %{{.*}}#qmlir.decision<float, "blocked", "its zero points are not whole numbers of 16 bits">
// CHECK: nn.blocked_fully_connected %{{.*}}#qmlir.decision<float, "computed-weights", "its weights are computed at run time; only constant weights can be quantized">
func.func @refused(%x: tensor<1x2x!x>, %v: tensor<2x2xi8>) {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2xi8>
  %s = nn.constant <tensor<2x1xf32>, [0.5, 0.25]> : tensor<2x1xf32>
  %0 = nn.blocked_fully_connected %x, %w, %s, %s {block = 2 : i64} : tensor<1x2x!x>, tensor<2x2xi8>, tensor<2x1xf32>, tensor<2x1xf32> -> tensor<1x2x!y>
  %z = nn.constant <tensor<2x1xi8>, [0, 0]> : tensor<2x1xi8>
  %1 = nn.blocked_fully_connected %x, %v, %s, %z {block = 2 : i64} : tensor<1x2x!x>, tensor<2x2xi8>, tensor<2x1xf32>, tensor<2x1xi8> -> tensor<1x2x!y>
  func.return
}

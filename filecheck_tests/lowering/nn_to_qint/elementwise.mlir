// RUN: qmlir-opt --nn-to-qint --split-input-file %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-10>
!c = !quant.uniform<i8:f32, 0.125>

// Two multipliers over one shift, so that a sum is rounded once; a constant operand is stored integers.
// CHECK-LABEL: func.func @add
// CHECK: %[[C:.*]] = nn.constant <tensor<1xi8>, [7]> : tensor<1xi8>
// CHECK: %[[S:.*]] = qint.add %{{.*}}, %{{.*}} {lhs_zero_point = 3 : i32, rhs_zero_point = -10 : i32, multipliers = array<i64: 536870912, 268435456>, shift = 27 : i32, min = -128 : i32, max = 127 : i32} : tensor<4xi8>, tensor<4xi8> -> tensor<4xi8>
// CHECK: qint.add %[[S]], %[[C]] {{.*}}zero_point = -10 : i32, min = -10 : i32, max = 127 : i32}
func.func @add(%a: tensor<4x!a>, %b: tensor<4x!b>) -> tensor<4x!b> {
  %c = nn.constant <tensor<1xi8>, [7]> : tensor<1x!c>
  %0 = nn.add %a, %b : tensor<4x!a>, tensor<4x!b> -> tensor<4x!c>
  %1 = nn.add %0, %c {min = 0.0 : f32} : tensor<4x!c>, tensor<1x!c> -> tensor<4x!b>
  func.return %1 : tensor<4x!b>
}

// -----

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25:-10>

// CHECK-LABEL: func.func @mul
// CHECK: %[[P:.*]] = qint.mul %{{.*}}, %{{.*}} {lhs_zero_point = 3 : i32, rhs_zero_point = -10 : i32} : tensor<2x4xi8>, tensor<4xi8> -> tensor<2x4xi32>
// CHECK-NEXT: qint.requantize %[[P]] {multiplier = array<i32: 1073741824>, shift = array<i32: -1>, contract = "single", zero_point = 3 : i32, min = -128 : i32, max = 5 : i32}
func.func @mul(%a: tensor<2x4x!a>, %b: tensor<4x!b>) -> tensor<2x4x!a> {
  %0 = nn.mul %a, %b {max = 1.0 : f32} : tensor<2x4x!a>, tensor<4x!b> -> tensor<2x4x!a>
  func.return %0 : tensor<2x4x!a>
}

// -----

// Scales for each channel, storage of 32 bits, scales too far apart: islands.
!c = !quant.uniform<i8:f32:0, {0.5,0.25}>
!u = !quant.uniform<i32:f32, 0.5>
!big = !quant.uniform<i8:f32, 1.0e+12>
!a = !quant.uniform<i8:f32, 0.5>

// CHECK-LABEL: func.func @islands
// CHECK: nn.add %{{.*}}#qmlir.decision<float, "target", "activations with a scale for each channel have no integer form">{{.*}} : tensor<2xf32>, tensor<2xf32> -> tensor<2xf32>
// CHECK: nn.mul %{{.*}}#qmlir.decision<float, "target", "target cpu computes it on i8, i16, not on i32">
// CHECK: nn.add %{{.*}}#qmlir.decision<float, "factor", "its scales are a factor of 2e+12 apart, which no 32-bit multiplier bridges">
// CHECK-NOT: qint.
func.func @islands(%c: tensor<2x!c>, %u: tensor<2x!u>, %b: tensor<2x!big>) -> (tensor<2x!c>, tensor<2x!u>, tensor<2x!a>) {
  %0 = nn.add %c, %c : tensor<2x!c>, tensor<2x!c> -> tensor<2x!c>
  %1 = nn.mul %u, %u : tensor<2x!u>, tensor<2x!u> -> tensor<2x!u>
  %2 = nn.add %b, %b : tensor<2x!big>, tensor<2x!big> -> tensor<2x!a>
  func.return %0, %1, %2 : tensor<2x!c>, tensor<2x!u>, tensor<2x!a>
}

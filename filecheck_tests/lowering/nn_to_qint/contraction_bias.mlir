// A bias with a scale of its own is rounded to the steps of the sums: rint((q - z) * s_b / (s_x * s_w)).

// RUN: qmlir-opt --split-input-file --nn-to-qint %s | filecheck %s

!x = !quant.uniform<i8:f32, 0.5:3>
!w = !quant.uniform<i8:f32:0, {0.25, 1.0}>
!y = !quant.uniform<i8:f32, 1.0>

// One scale for all: (127 + 1) * 0.3 / 0.125 and (-5 + 1) * 0.3 / 0.5.
// CHECK-LABEL: func.func @tensor
// CHECK: [[B:%.*]] = nn.constant <tensor<2xi32>, [307, -2]> : tensor<2xi32>
// CHECK: qint.fully_connected {{.*}}, [[B]] {zero_point = 3 : i32} : tensor<1x2xi8>, tensor<2x2xi8>, tensor<2xi32> -> tensor<1x2xi32>
func.func @tensor(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xi8>, [127, -5]> : tensor<2x!quant.uniform<i8:f32, 0.3:-1>>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2x!quant.uniform<i8:f32, 0.3:-1>> -> tensor<1x2x!y>
  func.return %0 : tensor<1x2x!y>
}

// -----

!x = !quant.uniform<i16:f32, 0.5>
!w = !quant.uniform<i8:f32:0, {0.25, 1.0}>
!y = !quant.uniform<i16:f32, 1.0>
!b = !quant.uniform<i16:f32:0, {1.0e6, 0.3125}>

// One for each channel, half a step to even; what 32 bits do not hold is added in 64.
// CHECK-LABEL: func.func @channel
// CHECK: nn.constant <tensor<2xi64>, [240000000000, 2]> : tensor<2xi64>
// CHECK: qint.fully_connected {{.*}} -> tensor<1x2xi64>
func.func @channel(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xi16>, [30000, 4]> : tensor<2x!b>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2x!b> -> tensor<1x2x!y>
  func.return %0 : tensor<1x2x!y>
}

// -----

!x = !quant.uniform<i8:f32, 0.5>
!w = !quant.uniform<i8:f32, 0.25>
!b = !quant.uniform<i8:f32, 0.5:-1>

// In floats it is what it stands for.
// CHECK-LABEL: func.func @float
// CHECK: quant.dcast {{.*}} : tensor<2x!quant.uniform<i8:f32, 5.000000e-01:-1>> to tensor<2xf32>
// CHECK: nn.fully_connected {{.*}} : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
func.func @float(%x: tensor<1x2x!x>) -> tensor<1x2x!quant.uniform<i8:f32, 1.0e-38>> {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xi8>, [1, -5]> : tensor<2x!b>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x2x!x>, tensor<2x2x!w>, tensor<2x!b> -> tensor<1x2x!quant.uniform<i8:f32, 1.0e-38>>
  func.return %0 : tensor<1x2x!quant.uniform<i8:f32, 1.0e-38>>
}

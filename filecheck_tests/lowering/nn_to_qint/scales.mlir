// Where scales are promised to be powers of two, a change of scale is a shift, and its contract says so.

// RUN: qmlir-opt --nn-to-qint %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5>
!b = !quant.uniform<i8:f32, 0.0625>

// CHECK-LABEL: func.func @promised
// CHECK-SAME: attributes {qmlir.scales = #qmlir.power_of_two}
// CHECK: qint.requantize %{{.*}} {multiplier = array<i32: 1073741824>, shift = array<i32: 4>, contract = "shift",
func.func @promised(%x: tensor<1x2x2x2x!a>) -> tensor<1x2x2x2x!b> attributes {qmlir.scales = #qmlir.power_of_two} {
  %0 = nn.relu %x : tensor<1x2x2x2x!a> -> tensor<1x2x2x2x!b>
  func.return %0 : tensor<1x2x2x2x!b>
}

// A mean divides: by 4 it is a shift, by 6 it is not.
// CHECK-LABEL: func.func @means
// CHECK: qint.requantize %{{.*}} {multiplier = array<i32: 1073741824>, shift = array<i32: 2>, contract = "shift",
// CHECK: qint.requantize %{{.*}} {multiplier = array<i32: 1431655765>, shift = array<i32: 1>, contract = "single",
func.func @means(%x: tensor<1x2x2x2x!a>, %y: tensor<1x2x3x2x!a>) -> (tensor<1x1x1x2x!b>, tensor<1x1x1x2x!b>) attributes {qmlir.scales = #qmlir.power_of_two} {
  %0 = nn.global_average_pool %x : tensor<1x2x2x2x!a> -> tensor<1x1x1x2x!b>
  %1 = nn.global_average_pool %y : tensor<1x2x3x2x!a> -> tensor<1x1x1x2x!b>
  func.return %0, %1 : tensor<1x1x1x2x!b>, tensor<1x1x1x2x!b>
}

// Scales that happen to be powers of two promise nothing.
// CHECK-LABEL: func.func @not_promised
// CHECK: contract = "single"
func.func @not_promised(%x: tensor<2x!a>) -> tensor<2x!b> {
  %0 = nn.relu %x : tensor<2x!a> -> tensor<2x!b>
  func.return %0 : tensor<2x!b>
}

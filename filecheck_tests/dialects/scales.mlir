// Power-of-two scales as a promise: on a function, on the module, on an operation; per tensor, per axis, per block.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!a = !quant.uniform<i8:f32, 0.0078125>
!w = !quant.uniform<i8<-127:127>:f32:0, {0.5,1.1754943508222875e-38}>
!b = !quant.uniform<i32:f32:0, {0.00390625,9.183549615799121e-41}>

// The bias counts in s_x·s_w, a power of two as well.
// CHECK-LABEL: func.func @main
// CHECK-SAME: attributes {qmlir.scales = #qmlir.power_of_two}
func.func @main(%x: tensor<1x4x!a>, %w: tensor<2x4x!w>, %blocks: tensor<4x2x!quant.uniform<i8:f32:{0:2}, {{0.25},{8.0}}>>) -> tensor<1x2x!a> attributes {qmlir.scales = #qmlir.power_of_two} {
  %b = nn.constant <tensor<2xi32>, [1, 2]> : tensor<2x!quant.uniform<i32:f32:0, {0.00390625,9.1835496157991212e-41}>>
  %0 = nn.fully_connected %x, %w, %b : tensor<1x4x!a>, tensor<2x4x!w>, tensor<2x!quant.uniform<i32:f32:0, {0.00390625,9.1835496157991212e-41}>> -> tensor<1x2x!a>
  func.return %0 : tensor<1x2x!a>
}

// What stands outside is not meant.
// CHECK: nn.relu %{{.*}} {qmlir.scales = #qmlir.power_of_two} : tensor<2x!quant.uniform<i8:f32, 1.000000e-01>>
func.func @one_operation(%x: tensor<2x!quant.uniform<i8:f32, 0.1>>) -> tensor<2x!quant.uniform<i8:f32, 0.25>> {
  %0 = nn.relu %x {qmlir.scales = #qmlir.power_of_two} : tensor<2x!quant.uniform<i8:f32, 0.1>> -> tensor<2x!quant.uniform<i8:f32, 0.25>>
  func.return %0 : tensor<2x!quant.uniform<i8:f32, 0.25>>
}

// CHECK: builtin.module attributes {qmlir.scales = #qmlir.power_of_two}
builtin.module attributes {qmlir.scales = #qmlir.power_of_two} {
  func.func @inside(%x: tensor<2x!quant.uniform<i8:f32, 4.0>>) {
    func.return
  }
}

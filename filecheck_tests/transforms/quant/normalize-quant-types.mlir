// RUN: qmlir-opt --normalize-quant-types --allow-unregistered-dialect %s | filecheck %s

// One block, whatever its length: per tensor.
!one = !quant.uniform<u4<0:14>:f32:{}, {{2.0:7}}>
!same = !quant.uniform<u4<0:14>:f32:{0:2,1:4}, {{2.0:7}}>

// CHECK-LABEL: func.func private @callee(tensor<2x4x!quant.uniform<u4<0:14>:f32, 2.000000e+00:7>>) -> tensor<2x4x!quant.uniform<u4<0:14>:f32, 2.000000e+00:7>>
func.func private @callee(tensor<2x4x!one>) -> tensor<2x4x!one>

// CHECK-LABEL: func.func @per_tensor(%x: tensor<2x4xf32>, %y: tensor<2x4x!quant.uniform<u4<0:14>:f32, 2.000000e+00:7>>) -> tensor<2x4x!quant.uniform<u4<0:14>:f32, 2.000000e+00:7>> {
// CHECK-NEXT: %[[Q:.*]] = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!quant.uniform<u4<0:14>:f32, 2.000000e+00:7>>
// CHECK-NEXT: %[[R:.*]] = func.call @callee(%[[Q]])
// CHECK-NEXT: "test.region"() ({
// CHECK-NEXT: ^bb0(%[[A:.*]]: tensor<2x4x!quant.uniform<u4<0:14>:f32, 2.000000e+00:7>>):
// CHECK-NEXT:   "test.use"(%[[A]]) : (tensor<2x4x!quant.uniform<u4<0:14>:f32, 2.000000e+00:7>>) -> ()
// CHECK: func.return %y
func.func @per_tensor(%x: tensor<2x4xf32>, %y: tensor<2x4x!same>) -> tensor<2x4x!same> {
  %0 = quant.qcast %x : tensor<2x4xf32> to tensor<2x4x!one>
  %1 = func.call @callee(%0) : (tensor<2x4x!one>) -> tensor<2x4x!one>
  "test.region"() ({
  ^bb0(%a: tensor<2x4x!same>):
    "test.use"(%a) : (tensor<2x4x!same>) -> ()
  }) : () -> ()
  func.return %y : tensor<2x4x!same>
}

// A block for each index of one axis: per axis. The other axis may have blocks too, if there is one only.
!axis0 = !quant.uniform<i8:f32:{0:1,1:4}, {{2.0:1}, {3.0}}>
!axis1 = !quant.uniform<i8:f32:{1:1}, {{2.0, 3.0:-1, 2.0}}>

// CHECK-LABEL: func.func @per_axis
// CHECK-SAME: tensor<2x4x!quant.uniform<i8:f32:0, {2.000000e+00:1,3.000000e+00}>>
// CHECK-SAME: tensor<2x3x!quant.uniform<i8:f32:1, {2.000000e+00,3.000000e+00:-1,2.000000e+00}>>
func.func @per_axis(%x: tensor<2x4x!axis0>, %y: tensor<2x3x!axis1>) {
  func.return
}

// Blocks that need the type they have: two axes, or blocks longer than 1, whose scales no per-axis type could give to
// the right indices. Simple types stay as well.
!both = !quant.uniform<i8:f32:{0:1,1:2}, {{2.0, 3.0}, {4.0, 5.0}}>
!long = !quant.uniform<i8:f32:{0:2}, {{2.0}, {3.0}}>
!axis = !quant.uniform<i8:f32:0, {2.0,2.0}>

// CHECK-LABEL: func.func @stays
// CHECK-SAME: !quant.uniform<i8:f32:{0:1, 1:2}, {{[{][{]}}2.000000e+00, 3.000000e+00}, {4.000000e+00, 5.000000e+00{{[}][}]}}>
// CHECK-SAME: !quant.uniform<i8:f32:{0:2}, {{[{][{]}}2.000000e+00}, {3.000000e+00{{[}][}]}}>
// CHECK-SAME: !quant.uniform<i8:f32:0, {2.000000e+00,2.000000e+00}>
func.func @stays(%x: tensor<2x4x!both>, %y: tensor<4x?x!long>, %z: tensor<2x!axis>) {
  func.return
}

// RUN: qmlir-opt --fold-qdq --split-input-file %s | filecheck %s

!x = !quant.uniform<u8:f32, 0.5:3>
!w = !quant.uniform<i8:f32:0, {0.5,0.25}>
!b = !quant.uniform<i32:f32:0, {0.25,0.125}>
!y = !quant.uniform<u8:f32, 1.0>

// A fallback becomes an operation on quantized types; the bias, in steps of s_x·s_w already, is kept as it is.
// CHECK-LABEL: func.func @fallback
// CHECK: %[[B:.*]] = nn.constant <tensor<2xi32>, [1, -2]> : tensor<2x!quant.uniform<i32:f32:0, {2.500000e-01,1.250000e-01}>>
// CHECK-NEXT: %[[Y:.*]] = nn.fully_connected %x, %{{.*}}, %[[B]] {qmlir.decision = #qmlir.decision<quantized, "integer", "u8 activations, i8 weights per channel">, min = 0.000000e+00 : f32}
// CHECK-NEXT: func.return %[[Y]]
func.func @fallback(%x: tensor<1x2x!x>) -> tensor<1x2x!y> {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 4]> : tensor<2x2x!w>
  %b = nn.constant <tensor<2xi32>, [1, -2]> : tensor<2x!b>
  %0 = quant.dcast %x : tensor<1x2x!x> to tensor<1x2xf32>
  %1 = quant.dcast %w : tensor<2x2x!w> to tensor<2x2xf32>
  %2 = quant.dcast %b : tensor<2x!b> to tensor<2xf32>
  %3 = nn.fully_connected %0, %1, %2 : tensor<1x2xf32>, tensor<2x2xf32>, tensor<2xf32> -> tensor<1x2xf32>
  %4 = nn.relu %3 : tensor<1x2xf32> -> tensor<1x2xf32>
  %5 = quant.qcast %4 : tensor<1x2xf32> to tensor<1x2x!y>
  func.return %5 : tensor<1x2x!y>
}

// -----

!x = !quant.uniform<i8:f32, 0.5>
!w = !quant.uniform<i8:f32, 0.5>
!half = !quant.uniform<i32:f32, 0.125>
!double = !quant.uniform<i32:f32, 0.5>

// A bias of another scale is repaired: exactly where it counts in whole steps, else rounded, and reported.
// CHECK-LABEL: func.func @bias
// CHECK: nn.constant <tensor<1xi32>, [6]> : tensor<1x!quant.uniform<i32:f32, 2.500000e-01>>
// CHECK-NEXT: nn.fully_connected {{.*}}#qmlir.decision<quantized, "integer", "i8 activations, i8 weights per tensor">
// CHECK: nn.constant <tensor<1xi32>, [2]> : tensor<1x!quant.uniform<i32:f32, 2.500000e-01>>
// CHECK-NEXT: nn.fully_connected {{.*}}"i8 activations, i8 weights per tensor; its bias, in steps of its own, was rounded to the accumulator's by up to 0.5 of one">
func.func @bias(%x: tensor<1x1x!x>) -> (tensor<1x1x!x>, tensor<1x1x!x>) {
  %w = nn.constant <tensor<1x1xi8>, [3]> : tensor<1x1x!w>
  %0 = quant.dcast %x : tensor<1x1x!x> to tensor<1x1xf32>
  %1 = quant.dcast %w : tensor<1x1x!w> to tensor<1x1xf32>
  %d = nn.constant <tensor<1xi32>, [3]> : tensor<1x!double>
  %2 = quant.dcast %d : tensor<1x!double> to tensor<1xf32>
  %3 = nn.fully_connected %0, %1, %2 : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1xf32> -> tensor<1x1xf32>
  %4 = quant.qcast %3 : tensor<1x1xf32> to tensor<1x1x!x>
  %h = nn.constant <tensor<1xi32>, [5]> : tensor<1x!half>
  %5 = quant.dcast %h : tensor<1x!half> to tensor<1xf32>
  %6 = nn.fully_connected %0, %1, %5 : tensor<1x1xf32>, tensor<1x1xf32>, tensor<1xf32> -> tensor<1x1xf32>
  %7 = quant.qcast %6 : tensor<1x1xf32> to tensor<1x1x!x>
  func.return %4, %7 : tensor<1x1x!x>, tensor<1x1x!x>
}

// -----

!x = !quant.uniform<i8:f32, 0.5:3>
!y = !quant.uniform<i8:f32, 0.25>

// An average of two scales is rounded once, as a sum with weights 1/n; where n differs it stays float.
// CHECK-LABEL: func.func @average
// CHECK: %[[W:.*]] = nn.constant <tensor<1x2x2x1xi8>, [1, 1, 1, 1]> : tensor<1x2x2x1x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK: nn.depthwise_conv2d %x, %[[W]] {{.*}}strides = array<i64: 2, 2>{{.*}} -> tensor<1x1x1x1x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK: nn.average_pool2d
func.func @average(%x: tensor<1x2x2x1x!x>) -> (tensor<1x1x1x1x!y>, tensor<1x3x3x1x!y>) {
  %0 = quant.dcast %x : tensor<1x2x2x1x!x> to tensor<1x2x2x1xf32>
  %1 = nn.average_pool2d %0 {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x2x2x1xf32> -> tensor<1x1x1x1xf32>
  %2 = quant.qcast %1 : tensor<1x1x1x1xf32> to tensor<1x1x1x1x!y>
  %3 = nn.average_pool2d %0 {window = array<i64: 2, 2>, padding = array<i64: 1, 1, 1, 1>} : tensor<1x2x2x1xf32> -> tensor<1x3x3x1xf32>
  %4 = quant.qcast %3 : tensor<1x3x3x1xf32> to tensor<1x3x3x1x!y>
  func.return %2, %4 : tensor<1x1x1x1x!y>, tensor<1x3x3x1x!y>
}

// 1/3 is rounded to float32, as a model file stores it: between two steps a sum goes the same way in both.
// CHECK-LABEL: func.func @average_of_three
// CHECK: nn.constant <tensor<1x3x1x1xi8>, [1, 1, 1]> : tensor<1x3x1x1x!quant.uniform<i8:f32, 0.3333333432674408>>
func.func @average_of_three(%x: tensor<1x3x1x1x!x>) -> tensor<1x1x1x1x!y> {
  %0 = quant.dcast %x : tensor<1x3x1x1x!x> to tensor<1x3x1x1xf32>
  %1 = nn.average_pool2d %0 {window = array<i64: 3, 1>} : tensor<1x3x1x1xf32> -> tensor<1x1x1x1xf32>
  %2 = quant.qcast %1 : tensor<1x1x1x1xf32> to tensor<1x1x1x1x!y>
  func.return %2 : tensor<1x1x1x1x!y>
}

// -----

!x = !quant.uniform<i8:f32, 0.5>

// What has no integer form stays between its casts, with the reason: blocked weights, no range, none on this target.
// CHECK-LABEL: func.func @float
// CHECK: nn.fully_connected {{.*}}#qmlir.decision<float, "blocked", "its weights have a scale for each block of 32, which integer sums cannot share">
// CHECK: nn.relu {{.*}}#qmlir.decision<float, "no-range", "no range is known for {{.*}}r{{.*}}">
// CHECK: nn.cumulative_product {{.*}}#qmlir.decision<float, "target", "each of its products has more digits than the one before, which no single scale holds">
func.func @float(%x: tensor<1x2x!x>) -> (tensor<1x2x!x>, tensor<1x2xf32>, tensor<1x2x!x>) {
  %w = nn.constant <tensor<2x2xf32>, [1.0, 2.0, 3.0, 4.0]> {qmlir.levels = #qmlir.levels<blocks, size = 32>} : tensor<2x2xf32>
  %0 = quant.dcast %x : tensor<1x2x!x> to tensor<1x2xf32>
  %1 = nn.fully_connected %0, %w : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  %2 = quant.qcast %1 : tensor<1x2xf32> to tensor<1x2x!x>
  %3 = nn.relu %0 {qmlir.name = #qmlir.name<tensors ["r"]>} : tensor<1x2xf32> -> tensor<1x2xf32>
  %4 = nn.cumulative_product %0 {axis = 1 : i64} : tensor<1x2xf32> -> tensor<1x2xf32>
  %5 = quant.qcast %4 : tensor<1x2xf32> to tensor<1x2x!x>
  func.return %2, %3, %5 : tensor<1x2x!x>, tensor<1x2xf32>, tensor<1x2x!x>
}

!y = !quant.uniform<i8:f32, 0.25>

// Weighted sums of neighbours, along one axis and then another, are one interpolation, which is rounded once.
// CHECK-LABEL: func.func @interpolation
// CHECK-NEXT: %[[Y:.*]] = nn.resize %x {qmlir.decision = #qmlir.decision<quantized, "integer", "i8 activations">, axes = array<i64: 1, 0>
// CHECK-SAME: taps = [#qmlir.weights<tensor<3x2xi64>, [0, 1, 0, 1, 1, 1]>, #qmlir.weights<tensor<1x2xi64>, [0, 1]>]
// CHECK-SAME: weights = [#qmlir.weights<tensor<3x2xf64>, [1.0, 0.25, 1.0, 0.5, 1.0, 0.75]>, #qmlir.weights<tensor<1x2xf64>, [0.5, 0.5]>]
// CHECK-NEXT: func.return %[[Y]]
func.func @interpolation(%x: tensor<2x2x!x>) -> tensor<1x3x!y> {
  %first = nn.constant <tensor<3xi64>, [0, 0, 1]> : tensor<3xi64>
  %second = nn.constant <tensor<3xi64>, [1, 1, 1]> : tensor<3xi64>
  %weights = nn.constant <tensor<3xf32>, [0.25, 0.5, 0.75]> : tensor<3xf32>
  %zero = nn.constant <tensor<1xi64>, [0]> : tensor<1xi64>
  %one = nn.constant <tensor<1xi64>, [1]> : tensor<1xi64>
  %half = nn.constant <tensor<1x1xf32>, [0.5]> : tensor<1x1xf32>
  %0 = quant.dcast %x : tensor<2x2x!x> to tensor<2x2xf32>
  %a = nn.gather %0, %first {axis = 1 : i64} : tensor<2x2xf32>, tensor<3xi64> -> tensor<2x3xf32>
  %b = nn.gather %0, %second {axis = 1 : i64} : tensor<2x2xf32>, tensor<3xi64> -> tensor<2x3xf32>
  %c = nn.mul %b, %weights : tensor<2x3xf32>, tensor<3xf32> -> tensor<2x3xf32>
  %d = nn.add %a, %c : tensor<2x3xf32>, tensor<2x3xf32> -> tensor<2x3xf32>
  %e = nn.gather %d, %zero {axis = 0 : i64} : tensor<2x3xf32>, tensor<1xi64> -> tensor<1x3xf32>
  %f = nn.mul %e, %half : tensor<1x3xf32>, tensor<1x1xf32> -> tensor<1x3xf32>
  %g = nn.gather %d, %one {axis = 0 : i64} : tensor<2x3xf32>, tensor<1xi64> -> tensor<1x3xf32>
  %h = nn.mul %g, %half : tensor<1x3xf32>, tensor<1x1xf32> -> tensor<1x3xf32>
  %i = nn.add %f, %h : tensor<1x3xf32>, tensor<1x3xf32> -> tensor<1x3xf32>
  %y = quant.qcast %i : tensor<1x3xf32> to tensor<1x3x!y>
  func.return %y : tensor<1x3x!y>
}

// Weights along another axis than the neighbours' are none of an interpolation.
// CHECK-LABEL: func.func @weights_of_another_axis
// CHECK-NOT: nn.resize
// CHECK: nn.mul
// CHECK: nn.add
func.func @weights_of_another_axis(%x: tensor<2x2x!x>) -> tensor<2x2x!x> {
  %first = nn.constant <tensor<2xi64>, [0, 0]> : tensor<2xi64>
  %weights = nn.constant <tensor<2x1xf32>, [0.25, 0.5]> : tensor<2x1xf32>
  %0 = quant.dcast %x : tensor<2x2x!x> to tensor<2x2xf32>
  %a = nn.gather %0, %first {axis = 1 : i64} : tensor<2x2xf32>, tensor<2xi64> -> tensor<2x2xf32>
  %b = nn.mul %a, %weights : tensor<2x2xf32>, tensor<2x1xf32> -> tensor<2x2xf32>
  %c = nn.gather %0, %first {axis = 1 : i64} : tensor<2x2xf32>, tensor<2xi64> -> tensor<2x2xf32>
  %d = nn.add %b, %c : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
  %y = quant.qcast %d : tensor<2x2xf32> to tensor<2x2x!x>
  func.return %y : tensor<2x2x!x>
}

// Functions that a model spells out are one operation; the factor 1 of a swish may be left out.
// CHECK-LABEL: func.func @functions
// CHECK-NEXT: %[[A:.*]] = nn.swish %x {qmlir.decision = #qmlir.decision<quantized, "integer", "i8 activations">, alpha = 1.500000e+00 : f32}
// CHECK-NEXT: %[[B:.*]] = nn.swish %x {qmlir.decision = {{.*}}, alpha = 1.000000e+00 : f32}
// CHECK-NEXT: %[[C:.*]] = nn.rsqrt %x
// CHECK-NEXT: %[[D:.*]] = nn.squared_difference %x, %w
// CHECK-NEXT: %[[E:.*]] = nn.prelu %x, %w
// CHECK-NEXT: func.return %[[A]], %[[B]], %[[C]], %[[D]], %[[E]]
func.func @functions(%x: tensor<4x!x>, %w: tensor<2x4x!x>) -> (
    tensor<4x!y>, tensor<4x!y>, tensor<4x!y>, tensor<2x4x!y>, tensor<2x4x!y>) {
  %alpha = nn.constant <tensor<f32>, [1.5]> : tensor<f32>
  %zero = nn.constant <tensor<f32>, [0.0]> : tensor<f32>
  %0 = quant.dcast %x : tensor<4x!x> to tensor<4xf32>
  %1 = quant.dcast %w : tensor<2x4x!x> to tensor<2x4xf32>
  %a = nn.mul %0, %alpha : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %b = nn.sigmoid %a : tensor<4xf32> -> tensor<4xf32>
  %c = nn.mul %0, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %qc = quant.qcast %c : tensor<4xf32> to tensor<4x!y>
  %d = nn.sigmoid %0 : tensor<4xf32> -> tensor<4xf32>
  %e = nn.mul %d, %0 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %qe = quant.qcast %e : tensor<4xf32> to tensor<4x!y>
  %f = nn.sqrt %0 : tensor<4xf32> -> tensor<4xf32>
  %g = nn.reciprocal %f : tensor<4xf32> -> tensor<4xf32>
  %qg = quant.qcast %g : tensor<4xf32> to tensor<4x!y>
  %h = nn.sub %0, %1 : tensor<4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %i = nn.mul %h, %h : tensor<2x4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %qi = quant.qcast %i : tensor<2x4xf32> to tensor<2x4x!y>
  %j = nn.less %0, %zero : tensor<4xf32>, tensor<f32> -> tensor<4xi1>
  %k = nn.mul %0, %1 : tensor<4xf32>, tensor<2x4xf32> -> tensor<2x4xf32>
  %l = nn.where %j, %k, %0 : tensor<4xi1>, tensor<2x4xf32>, tensor<4xf32> -> tensor<2x4xf32>
  %ql = quant.qcast %l : tensor<2x4xf32> to tensor<2x4x!y>
  func.return %qc, %qe, %qg, %qi, %ql : tensor<4x!y>, tensor<4x!y>, tensor<4x!y>, tensor<2x4x!y>, tensor<2x4x!y>
}

// A sigmoid of something else, one that others read too, and a factor for each element make no swish.
// CHECK-LABEL: func.func @no_swish
// CHECK-NOT: nn.swish
// CHECK: func.return
func.func @no_swish(%x: tensor<4x!x>, %w: tensor<4x!x>) -> (tensor<4x!x>, tensor<4x!x>, tensor<4xf32>, tensor<4x!x>) {
  %factors = nn.constant <tensor<4xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %0 = quant.dcast %x : tensor<4x!x> to tensor<4xf32>
  %1 = quant.dcast %w : tensor<4x!x> to tensor<4xf32>
  %a = nn.sigmoid %1 : tensor<4xf32> -> tensor<4xf32>
  %b = nn.mul %0, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %qb = quant.qcast %b : tensor<4xf32> to tensor<4x!x>
  %c = nn.sigmoid %0 : tensor<4xf32> -> tensor<4xf32>
  %d = nn.mul %0, %c : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %qd = quant.qcast %d : tensor<4xf32> to tensor<4x!x>
  %e = nn.mul %0, %factors : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %f = nn.sigmoid %e : tensor<4xf32> -> tensor<4xf32>
  %g = nn.mul %0, %f : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %qg = quant.qcast %g : tensor<4xf32> to tensor<4x!x>
  func.return %qb, %qd, %c, %qg : tensor<4x!x>, tensor<4x!x>, tensor<4xf32>, tensor<4x!x>
}

// What is read as floats is not rounded: an average, a padding between two steps, a concat of two types.
// CHECK-LABEL: func.func @unrounded
// CHECK: nn.pad %x {{.*}}value = 5.000000e-01{{.*}} -> tensor<1x3x2x1x!quant.uniform<i8:f32, 5.000000e-01>>
// CHECK: nn.pad {{.*}}value = 2.500000e-01{{.*}} -> tensor<1x3x2x1xf32>
// CHECK: nn.average_pool2d {{.*}} -> tensor<1x1x1x1xf32>
// CHECK: nn.concat {{.*}} -> tensor<1x2x2x2xf32>
func.func @unrounded(%x: tensor<1x2x2x1x!x>, %z: tensor<1x2x2x1x!y>) -> (tensor<1x3x2x1xf32>, tensor<1x3x2x1xf32>, tensor<1x1x1x1xf32>, tensor<1x2x2x2xf32>) {
  %0 = quant.dcast %x : tensor<1x2x2x1x!x> to tensor<1x2x2x1xf32>
  %1 = quant.dcast %z : tensor<1x2x2x1x!y> to tensor<1x2x2x1xf32>
  %2 = nn.pad %0 {low = array<i64: 0, 1, 0, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.5 : f32} : tensor<1x2x2x1xf32> -> tensor<1x3x2x1xf32>
  %3 = nn.pad %0 {low = array<i64: 0, 1, 0, 0>, high = array<i64: 0, 0, 0, 0>, value = 0.25 : f32} : tensor<1x2x2x1xf32> -> tensor<1x3x2x1xf32>
  %4 = nn.average_pool2d %0 {window = array<i64: 2, 2>} : tensor<1x2x2x1xf32> -> tensor<1x1x1x1xf32>
  %5 = nn.concat %0, %1 {axis = 3 : i64} : tensor<1x2x2x1xf32>, tensor<1x2x2x1xf32> -> tensor<1x2x2x2xf32>
  func.return %2, %3, %4, %5 : tensor<1x3x2x1xf32>, tensor<1x3x2x1xf32>, tensor<1x1x1x1xf32>, tensor<1x2x2x2xf32>
}

!w = !quant.uniform<i8:f32:1, {0.25, 0.75}>
!v = !quant.uniform<i8:f32:1, {0.25, 1.0}>

// Integer sums share one scale: scales of input channels keep a layer float, unless one scale gives the same numbers.
// CHECK-LABEL: func.func @scales_of_inputs
// CHECK: nn.constant <tensor<2x2xi8>, [1, 2, 3, 100]> : tensor<2x2x!quant.uniform<i8:f32:1, {2.500000e-01,7.500000e-01}>>
// CHECK: nn.constant <tensor<2x2xi8>, [1, 8, 3, -120]> : tensor<2x2x!quant.uniform<i8:f32, 2.500000e-01>>
// CHECK: nn.fully_connected {{.*}}#qmlir.decision<float, "blocked", "its weights have scales that differ between the terms of a sum, which integer sums cannot share">
// CHECK: nn.fully_connected {{.*}}#qmlir.decision<quantized, "integer", "i8 activations, i8 weights per tensor">
func.func @scales_of_inputs(%x: tensor<1x2x!x>) -> (tensor<1x2x!x>, tensor<1x2x!x>) {
  %w = nn.constant <tensor<2x2xi8>, [1, 2, 3, 100]> : tensor<2x2x!w>
  %v = nn.constant <tensor<2x2xi8>, [1, 2, 3, -30]> : tensor<2x2x!v>
  %0 = quant.dcast %x : tensor<1x2x!x> to tensor<1x2xf32>
  %1 = quant.dcast %w : tensor<2x2x!w> to tensor<2x2xf32>
  %2 = quant.dcast %v : tensor<2x2x!v> to tensor<2x2xf32>
  %3 = nn.fully_connected %0, %1 : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  %4 = quant.qcast %3 : tensor<1x2xf32> to tensor<1x2x!x>
  %5 = nn.fully_connected %0, %2 : tensor<1x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>
  %6 = quant.qcast %5 : tensor<1x2xf32> to tensor<1x2x!x>
  func.return %4, %6 : tensor<1x2x!x>, tensor<1x2x!x>
}

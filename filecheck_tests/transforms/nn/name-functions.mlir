// RUN: qmlir-opt --name-functions %s | filecheck %s

// x · (1 + erf(x / √2)) / 2, halved at the end.
// CHECK-LABEL: func.func @divided
// CHECK-NEXT: %[[Y:.*]] = nn.gelu %x : tensor<4xf32>
// CHECK-NEXT: func.return %[[Y]]
func.func @divided(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = nn.constant <tensor<f32>, [1.4142135]> : tensor<f32>
  %one = nn.constant <tensor<f32>, [1.0]> : tensor<f32>
  %half = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %0 = nn.div %x, %root : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.erf %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %one : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.mul %x, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %4 = nn.mul %3, %half : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %4 : tensor<4xf32>
}

// (x / 2) · (1 + tanh(√(2/π) · (x + 0.044715 · x³))), x³ as a power.
// CHECK-LABEL: func.func @tanh
// CHECK-NEXT: %[[Y:.*]] = nn.gelu %x {tanh = true} : tensor<4xf32>
// CHECK-NEXT: func.return %[[Y]]
func.func @tanh(%x: tensor<4xf32>) -> tensor<4xf32> {
  %three = nn.constant <tensor<f32>, [3.0]> : tensor<f32>
  %k = nn.constant <tensor<f32>, [0.044715]> : tensor<f32>
  %c = nn.constant <tensor<f32>, [0.7978846]> : tensor<f32>
  %one = nn.constant <tensor<f32>, [1.0]> : tensor<f32>
  %half = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %0 = nn.pow %x, %three : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.mul %k, %0 : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %x, %1 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %3 = nn.mul %c, %2 : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %4 = nn.tanh %3 : tensor<4xf32> -> tensor<4xf32>
  %5 = nn.add %4, %one : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %6 = nn.mul %half, %x : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %7 = nn.mul %6, %5 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %7 : tensor<4xf32>
}

// relu(x) − slopes · relu(−x), as Keras writes its PReLU.
// CHECK-LABEL: func.func @prelu
// CHECK: %[[Y:.*]] = nn.prelu %x, %{{.*}} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT: func.return %[[Y]]
func.func @prelu(%x: tensor<4xf32>) -> tensor<4xf32> {
  %slopes = nn.constant <tensor<4xf32>, [0.5, 0.25, 0.0, 2.0]> : tensor<4xf32>
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.neg %x : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.relu %1 : tensor<4xf32> -> tensor<4xf32>
  %3 = nn.mul %slopes, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %4 = nn.sub %0, %3 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %4 : tensor<4xf32>
}

// Divided by another number than √2, and with an inner value that is read elsewhere: no GELU.
// CHECK-LABEL: func.func @other_number
// CHECK-NOT: nn.gelu
// CHECK-LABEL: func.func @read_elsewhere
// CHECK-NOT: nn.gelu
func.func @other_number(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = nn.constant <tensor<f32>, [1.5]> : tensor<f32>
  %one = nn.constant <tensor<f32>, [1.0]> : tensor<f32>
  %half = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %0 = nn.div %x, %root : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.erf %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %one : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.mul %x, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %4 = nn.mul %3, %half : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %4 : tensor<4xf32>
}
func.func @read_elsewhere(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %root = nn.constant <tensor<f32>, [1.4142135]> : tensor<f32>
  %one = nn.constant <tensor<f32>, [1.0]> : tensor<f32>
  %half = nn.constant <tensor<f32>, [0.5]> : tensor<f32>
  %0 = nn.div %x, %root : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.erf %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.add %1, %one : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %3 = nn.mul %x, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %4 = nn.mul %3, %half : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %4, %1 : tensor<4xf32>, tensor<4xf32>
}

// Comparisons with an infinity are tests for it; comparisons with other numbers, with both infinities and with a tensor
// that is broadcast stay.
// CHECK-LABEL: func.func @infinities
// CHECK: nn.is_inf %x {positive = false} : tensor<2xf32>
// CHECK-NEXT: nn.is_inf %x {negative = false} : tensor<2xf32>
// CHECK-NEXT: nn.equal %x, %two
// CHECK-NEXT: nn.equal %x, %both
// CHECK-NEXT: nn.equal %s, %wide
func.func @infinities(%x: tensor<2xf32>, %s: tensor<1xf32>) -> (tensor<2xi1>, tensor<2xi1>, tensor<2xi1>, tensor<2xi1>, tensor<2xi1>) {
  %low = nn.constant <tensor<f32>, "0x000080ff"> : tensor<f32>
  %high = nn.constant <tensor<1xf32>, "0x0000807f"> : tensor<1xf32>
  %two = nn.constant <tensor<f32>, [2.0]> : tensor<f32>
  %both = nn.constant <tensor<2xf32>, "0x0000807f000080ff"> : tensor<2xf32>
  %wide = nn.constant <tensor<2xf32>, "0x0000807f0000807f"> : tensor<2xf32>
  %0 = nn.equal %x, %low : tensor<2xf32>, tensor<f32> -> tensor<2xi1>
  %1 = nn.equal %high, %x : tensor<1xf32>, tensor<2xf32> -> tensor<2xi1>
  %2 = nn.equal %x, %two : tensor<2xf32>, tensor<f32> -> tensor<2xi1>
  %3 = nn.equal %x, %both : tensor<2xf32>, tensor<2xf32> -> tensor<2xi1>
  %4 = nn.equal %s, %wide : tensor<1xf32>, tensor<2xf32> -> tensor<2xi1>
  func.return %0, %1, %2, %3, %4 : tensor<2xi1>, tensor<2xi1>, tensor<2xi1>, tensor<2xi1>, tensor<2xi1>
}

// 0.05 in place of 0.044715 is no GELU, nor is a gate of another tensor.
// CHECK-LABEL: func.func @wrong_constant
// CHECK-NOT: nn.gelu
// CHECK-LABEL: func.func @gate_of_another
// CHECK-NOT: nn.swish
// CHECK: func.return
func.func @wrong_constant(%x: tensor<4xf32>) -> tensor<4xf32> {
  %k = nn.constant <tensor<f32>, [0.05]> : tensor<f32>
  %c = nn.constant <tensor<f32>, [1.5957691]> : tensor<f32>
  %0 = nn.mul %x, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %1 = nn.mul %0, %x : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %2 = nn.mul %k, %1 : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %4 = nn.mul %c, %3 : tensor<f32>, tensor<4xf32> -> tensor<4xf32>
  %5 = nn.sigmoid %4 : tensor<4xf32> -> tensor<4xf32>
  %6 = nn.mul %x, %5 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %6 : tensor<4xf32>
}
func.func @gate_of_another(%x: tensor<4xf32>, %g: tensor<4xf32>) -> tensor<4xf32> {
  %0 = nn.sigmoid %g : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.mul %x, %0 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %1 : tensor<4xf32>
}

// x · (1 + erf(x / √2)), whose half a model has put elsewhere, is twice a GELU.
// CHECK-LABEL: func.func @doubled
// CHECK: %[[Y:.*]] = nn.gelu %x
// CHECK: nn.mul %[[Y]], %{{.*}} : tensor<4xf32>, tensor<f32>
func.func @doubled(%x: tensor<4xf32>) -> tensor<4xf32> {
  %root = nn.constant <tensor<f32>, [0.70710677]> : tensor<f32>
  %0 = nn.mul %x, %root : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  %1 = nn.erf %0 : tensor<4xf32> -> tensor<4xf32>
  %2 = nn.mul %x, %1 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  %3 = nn.add %x, %2 : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
  func.return %3 : tensor<4xf32>
}

// The variance of a layer normalization is mean(x²) − mean(x)²; gain and bias fold into one product and one sum.
// CHECK-LABEL: func.func @fast_variance
// CHECK: %[[N:.*]] = nn.layer_norm %x {axis = 1 : i64, epsilon = 1.000000e-05 : f32}
// CHECK: %[[G:.*]] = nn.constant <tensor<4xf32>, [1.0, 2.0, 3.0, 4.0]>
// CHECK: %[[S:.*]] = nn.mul %[[N]], %[[G]]
// CHECK: %[[B:.*]] = nn.constant <tensor<4xf32>, [0.5, 0.25, 0.0, -1.0]>
// CHECK: nn.add %[[S]], %[[B]]
func.func @fast_variance(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %gain = nn.constant <tensor<4xf32>, [1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  %bias = nn.constant <tensor<4xf32>, [0.5, 0.25, 0.0, -1.0]> : tensor<4xf32>
  %eps = nn.constant <tensor<f32>, [1.0e-05]> : tensor<f32>
  %m = nn.reduce_mean %x {axes = array<i64: 1>} : tensor<8x4xf32> -> tensor<8x1xf32>
  %xx = nn.mul %x, %x : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %mxx = nn.reduce_mean %xx {axes = array<i64: 1>} : tensor<8x4xf32> -> tensor<8x1xf32>
  %mm = nn.mul %m, %m : tensor<8x1xf32>, tensor<8x1xf32> -> tensor<8x1xf32>
  %v = nn.sub %mxx, %mm : tensor<8x1xf32>, tensor<8x1xf32> -> tensor<8x1xf32>
  %ve = nn.add %v, %eps : tensor<8x1xf32>, tensor<f32> -> tensor<8x1xf32>
  %r = nn.rsqrt %ve : tensor<8x1xf32> -> tensor<8x1xf32>
  %f = nn.mul %r, %gain : tensor<8x1xf32>, tensor<4xf32> -> tensor<8x4xf32>
  %mf = nn.mul %m, %f : tensor<8x1xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %o = nn.sub %bias, %mf : tensor<4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %xf = nn.mul %x, %f : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  %y = nn.add %xf, %o : tensor<8x4xf32>, tensor<8x4xf32> -> tensor<8x4xf32>
  func.return %y : tensor<8x4xf32>
}

// Along the first dimension, transposes are around the normalization.
// CHECK-LABEL: func.func @first_axis
// CHECK: %[[T:.*]] = nn.transpose %x {permutation = array<i64: 1, 0>}
// CHECK: %[[N:.*]] = nn.rms_norm %[[T]] {axis = 1 : i64
// CHECK: nn.transpose %[[N]] {permutation = array<i64: 1, 0>}
func.func @first_axis(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %eps = nn.constant <tensor<f32>, [1.0e-05]> : tensor<f32>
  %eighth = nn.constant <tensor<f32>, [0.125]> : tensor<f32>
  %two = nn.constant <tensor<f32>, [2.0]> : tensor<f32>
  %q = nn.pow %x, %two : tensor<8x4xf32>, tensor<f32> -> tensor<8x4xf32>
  %s = nn.reduce_sum %q {axes = array<i64: 0>} : tensor<8x4xf32> -> tensor<1x4xf32>
  %v = nn.mul %s, %eighth : tensor<1x4xf32>, tensor<f32> -> tensor<1x4xf32>
  %ve = nn.add %v, %eps : tensor<1x4xf32>, tensor<f32> -> tensor<1x4xf32>
  %d = nn.sqrt %ve : tensor<1x4xf32> -> tensor<1x4xf32>
  %y = nn.div %x, %d : tensor<8x4xf32>, tensor<1x4xf32> -> tensor<8x4xf32>
  func.return %y : tensor<8x4xf32>
}

// The mean along one axis and the variance along another, a sum that is divided by another number than of its elements,
// and a gain that depends on the data, are no normalization.
// CHECK-LABEL: func.func @other_axes
// CHECK-NOT: nn.layer_norm
// CHECK-LABEL: func.func @other_count
// CHECK-NOT: nn.layer_norm
// CHECK-LABEL: func.func @computed_gain
// CHECK-NOT: nn.rms_norm
// CHECK: func.return
func.func @other_axes(%x: tensor<4x4xf32>) -> tensor<4x4xf32> {
  %eps = nn.constant <tensor<f32>, [1.0e-05]> : tensor<f32>
  %m = nn.reduce_mean %x {axes = array<i64: 1>} : tensor<4x4xf32> -> tensor<4x1xf32>
  %d = nn.sub %x, %m : tensor<4x4xf32>, tensor<4x1xf32> -> tensor<4x4xf32>
  %q = nn.mul %d, %x : tensor<4x4xf32>, tensor<4x4xf32> -> tensor<4x4xf32>
  %v = nn.reduce_mean %q {axes = array<i64: 0>} : tensor<4x4xf32> -> tensor<1x4xf32>
  %ve = nn.add %v, %eps : tensor<1x4xf32>, tensor<f32> -> tensor<1x4xf32>
  %r = nn.rsqrt %ve : tensor<1x4xf32> -> tensor<1x4xf32>
  %y = nn.mul %d, %r : tensor<4x4xf32>, tensor<1x4xf32> -> tensor<4x4xf32>
  func.return %y : tensor<4x4xf32>
}
func.func @other_count(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %eps = nn.constant <tensor<f32>, [1.0e-05]> : tensor<f32>
  %seven = nn.constant <tensor<f32>, [7.0]> : tensor<f32>
  %s = nn.reduce_sum %x {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4x1xf32>
  %m = nn.div %s, %seven : tensor<4x1xf32>, tensor<f32> -> tensor<4x1xf32>
  %d = nn.sub %x, %m : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  %q = nn.mul %d, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %v = nn.reduce_mean %q {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4x1xf32>
  %ve = nn.add %v, %eps : tensor<4x1xf32>, tensor<f32> -> tensor<4x1xf32>
  %r = nn.rsqrt %ve : tensor<4x1xf32> -> tensor<4x1xf32>
  %y = nn.mul %d, %r : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}
func.func @computed_gain(%x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %eps = nn.constant <tensor<f32>, [1.0e-05]> : tensor<f32>
  %q = nn.mul %x, %x : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  %v = nn.reduce_mean %q {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4x1xf32>
  %ve = nn.add %v, %eps : tensor<4x1xf32>, tensor<f32> -> tensor<4x1xf32>
  %r = nn.rsqrt %ve : tensor<4x1xf32> -> tensor<4x1xf32>
  %g = nn.sigmoid %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %f = nn.mul %g, %r : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  %y = nn.mul %x, %f : tensor<4x8xf32>, tensor<4x8xf32> -> tensor<4x8xf32>
  func.return %y : tensor<4x8xf32>
}

// A ReLU under a bound far above 0, or with a number far below 1 that keeps a logarithm finite.
// CHECK-LABEL: func.func @bounded
// CHECK-NEXT: %[[A:.*]] = nn.relu %x : tensor<4xf32>
// CHECK-NEXT: %[[B:.*]] = nn.clamp %[[A]] {max = 6.550400e+04 : f32}
// CHECK: %[[C:.*]] = nn.relu %x : tensor<4xf32>
// CHECK-NEXT: %[[D:.*]] = nn.add %[[C]], %{{.*}} : tensor<4xf32>, tensor<f32>
// CHECK-NEXT: func.return %[[B]], %[[D]]
func.func @bounded(%x: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %0 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  %1 = nn.clamp %0 {max = 65504.0 : f32} : tensor<4xf32> -> tensor<4xf32>
  %tiny = nn.constant <tensor<f32>, [1.0e-12]> : tensor<f32>
  %2 = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
  %3 = nn.add %2, %tiny : tensor<4xf32>, tensor<f32> -> tensor<4xf32>
  func.return %1, %3 : tensor<4xf32>, tensor<4xf32>
}

// A share that is cut off where none of a few elements has one as large: no softmax alone. A bound that float32 does not
// tell from 1 cuts off nothing.
// CHECK-LABEL: func.func @cut_off
// CHECK-NEXT: %[[P:.*]] = nn.softmax %x {axis = 1 : i64}
// CHECK-NEXT: %[[Y:.*]] = nn.clamp %[[P]] {max = 5.000000e-01 : f32}
// CHECK-NEXT: %[[Q:.*]] = nn.softmax %x {axis = 1 : i64}
// CHECK-NEXT: func.return %[[Y]], %[[Q]]
func.func @cut_off(%x: tensor<4x64xf32>) -> (tensor<4x64xf32>, tensor<4x64xf32>) {
  %0 = nn.softmax %x {axis = 1 : i64} : tensor<4x64xf32> -> tensor<4x64xf32>
  %1 = nn.clamp %0 {max = 0.5 : f32} : tensor<4x64xf32> -> tensor<4x64xf32>
  %2 = nn.softmax %x {axis = 1 : i64} : tensor<4x64xf32> -> tensor<4x64xf32>
  %3 = nn.clamp %2 {max = 0.9999999 : f32} : tensor<4x64xf32> -> tensor<4x64xf32>
  func.return %1, %3 : tensor<4x64xf32>, tensor<4x64xf32>
}

// Whatever shifts the exponents, if anything does; a logarithm of a sum of exponentials is computed against the greatest.
// CHECK-LABEL: func.func @softmaxes
// CHECK: %[[A:.*]] = nn.softmax %x {axis = 1 : i64}
// CHECK: %[[B:.*]] = nn.log_softmax %x {axis = 1 : i64}
// CHECK: func.return %[[A]], %[[B]]
// CHECK-LABEL: func.func @log_sum_exp
// CHECK: nn.reduce_max %x
// CHECK: nn.sub %x
// CHECK: nn.exp
// CHECK-NEXT: nn.reduce_sum
// CHECK-NEXT: nn.log
// CHECK-NEXT: nn.add
// CHECK-NEXT: func.return
func.func @softmaxes(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %low = nn.constant <tensor<f32>, "0x000080ff"> : tensor<f32>
  %m = nn.reduce_max %x {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4x1xf32>
  %n = nn.maximum %m, %low : tensor<4x1xf32>, tensor<f32> -> tensor<4x1xf32>
  %d = nn.sub %x, %n : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  %e = nn.exp %d : tensor<4x8xf32> -> tensor<4x8xf32>
  %s = nn.reduce_sum %e {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4x1xf32>
  %y = nn.div %e, %s : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  %e2 = nn.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %s2 = nn.reduce_sum %e2 {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4x1xf32>
  %l2 = nn.log %s2 : tensor<4x1xf32> -> tensor<4x1xf32>
  %y2 = nn.sub %x, %l2 : tensor<4x8xf32>, tensor<4x1xf32> -> tensor<4x8xf32>
  func.return %y, %y2 : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func @log_sum_exp(%x: tensor<4x8xf32>) -> tensor<4x1xf32> {
  %e = nn.exp %x : tensor<4x8xf32> -> tensor<4x8xf32>
  %s = nn.reduce_sum %e {axes = array<i64: 1>} : tensor<4x8xf32> -> tensor<4x1xf32>
  %l = nn.log %s : tensor<4x1xf32> -> tensor<4x1xf32>
  func.return %l : tensor<4x1xf32>
}

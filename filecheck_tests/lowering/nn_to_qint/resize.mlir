// RUN: qmlir-opt --nn-to-qint %s | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!b = !quant.uniform<i8:f32, 0.25>

// Weights in multiples of 2^-15 whose rows add up; then one change of scale.
// CHECK-LABEL: func.func @linear
// CHECK: %[[S:.*]] = qint.resize %{{.*}} {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [10923, 21845]>], zero_point = 3 : i32} : tensor<2xi8> -> tensor<1xi32>
// CHECK-NEXT: qint.requantize %[[S]] {{{.*}}multiplier = array<i32: 1073741824>, shift = array<i32: -13>
func.func @linear(%x: tensor<2x!a>) -> tensor<1x!b> {
  %0 = nn.resize %x {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xf64>, [0.3333333333333333, 0.6666666666666667]>]} : tensor<2x!a> -> tensor<1x!b>
  func.return %0 : tensor<1x!b>
}

// Along three axes there are too few bits for thirds: it stays float, and says why.
// CHECK-LABEL: func.func @volume
// CHECK: nn.resize {{.*}}#qmlir.decision<float, "target", "its weights in {{[0-9]+}} bits would be up to {{.*}} steps of its result off">
func.func @volume(%x: tensor<2x2x2x!a>) -> tensor<1x1x1x!b> {
  %0 = nn.resize %x {axes = array<i64: 0, 1, 2>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>, #qmlir.weights<tensor<1x2xi64>, [0, 1]>, #qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xf64>, [0.3333333333333333, 0.6666666666666667]>, #qmlir.weights<tensor<1x2xf64>, [0.3333333333333333, 0.6666666666666667]>, #qmlir.weights<tensor<1x2xf64>, [0.3333333333333333, 0.6666666666666667]>]} : tensor<2x2x2x!a> -> tensor<1x1x1x!b>
  func.return %0 : tensor<1x1x1x!b>
}

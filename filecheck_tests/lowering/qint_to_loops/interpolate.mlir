// RUN: qmlir-opt --qint-to-loops %s | filecheck %s

// Sums in i64 over the taps, rounded where they end; one row of the result is an item.
// CHECK-LABEL: func.func @interpolate
// CHECK: func.call @qint_interpolate_0
// CHECK: func.func private @qint_interpolate_0
// CHECK: arith.muli {{.*}} : i64
// CHECK: arith.shrsi
func.func @interpolate(%x: tensor<1x2x3xi8>) -> tensor<1x1x3xi8> {
  %0 = qint.interpolate %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], bits = array<i32: 2>, rounding = "half_away"} : tensor<1x2x3xi8> -> tensor<1x1x3xi8>
  func.return %0 : tensor<1x1x3xi8>
}

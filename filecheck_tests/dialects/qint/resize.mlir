// Integer interpolation by tables of neighbours and weights.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @resize
func.func @resize(%x: tensor<1x2x3xi8>) {
  // CHECK: qint.resize %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], zero_point = -128 : i32} : tensor<1x2x3xi8> -> tensor<1x1x3xi32>
  // GENERIC: "qint.resize"(%{{.*}}) <{
  %0 = qint.resize %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], zero_point = -128 : i32} : tensor<1x2x3xi8> -> tensor<1x1x3xi32>
  func.return
}

// CHECK-LABEL: func.func @long_sums
func.func @long_sums(%x: tensor<2xi16>) {
  // CHECK: qint.resize %x {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], dropped = 3 : i32} : tensor<2xi16> -> tensor<1xi64>
  %0 = qint.resize %x {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], dropped = 3 : i32} : tensor<2xi16> -> tensor<1xi64>
  func.return
}

// CHECK-LABEL: func.func @interpolate
func.func @interpolate(%x: tensor<1x2x3xi8>) {
  // CHECK: qint.interpolate %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], bits = array<i32: 2>, rounding = "half_away", offset = 128 : i32} : tensor<1x2x3xi8> -> tensor<1x1x3xi8>
  // GENERIC: "qint.interpolate"(%{{.*}}) <{
  %0 = qint.interpolate %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], bits = array<i32: 2>, rounding = "half_away", offset = 128 : i32} : tensor<1x2x3xi8> -> tensor<1x1x3xi8>
  func.return
}

// Interpolation by tables of neighbours and weights.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @resize
func.func @resize(%x: tensor<1x2x3xf32>, %d: tensor<2xf64>, %q: tensor<2x!quant.uniform<i8:f32, 0.5>>) {
  // CHECK: nn.resize %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<3x2xi64>, [0, 1, 0, 1, 0, 1]>], weights = [#qmlir.weights<tensor<3x2xf64>, [1.0, 0.0, 0.5, 0.5, 0.0, 1.0]>]} : tensor<1x2x3xf32> -> tensor<1x3x3xf32>
  // GENERIC: "nn.resize"(%{{.*}}) <{axes = array<i64: 1>, taps = [
  %0 = nn.resize %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<3x2xi64>, [0, 1, 0, 1, 0, 1]>], weights = [#qmlir.weights<tensor<3x2xf64>, [1.0, 0.0, 0.5, 0.5, 0.0, 1.0]>]} : tensor<1x2x3xf32> -> tensor<1x3x3xf32>
  // CHECK: nn.resize %d {{.*}} : tensor<2xf64> -> tensor<1xf64>
  %1 = nn.resize %d {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x1xi64>, [1]>], weights = [#qmlir.weights<tensor<1x1xf64>, [2.0]>]} : tensor<2xf64> -> tensor<1xf64>
  // CHECK: nn.resize %q {{.*}} : tensor<2x!quant.uniform<i8:f32, 5.000000e-01>> -> tensor<1x!quant.uniform<i8:f32, 2.500000e-01>>
  %2 = nn.resize %q {axes = array<i64: 0>, taps = [#qmlir.weights<tensor<1x1xi64>, [1]>], weights = [#qmlir.weights<tensor<1x1xf64>, [1.0]>]} : tensor<2x!quant.uniform<i8:f32, 0.5>> -> tensor<1x!quant.uniform<i8:f32, 0.25>>
  func.return
}

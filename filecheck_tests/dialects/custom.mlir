// Calls of operators that a program defines.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @calls
func.func @calls(%x: tensor<2x3xf32>, %i: tensor<4xi64>) {
  // CHECK: %0 = custom.call "mine" "Swirl"(%x) {attributes = {strength = 2.000000e+00 : f32}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // GENERIC: "custom.call"(%{{.*}}) <{domain = "mine", operator = "Swirl", attributes = {strength = 2.000000e+00 : f32}}> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %0 = custom.call "mine" "Swirl"(%x) {attributes = {strength = 2.0 : f32}} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: %1, %2 = custom.call "" "Pair"(%x, %i) {attributes = {}} : (tensor<2x3xf32>, tensor<4xi64>) -> (tensor<2xf32>, tensor<i1>)
  %1, %2 = custom.call "" "Pair"(%x, %i) {attributes = {}} : (tensor<2x3xf32>, tensor<4xi64>) -> (tensor<2xf32>, tensor<i1>)
  // CHECK: %3 = custom.call "mine" "Swirl"(%x) {attributes = {}, symbol = "swirl", numbers = [2.000000e+00 : f64]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = custom.call "mine" "Swirl"(%x) {attributes = {}, symbol = "swirl", numbers = [2.0 : f64]} : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return
}

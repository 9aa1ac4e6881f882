// RUN: qmlir-opt --qint-to-tosa %s | filecheck %s

// The two neighbours of each element side by side, and their weighted sums.
// CHECK-LABEL: func.func @resize
// CHECK: "tosa.sub"
// CHECK: "tosa.const"() <{values = dense<[{{\[0, 1, 1, 1, 0, 0\]}}]> : tensor<1x6xi32>}>
// CHECK: "tosa.gather"({{.*}}) : (tensor<1x2x1xi32>, tensor<1x6xi32>) -> tensor<1x6x1xi32>
// CHECK: "tosa.mul"({{.*}}) : (tensor<1x3x2x1xi32>, tensor<1x3x2x1xi32>, tensor<1xi8>) -> tensor<1x3x2x1xi32>
// CHECK: "tosa.reduce_sum"({{.*}}) <{axis = 2 : i32}>
func.func @resize(%x: tensor<1x2xi8>) -> tensor<1x3xi32> {
  %acc = qint.resize %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<3x2xi64>, [0, 1, 1, 1, 0, 0]>], weights = [#qmlir.weights<tensor<3x2xi32>, [3, 1, 4, 0, 2, 2]>], zero_point = 5 : i32} : tensor<1x2xi8> -> tensor<1x3xi32>
  func.return %acc : tensor<1x3xi32>
}

// RUN: qmlir-opt --qint-to-linalg %s | filecheck %s

// CHECK-LABEL: func.func @resize
// CHECK: arith.subi
// CHECK: arith.constant dense<[{{\[0, 1\], \[1, 1\], \[0, 0\]}}]> : tensor<3x2xi64>
// CHECK: arith.constant dense<[{{\[3, 1\], \[4, 0\], \[2, 2\]}}]> : tensor<3x2xi32>
// CHECK: %acc = linalg.generic {{.*}} iterator_types = ["parallel", "parallel", "reduction"]} ins(%{{.*}}, %{{.*}} : tensor<3x2xi64>, tensor<3x2xi32>) outs(%{{.*}} : tensor<1x3xi32>)
// CHECK: tensor.extract
// CHECK: arith.muli
// CHECK: arith.addi
func.func @resize(%x: tensor<1x2xi8>) -> tensor<1x3xi32> {
  %acc = qint.resize %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<3x2xi64>, [0, 1, 1, 1, 0, 0]>], weights = [#qmlir.weights<tensor<3x2xi32>, [3, 1, 4, 0, 2, 2]>], zero_point = 5 : i32} : tensor<1x2xi8> -> tensor<1x3xi32>
  func.return %acc : tensor<1x3xi32>
}

// CHECK-LABEL: func.func @interpolate
// CHECK: linalg.generic {{.*}}"reduction"
// CHECK: arith.muli {{.*}} : i64
// CHECK: arith.trunci {{.*}} : i64 to i8
func.func @interpolate(%x: tensor<1x2x3xi8>) -> tensor<1x1x3xi8> {
  %0 = qint.interpolate %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], bits = array<i32: 2>, rounding = "half_away"} : tensor<1x2x3xi8> -> tensor<1x1x3xi8>
  func.return %0 : tensor<1x1x3xi8>
}

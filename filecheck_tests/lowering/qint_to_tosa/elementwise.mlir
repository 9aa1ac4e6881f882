// RUN: qmlir-opt --qint-to-tosa %s | filecheck %s

// 2^30 + 5 and 2^29 − 1 at bit 7: high parts 8388608 and 4194303, low parts 5 and 127.
// CHECK-LABEL: func.func @add
// CHECK: "tosa.cast"(%a) : (tensor<2x3xi8>) -> tensor<2x3xi32>
// CHECK: "tosa.sub"
// CHECK: "tosa.cast"(%b) : (tensor<3xi8>) -> tensor<3xi32>
// CHECK: dense<8388608> : tensor<1x1xi32>
// CHECK: "tosa.mul"
// CHECK: dense<4194303> : tensor<1xi32>
// CHECK: "tosa.mul"
// CHECK: "tosa.reshape"({{.*}}) : (tensor<3xi32>, !tosa.shape<2>) -> tensor<1x3xi32>
// CHECK: "tosa.add"
// CHECK: dense<5> : tensor<1x1xi32>
// CHECK: dense<127> : tensor<1xi32>
// CHECK: dense<7> : tensor<1x1xi32>
// CHECK: "tosa.arithmetic_right_shift"({{.*}}) <{round = false}>
// CHECK: dense<24> : tensor<1x1xi32>
// CHECK: "tosa.arithmetic_right_shift"({{.*}}) <{round = true}>
// CHECK: "tosa.cast"({{.*}}) : (tensor<2x3xi32>) -> tensor<2x3xi8>
func.func @add(%a: tensor<2x3xi8>, %b: tensor<3xi8>) -> tensor<2x3xi8> {
  %y = qint.add %a, %b {lhs_zero_point = 3 : i32, multipliers = array<i64: 1073741829, 536870911>, shift = 31 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<3xi8> -> tensor<2x3xi8>
  func.return %y : tensor<2x3xi8>
}

// CHECK-LABEL: func.func @mul
// CHECK-COUNT-2: "tosa.sub"
// CHECK: "tosa.mul"({{.*}}) : (tensor<4xi32>, tensor<4xi32>, tensor<1xi8>) -> tensor<4xi32>
func.func @mul(%a: tensor<4xi8>, %b: tensor<4xi8>) -> tensor<4xi32> {
  %acc = qint.mul %a, %b {lhs_zero_point = 3 : i32, rhs_zero_point = -4 : i32} : tensor<4xi8>, tensor<4xi8> -> tensor<4xi32>
  func.return %acc : tensor<4xi32>
}

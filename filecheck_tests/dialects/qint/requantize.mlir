// From accumulators, or from another scale, to narrow integers.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @requantize
func.func @requantize(%acc: tensor<4x2xi32>, %x: tensor<4x2xi8>) {
  // CHECK: qint.requantize %acc {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<4x2xi32> -> tensor<4x2xi8>
  // GENERIC: "qint.requantize"(%{{.*}}) <{multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", min = -128 : i32, max = 127 : i32, input_zero_point = 0 : i32, zero_point = 0 : i32}> : (tensor<4x2xi32>) -> tensor<4x2xi8>
  %0 = qint.requantize %acc {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<4x2xi32> -> tensor<4x2xi8>
  // CHECK: qint.requantize %acc {multiplier = array<i32: 1073741824, 0>, shift = array<i32: -8, 0>, contract = "double", min = 0 : i32, max = 100 : i32, zero_point = -3 : i32} : tensor<4x2xi32> -> tensor<4x2xi16>
  %1 = qint.requantize %acc {multiplier = array<i32: 1073741824, 0>, shift = array<i32: -8, 0>, contract = "double", min = 0 : i32, max = 100 : i32, zero_point = -3 : i32} : tensor<4x2xi32> -> tensor<4x2xi16>
  // CHECK: qint.requantize %x {multiplier = array<i32: 1500000000>, shift = array<i32: 1>, contract = "single", min = -128 : i32, max = 127 : i32, input_zero_point = -128 : i32} : tensor<4x2xi8> -> tensor<4x2xi8>
  %2 = qint.requantize %x {multiplier = array<i32: 1500000000>, shift = array<i32: 1>, contract = "single", min = -128 : i32, max = 127 : i32, input_zero_point = -128 : i32} : tensor<4x2xi8> -> tensor<4x2xi8>
  func.return
}

// Integer sums, rescaled and rounded once, and integer products.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @add
func.func @add(%x: tensor<2x3xi8>, %y: tensor<3xi16>) {
  // CHECK: qint.add %x, %y {multipliers = array<i64: 1073741824, -5>, shift = 30 : i32, min = -100 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<3xi16> -> tensor<2x3xi8>
  // GENERIC: "qint.add"(%{{.*}}, %{{.*}}) <{multipliers = array<i64: 1073741824, -5>, shift = 30 : i32, min = -100 : i32, max = 127 : i32, zero_point = 0 : i32, lhs_zero_point = 0 : i32, rhs_zero_point = 0 : i32}>
  %0 = qint.add %x, %y {multipliers = array<i64: 1073741824, -5>, shift = 30 : i32, min = -100 : i32, max = 127 : i32, zero_point = 0 : i32} : tensor<2x3xi8>, tensor<3xi16> -> tensor<2x3xi8>
  // CHECK: qint.add %x, %x {lhs_zero_point = 3 : i32, multipliers = array<i64: 1, 2>, shift = 1 : i32, zero_point = -7 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<2x3xi8> -> tensor<2x3xi16>
  %1 = qint.add %x, %x {lhs_zero_point = 3 : i32, multipliers = array<i64: 1, 2>, shift = 1 : i32, zero_point = -7 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<2x3xi8> -> tensor<2x3xi16>
  func.return
}

// CHECK-LABEL: func.func @mul
func.func @mul(%x: tensor<2x3xi8>, %y: tensor<3xi8>) {
  // CHECK: qint.mul %x, %y : tensor<2x3xi8>, tensor<3xi8> -> tensor<2x3xi32>
  // GENERIC: "qint.mul"(%{{.*}}, %{{.*}}) <{lhs_zero_point = 0 : i32, rhs_zero_point = 0 : i32}>
  %0 = qint.mul %x, %y : tensor<2x3xi8>, tensor<3xi8> -> tensor<2x3xi32>
  // CHECK: qint.mul %x, %y {rhs_zero_point = -128 : i32} :
  %1 = qint.mul %x, %y {rhs_zero_point = -128 : i32} : tensor<2x3xi8>, tensor<3xi8> -> tensor<2x3xi32>
  func.return
}

// CHECK-LABEL: func.func @float_add
func.func @float_add(%x: tensor<2x3xi8>, %y: tensor<3xi8>) {
  // CHECK: qint.float_add %x, %y {ratios = array<i32: 12582912, -23, 8388608, -24>, constant = array<i32: -8388608, -22>, offset = 128 : i32, zero_point = -128 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<3xi8> -> tensor<2x3xi8>
  %0 = qint.float_add %x, %y {ratios = array<i32: 12582912, -23, 8388608, -24>, constant = array<i32: -8388608, -22>, offset = 128 : i32, zero_point = -128 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<3xi8> -> tensor<2x3xi8>
  func.return
}

// CHECK-LABEL: func.func @rescaled_add
func.func @rescaled_add(%x: tensor<2x3xi8>, %y: tensor<3xi8>) {
  // CHECK: qint.rescaled_add %x, %y {left = 20 : i32, multipliers = array<i32: 1073741824, 1431655765, 1431655765>, shifts = array<i32: 0, -1, -18>, operand_contract = "single", contract = "double", min = -128 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<3xi8> -> tensor<2x3xi8>
  // GENERIC: subtract = false
  %0 = qint.rescaled_add %x, %y {left = 20 : i32, multipliers = array<i32: 1073741824, 1431655765, 1431655765>, shifts = array<i32: 0, -1, -18>, operand_contract = "single", contract = "double", min = -128 : i32, max = 127 : i32} : tensor<2x3xi8>, tensor<3xi8> -> tensor<2x3xi8>
  func.return
}

// CHECK-LABEL: func.func @div
func.func @div(%x: tensor<2x3xi16>, %y: tensor<3xi8>) {
  // CHECK: qint.div %x, %y {multiplier = 1073741824 : i32, shift = 3 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<2x3xi16>, tensor<3xi8> -> tensor<2x3xi16>
  %0 = qint.div %x, %y {multiplier = 1073741824 : i32, shift = 3 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<2x3xi16>, tensor<3xi8> -> tensor<2x3xi16>
  // CHECK: qint.div %y, %y {lhs_zero_point = 3 : i32, rhs_zero_point = -4 : i32, multiplier = 1073741824 : i32, shift = 3 : i32, zero_point = 5 : i32, min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>
  %1 = qint.div %y, %y {lhs_zero_point = 3 : i32, rhs_zero_point = -4 : i32, multiplier = 1073741824 : i32, shift = 3 : i32, zero_point = 5 : i32, min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>
  // CHECK: qint.div %y, %y {multiplier = 1073741824 : i32, shift = 3 : i32, wraps = true, min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>
  %2 = qint.div %y, %y {multiplier = 1073741824 : i32, shift = 3 : i32, wraps = true, min = -128 : i32, max = 127 : i32} : tensor<3xi8>, tensor<3xi8> -> tensor<3xi8>
  func.return
}

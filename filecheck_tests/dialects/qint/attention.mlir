// Exponentials against the maximum of a row, and quotients by the sum of a row.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @attention
func.func @attention(%x: tensor<2x3x4xi16>, %acc: tensor<2x3x8xi32>) {
  // CHECK: %[[E:.*]] = qint.exponentials %x, <tensor<4xi16>, [9, 3, 1, 0]> {axis = 2 : i64} : tensor<2x3x4xi16> -> tensor<2x3x4xi16>
  %e = qint.exponentials %x, <tensor<4xi16>, [9, 3, 1, 0]> {axis = 2 : i64} : tensor<2x3x4xi16> -> tensor<2x3x4xi16>
  // CHECK: qint.row_quotient %acc, %[[E]] {unit = 5000 : i64, fraction = 12 : i32, offset = 256 : i32, zero_point = 3 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3x8xi32>, tensor<2x3x4xi16> -> tensor<2x3x8xi8>
  %y = qint.row_quotient %acc, %e {unit = 5000 : i64, fraction = 12 : i32, offset = 256 : i32, zero_point = 3 : i32, min = -128 : i32, max = 127 : i32} : tensor<2x3x8xi32>, tensor<2x3x4xi16> -> tensor<2x3x8xi8>
  func.return
}

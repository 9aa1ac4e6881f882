// The integers of rows with scales of their own.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @rows
func.func @rows(%x: tensor<2x3x4xi16>) {
  // CHECK: qint.row_magnitudes %x {zero_point = 3 : i32} : tensor<2x3x4xi16> -> tensor<2x3x1xi32>
  %m = qint.row_magnitudes %x {zero_point = 3 : i32} : tensor<2x3x4xi16> -> tensor<2x3x1xi32>
  // CHECK: qint.divide_rows %x {limit = 127 : i32} : tensor<2x3x4xi16> -> tensor<2x3x4xi8>
  %q = qint.divide_rows %x {limit = 127 : i32} : tensor<2x3x4xi16> -> tensor<2x3x4xi8>
  func.return
}

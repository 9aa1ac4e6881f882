// RUN: qmlir-opt --qint-to-loops %s | filecheck %s

// Quotients take the magnitudes of their rows where these are known; those against another zero point are found anew.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<4x8xi16>) -> (tensor<4x1xi32>, tensor<4x8xi8>, tensor<4x8xi8>) {
  %0 = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", min = -32768 : i32, max = 32767 : i32} : tensor<4x8xi16> -> tensor<4x8xi16>
  // CHECK: func.call @qint_row_magnitudes_0(%{{.*}}, %[[M:.*]], %{{.*}}, %{{.*}}) : (memref<4x8xi16>, memref<4x1xi32>, index, index) -> ()
  %m = qint.row_magnitudes %0 {} : tensor<4x8xi16> -> tensor<4x1xi32>
  // CHECK: func.call @qint_divide_rows_0(%{{.*}}, %[[M]], %{{.*}}) : (memref<4x8xi16>, memref<4x1xi32>, memref<4x8xi8>, index, index) -> ()
  %q = qint.divide_rows %0 {limit = 127 : i32} : tensor<4x8xi16> -> tensor<4x8xi8>
  // CHECK: func.call @qint_divide_rows_1({{.*}}) : (memref<4x8xi16>, memref<4x8xi8>, index, index) -> ()
  %r = qint.divide_rows %0 {limit = 127 : i32, zero_point = 5 : i32} : tensor<4x8xi16> -> tensor<4x8xi8>
  func.return %m, %q, %r : tensor<4x1xi32>, tensor<4x8xi8>, tensor<4x8xi8>
}
// CHECK: func.func private @qint_divide_rows_0
// CHECK-NOT: arith.maxsi {{.*}} : i16
// CHECK: func.func private @qint_divide_rows_1
// CHECK: arith.maxsi

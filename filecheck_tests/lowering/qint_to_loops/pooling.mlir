// RUN: qmlir-opt --qint-to-loops --split-input-file %s | filecheck %s

// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<1x4x4x16xi8>) -> (tensor<1x2x2x16xi8>, tensor<1x2x2x16xi8>) {
  // CHECK: func.call @qint_max_pool2d_0
  %m = qint.max_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x4x4x16xi8> -> tensor<1x2x2x16xi8>
  // CHECK: func.call @qint_average_pool2d_0
  %a = qint.average_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x4x4x16xi8> -> tensor<1x2x2x16xi8>
  func.return %m, %a : tensor<1x2x2x16xi8>, tensor<1x2x2x16xi8>
}
// CHECK: func.func private @qint_max_pool2d_0
// CHECK: arith.maxsi {{.*}} : vector<16xi8>
// CHECK: func.func private @qint_average_pool2d_0
// CHECK: arith.divsi {{.*}} : vector<16xi32>

// -----

// A global pool is a sum, requantized in the same kernel; multipliers, shifts and the zero point are data.
// CHECK-LABEL: func.func @main
func.func @main(%x: tensor<2x4x4x16xi8>) -> tensor<2x1x1x16xi8> {
  // CHECK: func.call @qint_global_sum_pool_0({{.*}}) : (memref<2x16x16xi8>, memref<1xi32>, memref<1xi8>, memref<1xi8>, memref<2x16xi8>, index, index) -> ()
  %acc = qint.global_sum_pool %x {zero_point = -3 : i32} : tensor<2x4x4x16xi8> -> tensor<2x1x1x16xi32>
  %y = qint.requantize %acc {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<2x1x1x16xi32> -> tensor<2x1x1x16xi8>
  func.return %y : tensor<2x1x1x16xi8>
}

// Integer pools.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @pools
func.func @pools(%x: tensor<1x6x5x3xi8>, %y: tensor<1x6x5x3xi16>) {
  // CHECK: qint.max_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x6x5x3xi8> -> tensor<1x3x2x3xi8>
  // GENERIC: "qint.max_pool2d"(%{{.*}}) <{window = array<i64: 2, 2>, strides = array<i64: 2, 2>, padding = array<i64: 0, 0, 0, 0>, dilations = array<i64: 1, 1>}>
  %0 = qint.max_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x6x5x3xi8> -> tensor<1x3x2x3xi8>
  // CHECK: qint.average_pool2d %y {window = array<i64: 3, 2>} : tensor<1x6x5x3xi16> -> tensor<1x4x4x3xi16>
  // GENERIC: "qint.average_pool2d"(%{{.*}}) <{window = array<i64: 3, 2>, {{.*}}zero_point = 0 : i32{{.*}}count_include_pad = false
  %1 = qint.average_pool2d %y {window = array<i64: 3, 2>} : tensor<1x6x5x3xi16> -> tensor<1x4x4x3xi16>
  // CHECK: qint.average_pool2d %x {window = array<i64: 2, 2>, padding = array<i64: 1, 0, 1, 0>, count_include_pad = true, zero_point = -5 : i32} : tensor<1x6x5x3xi8> -> tensor<1x6x5x3xi8>
  %2 = qint.average_pool2d %x {window = array<i64: 2, 2>, padding = array<i64: 1, 0, 1, 0>, count_include_pad = true, zero_point = -5 : i32} : tensor<1x6x5x3xi8> -> tensor<1x6x5x3xi8>
  // CHECK: qint.average_pool2d %x {{{.*}}offset = 128 : i32} :
  %5 = qint.average_pool2d %x {window = array<i64: 2, 2>, offset = 128 : i32} : tensor<1x6x5x3xi8> -> tensor<1x5x4x3xi8>
  // CHECK: qint.global_sum_pool %x : tensor<1x6x5x3xi8> -> tensor<1x1x1x3xi32>
  // GENERIC: "qint.global_sum_pool"(%{{.*}}) <{zero_point = 0 : i32}>
  %3 = qint.global_sum_pool %x : tensor<1x6x5x3xi8> -> tensor<1x1x1x3xi32>
  // CHECK: qint.global_sum_pool %x {zero_point = 3 : i32} :
  %4 = qint.global_sum_pool %x {zero_point = 3 : i32} : tensor<1x6x5x3xi8> -> tensor<1x1x1x3xi32>
  func.return
}

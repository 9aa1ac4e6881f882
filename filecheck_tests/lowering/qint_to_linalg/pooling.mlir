// RUN: qmlir-opt --qint-to-linalg %s | filecheck %s

// CHECK-LABEL: func.func @max
// CHECK: arith.constant -128 : i8
// CHECK: linalg.fill
// CHECK: tensor.pad
// CHECK: arith.maxsi %{{.*}}, %{{.*}} : i8
func.func @max(%x: tensor<1x4x4x2xi8>) -> tensor<1x4x3x2xi8> {
  %y = qint.max_pool2d %x {window = array<i64: 2, 2>, padding = array<i64: 1, 0, 0, 0>} : tensor<1x4x4x2xi8> -> tensor<1x4x3x2xi8>
  func.return %y : tensor<1x4x3x2xi8>
}

// A row of the padding is absent from the mean.
// CHECK-LABEL: func.func @average
// CHECK: arith.constant dense<{{\[\[\[2\], \[2\], \[2\]\], \[\[4\], \[4\], \[4\]\]}}
// CHECK: arith.divsi %{{.*}}, %{{.*}} : i64
func.func @average(%x: tensor<1x4x4x2xi8>) -> tensor<1x4x3x2xi8> {
  %y = qint.average_pool2d %x {window = array<i64: 2, 2>, padding = array<i64: 1, 0, 0, 0>} : tensor<1x4x4x2xi8> -> tensor<1x4x3x2xi8>
  func.return %y : tensor<1x4x3x2xi8>
}

// CHECK-LABEL: func.func @global
// CHECK: iterator_types = ["parallel", "parallel", "reduction", "reduction"]
// CHECK: tensor.expand_shape %{{.*}} into tensor<1x1x1x2xi32>
func.func @global(%x: tensor<1x4x4x2xi8>) -> tensor<1x1x1x2xi32> {
  %acc = qint.global_sum_pool %x : tensor<1x4x4x2xi8> -> tensor<1x1x1x2xi32>
  func.return %acc : tensor<1x1x1x2xi32>
}

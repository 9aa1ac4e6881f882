// Boxes that are kept, and places of elements that are not zero.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// CHECK-LABEL: func.func @non_max_suppression
func.func @non_max_suppression(%b: tensor<2x9x4xf32>, %s: tensor<2x3x9xf32>) {
  // CHECK: nn.non_max_suppression %b, %s {{.*}} : tensor<2x9x4xf32>, tensor<2x3x9xf32> -> tensor<2x3x5xi64>
  // GENERIC: "nn.non_max_suppression"(%{{.*}}, %{{.*}}) <{count = 5 : i64, iou_threshold = 5.000000e-01 : f32, keep_equal_scores = false, drop_equal_overlaps = false}>
  %0 = nn.non_max_suppression %b, %s {count = 5 : i64, iou_threshold = 0.5 : f32} : tensor<2x9x4xf32>, tensor<2x3x9xf32> -> tensor<2x3x5xi64>
  // CHECK: nn.non_max_suppression %b, %s
  // CHECK-SAME: drop_equal_overlaps = true
  // CHECK-SAME: tensor<2x3x20xi64>
  %1 = nn.non_max_suppression %b, %s {count = 20 : i64, iou_threshold = 0.25 : f32, score_threshold = 0.125 : f32, keep_equal_scores = true, drop_equal_overlaps = true} : tensor<2x9x4xf32>, tensor<2x3x9xf32> -> tensor<2x3x20xi64>
  func.return
}

// CHECK-LABEL: func.func @non_zero
func.func @non_zero(%x: tensor<2x5xf32>, %t: tensor<7xi1>) {
  // CHECK: nn.non_zero %x : tensor<2x5xf32> -> tensor<2x10xi64>
  // GENERIC: "nn.non_zero"(%{{.*}}) : (tensor<2x5xf32>) -> tensor<2x10xi64>
  %0 = nn.non_zero %x : tensor<2x5xf32> -> tensor<2x10xi64>
  // CHECK: nn.non_zero %t : tensor<7xi1> -> tensor<1x7xi64>
  %1 = nn.non_zero %t : tensor<7xi1> -> tensor<1x7xi64>
  func.return
}

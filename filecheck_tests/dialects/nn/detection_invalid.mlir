// What the operations of detection refuse.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

func.func @c1_boxes(%b: tensor<1x9x5xf32>, %s: tensor<1x3x9xf32>) {
  // expected-error@+1 {{'nn.non_max_suppression' needs boxes [N, B, 4] and scores [N, C, B], got [1, 9, 5] and [1, 3, 9], and keeps 5}}
  %0 = nn.non_max_suppression %b, %s {count = 5 : i64, iou_threshold = 0.5 : f32} : tensor<1x9x5xf32>, tensor<1x3x9xf32> -> tensor<1x3x5xi64>
  func.return
}

// -----

func.func @c1_count(%b: tensor<1x9x4xf32>, %s: tensor<1x3x9xf32>) {
  // expected-error@+1 {{and keeps -1}}
  %0 = nn.non_max_suppression %b, %s {count = -1 : i64, iou_threshold = 0.5 : f32} : tensor<1x9x4xf32>, tensor<1x3x9xf32> -> tensor<1x3x5xi64>
  func.return
}

// -----

func.func @c2_threshold(%b: tensor<1x9x4xf32>, %s: tensor<1x3x9xf32>) {
  // expected-error@+1 {{'nn.non_max_suppression' needs thresholds that are numbers}}
  %0 = nn.non_max_suppression %b, %s {count = 5 : i64, iou_threshold = 0x7FC00000 : f32} : tensor<1x9x4xf32>, tensor<1x3x9xf32> -> tensor<1x3x5xi64>
  func.return
}

// -----

func.func @n1_integers(%b: tensor<1x9x4xi32>, %s: tensor<1x3x9xi32>) {
  // expected-error@+1 {{'nn.non_max_suppression' needs operands that are all f32, got i32, i32}}
  %0 = nn.non_max_suppression %b, %s {count = 5 : i64, iou_threshold = 0.5 : f32} : tensor<1x9x4xi32>, tensor<1x3x9xi32> -> tensor<1x3x5xi64>
  func.return
}

// -----

func.func @c1_scalar(%x: tensor<f32>) {
  // expected-error@+1 {{'nn.non_zero' needs at least one dimension, got a scalar}}
  %0 = nn.non_zero %x : tensor<f32> -> tensor<0x1xi64>
  func.return
}

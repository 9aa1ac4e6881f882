// What the operations of detection refuse.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%b, %s = "test.op"() : () -> (tensor<1x9x5xf32>, tensor<1x3x9xf32>)
// c1_boxes: expected-error@+1 {{'nn.non_max_suppression' needs boxes [N, B, 4] and scores [N, C, B], got [1, 9, 5] and [1, 3, 9], and keeps 5}}
%0 = nn.non_max_suppression %b, %s {count = 5 : i64, iou_threshold = 0.5 : f32} : tensor<1x9x5xf32>, tensor<1x3x9xf32> -> tensor<1x3x5xi64>

// -----

%b, %s = "test.op"() : () -> (tensor<1x9x4xf32>, tensor<1x3x9xf32>)
// c1_count: expected-error@+1 {{and keeps -1}}
%0 = nn.non_max_suppression %b, %s {count = -1 : i64, iou_threshold = 0.5 : f32} : tensor<1x9x4xf32>, tensor<1x3x9xf32> -> tensor<1x3x5xi64>

// -----

%b, %s = "test.op"() : () -> (tensor<1x9x4xf32>, tensor<1x3x9xf32>)
// c2_threshold: expected-error@+1 {{'nn.non_max_suppression' needs thresholds that are numbers}}
%0 = nn.non_max_suppression %b, %s {count = 5 : i64, iou_threshold = 0x7FC00000 : f32} : tensor<1x9x4xf32>, tensor<1x3x9xf32> -> tensor<1x3x5xi64>

// -----

%b, %s = "test.op"() : () -> (tensor<1x9x4xi32>, tensor<1x3x9xi32>)
// n1_integers: expected-error@+1 {{'nn.non_max_suppression' needs operands that are all f32, got i32, i32}}
%0 = nn.non_max_suppression %b, %s {count = 5 : i64, iou_threshold = 0.5 : f32} : tensor<1x9x4xi32>, tensor<1x3x9xi32> -> tensor<1x3x5xi64>

// -----

%x = "test.op"() : () -> tensor<f32>
// c1_scalar: expected-error@+1 {{'nn.non_zero' needs at least one dimension, got a scalar}}
%0 = nn.non_zero %x : tensor<f32> -> tensor<0x1xi64>

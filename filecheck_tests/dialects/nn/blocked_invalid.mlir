// What a layer with parameters for blocks refuses: (N1) of all nn operations, (C1), (C2), (C3) of its own.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x, %w, %s = "test.op"() : () -> (tensor<1x4xf64>, tensor<2x4xi8>, tensor<2x2xf32>)
// n1: expected-error@+1 {{'nn.blocked_fully_connected' needs operands that are all f32 or all quantized, got f64}}
%0 = nn.blocked_fully_connected %x, %w, %s, %s {block = 2 : i64} : tensor<1x4xf64>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<1x2xf64>

// -----

%x, %w, %s = "test.op"() : () -> (tensor<1x5xf32>, tensor<2x4xi8>, tensor<2x2xf32>)
// c1_inputs: expected-error@+1 {{'nn.blocked_fully_connected' needs x [N, I] and w [O, I], got [1, 5] and [2, 4]}}
%0 = nn.blocked_fully_connected %x, %w, %s, %s {block = 2 : i64} : tensor<1x5xf32>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>

// -----

%x, %w, %s = "test.op"() : () -> (tensor<1x4xf32>, tensor<2x4xi8>, tensor<2x2xf32>)
// c1_scales: expected-error@+1 {{'nn.blocked_fully_connected' needs scales [2, 4], got [2, 2]}}
%0 = nn.blocked_fully_connected %x, %w, %s, %s {block = 1 : i64} : tensor<1x4xf32>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>

// -----

%x, %w, %s, %z = "test.op"() : () -> (tensor<1x4xf32>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<1x2xi8>)
// c1_zero_points: expected-error@+1 {{'nn.blocked_fully_connected' needs zero points [2, 2], got [1, 2]}}
%0 = nn.blocked_fully_connected %x, %w, %s, %z {block = 2 : i64} : tensor<1x4xf32>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<1x2xi8> -> tensor<1x2xf32>

// -----

%x, %w, %s, %b = "test.op"() : () -> (tensor<1x4xf32>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<3xf32>)
// c1_bias: expected-error@+1 {{'nn.blocked_fully_connected' needs a bias of shape [2], got [3]}}
%0 = nn.blocked_fully_connected %x, %w, %s, %s, %b {block = 2 : i64} : tensor<1x4xf32>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<3xf32> -> tensor<1x2xf32>

// -----

%x, %w, %s = "test.op"() : () -> (tensor<1x4xf32>, tensor<2x4xi32>, tensor<2x2xf32>)
// c2_weights: expected-error@+1 {{'nn.blocked_fully_connected' needs weights of 2 to 16 bits, got i32}}
%0 = nn.blocked_fully_connected %x, %w, %s, %s {block = 2 : i64} : tensor<1x4xf32>, tensor<2x4xi32>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>

// -----

%x, %w, %s, %z = "test.op"() : () -> (tensor<1x4xf32>, tensor<2x4xi4>, tensor<2x2xf32>, tensor<2x2xi8>)
// c2_zero_points: expected-error@+1 {{'nn.blocked_fully_connected' needs zero points of i4 or f32, got i8}}
%0 = nn.blocked_fully_connected %x, %w, %s, %z {block = 2 : i64} : tensor<1x4xf32>, tensor<2x4xi4>, tensor<2x2xf32>, tensor<2x2xi8> -> tensor<1x2xf32>

// -----

%x, %w, %s, %b = "test.op"() : () -> (tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2xi32>)
// c2_bias: expected-error@+1 {{'nn.blocked_fully_connected' needs a bias of f32, got i32}}
%0 = nn.blocked_fully_connected %x, %w, %s, %s, %b {block = 2 : i64} : tensor<1x4x!quant.uniform<i8:f32, 0.5>>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32>, tensor<2xi32> -> tensor<1x2x!quant.uniform<i8:f32, 0.5>>

// -----

%x, %w, %s = "test.op"() : () -> (tensor<1x4xf32>, tensor<2x4xi8>, tensor<2x2xf32>)
// c3: expected-error@+1 {{'nn.blocked_fully_connected' needs blocks of 1 input or more, got 0}}
%0 = nn.blocked_fully_connected %x, %w, %s, %s {block = 0 : i64} : tensor<1x4xf32>, tensor<2x4xi8>, tensor<2x2xf32>, tensor<2x2xf32> -> tensor<1x2xf32>

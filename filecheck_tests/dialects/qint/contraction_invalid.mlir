// What integer contractions refuse: (Q1), (Q2) of all qint operations, (W1), (W2) of windows, (C1), (C2) of their own.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x, %w = "test.op"() : () -> (tensor<1x3xf32>, tensor<2x3xi8>)
// q1_float: expected-error@+1 {{'qint.fully_connected' computes on signless integers only, got tensor<1x3xf32>}}
%0 = qint.fully_connected %x, %w : tensor<1x3xf32>, tensor<2x3xi8> -> tensor<1x2xi32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3xi8>, tensor<2x3xi8>)
// q1_float_result: expected-error@+1 {{'qint.fully_connected' computes on signless integers only, got tensor<1x2xf32>}}
%0 = qint.fully_connected %x, %w : tensor<1x3xi8>, tensor<2x3xi8> -> tensor<1x2xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3x!quant.uniform<i8:f32, 0.5>>, tensor<2x3xi8>)
// q1_quantized: expected-error@+1 {{'qint.fully_connected' computes on signless integers only, got tensor<1x3x!quant.uniform<i8:f32, 5.000000e-01>>}}
%0 = qint.fully_connected %x, %w : tensor<1x3x!quant.uniform<i8:f32, 0.5>>, tensor<2x3xi8> -> tensor<1x2xi32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3xui8>, tensor<2x3xi8>)
// q1_unsigned: expected-error@+1 {{'qint.fully_connected' computes on signless integers only, got tensor<1x3xui8>}}
%0 = qint.fully_connected %x, %w : tensor<1x3xui8>, tensor<2x3xi8> -> tensor<1x2xi32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3xi32>, tensor<2x3xi8>)
// q2_data: expected-error@+1 {{'qint.fully_connected' multiplies integers of at most 16 bits, got i32}}
%0 = qint.fully_connected %x, %w : tensor<1x3xi32>, tensor<2x3xi8> -> tensor<1x2xi32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xi8>, tensor<4x2xi32>)
// q2_either_side: expected-error@+1 {{'qint.matmul' multiplies integers of at most 16 bits, got i32}}
%0 = qint.matmul %a, %b : tensor<3x4xi8>, tensor<4x2xi32> -> tensor<3x2xi32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xi8>, tensor<4x2xi64>)
// q2_wide: expected-error@+1 {{'qint.matmul' multiplies integers of at most 32 bits, got i64}}
%0 = qint.matmul %a, %b : tensor<3x4xi8>, tensor<4x2xi64> -> tensor<3x2xi64>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3xi8>, tensor<2x3xi8>)
// accumulator_is_i32: expected-error@+1 {{'qint.fully_connected' result #0 must be tensor<1x2xi32> as its operands imply, got tensor<1x2xi8>}}
%0 = qint.fully_connected %x, %w : tensor<1x3xi8>, tensor<2x3xi8> -> tensor<1x2xi8>

// -----

%x, %w = "test.op"() : () -> (tensor<1x6x6x3xi8>, tensor<2x3x3x3xi8>)
// w1: expected-error@+1 {{'qint.conv2d' needs strides and dilations of at least 1 and no negative padding}}
%0 = qint.conv2d %x, %w {strides = array<i64: 1, 0>} : tensor<1x6x6x3xi8>, tensor<2x3x3x3xi8> -> tensor<1x4x4x2xi32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x2x6x3xi8>, tensor<1x3x3x3xi8>)
// w2: expected-error@+1 {{'qint.depthwise_conv2d' window spans 3 but the padded input has only 2}}
%0 = qint.depthwise_conv2d %x, %w : tensor<1x2x6x3xi8>, tensor<1x3x3x3xi8> -> tensor<1x1x4x3xi32>

// -----

%x, %w, %b = "test.op"() : () -> (tensor<1x3x3x3xi8>, tensor<2x3x3x3xi8>, tensor<3xi32>)
// c1_conv2d_count: expected-error@+1 {{'qint.conv2d' needs a bias of type tensor<2xi32>, got tensor<3xi32>}}
%0 = qint.conv2d %x, %w, %b : tensor<1x3x3x3xi8>, tensor<2x3x3x3xi8>, tensor<3xi32> -> tensor<1x1x1x2xi32>

// -----

%x, %w, %b = "test.op"() : () -> (tensor<1x3x3x3xi8>, tensor<1x3x3x3xi8>, tensor<3xi64>)
// c1_depthwise_type: expected-error@+1 {{'qint.depthwise_conv2d' needs a bias of type tensor<3xi32>, got tensor<3xi64>}}
%0 = qint.depthwise_conv2d %x, %w, %b : tensor<1x3x3x3xi8>, tensor<1x3x3x3xi8>, tensor<3xi64> -> tensor<1x1x1x3xi32>

// -----

%x, %w, %b = "test.op"() : () -> (tensor<1x3xi8>, tensor<2x3xi8>, tensor<1x2xi32>)
// c1_fully_connected: expected-error@+1 {{'qint.fully_connected' needs a bias of type tensor<2xi32>, got tensor<1x2xi32>}}
%0 = qint.fully_connected %x, %w, %b : tensor<1x3xi8>, tensor<2x3xi8>, tensor<1x2xi32> -> tensor<1x2xi32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3x3x6xi8>, tensor<4x3x3x2xi8>)
// w3_groups: expected-error@+1 {{'qint.conv2d' needs weights [O, KH, KW, C/3] with the input's channels [6] and O a multiple of 3, got [4, 3, 3, 2]}}
%0 = qint.conv2d %x, %w {groups = 3 : i64} : tensor<1x3x3x6xi8>, tensor<4x3x3x2xi8> -> tensor<1x1x1x4xi32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3x3x3xi8>, tensor<2x3x3x4xi8>)
// c2_conv2d: expected-error@+1 {{'qint.conv2d' needs weights [O, KH, KW, C] with the input's channels [3], got [2, 3, 3, 4]}}
%0 = qint.conv2d %x, %w : tensor<1x3x3x3xi8>, tensor<2x3x3x4xi8> -> tensor<1x1x1x2xi32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3x3x3xi8>, tensor<2x3x3x3xi8>)
// c2_depthwise: expected-error@+1 {{'qint.depthwise_conv2d' needs weights [1, KH, KW, C·m] for the input's channels [3], got [2, 3, 3, 3]}}
%0 = qint.depthwise_conv2d %x, %w : tensor<1x3x3x3xi8>, tensor<2x3x3x3xi8> -> tensor<1x1x1x3xi32>

// -----

%x, %w = "test.op"() : () -> (tensor<3xi8>, tensor<2x3xi8>)
// c2_fully_connected: expected-error@+1 {{'qint.fully_connected' needs x [N, I] and w [O, I], got [3] and [2, 3]}}
%0 = qint.fully_connected %x, %w : tensor<3xi8>, tensor<2x3xi8> -> tensor<2xi32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xi8>, tensor<3x4xi8>)
// c1_matmul: expected-error@+1 {{'qint.matmul' needs [B…, M, K] and [B…, K, N], got [3, 4] and [3, 4]}}
%0 = qint.matmul %a, %b : tensor<3x4xi8>, tensor<3x4xi8> -> tensor<3x4xi32>

// -----

%a, %b = "test.op"() : () -> (tensor<2x3x4xi8>, tensor<3x4x5xi8>)
// c2_matmul: expected-error@+1 {{'qint.matmul' batch dimensions do not broadcast: [2, 3, 4] and [3, 4, 5]}}
%0 = qint.matmul %a, %b : tensor<2x3x4xi8>, tensor<3x4x5xi8> -> tensor<3x3x5xi32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3xi16>, tensor<2x3xi8>)
// c3_saturating: expected-error@+1 {{'qint.saturating_fully_connected' multiplies i8 by i8, got tensor<1x3xi16> and tensor<2x3xi8>}}
%0 = qint.saturating_fully_connected %x, %w : tensor<1x3xi16>, tensor<2x3xi8> -> tensor<1x2xi32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3xi8>, tensor<2x3xi8>)
// c4_saturating: expected-error@+1 {{'qint.saturating_fully_connected' needs data minus the zero point to fit 16 bits, got zero point 40000}}
%0 = qint.saturating_fully_connected %x, %w {zero_point = 40000 : i32} : tensor<1x3xi8>, tensor<2x3xi8> -> tensor<1x2xi32>

// -----

%x, %w, %b = "test.op"() : () -> (tensor<1x3xi16>, tensor<2x3xi8>, tensor<2xi32>)
// c1_bias_of_64_bit_sums: expected-error@+1 {{'qint.fully_connected' needs a bias of type tensor<2xi64>, got tensor<2xi32>}}
%0 = qint.fully_connected %x, %w, %b : tensor<1x3xi16>, tensor<2x3xi8>, tensor<2xi32> -> tensor<1x2xi64>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3xi8>, tensor<2x3xi8>)
// saturating_sums_are_i32: expected-error@+1 {{'qint.saturating_fully_connected' result #0 must be tensor<1x2xi32> as its operands imply, got tensor<1x2xi64>}}
%0 = qint.saturating_fully_connected %x, %w : tensor<1x3xi8>, tensor<2x3xi8> -> tensor<1x2xi64>

// -----

%x, %w, %m, %b = "test.op"() : () -> (tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi32>, tensor<2xi32>)
// c1_blocked: expected-error@+1 {{'qint.blocked_fully_connected' needs a bias of type tensor<2xi64>, got tensor<2xi32>}}
%0 = qint.blocked_fully_connected %x, %w, %m, %b : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi32>, tensor<2xi32> -> tensor<1x2xi64>

// -----

%x, %w, %m = "test.op"() : () -> (tensor<1x4xi8>, tensor<2x4xi8>, tensor<3x2xi32>)
// c2_blocked: expected-error@+1 {{'qint.blocked_fully_connected' needs multipliers [2, G], got [3, 2]}}
%0 = qint.blocked_fully_connected %x, %w, %m : tensor<1x4xi8>, tensor<2x4xi8>, tensor<3x2xi32> -> tensor<1x2xi64>

// -----

%x, %w, %m = "test.op"() : () -> (tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x3xi32>)
// c3_blocked: expected-error@+1 {{'qint.blocked_fully_connected' needs blocks that are as long as each other, got 3 blocks of 4 inputs}}
%0 = qint.blocked_fully_connected %x, %w, %m : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x3xi32> -> tensor<1x2xi64>

// -----

%x, %w, %m, %b = "test.op"() : () -> (tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi32>, tensor<2xi32>)
// c1_affine: expected-error@+1 {{'qint.affine_fully_connected' needs a bias of type tensor<2xi64>, got tensor<2xi32>}}
%0 = qint.affine_fully_connected %x, %w, %m, %m, %b : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi32>, tensor<2x2xi32>, tensor<2xi32> -> tensor<1x2xi64>

// -----

%x, %w, %m = "test.op"() : () -> (tensor<1x4xi8>, tensor<2x4xi8>, tensor<3x2xi32>)
// c2_affine: expected-error@+1 {{'qint.affine_fully_connected' needs multipliers [2, G], got [3, 2]}}
%0 = qint.affine_fully_connected %x, %w, %m, %m : tensor<1x4xi8>, tensor<2x4xi8>, tensor<3x2xi32>, tensor<3x2xi32> -> tensor<1x2xi64>

// -----

%x, %w, %m = "test.op"() : () -> (tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x3xi32>)
// c3_affine: expected-error@+1 {{'qint.affine_fully_connected' needs blocks that are as long as each other, got 3 blocks of 4 inputs}}
%0 = qint.affine_fully_connected %x, %w, %m, %m : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x3xi32>, tensor<2x3xi32> -> tensor<1x2xi64>

// -----

%x, %w, %m, %k = "test.op"() : () -> (tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi32>, tensor<2x1xi32>)
// c4_affine: expected-error@+1 {{'qint.affine_fully_connected' needs offsets [2, 2], got [2, 1]}}
%0 = qint.affine_fully_connected %x, %w, %m, %k : tensor<1x4xi8>, tensor<2x4xi8>, tensor<2x2xi32>, tensor<2x1xi32> -> tensor<1x2xi64>

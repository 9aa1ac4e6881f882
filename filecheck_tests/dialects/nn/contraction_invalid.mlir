// What contractions refuse: (N1) to (N3) of all nn operations, (W1), (W2) of sliding windows, (C1) to (C4) of their own.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x, %w = "test.op"() : () -> (tensor<1x3x!quant.uniform<i8:f32, 0.5>>, tensor<2x3xf32>)
// n1_float_and_quantized: expected-error@+1 {{'nn.fully_connected' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got !quant.uniform<i8:f32, 5.000000e-01>, f32}}
%0 = nn.fully_connected %x, %w : tensor<1x3x!quant.uniform<i8:f32, 0.5>>, tensor<2x3xf32> -> tensor<1x2xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3xf8E5M2>, tensor<2x3xf8E5M2>)
// n1_storage_only: expected-error@+1 {{'nn.fully_connected' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got f8E5M2, f8E5M2}}
%0 = nn.fully_connected %x, %w : tensor<1x3xf8E5M2>, tensor<2x3xf8E5M2> -> tensor<1x2xf8E5M2>

// -----

%x = "test.op"() : () -> tensor<3x4x!quant.uniform<i8:f32, 0.5>>
// n2: expected-error@+1 {{'nn.relu' must yield quantized values from quantized operands and f32 from f32, got f32 from !quant.uniform<i8:f32, 5.000000e-01>}}
%0 = nn.relu %x : tensor<3x4x!quant.uniform<i8:f32, 0.5>> -> tensor<3x4xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3xf32>, tensor<2x3xf32>)
// n3_order: expected-error@+1 {{'nn.fully_connected' clamps to an empty range: min 1.0 is above max 0.0}}
%0 = nn.fully_connected %x, %w {min = 1.0 : f32, max = 0.0 : f32} : tensor<1x3xf32>, tensor<2x3xf32> -> tensor<1x2xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3xf32>, tensor<2x3xf32>)
// n3_nan: expected-error@+1 {{'nn.fully_connected' needs numbers as bounds, got min nan and max None}}
%0 = nn.fully_connected %x, %w {min = 0x7fc00000 : f32} : tensor<1x3xf32>, tensor<2x3xf32> -> tensor<1x2xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x6x6x3xf32>, tensor<2x3x3x3xf32>)
// w1_count: expected-error@+1 {{'nn.conv2d' needs 2 strides, 2 dilations and 4 paddings (top, bottom, left, right), got 2, 2 and 2}}
%0 = nn.conv2d %x, %w {padding = array<i64: 1, 1>} : tensor<1x6x6x3xf32>, tensor<2x3x3x3xf32> -> tensor<1x4x4x2xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x6x6x3xf32>, tensor<2x3x3x3xf32>)
// w1_stride: expected-error@+1 {{'nn.conv2d' needs strides and dilations of at least 1 and no negative padding}}
%0 = nn.conv2d %x, %w {strides = array<i64: 0, 1>} : tensor<1x6x6x3xf32>, tensor<2x3x3x3xf32> -> tensor<1x4x4x2xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x6x6x3xf32>, tensor<1x3x3x3xf32>)
// w1_padding: expected-error@+1 {{'nn.depthwise_conv2d' needs strides and dilations of at least 1 and no negative padding}}
%0 = nn.depthwise_conv2d %x, %w {padding = array<i64: 0, 0, 0, -1>} : tensor<1x6x6x3xf32>, tensor<1x3x3x3xf32> -> tensor<1x4x4x3xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x6x4x3xf32>, tensor<2x3x3x3xf32>)
// w2_fits: expected-error@+1 {{'nn.conv2d' window spans 5 but the padded input has only 4}}
%0 = nn.conv2d %x, %w {dilations = array<i64: 1, 2>} : tensor<1x6x4x3xf32>, tensor<2x3x3x3xf32> -> tensor<1x4x4x2xf32>

// -----

%x, %w, %b = "test.op"() : () -> (tensor<1x3x3x3xf32>, tensor<2x3x3x3xf32>, tensor<3xf32>)
// c1_conv2d: expected-error@+1 {{'nn.conv2d' needs a bias of shape [2], got [3]}}
%0 = nn.conv2d %x, %w, %b : tensor<1x3x3x3xf32>, tensor<2x3x3x3xf32>, tensor<3xf32> -> tensor<1x1x1x2xf32>

// -----

%x, %w, %b = "test.op"() : () -> (tensor<1x3x3x3xf32>, tensor<1x3x3x6xf32>, tensor<3xf32>)
// c1_depthwise: expected-error@+1 {{'nn.depthwise_conv2d' needs a bias of shape [6], got [3]}}
%0 = nn.depthwise_conv2d %x, %w, %b : tensor<1x3x3x3xf32>, tensor<1x3x3x6xf32>, tensor<3xf32> -> tensor<1x1x1x6xf32>

// -----

%x, %w, %b = "test.op"() : () -> (tensor<1x3xf32>, tensor<2x3xf32>, tensor<1x2xf32>)
// c1_fully_connected: expected-error@+1 {{'nn.fully_connected' needs a bias of shape [2], got [1, 2]}}
%0 = nn.fully_connected %x, %w, %b : tensor<1x3xf32>, tensor<2x3xf32>, tensor<1x2xf32> -> tensor<1x2xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3x3x3xf32>, tensor<2x3x3x4xf32>)
// c2_conv2d: expected-error@+1 {{'nn.conv2d' needs weights [O, KH, KW, C] with the input's channels [3], got [2, 3, 3, 4]}}
%0 = nn.conv2d %x, %w : tensor<1x3x3x3xf32>, tensor<2x3x3x4xf32> -> tensor<1x1x1x2xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3x3x3xf32>, tensor<1x3x3x4xf32>)
// c2_depthwise: expected-error@+1 {{'nn.depthwise_conv2d' needs weights [1, KH, KW, C·m] for the input's channels [3], got [1, 3, 3, 4]}}
%0 = nn.depthwise_conv2d %x, %w : tensor<1x3x3x3xf32>, tensor<1x3x3x4xf32> -> tensor<1x1x1x4xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3xf32>, tensor<2x4xf32>)
// c2_fully_connected: expected-error@+1 {{'nn.fully_connected' needs x [N, I] and w [O, I], got [1, 3] and [2, 4]}}
%0 = nn.fully_connected %x, %w : tensor<1x3xf32>, tensor<2x4xf32> -> tensor<1x2xf32>

// -----

!data = !quant.uniform<i8:f32, 0.5>
!weights = !quant.uniform<i8:f32:3, {0.5, 0.25}>
%x, %w = "test.op"() : () -> (tensor<1x1x1x2x!data>, tensor<2x1x1x2x!weights>)
// c3_conv2d: expected-error@+1 {{'nn.conv2d' weights must be quantized along axis 0, got axis 3; quantize them per output channel or per tensor}}
%0 = nn.conv2d %x, %w : tensor<1x1x1x2x!data>, tensor<2x1x1x2x!weights> -> tensor<1x1x1x2x!data>

// -----

!data = !quant.uniform<i8:f32, 0.5>
!weights = !quant.uniform<i8:f32:0, {0.5}>
%x, %w = "test.op"() : () -> (tensor<1x1x1x2x!data>, tensor<1x1x1x2x!weights>)
// c3_depthwise: expected-error@+1 {{'nn.depthwise_conv2d' weights must be quantized along axis 3, got axis 0}}
%0 = nn.depthwise_conv2d %x, %w : tensor<1x1x1x2x!data>, tensor<1x1x1x2x!weights> -> tensor<1x1x1x2x!data>

// -----

!data = !quant.uniform<i8:f32, 0.5>
!bias = !quant.uniform<i4:f32, 0.25>
%x, %w, %b = "test.op"() : () -> (tensor<1x3x!data>, tensor<2x3x!data>, tensor<2x!bias>)
// c4_narrow: expected-error@+1 {{'nn.fully_connected' needs a bias of its data's type, or beside quantized data one of f32, of quantized i8, i16 or i32, or of plain i32 or i64, got !quant.uniform<i4:f32, 2.500000e-01> beside !quant.uniform<i8:f32, 5.000000e-01>}}
%0 = nn.fully_connected %x, %w, %b : tensor<1x3x!data>, tensor<2x3x!data>, tensor<2x!bias> -> tensor<1x2x!data>

// -----

%x, %w, %b = "test.op"() : () -> (tensor<1x3xf32>, tensor<2x3xf32>, tensor<2xi32>)
// c4_beside_float: expected-error@+1 {{'nn.fully_connected' needs a bias of its data's type, or beside quantized data one of f32, of quantized i8, i16 or i32, or of plain i32 or i64, got i32 beside f32}}
%0 = nn.fully_connected %x, %w, %b : tensor<1x3xf32>, tensor<2x3xf32>, tensor<2xi32> -> tensor<1x2xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<3x4xf32>, tensor<5x4xf32>)
// c1_matmul: expected-error@+1 {{'nn.matmul' needs [B…, M, K] and [B…, K, N], got [3, 4] and [5, 4]}}
%0 = nn.matmul %a, %b : tensor<3x4xf32>, tensor<5x4xf32> -> tensor<3x5xf32>

// -----

%a, %b = "test.op"() : () -> (tensor<2x3x4xf32>, tensor<3x4x5xf32>)
// c2_matmul: expected-error@+1 {{'nn.matmul' batch dimensions do not broadcast: [2, 3, 4] and [3, 4, 5]}}
%0 = nn.matmul %a, %b : tensor<2x3x4xf32>, tensor<3x4x5xf32> -> tensor<3x3x5xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x4x4x6xf32>, tensor<4x3x3x3xf32>)
// w3_groups: expected-error@+1 {{'nn.conv2d' needs weights [O, KH, KW, C/4] with the input's channels [6] and O a multiple of 4, got [4, 3, 3, 3]}}
%0 = nn.conv2d %x, %w {groups = 4 : i64} : tensor<1x4x4x6xf32>, tensor<4x3x3x3xf32> -> tensor<1x2x2x4xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x4x4x6xf32>, tensor<3x3x3x3xf32>)
// w3_outputs: expected-error@+1 {{'nn.conv2d' needs weights [O, KH, KW, C/2] with the input's channels [6] and O a multiple of 2, got [3, 3, 3, 3]}}
%0 = nn.conv2d %x, %w {groups = 2 : i64} : tensor<1x4x4x6xf32>, tensor<3x3x3x3xf32> -> tensor<1x2x2x3xf32>

// -----

%x, %w = "test.op"() : () -> (tensor<1x3xf16>, tensor<2x3xbf16>)
// n1_halves_beside_floats: expected-error@+1 {{'nn.fully_connected' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got f16, bf16}}
%0 = nn.fully_connected %x, %w : tensor<1x3xf16>, tensor<2x3xbf16> -> tensor<1x2xf16>

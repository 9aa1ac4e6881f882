// What pools refuse: (W1), (W2) of sliding windows, (C1), (C2) of their own, and their scale rule.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<1x6x6x3xf32>
// w1: expected-error@+1 {{'nn.max_pool2d' needs strides and dilations of at least 1 and no negative padding}}
%0 = nn.max_pool2d %x {window = array<i64: 2, 2>, dilations = array<i64: 0, 1>} : tensor<1x6x6x3xf32> -> tensor<1x5x5x3xf32>

// -----

%x = "test.op"() : () -> tensor<6x6x3xf32>
// w2_rank: expected-error@+1 {{'nn.average_pool2d' needs an input of rank 4 [N, H, W, C], got rank 3}}
%0 = nn.average_pool2d %x {window = array<i64: 2, 2>} : tensor<6x6x3xf32> -> tensor<5x5x3xf32>

// -----

%x = "test.op"() : () -> tensor<1x6x6x3xf32>
// w2_fits: expected-error@+1 {{'nn.max_pool2d' window spans 7 but the padded input has only 6}}
%0 = nn.max_pool2d %x {window = array<i64: 2, 7>} : tensor<1x6x6x3xf32> -> tensor<1x5x1x3xf32>

// -----

%x = "test.op"() : () -> tensor<1x6x6x3xf32>
// c1_count: expected-error@+1 {{'nn.max_pool2d' needs a window of two positive extents, got (2,)}}
%0 = nn.max_pool2d %x {window = array<i64: 2>} : tensor<1x6x6x3xf32> -> tensor<1x5x5x3xf32>

// -----

%x = "test.op"() : () -> tensor<1x6x6x3xf32>
// c1_extent: expected-error@+1 {{'nn.average_pool2d' needs a window of two positive extents, got (2, 0)}}
%0 = nn.average_pool2d %x {window = array<i64: 2, 0>} : tensor<1x6x6x3xf32> -> tensor<1x5x5x3xf32>

// -----

%x = "test.op"() : () -> tensor<1x6x6x3xf32>
// c1_padding: expected-error@+1 {{'nn.max_pool2d' padding must be smaller than its window, got (0, 2, 0, 0)}}
%0 = nn.max_pool2d %x {window = array<i64: 2, 2>, padding = array<i64: 0, 2, 0, 0>} : tensor<1x6x6x3xf32> -> tensor<1x7x5x3xf32>

// -----

!a = !quant.uniform<i8:f32, 0.5:3>
%x = "test.op"() : () -> tensor<1x1x4x3x!a>
// c2: expected-error@+1 {{'nn.max_pool2d' on quantized values has windows that lie beside the image: window (2, 1), padding (1, 1, 0, 0), dilations (2, 1)}}
%0 = nn.max_pool2d %x {window = array<i64: 2, 1>, padding = array<i64: 1, 1, 0, 0>, dilations = array<i64: 2, 1>} : tensor<1x1x4x3x!a> -> tensor<1x1x4x3x!a>

// -----

%x = "test.op"() : () -> tensor<1x4x4x3x!quant.uniform<i8:f32, 0.5>>
// same_scale: expected-error@+1 {{needs one quantized type for all operands and results}}
%0 = nn.average_pool2d %x {window = array<i64: 2, 2>} : tensor<1x4x4x3x!quant.uniform<i8:f32, 0.5>> -> tensor<1x3x3x3x!quant.uniform<i8:f32, 0.25>>

// -----

%x = "test.op"() : () -> tensor<6x6x3xf32>
// c1_global_rank: expected-error@+1 {{'nn.global_average_pool' needs an input of rank 4 [N, H, W, C], got rank 3}}
%0 = nn.global_average_pool %x : tensor<6x6x3xf32> -> tensor<1x1x3xf32>

// -----

%x = "test.op"() : () -> tensor<1x0x6x3xf32>
// c1_global_empty: expected-error@+1 {{'nn.global_average_pool' has nothing to average in images of shape [1, 0, 6, 3]}}
%0 = nn.global_average_pool %x : tensor<1x0x6x3xf32> -> tensor<1x1x1x3xf32>

// -----

%x = "test.op"() : () -> tensor<1x4x4x1xi1>
// n1_places_of_truth: expected-error@+1 {{'nn.max_pool2d_indices' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got i1}}
%0 = nn.max_pool2d_indices %x {window = array<i64: 2, 2>} : tensor<1x4x4x1xi1> -> tensor<1x3x3x1xi64>

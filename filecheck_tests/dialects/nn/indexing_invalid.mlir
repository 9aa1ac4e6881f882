// What slices, gathers, scatters and top_k refuse.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_slice_counts: expected-error@+1 {{'nn.slice' needs 2 offsets, sizes that are not negative, and strides that are not 0}}
%0 = nn.slice %x {offsets = array<i64: 0>, sizes = array<i64: 2, 3>, strides = array<i64: 1, 1>} : tensor<2x3xf32> -> tensor<2x3xf32>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// c1_slice_stride: expected-error@+1 {{'nn.slice' needs 1 offsets, sizes that are not negative, and strides that are not 0}}
%0 = nn.slice %x {offsets = array<i64: 0>, sizes = array<i64: 2>, strides = array<i64: 0>} : tensor<3xf32> -> tensor<2xf32>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// c2_slice_outside: expected-error@+1 {{'nn.slice' takes 2 elements from 0 in steps of -1 out of 3}}
%0 = nn.slice %x {offsets = array<i64: 0>, sizes = array<i64: 2>, strides = array<i64: -1>} : tensor<3xf32> -> tensor<2xf32>

// -----

!channels = !quant.uniform<i8:f32:0, {0.5, 0.25}>
%x = "test.op"() : () -> tensor<2x!channels>
// slice_per_axis: expected-error@+1 {{'nn.slice' moves values, so its quantized types must be per tensor}}
%0 = nn.slice %x {offsets = array<i64: 0>, sizes = array<i64: 2>, strides = array<i64: 1>} : tensor<2x!channels> -> tensor<2x!channels>

// -----

%x, %i = "test.op"() : () -> (tensor<3xf32>, tensor<2xi8>)
// i1_indices: expected-error@+1 {{'nn.gather' needs indices of i32 or i64, got i8}}
%0 = nn.gather %x, %i {axis = 0 : i64} : tensor<3xf32>, tensor<2xi8> -> tensor<2xf32>

// -----

%x, %u, %i = "test.op"() : () -> (tensor<3xf32>, tensor<2xf32>, tensor<2x1xf32>)
// i1_indices_of_a_reduction: expected-error@+1 {{'nn.scatter_reduce_nd' needs indices of i32 or i64, got f32}}
%0 = nn.scatter_reduce_nd %x, %u, %i {reduction = "add"} : tensor<3xf32>, tensor<2xf32>, tensor<2x1xf32> -> tensor<3xf32>

// -----

%x, %i = "test.op"() : () -> (tensor<3xf32>, tensor<2xi64>)
// c1_gather_axis: expected-error@+1 {{'nn.gather' needs an axis that is not empty, got 1 of [3]}}
%0 = nn.gather %x, %i {axis = 1 : i64} : tensor<3xf32>, tensor<2xi64> -> tensor<2xf32>

// -----

%x, %i = "test.op"() : () -> (tensor<3x4xf32>, tensor<5x3xi64>)
// c1_gather_nd_depth: expected-error@+1 {{'nn.gather_nd' cannot find places [5, 3] in [3, 4]}}
%0 = nn.gather_nd %x, %i : tensor<3x4xf32>, tensor<5x3xi64> -> tensor<5xf32>

// -----

%x, %u, %i = "test.op"() : () -> (tensor<3x4xf32>, tensor<5x3xf32>, tensor<5x1xi64>)
// c1_scatter_rows: expected-error@+1 {{'nn.scatter_nd' needs updates [5, 4], got [5, 3]}}
%0 = nn.scatter_nd %x, %u, %i : tensor<3x4xf32>, tensor<5x3xf32>, tensor<5x1xi64> -> tensor<3x4xf32>

// -----

%x, %u, %i = "test.op"() : () -> (tensor<3xf32>, tensor<2xi8>, tensor<2x1xi64>)
// c2_scatter_element: expected-error@+1 {{'nn.scatter_nd' needs updates of f32, got i8}}
%0 = nn.scatter_nd %x, %u, %i : tensor<3xf32>, tensor<2xi8>, tensor<2x1xi64> -> tensor<3xf32>

// -----

%x, %u, %i = "test.op"() : () -> (tensor<3x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.5:1>>, tensor<2x1xi64>)
// scatter_scales: expected-error@+1 {{'nn.scatter_nd' needs one quantized type for all operands and results, got !quant.uniform<i8:f32, 5.000000e-01> and !quant.uniform<i8:f32, 5.000000e-01:1>}}
%0 = nn.scatter_nd %x, %u, %i : tensor<3x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.5:1>>, tensor<2x1xi64> -> tensor<3x!quant.uniform<i8:f32, 0.5>>

// -----

%x, %u, %i = "test.op"() : () -> (tensor<3xf32>, tensor<2xf32>, tensor<2x1xi64>)
// c2_reduction: expected-error@+1 {{'nn.scatter_reduce_nd' reduces by add, mul, max, min, got mean}}
%0 = nn.scatter_reduce_nd %x, %u, %i {reduction = "mean"} : tensor<3xf32>, tensor<2xf32>, tensor<2x1xi64> -> tensor<3xf32>

// -----

!a = !quant.uniform<i8:f32, 0.5>
%x, %u, %i = "test.op"() : () -> (tensor<3x!a>, tensor<2x!a>, tensor<2x1xi64>)
// reduce_quantized: expected-error@+1 {{'nn.scatter_reduce_nd' needs operands that are}}
%0 = nn.scatter_reduce_nd %x, %u, %i {reduction = "add"} : tensor<3x!a>, tensor<2x!a>, tensor<2x1xi64> -> tensor<3x!a>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// c1_top_k: expected-error@+1 {{'nn.top_k' cannot take 4 elements along axis 0 of [3]}}
%0 = nn.top_k %x {axis = 0 : i64, k = 4 : i64} : tensor<3xf32> -> tensor<4xi64>

// -----

%x = "test.op"() : () -> tensor<3xi1>
// top_k_of_booleans: expected-error@+1 {{'nn.top_k' needs operands that are}}
%0 = nn.top_k %x {axis = 0 : i64, k = 1 : i64} : tensor<3xi1> -> tensor<1xi64>

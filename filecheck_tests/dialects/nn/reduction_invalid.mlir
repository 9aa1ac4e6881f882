// What reductions refuse: (N1), (C1), (C2).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<3xi1>
// n1: expected-error@+1 {{'nn.reduce_sum' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got i1}}
%0 = nn.reduce_sum %x {axes = array<i64: 0>} : tensor<3xi1> -> tensor<1xi1>

// -----

%x = "test.op"() : () -> tensor<3xf8E5M2>
// n1_storage_only: expected-error@+1 {{'nn.cumulative_sum' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got f8E5M2}}
%0 = nn.cumulative_sum %x {axis = 0 : i64} : tensor<3xf8E5M2> -> tensor<3xf8E5M2>

// -----

%x = "test.op"() : () -> tensor<3x4xf32>
// c1: expected-error@+1 {{'nn.reduce_max' needs ascending axes in [0, 2), got [1, 0]}}
%0 = nn.reduce_max %x {axes = array<i64: 1, 0>} : tensor<3x4xf32> -> tensor<1x1xf32>

// -----

%x = "test.op"() : () -> tensor<3x4xf32>
// c1_beyond: expected-error@+1 {{'nn.reduce_min' needs ascending axes in [0, 2), got [2]}}
%0 = nn.reduce_min %x {axes = array<i64: 2>} : tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%x = "test.op"() : () -> tensor<3x4xf32>
// c1_axis: expected-error@+1 {{'nn.cumulative_product' axis must lie in [0, 2), got 2}}
%0 = nn.cumulative_product %x {axis = 2 : i64} : tensor<3x4xf32> -> tensor<3x4xf32>

// -----

%x = "test.op"() : () -> tensor<3x0xf32>
// c2: expected-error@+1 {{'nn.arg_max' has nothing to choose from along axis 1 of [3, 0]}}
%0 = nn.arg_max %x {axis = 1 : i64} : tensor<3x0xf32> -> tensor<3x1xi64>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// mean_of_integers: expected-error@+1 {{'nn.reduce_mean' needs operands that are all f32, all f64 or all quantized, got i8}}
%0 = nn.reduce_mean %x {axes = array<i64: 0>} : tensor<3xi8> -> tensor<1xi8>

// -----

%x = "test.op"() : () -> tensor<3x0x!quant.uniform<i8:f32, 0.5>>
// c2: expected-error@+1 {{'nn.reduce_mean' has no quantized mean of no elements, got axes [1] of [3, 0]}}
%0 = nn.reduce_mean %x {axes = array<i64: 1>} : tensor<3x0x!quant.uniform<i8:f32, 0.5>> -> tensor<3x1x!quant.uniform<i8:f32, 0.5>>

// -----

%x = "test.op"() : () -> tensor<3x4xf32>
// a1_name: expected-error@+1 {{'nn.reduce_sum' qmlir.addition must be float32 or float32_reciprocal on f32, got float16}}
%0 = nn.reduce_sum %x {axes = array<i64: 1>, qmlir.addition = "float16"} : tensor<3x4xf32> -> tensor<3x1xf32>

// -----

%x = "test.op"() : () -> tensor<3x4xi32>
// a1_elements: expected-error@+1 {{'nn.cumulative_sum' qmlir.addition must be float32 on f32, got float32}}
%0 = nn.cumulative_sum %x {axis = 1 : i64, qmlir.addition = "float32"} : tensor<3x4xi32> -> tensor<3x4xi32>

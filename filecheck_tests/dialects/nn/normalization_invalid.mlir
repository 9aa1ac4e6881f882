// What normalizations refuse: (N1) of all nn operations, (C1) and (C2) of their own.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_axis: expected-error@+1 {{'nn.softmax' axis must lie in [0, 2), got 2}}
%0 = nn.softmax %x {axis = 2 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_from_behind: expected-error@+1 {{'nn.softmax' axis must lie in [0, 2), got -1}}
%0 = nn.softmax %x {axis = -1 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>

// -----

%x = "test.op"() : () -> tensor<2x0xf32>
// c1_empty: expected-error@+1 {{'nn.softmax' has nothing to sum along axis 1 of [2, 0]}}
%0 = nn.softmax %x {axis = 1 : i64} : tensor<2x0xf32> -> tensor<2x0xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_logarithm: expected-error@+1 {{'nn.log_softmax' axis must lie in [0, 2), got 2}}
%0 = nn.log_softmax %x {axis = 2 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_over_trailing: expected-error@+1 {{'nn.layer_norm' axis must lie in [0, 2), got 2}}
%0 = nn.layer_norm %x {axis = 2 : i64, epsilon = 0.5 : f32} : tensor<2x3xf32> -> tensor<2x3xf32>

// -----

%x = "test.op"() : () -> tensor<2x0x3xf32>
// c1_nothing: expected-error@+1 {{'nn.rms_norm' has nothing to normalize along axis 1 of [2, 0, 3]}}
%0 = nn.rms_norm %x {axis = 1 : i64, epsilon = 0.5 : f32} : tensor<2x0x3xf32> -> tensor<2x0x3xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c2_epsilon: expected-error@+1 {{'nn.layer_norm' needs an epsilon that is not negative, got -0.5}}
%0 = nn.layer_norm %x {axis = 1 : i64, epsilon = -0.5 : f32} : tensor<2x3xf32> -> tensor<2x3xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xi8>
// n1_integers: expected-error@+1 {{'nn.rms_norm' needs operands that are all f32, all f64 or all quantized, got i8}}
%0 = nn.rms_norm %x {axis = 1 : i64, epsilon = 0.5 : f32} : tensor<2x3xi8> -> tensor<2x3xi8>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c2_p: expected-error@+1 {{'nn.lp_normalization' needs p to be 1 or 2, got 3}}
%0 = nn.lp_normalization %x {axis = 1 : i64, p = 3 : i64} : tensor<2x3xf32> -> tensor<2x3xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_size: expected-error@+1 {{'nn.local_response_normalization' needs channels and a size of at least 1, got [2, 3] and 0}}
%0 = nn.local_response_normalization %x {size = 0 : i64, alpha = 1.0 : f32, beta = 0.75 : f32, bias = 1.0 : f32} : tensor<2x3xf32> -> tensor<2x3xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xi64>
// c2_element: expected-error@+1 {{'nn.root_quotient' computes on i32, got i64}}
%0 = nn.root_quotient %x, %x : tensor<2x3xi64>, tensor<2x3xi64> -> tensor<2x3xi64>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xi32>, tensor<2xi32>)
// c1_shapes: expected-error@+1 {{'nn.root_quotient' shapes do not broadcast: [2, 3] and [2]}}
%0 = nn.root_quotient %x, %y : tensor<2x3xi32>, tensor<2xi32> -> tensor<2x3xi32>

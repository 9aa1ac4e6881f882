// What sums and products refuse: (N1), (N3), (C1).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x, %y = "test.op"() : () -> (tensor<3xf32>, tensor<3xi8>)
// n1: expected-error@+1 {{'nn.add' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got f32, i8}}
%0 = nn.add %x, %y : tensor<3xf32>, tensor<3xi8> -> tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// n3: expected-error@+1 {{'nn.mul' clamps to an empty range: min 6.0 is above max 0.0}}
%0 = nn.mul %x, %x {min = 6.0 : f32, max = 0.0 : f32} : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xf32>, tensor<2xf32>)
// c1: expected-error@+1 {{'nn.add' shapes do not broadcast: [2, 3] and [2]}}
%0 = nn.add %x, %y : tensor<2x3xf32>, tensor<2xf32> -> tensor<2x3xf32>

// -----

%x = "test.op"() : () -> tensor<3xi32>
// n3_integers: expected-error@+1 {{'nn.sub' clamps floats, got i32}}
%0 = nn.sub %x, %x {min = 0.0 : f32} : tensor<3xi32>, tensor<3xi32> -> tensor<3xi32>

// -----

%x = "test.op"() : () -> tensor<3xi1>
// n1_truth: expected-error@+1 {{'nn.pow' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got i1, i1}}
%0 = nn.pow %x, %x : tensor<3xi1>, tensor<3xi1> -> tensor<3xi1>

// What the operations on rows refuse: (C1).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<3x0xf32>
// c1: expected-error@+1 {{'nn.row_magnitudes' needs rows with elements along the last axis, got [3, 0]}}
%0 = nn.row_magnitudes %x : tensor<3x0xf32> -> tensor<3x1xf32>

// -----

%x = "test.op"() : () -> tensor<f32>
// c1_rank: expected-error@+1 {{'nn.divide_rows' needs rows with elements along the last axis, got []}}
%0 = nn.divide_rows %x : tensor<f32> -> tensor<f32>

// -----

%x, %m = "test.op"() : () -> (tensor<3x5xf32>, tensor<1x5xf32>)
// c1_product: expected-error@+1 {{'nn.multiply_rows' needs a magnitude for each row of [3, 5], got [1, 5]}}
%0 = nn.multiply_rows %x, %m : tensor<3x5xf32>, tensor<1x5xf32> -> tensor<3x5xf32>

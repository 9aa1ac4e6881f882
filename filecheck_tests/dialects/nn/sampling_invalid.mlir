// What nn.sample refuses: (C1), (C2), and places of another type.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x, %p = "test.op"() : () -> (tensor<1x4x5x3xf32>, tensor<1x7x3xf32>)
// c1_coordinates: expected-error@+1 {{'nn.sample' needs images [N, …, C] and places [N, …, d], got [1, 4, 5, 3] and [1, 7, 3]}}
%0 = nn.sample %x, %p {method = "linear", padding = "zeros"} : tensor<1x4x5x3xf32>, tensor<1x7x3xf32> -> tensor<1x7x3xf32>

// -----

%x, %p = "test.op"() : () -> (tensor<1x4x5x3xf32>, tensor<1x7x2xf32>)
// c2_method: expected-error@+1 {{'nn.sample' samples by nearest, linear, cubic with zeros, border, reflect_edges, reflect_centres, got area with zeros}}
%0 = nn.sample %x, %p {method = "area", padding = "zeros"} : tensor<1x4x5x3xf32>, tensor<1x7x2xf32> -> tensor<1x7x3xf32>

// -----

%x, %p = "test.op"() : () -> (tensor<1x4x5x3xf32>, tensor<1x7x2xf64>)
// places: expected-error@+1 {{'nn.sample' needs operands that are all f32 or all f64, got f32, f64}}
%0 = nn.sample %x, %p {method = "linear", padding = "zeros"} : tensor<1x4x5x3xf32>, tensor<1x7x2xf64> -> tensor<1x7x3xf32>

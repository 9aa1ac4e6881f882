// What operations on bits refuse: (N1).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<3xf32>
// n1: expected-error@+1 {{'nn.and' needs operands that are all iN, all uiN or all i1, got f32, f32}}
%0 = nn.and %x, %x : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3xi1>
// n1_shift: expected-error@+1 {{'nn.shift_left' needs operands that are all iN or all uiN, got i1, i1}}
%0 = nn.shift_left %x, %x : tensor<3xi1>, tensor<3xi1> -> tensor<3xi1>

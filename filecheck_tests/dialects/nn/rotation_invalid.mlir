// What Hadamard transforms refuse: (C1).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<3x12xf32>
// c1_power: expected-error@+1 {{'nn.hadamard' needs a block of 2, 4, 8, … elements that divides the last axis, got 12 for [3, 12]}}
%0 = nn.hadamard %x {block = 12 : i64} : tensor<3x12xf32> -> tensor<3x12xf32>

// -----

%x = "test.op"() : () -> tensor<3x12xf32>
// c1_divides: expected-error@+1 {{'nn.hadamard' needs a block of 2, 4, 8, … elements that divides the last axis, got 8 for [3, 12]}}
%0 = nn.hadamard %x {block = 8 : i64} : tensor<3x12xf32> -> tensor<3x12xf32>

// -----

%x = "test.op"() : () -> tensor<f32>
// c1_scalar: expected-error@+1 {{'nn.hadamard' needs a block of 2, 4, 8, … elements that divides the last axis, got 2 for []}}
%0 = nn.hadamard %x {block = 2 : i64} : tensor<f32> -> tensor<f32>

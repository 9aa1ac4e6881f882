// What elementary functions refuse: (N1).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<3xi32>
// n1: expected-error@+1 {{'nn.exp' needs operands that are all f32, all f64 or all quantized, got i32}}
%0 = nn.exp %x : tensor<3xi32> -> tensor<3xi32>

// -----

%x = "test.op"() : () -> tensor<3xf64>
// n1_wide: expected-error@+1 {{'nn.sin' needs operands that are all f32 or all quantized, got f64}}
%0 = nn.sin %x : tensor<3xf64> -> tensor<3xf64>

// -----

%x = "test.op"() : () -> tensor<3x!quant.uniform<i8:f32, 0.5>>
// n2: expected-error@+1 {{'nn.erf' must yield quantized values from quantized operands and f32 from f32, got f32 from !quant.uniform<i8:f32, 5.000000e-01>}}
%0 = nn.erf %x : tensor<3x!quant.uniform<i8:f32, 0.5>> -> tensor<3xf32>

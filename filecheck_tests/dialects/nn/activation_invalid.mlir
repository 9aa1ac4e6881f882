// What functions of one element refuse: (N1) to (N3).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<3xi8>
// n1: expected-error@+1 {{'nn.tanh' needs operands that are all f32, all f64 or all quantized, got i8}}
%0 = nn.tanh %x : tensor<3xi8> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3x!quant.uniform<i8:f32, 0.5>>
// n2: expected-error@+1 {{'nn.sigmoid' must yield quantized values from quantized operands and f32 from f32, got i8 from !quant.uniform<i8:f32, 5.000000e-01>}}
%0 = nn.sigmoid %x : tensor<3x!quant.uniform<i8:f32, 0.5>> -> tensor<3xi8>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// n2_from_float: expected-error@+1 {{'nn.requantize' result #0 must be tensor<3xf32> as its operands imply, got tensor<3x!quant.uniform<i8:f32, 5.000000e-01>>}}
%0 = nn.requantize %x : tensor<3xf32> -> tensor<3x!quant.uniform<i8:f32, 0.5>>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// n3_order: expected-error@+1 {{'nn.clamp' clamps to an empty range: min 1.0 is above max -1.0}}
%0 = nn.clamp %x {min = 1.0 : f32, max = -1.0 : f32} : tensor<3xf32> -> tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// n3_nan: expected-error@+1 {{'nn.clamp' needs numbers as bounds, got min 0.0 and max nan}}
%0 = nn.clamp %x {min = 0.0 : f32, max = 0x7fc00000 : f32} : tensor<3xf32> -> tensor<3xf32>

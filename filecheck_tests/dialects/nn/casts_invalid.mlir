// What casts refuse: (C1).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<3x!quant.uniform<i8:f32, 0.5>>
// c1: expected-error@+1 {{'nn.cast' needs types that numpy has a form of, got !quant.uniform<i8:f32, 5.000000e-01>; use quant.qcast and quant.dcast}}
%0 = nn.cast %x : tensor<3x!quant.uniform<i8:f32, 0.5>> -> tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// c1_width: expected-error@+1 {{'nn.cast' needs types that numpy has a form of, got i7}}
%0 = nn.cast %x : tensor<3xf32> -> tensor<3xi7>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// c1_bits: expected-error@+1 {{'nn.bitcast' needs types of as many bits, got f32 and i64}}
%0 = nn.bitcast %x : tensor<3xf32> -> tensor<3xi64>

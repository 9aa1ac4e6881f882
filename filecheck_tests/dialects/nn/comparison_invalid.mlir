// What comparisons and choices refuse: (N1), (C1), (C2).

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x, %y = "test.op"() : () -> (tensor<3xf32>, tensor<3xf64>)
// n1: expected-error@+1 {{'nn.less' needs operands that are all f32, all f64, all iN, all uiN or all quantized, got f32, f64}}
%0 = nn.less %x, %y : tensor<3xf32>, tensor<3xf64> -> tensor<3xi1>

// -----

%x = "test.op"() : () -> tensor<3xi8>
// n1_integers: expected-error@+1 {{'nn.is_nan' needs operands that are all f32, all f64 or all quantized, got i8}}
%0 = nn.is_nan %x : tensor<3xi8> -> tensor<3xi1>

// -----

%x = "test.op"() : () -> tensor<3x!quant.uniform<i8:f32, 0.5>>
// quantized_result: expected-error@+1 {{'nn.less' result #0 must be tensor<3xi1> as its operands imply, got tensor<3x!quant.uniform<i8:f32, 5.000000e-01>>}}
%0 = nn.less %x, %x : tensor<3x!quant.uniform<i8:f32, 0.5>>, tensor<3x!quant.uniform<i8:f32, 0.5>> -> tensor<3x!quant.uniform<i8:f32, 0.5>>

// -----

%c, %x, %y = "test.op"() : () -> (tensor<3xi1>, tensor<3x!quant.uniform<i8:f32, 0.5>>, tensor<3x!quant.uniform<i8:f32, 0.25>>)
// two_types: expected-error@+1 {{'nn.where' needs one quantized type for all operands and results, got !quant.uniform<i8:f32, 5.000000e-01> and !quant.uniform<i8:f32, 2.500000e-01>; put an nn.requantize before the operand that differs}}
%0 = nn.where %c, %x, %y : tensor<3xi1>, tensor<3x!quant.uniform<i8:f32, 0.5>>, tensor<3x!quant.uniform<i8:f32, 0.25>> -> tensor<3x!quant.uniform<i8:f32, 0.5>>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// result: expected-error@+1 {{'nn.equal' result #0 must be tensor<3xi1> as its operands imply, got tensor<3xf32>}}
%0 = nn.equal %x, %x : tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>

// -----

%c, %x = "test.op"() : () -> (tensor<2xi1>, tensor<3xf32>)
// c1: expected-error@+1 {{'nn.where' shapes do not broadcast: [2] and [3]}}
%0 = nn.where %c, %x, %x : tensor<2xi1>, tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>

// -----

%c, %x = "test.op"() : () -> (tensor<3xi8>, tensor<3xf32>)
// c2_condition: expected-error@+1 {{'nn.where' needs a condition of i1, got i8}}
%0 = nn.where %c, %x, %x : tensor<3xi8>, tensor<3xf32>, tensor<3xf32> -> tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<3xf32>
// c2: expected-error@+1 {{'nn.is_inf' must look for infinities of some sign, got neither}}
%0 = nn.is_inf %x {negative = false, positive = false} : tensor<3xf32> -> tensor<3xi1>

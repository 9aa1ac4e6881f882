// The scale rules, on operations that carry them.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

%x = "test.op"() : () -> tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>>
// same_scale: expected-error@+1 {{needs one quantized type for all operands and results, got !quant.uniform<i8:f32, 5.000000e-01> and !quant.uniform<i8:f32, 2.500000e-01>; put an nn.requantize before the operand that differs}}
%0 = nn.max_pool2d %x {window = array<i64: 2, 2>} : tensor<1x4x4x2x!quant.uniform<i8:f32, 0.5>> -> tensor<1x3x3x2x!quant.uniform<i8:f32, 0.25>>

// -----

!channels = !quant.uniform<i8:f32:3, {0.5, 0.25}>
%x = "test.op"() : () -> tensor<1x4x4x2x!channels>
// same_scale_per_axis: expected-error@+1 {{moves values, so its quantized types must be per tensor, got 2 scales along axis 3}}
%0 = nn.max_pool2d %x {window = array<i64: 2, 2>} : tensor<1x4x4x2x!channels> -> tensor<1x3x3x2x!channels>

// -----

!data = !quant.uniform<i8:f32, 0.5>
!weights = !quant.uniform<i8:f32:0, {0.5, 0.25}>
!bias = !quant.uniform<i32:f32:0, {0.25, 0.25}>
%x, %w, %b = "test.op"() : () -> (tensor<1x1x1x1x!data>, tensor<2x1x1x1x!weights>, tensor<2x!bias>)
// accumulator_scale: expected-error@+1 {{needs the bias scale 0.125 in channel 1, the product of the data's 0.5 and the weights' 0.25, got 0.25; quantize the bias after its operands}}
%0 = nn.conv2d %x, %w, %b : tensor<1x1x1x1x!data>, tensor<2x1x1x1x!weights>, tensor<2x!bias> -> tensor<1x1x1x2x!data>

// -----

!data = !quant.uniform<i8:f32, 0.5>
!weights = !quant.uniform<i8:f32:0, {0.5, 0.25}>
!bias = !quant.uniform<i32:f32, 0.25>
%x, %w, %b = "test.op"() : () -> (tensor<1x1x1x1x!data>, tensor<2x1x1x1x!weights>, tensor<2x!bias>)
// accumulator_axis: expected-error@+1 {{needs a bias with 2 scales along axis 0 and zero point 0, as its weights have, got !quant.uniform<i32:f32, 2.500000e-01>}}
%0 = nn.conv2d %x, %w, %b : tensor<1x1x1x1x!data>, tensor<2x1x1x1x!weights>, tensor<2x!bias> -> tensor<1x1x1x2x!data>

// -----

!data = !quant.uniform<i8:f32:3, {0.5}>
!weights = !quant.uniform<i8:f32, 0.5>
!bias = !quant.uniform<i32:f32, 0.25>
%x, %w, %b = "test.op"() : () -> (tensor<1x1x1x1x!data>, tensor<2x1x1x1x!weights>, tensor<2x!bias>)
// accumulator_data_per_axis: expected-error@+1 {{with a quantized bias needs data quantized per tensor and quantized weights}}
%0 = nn.conv2d %x, %w, %b : tensor<1x1x1x1x!data>, tensor<2x1x1x1x!weights>, tensor<2x!bias> -> tensor<1x1x1x2x!weights>

// What constants and data movement refuse: (C1) to (C3), and scales for each channel, which would move to others.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

// c1_constant_type: expected-error@+1 {{'nn.constant' result #0 must be tensor<2xi8> as its operands imply, got tensor<2xi16>}}
%0 = nn.constant <tensor<2xi8>, [1, 2]> : tensor<2xi16>

// -----

// c1_constant_storage: expected-error@+1 {{'nn.constant' of type tensor<2x!quant.uniform<i8:f32, 5.000000e-01>> must hold tensor<2xi8>, got tensor<2xi16>}}
%0 = nn.constant <tensor<2xi16>, [1, 2]> : tensor<2x!quant.uniform<i8:f32, 0.5>>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_reshape_count: expected-error@+1 {{'nn.reshape' cannot turn [2, 3] into [5]}}
%0 = nn.reshape %x {shape = array<i64: 5>} : tensor<2x3xf32> -> tensor<5xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_reshape_negative: expected-error@+1 {{'nn.reshape' cannot turn [2, 3] into [-2, -3]}}
%0 = nn.reshape %x {shape = array<i64: -2, -3>} : tensor<2x3xf32> -> tensor<6xf32>

// -----

!channels = !quant.uniform<i8:f32:0, {0.5, 0.25}>
%x = "test.op"() : () -> tensor<2x3x!channels>
// reshape_per_axis: expected-error@+1 {{'nn.reshape' moves values, so its quantized types must be per tensor, got 2 scales along axis 0; move the values before they are quantized, or quantize them per tensor}}
%0 = nn.reshape %x {shape = array<i64: 2, 3, 1>} : tensor<2x3x!channels> -> tensor<2x3x1x!channels>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_transpose_repeats: expected-error@+1 {{'nn.transpose' needs a permutation of 2 dimensions, got [1, 1]}}
%0 = nn.transpose %x {permutation = array<i64: 1, 1>} : tensor<2x3xf32> -> tensor<3x3xf32>

// -----

!channels = !quant.uniform<i8:f32:0, {0.5, 0.25}>
%x = "test.op"() : () -> tensor<2x3x!channels>
// transpose_per_axis: expected-error@+1 {{'nn.transpose' moves values, so its quantized types must be per tensor}}
%0 = nn.transpose %x {permutation = array<i64: 0, 1>} : tensor<2x3x!channels> -> tensor<2x3x!channels>

// -----

%x, %y = "test.op"() : () -> (tensor<2x3xf32>, tensor<3x3xf32>)
// c1_concat_shape: expected-error@+1 {{'nn.concat' needs operands that differ along axis 1 only, got tensor<2x3xf32>, tensor<3x3xf32>}}
%0 = nn.concat %x, %y {axis = 1 : i64} : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x6xf32>

// -----

%x, %y = "test.op"() : () -> (tensor<2xi8>, tensor<2xi16>)
// c1_concat_element: expected-error@+1 {{'nn.concat' needs operands that differ along axis 0 only, got tensor<2xi8>, tensor<2xi16>}}
%0 = nn.concat %x, %y {axis = 0 : i64} : tensor<2xi8>, tensor<2xi16> -> tensor<4xi8>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// c1_concat_axis: expected-error@+1 {{'nn.concat' needs operands that differ along axis -1 only, got tensor<2xf32>, tensor<2xf32>}}
%0 = nn.concat %x, %x {axis = -1 : i64} : tensor<2xf32>, tensor<2xf32> -> tensor<4xf32>

// -----

%x, %y = "test.op"() : () -> (tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.25>>)
// concat_scales: expected-error@+1 {{'nn.concat' needs one quantized type for all operands and results, got !quant.uniform<i8:f32, 5.000000e-01> and !quant.uniform<i8:f32, 2.500000e-01>; put an nn.requantize before the operand that differs}}
%0 = nn.concat %x, %y {axis = 0 : i64} : tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.25>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_pad_count: expected-error@+1 {{'nn.pad' needs 2 paddings low and high, none negative}}
%0 = nn.pad %x {low = array<i64: 1>, high = array<i64: 1, 1>, value = 0.0 : f32} : tensor<2x3xf32> -> tensor<3x4xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_pad_negative: expected-error@+1 {{'nn.pad' needs 2 paddings low and high, none negative}}
%0 = nn.pad %x {low = array<i64: 0, -1>, high = array<i64: 1, 1>, value = 0.0 : f32} : tensor<2x3xf32> -> tensor<3x3xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// f1_pad_float_with_integer: expected-error@+1 {{'nn.pad' of f32 cannot pad with 0 : i8}}
%0 = nn.pad %x {low = array<i64: 1>, high = array<i64: 1>, value = 0 : i8} : tensor<2xf32> -> tensor<4xf32>

// -----

%x = "test.op"() : () -> tensor<2xi8>
// f1_pad_integer_with_float: expected-error@+1 {{'nn.pad' of i8 cannot pad with 0.000000e+00 : f32}}
%0 = nn.pad %x {low = array<i64: 1>, high = array<i64: 1>, value = 0.0 : f32} : tensor<2xi8> -> tensor<4xi8>

// -----

%x = "test.op"() : () -> tensor<2xi8>
// f1_pad_too_large: expected-error@+1 {{'nn.pad' of i8 cannot pad with 128 : i32, which it does not hold}}
%0 = nn.pad %x {low = array<i64: 1>, high = array<i64: 1>, value = 128 : i32} : tensor<2xi8> -> tensor<4xi8>

// -----

!a = !quant.uniform<i8:f32, 0.5>
%x = "test.op"() : () -> tensor<2x!a>
// f2_pad_nan: expected-error@+1 {{'nn.pad' of quantized values cannot pad with NaN}}
%0 = nn.pad %x {low = array<i64: 1>, high = array<i64: 1>, value = 0x7fc00000 : f32} : tensor<2x!a> -> tensor<4x!a>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_dilate_count: expected-error@+1 {{'nn.dilate' needs 2 dilations of at least 1, got [2]}}
%0 = nn.dilate %x {dilations = array<i64: 2>, value = 0.0 : f32} : tensor<2x3xf32> -> tensor<3x5xf32>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_dilate_zero: expected-error@+1 {{'nn.dilate' needs 2 dilations of at least 1, got [0, 2]}}
%0 = nn.dilate %x {dilations = array<i64: 0, 2>, value = 0.0 : f32} : tensor<2x3xf32> -> tensor<1x5xf32>

// -----

%x = "test.op"() : () -> tensor<2xf32>
// f1_dilate_float_with_integer: expected-error@+1 {{'nn.dilate' of f32 cannot pad with 0 : i8}}
%0 = nn.dilate %x {dilations = array<i64: 2>, value = 0 : i8} : tensor<2xf32> -> tensor<3xf32>

// -----

%x = "test.op"() : () -> tensor<2xi8>
// f1_dilate_too_large: expected-error@+1 {{'nn.dilate' of i8 cannot pad with 128 : i32, which it does not hold}}
%0 = nn.dilate %x {dilations = array<i64: 2>, value = 128 : i32} : tensor<2xi8> -> tensor<3xi8>

// -----

!a = !quant.uniform<i8:f32, 0.5>
%x = "test.op"() : () -> tensor<2x!a>
// f2_dilate_nan: expected-error@+1 {{'nn.dilate' of quantized values cannot pad with NaN}}
%0 = nn.dilate %x {dilations = array<i64: 2>, value = 0x7fc00000 : f32} : tensor<2x!a> -> tensor<3x!a>

// -----

!channels = !quant.uniform<i8:f32:0, {0.5, 0.25}>
%x = "test.op"() : () -> tensor<2x3x!channels>
// dilate_per_axis: expected-error@+1 {{'nn.dilate' moves values, so its quantized types must be per tensor}}
%0 = nn.dilate %x {dilations = array<i64: 1, 2>, value = 0.0 : f32} : tensor<2x3x!channels> -> tensor<2x5x!channels>

// -----

!a = !quant.uniform<i8:f32, 0.5>
!b = !quant.uniform<i8:f32, 0.25>
%x = "test.op"() : () -> tensor<2x!a>
// dilate_to_another_scale: expected-error@+1 {{'nn.dilate' needs one quantized type for all operands and results}}
%0 = nn.dilate %x {dilations = array<i64: 2>, value = 0.0 : f32} : tensor<2x!a> -> tensor<3x!b>

// -----

!channels = !quant.uniform<i8:f32:0, {0.5, 0.25}>
%x = "test.op"() : () -> tensor<2x3x!channels>
// pad_per_axis: expected-error@+1 {{'nn.pad' moves values, so its quantized types must be per tensor}}
%0 = nn.pad %x {low = array<i64: 0, 1>, high = array<i64: 0, 1>, value = 0.0 : f32} : tensor<2x3x!channels> -> tensor<2x5x!channels>

// -----

%x = "test.op"() : () -> tensor<2x3xf32>
// c1_broadcast: expected-error@+1 {{'nn.broadcast' cannot repeat [2, 3] to [4, 3]}}
%0 = nn.broadcast %x {shape = array<i64: 4, 3>} : tensor<2x3xf32> -> tensor<4x3xf32>

// -----

%x = "test.op"() : () -> tensor<1xf32>
// c1_broadcast_negative: expected-error@+1 {{'nn.broadcast' needs a shape without negative dimensions, got [-1]}}
%0 = nn.broadcast %x {shape = array<i64: -1>} : tensor<1xf32> -> tensor<1xf32>

// What constants and data movement refuse: (C1) to (C3), and scales for each channel, which would move to others.

// RUN: qmlir-opt --split-input-file --verify-diagnostics %s

func.func @c1_constant_type() {
  // expected-error@+1 {{'nn.constant' result #0 must be tensor<2xi8> as its operands imply, got tensor<2xi16>}}
  %0 = nn.constant <tensor<2xi8>, [1, 2]> : tensor<2xi16>
  func.return
}

// -----

func.func @c1_constant_storage() {
  // expected-error@+1 {{'nn.constant' of type tensor<2x!quant.uniform<i8:f32, 5.000000e-01>> must hold tensor<2xi8>, got tensor<2xi16>}}
  %0 = nn.constant <tensor<2xi16>, [1, 2]> : tensor<2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @c1_reshape_count(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'nn.reshape' cannot turn [2, 3] into [5]}}
  %0 = nn.reshape %x {shape = array<i64: 5>} : tensor<2x3xf32> -> tensor<5xf32>
  func.return
}

// -----

func.func @c1_reshape_negative(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'nn.reshape' cannot turn [2, 3] into [-2, -3]}}
  %0 = nn.reshape %x {shape = array<i64: -2, -3>} : tensor<2x3xf32> -> tensor<6xf32>
  func.return
}

// -----

!channels = !quant.uniform<i8:f32:0, {0.5, 0.25}>
func.func @reshape_per_axis(%x: tensor<2x3x!channels>) {
  // expected-error@+1 {{'nn.reshape' moves values, so its quantized types must be per tensor, got 2 scales along axis 0; move the values before they are quantized, or quantize them per tensor}}
  %0 = nn.reshape %x {shape = array<i64: 2, 3, 1>} : tensor<2x3x!channels> -> tensor<2x3x1x!channels>
  func.return
}

// -----

func.func @c1_transpose_repeats(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'nn.transpose' needs a permutation of 2 dimensions, got [1, 1]}}
  %0 = nn.transpose %x {permutation = array<i64: 1, 1>} : tensor<2x3xf32> -> tensor<3x3xf32>
  func.return
}

// -----

!channels = !quant.uniform<i8:f32:0, {0.5, 0.25}>
func.func @transpose_per_axis(%x: tensor<2x3x!channels>) {
  // expected-error@+1 {{'nn.transpose' moves values, so its quantized types must be per tensor}}
  %0 = nn.transpose %x {permutation = array<i64: 0, 1>} : tensor<2x3x!channels> -> tensor<2x3x!channels>
  func.return
}

// -----

func.func @c1_concat_shape(%x: tensor<2x3xf32>, %y: tensor<3x3xf32>) {
  // expected-error@+1 {{'nn.concat' needs operands that differ along axis 1 only, got tensor<2x3xf32>, tensor<3x3xf32>}}
  %0 = nn.concat %x, %y {axis = 1 : i64} : tensor<2x3xf32>, tensor<3x3xf32> -> tensor<2x6xf32>
  func.return
}

// -----

func.func @c1_concat_element(%x: tensor<2xi8>, %y: tensor<2xi16>) {
  // expected-error@+1 {{'nn.concat' needs operands that differ along axis 0 only, got tensor<2xi8>, tensor<2xi16>}}
  %0 = nn.concat %x, %y {axis = 0 : i64} : tensor<2xi8>, tensor<2xi16> -> tensor<4xi8>
  func.return
}

// -----

func.func @c1_concat_axis(%x: tensor<2xf32>) {
  // expected-error@+1 {{'nn.concat' needs operands that differ along axis -1 only, got tensor<2xf32>, tensor<2xf32>}}
  %0 = nn.concat %x, %x {axis = -1 : i64} : tensor<2xf32>, tensor<2xf32> -> tensor<4xf32>
  func.return
}

// -----

func.func @concat_scales(%x: tensor<2x!quant.uniform<i8:f32, 0.5>>, %y: tensor<2x!quant.uniform<i8:f32, 0.25>>) {
  // expected-error@+1 {{'nn.concat' needs one quantized type for all operands and results, got !quant.uniform<i8:f32, 5.000000e-01> and !quant.uniform<i8:f32, 2.500000e-01>; put an nn.requantize before the operand that differs}}
  %0 = nn.concat %x, %y {axis = 0 : i64} : tensor<2x!quant.uniform<i8:f32, 0.5>>, tensor<2x!quant.uniform<i8:f32, 0.25>> -> tensor<4x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// -----

func.func @c1_pad_count(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'nn.pad' needs 2 paddings low and high, none negative}}
  %0 = nn.pad %x {low = array<i64: 1>, high = array<i64: 1, 1>, value = 0.0 : f32} : tensor<2x3xf32> -> tensor<3x4xf32>
  func.return
}

// -----

func.func @c1_pad_negative(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'nn.pad' needs 2 paddings low and high, none negative}}
  %0 = nn.pad %x {low = array<i64: 0, -1>, high = array<i64: 1, 1>, value = 0.0 : f32} : tensor<2x3xf32> -> tensor<3x3xf32>
  func.return
}

// -----

func.func @f1_pad_float_with_integer(%x: tensor<2xf32>) {
  // expected-error@+1 {{'nn.pad' of f32 cannot pad with 0 : i8}}
  %0 = nn.pad %x {low = array<i64: 1>, high = array<i64: 1>, value = 0 : i8} : tensor<2xf32> -> tensor<4xf32>
  func.return
}

// -----

func.func @f1_pad_integer_with_float(%x: tensor<2xi8>) {
  // expected-error@+1 {{'nn.pad' of i8 cannot pad with 0.000000e+00 : f32}}
  %0 = nn.pad %x {low = array<i64: 1>, high = array<i64: 1>, value = 0.0 : f32} : tensor<2xi8> -> tensor<4xi8>
  func.return
}

// -----

func.func @f1_pad_too_large(%x: tensor<2xi8>) {
  // expected-error@+1 {{'nn.pad' of i8 cannot pad with 128 : i32, which it does not hold}}
  %0 = nn.pad %x {low = array<i64: 1>, high = array<i64: 1>, value = 128 : i32} : tensor<2xi8> -> tensor<4xi8>
  func.return
}

// -----

!a = !quant.uniform<i8:f32, 0.5>
func.func @f2_pad_nan(%x: tensor<2x!a>) {
  // expected-error@+1 {{'nn.pad' of quantized values cannot pad with NaN}}
  %0 = nn.pad %x {low = array<i64: 1>, high = array<i64: 1>, value = 0x7fc00000 : f32} : tensor<2x!a> -> tensor<4x!a>
  func.return
}

// -----

func.func @c1_dilate_count(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'nn.dilate' needs 2 dilations of at least 1, got [2]}}
  %0 = nn.dilate %x {dilations = array<i64: 2>, value = 0.0 : f32} : tensor<2x3xf32> -> tensor<3x5xf32>
  func.return
}

// -----

func.func @c1_dilate_zero(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'nn.dilate' needs 2 dilations of at least 1, got [0, 2]}}
  %0 = nn.dilate %x {dilations = array<i64: 0, 2>, value = 0.0 : f32} : tensor<2x3xf32> -> tensor<1x5xf32>
  func.return
}

// -----

func.func @f1_dilate_float_with_integer(%x: tensor<2xf32>) {
  // expected-error@+1 {{'nn.dilate' of f32 cannot pad with 0 : i8}}
  %0 = nn.dilate %x {dilations = array<i64: 2>, value = 0 : i8} : tensor<2xf32> -> tensor<3xf32>
  func.return
}

// -----

func.func @f1_dilate_too_large(%x: tensor<2xi8>) {
  // expected-error@+1 {{'nn.dilate' of i8 cannot pad with 128 : i32, which it does not hold}}
  %0 = nn.dilate %x {dilations = array<i64: 2>, value = 128 : i32} : tensor<2xi8> -> tensor<3xi8>
  func.return
}

// -----

!a = !quant.uniform<i8:f32, 0.5>
func.func @f2_dilate_nan(%x: tensor<2x!a>) {
  // expected-error@+1 {{'nn.dilate' of quantized values cannot pad with NaN}}
  %0 = nn.dilate %x {dilations = array<i64: 2>, value = 0x7fc00000 : f32} : tensor<2x!a> -> tensor<3x!a>
  func.return
}

// -----

!channels = !quant.uniform<i8:f32:0, {0.5, 0.25}>
func.func @dilate_per_axis(%x: tensor<2x3x!channels>) {
  // expected-error@+1 {{'nn.dilate' moves values, so its quantized types must be per tensor}}
  %0 = nn.dilate %x {dilations = array<i64: 1, 2>, value = 0.0 : f32} : tensor<2x3x!channels> -> tensor<2x5x!channels>
  func.return
}

// -----

!a = !quant.uniform<i8:f32, 0.5>
!b = !quant.uniform<i8:f32, 0.25>
func.func @dilate_to_another_scale(%x: tensor<2x!a>) {
  // expected-error@+1 {{'nn.dilate' needs one quantized type for all operands and results}}
  %0 = nn.dilate %x {dilations = array<i64: 2>, value = 0.0 : f32} : tensor<2x!a> -> tensor<3x!b>
  func.return
}

// -----

!channels = !quant.uniform<i8:f32:0, {0.5, 0.25}>
func.func @pad_per_axis(%x: tensor<2x3x!channels>) {
  // expected-error@+1 {{'nn.pad' moves values, so its quantized types must be per tensor}}
  %0 = nn.pad %x {low = array<i64: 0, 1>, high = array<i64: 0, 1>, value = 0.0 : f32} : tensor<2x3x!channels> -> tensor<2x5x!channels>
  func.return
}

// -----

func.func @c1_broadcast(%x: tensor<2x3xf32>) {
  // expected-error@+1 {{'nn.broadcast' cannot repeat [2, 3] to [4, 3]}}
  %0 = nn.broadcast %x {shape = array<i64: 4, 3>} : tensor<2x3xf32> -> tensor<4x3xf32>
  func.return
}

// -----

func.func @c1_broadcast_negative(%x: tensor<1xf32>) {
  // expected-error@+1 {{'nn.broadcast' needs a shape without negative dimensions, got [-1]}}
  %0 = nn.broadcast %x {shape = array<i64: -1>} : tensor<1xf32> -> tensor<1xf32>
  func.return
}

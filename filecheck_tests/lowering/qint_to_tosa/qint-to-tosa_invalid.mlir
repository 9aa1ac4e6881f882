// RUN: qmlir-opt --qint-to-tosa --split-input-file --verify-diagnostics %s

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{nn.relu "activation": has no form in tosa: only integers, data movement and casts leave; run --nn-to-qint first}}
  %y = nn.relu %x {qmlir.name = #qmlir.name<tensors ["activation"]>} : tensor<4xf32> -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<1x4xf32>) -> tensor<1x4xf32> {
  // expected-error @+1 {{nn.softmax "nn.softmax": has no form in tosa}}
  %y = nn.softmax %x {axis = 1 : i64} : tensor<1x4xf32> -> tensor<1x4xf32>
  func.return %y : tensor<1x4xf32>
}

// -----

func.func @main(%x: tensor<4xi32>) -> tensor<4xi8> {
  // expected-error @+1 {{needs a contract of single, shift, double: tosa.rescale rounds in no other way, got float_even; lower it with one of these}}
  %y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "float_even", min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// -----

func.func @main(%x: tensor<2x2xi32>) -> tensor<2x2xi8> {
  // expected-error @+1 {{needs a contract of single, shift, double: tosa.rescale rounds in no other way, got upup; lower it with one of these}}
  %y = qint.requantize %x {multiplier = array<i32: 1073741824, 1073741824>, shift = array<i32: -4, 0>, contract = "upup", min = -128 : i32, max = 127 : i32} : tensor<2x2xi32> -> tensor<2x2xi8>
  func.return %y : tensor<2x2xi8>
}

// -----

func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
  // expected-error @+1 {{needs shifts of at most 29 in tosa, got 30; store the result more coarsely}}
  %y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 30>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<4xi8> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// -----

func.func @main(%x: tensor<4xi32>) -> tensor<4xi8> {
  // expected-error @+1 {{takes no zero point off an i32 in tosa, got 3; subtract it before}}
  %y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "single", input_zero_point = 3 : i32, min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// -----

func.func @main(%x: tensor<4xi32>) -> tensor<4xi32> {
  // expected-error @+1 {{needs accumulators below 2^30 in tosa, which i32 goes beyond, got a result in [-2147483648, 2147483647] that shows it; store the result in at most 16 bits}}
  %y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: 0>, contract = "single", min = -2147483648 : i32, max = 2147483647 : i32} : tensor<4xi32> -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}

// -----

func.func @main(%x: tensor<1x2x2x1xi8>, %w: tensor<1x2x2x1xi8>) -> tensor<1x2x1x1xi32> {
  // expected-error @+1 {{needs a zero point that i8 holds, got 200; choose one within its range}}
  %y = qint.conv2d %x, %w {zero_point = 200 : i32, padding = array<i64: 1, 0, 0, 0>} : tensor<1x2x2x1xi8>, tensor<1x2x2x1xi8> -> tensor<1x2x1x1xi32>
  func.return %y : tensor<1x2x1x1xi32>
}

// -----

func.func @main(%x: tensor<1x4xi16>, %w: tensor<2x4xi8>) -> tensor<1x2xi32> {
  // expected-error @+1 {{sums products of i8 in tosa, got i16, i8; quantize it with precision=int8}}
  %y = qint.fully_connected %x, %w : tensor<1x4xi16>, tensor<2x4xi8> -> tensor<1x2xi32>
  func.return %y : tensor<1x2xi32>
}

// -----

func.func @main(%x: tensor<1x2x2x1xi16>) -> tensor<1x1x1x1xi16> {
  // expected-error @+1 {{qint.average_pool2d "qint.average_pool2d": sums products of i8 in tosa, got i16}}
  %y = qint.average_pool2d %x {window = array<i64: 2, 2>} : tensor<1x2x2x1xi16> -> tensor<1x1x1x1xi16>
  func.return %y : tensor<1x1x1x1xi16>
}

// -----

func.func @main(%x: tensor<1x2x2x1xi32>) -> tensor<1x1x1x1xi32> {
  // expected-error @+1 {{takes maxima of i8 and i16 in tosa, got i32; use precision=int8}}
  %y = qint.max_pool2d %x {window = array<i64: 2, 2>} : tensor<1x2x2x1xi32> -> tensor<1x1x1x1xi32>
  func.return %y : tensor<1x1x1x1xi32>
}

// -----

func.func @main(%x: tensor<4xi16>) -> tensor<4xi16> {
  // expected-error @+1 {{has no exact sum in 32 bits, which is what tosa adds in}}
  %y = qint.add %x, %x {multipliers = array<i64: 2147483647, 2147483647>, shift = 31 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<4xi16>, tensor<4xi16> -> tensor<4xi16>
  func.return %y : tensor<4xi16>
}

// -----

func.func @main(%x: tensor<4xi16>) -> tensor<4xi32> {
  // expected-error @+1 {{needs products that 32 bits hold in tosa, got up to 4294836225; quantize with precision=int8}}
  %y = qint.mul %x, %x {lhs_zero_point = 32767 : i32, rhs_zero_point = 32767 : i32} : tensor<4xi16>, tensor<4xi16> -> tensor<4xi32>
  func.return %y : tensor<4xi32>
}

// -----

func.func @main() -> tensor<2xi1> {
  // expected-error @+1 {{has no constants of one bit upstream, got bool[2]}}
  %y = nn.constant <tensor<2xi1>, [true, false]> : tensor<2xi1>
  func.return %y : tensor<2xi1>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i16:f32, 0.5>> {
  // expected-error @+1 {{needs storage of 8 bits in tosa, got !quant.uniform<i16:f32, 5.000000e-01>; quantize it with precision=int8}}
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i16:f32, 0.5>>
  func.return %q : tensor<4x!quant.uniform<i16:f32, 0.5>>
}

// -----

func.func @main(%x: tensor<4xf64>) -> tensor<4x!quant.uniform<i8:f64, 0.5>> {
  // expected-error @+1 {{needs an expressed type of f32}}
  %q = quant.qcast %x : tensor<4xf64> to tensor<4x!quant.uniform<i8:f64, 0.5>>
  func.return %q : tensor<4x!quant.uniform<i8:f64, 0.5>>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4x!quant.uniform<i8:f32, 1.0e-31>> {
  // expected-error @+1 {{needs scales in [2^-100, 2^100] in tosa}}
  %q = quant.qcast %x : tensor<4xf32> to tensor<4x!quant.uniform<i8:f32, 1.0e-31>>
  func.return %q : tensor<4x!quant.uniform<i8:f32, 1.0e-31>>
}

// -----

func.func @main(%x: tensor<0x3xi8>) -> tensor<3x0xi8> {
  // expected-error @+1 {{has no form in tosa without elements, got tensor<0x3xi8>; leave it out}}
  %y = nn.transpose %x {permutation = array<i64: 1, 0>} : tensor<0x3xi8> -> tensor<3x0xi8>
  func.return %y : tensor<3x0xi8>
}

// -----

// expected-error @+1 {{func.func "main": needs a body of one block, got 2; networks have no branches}}
func.func @main(%x: tensor<3xi8>) -> tensor<3xi8> {
  cf.br ^bb1
^bb1:
  func.return %x : tensor<3xi8>
}

// -----

func.func @main(%x: i32) -> i32 {
  // expected-error @+1 {{arith.addi "arith.addi": has no form in tosa}}
  %y = arith.addi %x, %x : i32
  func.return %y : i32
}

// -----

func.func @main(%x: tensor<4xi32>) -> tensor<4xi8> {
  // expected-error @+1 {{needs a contract of single, shift, double: tosa.rescale rounds in no other way, got float_sum; lower it with one of these}}
  %y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "float_sum", before = 131 : i32, min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// -----

func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
  // expected-error @+1 {{qint.float_add "qint.float_add": has no exact form in tosa, which has no fused multiply-add of floats; load the model with numerics=default, or lower it with --qint-to-linalg}}
  %y = qint.float_add %x, %x {ratios = array<i32: 12582912, -24, 8388608, -23>, constant = array<i32: 8388608, -23>, min = -128 : i32, max = 127 : i32} : tensor<4xi8>, tensor<4xi8> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// -----

func.func @main(%x: tensor<4xi8>, %i: tensor<3xi64>) -> tensor<3xi8> {
  // expected-error @+1 {{nn.gather "nn.gather": needs indices of i32 in tosa, got i64; make the input i32}}
  %y = nn.gather %x, %i {axis = 0 : i64} : tensor<4xi8>, tensor<3xi64> -> tensor<3xi8>
  func.return %y : tensor<3xi8>
}

// -----

func.func @main(%x: tensor<4xi1>, %i: tensor<3xi32>) -> tensor<3xi1> {
  // expected-error @+1 {{gathers no truth values in tosa, got tensor<1x4x1xi1>; use i8}}
  %y = nn.gather %x, %i {axis = 0 : i64} : tensor<4xi1>, tensor<3xi32> -> tensor<3xi1>
  func.return %y : tensor<3xi1>
}

// -----

func.func @main(%x: tensor<4xi64>) -> tensor<2x2xi64> {
  // expected-error @+1 {{has no form in tosa on elements of 64 bits, got tensor<2x2xi64>; use i32 or f32}}
  %y = nn.reshape %x {shape = array<i64: 2, 2>} : tensor<4xi64> -> tensor<2x2xi64>
  func.return %y : tensor<2x2xi64>
}

// -----

func.func @main(%x: tensor<8192xi8>, %u: tensor<4096xi8>, %i: tensor<4096x1xi32>) -> tensor<8192xi8> {
  // expected-error @+1 {{compares each row with each update in tosa, at most 16777216 pairs, got 8192 rows and 4096 updates; lower it with --qint-to-linalg}}
  %y = nn.scatter_nd %x, %u, %i : tensor<8192xi8>, tensor<4096xi8>, tensor<4096x1xi32> -> tensor<8192xi8>
  func.return %y : tensor<8192xi8>
}

// -----

func.func @main(%x: tensor<4xui8>) -> tensor<1xui8> {
  // expected-error @+1 {{compares signed integers of up to 32 bits in tosa, got ui8; store it as i8}}
  %y = nn.reduce_max %x {axes = array<i64: 0>} : tensor<4xui8> -> tensor<1xui8>
  func.return %y : tensor<1xui8>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<1xf32> {
  // expected-error @+1 {{compares integers of 8 bits and more, got f32}}
  %y = nn.reduce_max %x {axes = array<i64: 0>} : tensor<4xf32> -> tensor<1xf32>
  func.return %y : tensor<1xf32>
}

// -----

func.func @main(%x: tensor<2x3xi8>) -> tensor<2x1xi32> {
  %w = nn.constant <tensor<1x3xi16>, [-10, 118, 246]> : tensor<1x3xi16>
  // expected-error @+1 {{sums products of i8 in tosa, got i8, i16}}
  %acc = qint.fully_connected %x, %w : tensor<2x3xi8>, tensor<1x3xi16> -> tensor<2x1xi32>
  func.return %acc : tensor<2x1xi32>
}

// -----

func.func @main(%x: tensor<4xi8>) -> tensor<4xi8> {
  // expected-error @+1 {{rounds each operand by itself, which is not written in tosa; load the model with numerics=default, or lower it with --qint-to-linalg}}
  %y = qint.rescaled_add %x, %x {left = 20 : i32, multipliers = array<i32: 1073741824, 1431655765, 1431655765>, shifts = array<i32: 0, -1, -18>, operand_contract = "double", contract = "double", min = -128 : i32, max = 127 : i32} : tensor<4xi8>, tensor<4xi8> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// -----

func.func @main(%x: tensor<1x4xi8>, %w: tensor<2x4xi8>) -> tensor<1x2xi64> {
  // expected-error @+1 {{has no form in tosa on elements of 64 bits, got tensor<1x2xi64>; use i32 or f32}}
  %y = qint.fully_connected %x, %w : tensor<1x4xi8>, tensor<2x4xi8> -> tensor<1x2xi64>
  func.return %y : tensor<1x2xi64>
}

// -----

func.func @main(%x: tensor<4xi32>) -> tensor<4xi8> {
  // expected-error @+1 {{needs a contract of single, shift, double: tosa.rescale rounds in no other way, got reduced16; lower it with one of these}}
  %y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "reduced16", min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

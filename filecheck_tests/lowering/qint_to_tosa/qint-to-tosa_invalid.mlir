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

// -----

func.func @main(%x: tensor<4x5xi8>) -> tensor<4x5xi8> {
  // expected-error @+1 {{divides by a sum of 64 bits, and tosa divides integers of 32 only}}
  %y = qint.softmax %x, <tensor<256xi32>, "0x00000040cdcccc3c5c8fc239643bdf36d3de20347ba08531dbbe0b2fea8eb12cf87a752a9f015628bdb45126813867247a429522c198da201e11361f4390a61d0c092b1ccb7bc21a9bf56b19b98f2618f06ef116fec2cb150bc6b41424bcab13bcf2af1232c0c0116383dd1038a30510428e380f58ba750e3aa4bc0d37cf0c0ddbc4650c9d14c70b9553300b341ca10afe0d190a4bcd970907031d097a5ca8080d8b39081a44d007b2406c07763d0d0763fab206ab3a5d0689c40b061c61be0541dc740571042f059eaaec0416a2ad0462c071042add38041bd20204cd7acf03a9b49e03d45e7003165a4403c8881a03becef2023411cd02bf36a90235278702a6cb6602440e48025ada2a023c1c0f0239c1f40190b7db0162eec301aa55ad012ede970179798301cc1970011cb25d0101364c01b4993b0104d22b0151d41c0180960e01fa0e0101a134f400ccfee7004265dc003160d1002fe8c6002df6bc007783b300b189aa00cf02a20011e999000437920077e78a007df583006a5c7d00cb177700682371003c7b6b00791b660080006100e0265c00558b5700c42a53003a024f00ea0e4b002b4e470076bd4300635a4000ab223d0022143a00ba2c37007e6a340091cb3100304e2f00aef02c0072b12a00f98e2800d3872600a29a24001ac62200ff08210026621f0070d01d00d1521c0047e81a00dd8f1900ab481800d61117008bea150004d2140084c7130057ca1200d3d9110055f51000441c10000d4e0f00268a0e000bd00d003d1f0d0047770c00b7d70b0021400b001fb00a0051270a005aa50900e229090097b40800294508004ddb0700bc7607003317070070bc0600386606004e1406007ec60500917c0500573605009ff304003eb4040007780400d43e04007c080400dcd40300d1a303003a750300f7480300eb1e0300f9f6020006d10200f9ac0200b98a0200306a0200474b0200ea2d02000512020084f7010057de01006dc60100b4af01001e9a01009d85010022720100a05f01000b4e0100573d0100792d0100671e0100151001007a0201008ef5000046e900009ddd000088d2000001c8000001be000081b400007bab0000e8a20000c29a000006930000ac8b0000b08400000d7e0000c0770000c3710000136c0000ac66000089610000a95c000007580000a0530000724f0000794b0000b34700001d440000b5400000793d0000663a00007b370000b534000012320000912f0000302d0000ee2a0000c8280000be260000ce240000f7220000382100008e1f0000fb1d00007b1c00000e1b0000b41900006b1800003217000009160000ef140000e3130000e5120000f31100000d11000033100000640f00009f0e0000e40d0000320d0000890c0000e80b0000500b0000bf0a0000360a0000b309000037090000c1080000"> {axis = 1 : i64, unit = 1048576 : i64, division = "exact", zero_point = -128 : i32, min = -128 : i32, max = 127 : i32} : tensor<4x5xi8> -> tensor<4x5xi8>
  func.return %y : tensor<4x5xi8>
}

// -----

func.func @main(%x: tensor<4xi16>) -> tensor<4xi16> {
  // expected-error @+1 {{needs neighbouring entries less than 2^15 apart in tosa, got 40000}}
  %y = qint.interpolated_lookup %x, <tensor<513xi16>, "0x0000000000000000000000000000e0b1204e000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000"> : tensor<4xi16> -> tensor<4xi16>
  func.return %y : tensor<4xi16>
}

// -----

func.func @main(%x: tensor<1x2x3xi8>) -> tensor<1x1x3xi8> {
  // expected-error @+1 {{rounds a mean half_away, in a way that is not written in tosa; load the model with numerics=default, or lower it with --qint-to-linalg}}
  %y = qint.interpolate %x {axes = array<i64: 1>, taps = [#qmlir.weights<tensor<1x2xi64>, [0, 1]>], weights = [#qmlir.weights<tensor<1x2xi32>, [3, 1]>], bits = array<i32: 2>, rounding = "half_away"} : tensor<1x2x3xi8> -> tensor<1x1x3xi8>
  func.return %y : tensor<1x1x3xi8>
}

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
  %y = qint.requantize %x {multiplier = array<i32: 1073741824>, shift = array<i32: -4>, contract = "float_sum", constant = array<i32: 8585216, -16>, min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
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

// -----

func.func @main(%x: tensor<2x3xi8>) -> tensor<2x3xi8> {
  // expected-error @+1 {{qint.l2_normalization "qint.l2_normalization": divides by a root in 64 bits, and tosa has no integers so wide}}
  %0 = qint.l2_normalization %x {axis = 1 : i64, multiplier = 1073741824 : i32, shift = 8 : i32, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<2x3xi8> -> tensor<2x3xi8>
  func.return %0 : tensor<2x3xi8>
}

// -----

func.func @main(%x: tensor<2x3xi8>) -> tensor<2x3xi32> {
  // expected-error @+1 {{qint.log_softmax "qint.log_softmax": takes the logarithm of a sum of 64 bits, and tosa has no integers so wide}}
  %0 = qint.log_softmax %x, <tensor<256xi32>, "0x0000004061f1e03c34dbe839e9d61537ac1566343ddfd731d490692f139c192d0d86e62a4fe6ce28f965d126e6beec24d7ba1f23b1326921ba0dc81fec403b1e46cec11c29c45a1bc03c051a6c5dc01836568b174d61651685c24d15dec6431416c44613371856123129711176649710a23ec80f1933030fb9c3470e8778950d5fdfeb0cb38b4a0c3c16b10bbf1c1f0bca41940a7a2c100a42889209b5041b095255a90852313d087d53d607f87974072166170764dcbe0612a46a0642871a06ad52ce0589d5850570e140053e4aff04f7e5c004aa8c85045a184d04e2641704e44fe403abb8b3031d808503a38859031ab62f03baed07030d16e202d916be0213d99b02d1467b02374b5c0272d23e02a4c92202da1e080202c1ee01df9fd60100acbf01b2d6a901fc11950193508101d1856e01afa55c01bba44b0113783b015c152c01bc721d01d7860f01c148020102b0f50089b4e900a94ede001877d300e526c9007657bf008202b6001122ad0074b0a40044a89c005b049500d7bf8d0010d68600984280003c017a00f80d740000656e00b10269009ce3630077045f0026625a00b0f9550043c8510030cb4d00eaff49000264460029f542002db13f00f7953c0089a13900ffd136008d2534007c9a31002c2f2f0010e22c00b0b12a00a49c280097a1260045bf240079f422000d402100e9a01f0005161e00639e1c0014391b0031e51900e2a11800576e1700cc49160086331500d22a1400062f1300833f1200ae5b1100f5821000cfb40f00b6f00e002d360e00be840d00f5db0c00683b0c00b0a20b006a110b003a870a00c8030a00be860900ce0f0900aa9e08000c330800accc07004b6b0700aa0e07008eb60600bd620600031306002cc70500087f0500693a050023f904000bbb0400fb7f0400cc4704005b12040085df030029af03002a81030068550300c92b03003204030089de0200b6ba0200a398020038780200635902000e3c0200282002009e05020060ec01005cd4010085bd0100caa701001f930100767f0100c26c0100f85a01000c4a0100f4390100a42a0100131c0100380e01000b01010081f4000095e800003ddd000073d200002fc800006cbe000022b500004dac0000e6a30000e79b00004d940000118d000030860000a57f00006b7900007f730000dd6d000081680000696300008f5e0000f359000090550000645100006b4d0000a54900000d460000a3420000633f00004b3c00005b3900008e360000e53300005d310000f52e0000ab2c00007d2a00006b2800007226000092240000c9220000172100007a1f0000f11d00007b1c0000181b0000c519000084180000511700002e16000019150000121400001713000029120000461100006f100000a10f0000de0e0000250e0000740d0000cc0c00002c0c0000">, <tensor<256xi32>, "0x00000000cdccccff9a9999ff666666ff333333ff000000ffcdccccfe9a9999fe666666fe333333fe000000fecdccccfd9a9999fd666666fd333333fd000000fdcdccccfc9a9999fc666666fc333333fc000000fccdccccfb9a9999fb666666fb333333fb000000fbcdccccfa9a9999fa666666fa333333fa000000facdccccf99a9999f9666666f9333333f9000000f9cdccccf89a9999f8666666f8333333f8000000f8cdccccf79a9999f7666666f7333333f7000000f7cdccccf69a9999f6666666f6333333f6000000f6cdccccf59a9999f5666666f5333333f5000000f5cdccccf49a9999f4666666f4333333f4000000f4cdccccf39a9999f3666666f3333333f3000000f3cdccccf29a9999f2666666f2333333f2000000f2cdccccf19a9999f1666666f1333333f1000000f1cdccccf09a9999f0666666f0333333f0000000f0cdccccef9a9999ef666666ef333333ef000000efcdccccee9a9999ee666666ee333333ee000000eecdcccced9a9999ed666666ed333333ed000000edcdccccec9a9999ec666666ec333333ec000000eccdcccceb9a9999eb666666eb333333eb000000ebcdccccea9a9999ea666666ea333333ea000000eacdcccce99a9999e9666666e9333333e9000000e9cdcccce89a9999e8666666e8333333e8000000e8cdcccce79a9999e7666666e7333333e7000000e7cdcccce69a9999e6666666e6333333e6000000e6cdcccce59a9999e5666666e5333333e5000000e5cdcccce49a9999e4666666e4333333e4000000e4cdcccce39a9999e3666666e3333333e3000000e3cdcccce29a9999e2666666e2333333e2000000e2cdcccce19a9999e1666666e1333333e1000000e1cdcccce09a9999e0666666e0333333e0000000e0cdccccdf9a9999df666666df333333df000000dfcdccccde9a9999de666666de333333de000000decdccccdd9a9999dd666666dd333333dd000000ddcdccccdc9a9999dc666666dc333333dc000000dccdccccdb9a9999db666666db333333db000000dbcdccccda9a9999da666666da333333da000000dacdccccd99a9999d9666666d9333333d9000000d9cdccccd89a9999d8666666d8333333d8000000d8cdccccd79a9999d7666666d7333333d7000000d7cdccccd69a9999d6666666d6333333d6000000d6cdccccd59a9999d5666666d5333333d5000000d5cdccccd49a9999d4666666d4333333d4000000d4cdccccd39a9999d3666666d3333333d3000000d3cdccccd29a9999d2666666d2333333d2000000d2cdccccd19a9999d1666666d1333333d1000000d1cdccccd09a9999d0666666d0333333d0000000d0cdcccccf9a9999cf666666cf333333cf000000cfcdccccce9a9999ce666666ce333333ce000000cecdcccccd9a9999cd666666cd333333cd000000cd"> {axis = 1 : i64, integer_bits = 1 : i32} : tensor<2x3xi8> -> tensor<2x3xi32>
  func.return %0 : tensor<2x3xi32>
}

// -----

func.func @main(%x: tensor<4xi16>) -> tensor<4xi16> {
  // expected-error @+1 {{qint.div "qint.div": multiplies by a reciprocal in 64 bits, and tosa has no integers so wide}}
  %0 = qint.div %x, %x {multiplier = 1073741824 : i32, shift = 3 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<4xi16>, tensor<4xi16> -> tensor<4xi16>
  func.return %0 : tensor<4xi16>
}

// -----

func.func @layer_norm(%x: tensor<2x3xi8>) -> tensor<2x3xi8> {
  // expected-error @+1 {{qint.layer_norm "qint.layer_norm": divides by a root in 64 bits, and tosa has no integers so wide}}
  %0 = qint.layer_norm %x {axis = 1 : i64, end = 2 : i64, multiplier = 1073741824 : i32, shift = 20 : i32, fraction = 27 : i32, epsilon = 0 : i64, min = -128 : i32, max = 127 : i32} : tensor<2x3xi8> -> tensor<2x3xi8>
  func.return %0 : tensor<2x3xi8>
}

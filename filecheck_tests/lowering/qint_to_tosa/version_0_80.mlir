// RUN: qmlir-opt --qint-to-tosa=version=0.80 %s | filecheck %s

// Constants are attributes where 1.0 has operands.
// CHECK-LABEL: func.func @contractions
// CHECK: "tosa.const"() {value = dense<0> : tensor<1xi32>}
// CHECK: "tosa.conv2d"(%x, %w, %{{[0-9]+}}) {pad = array<i64: 1, 1, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, quantization_info = #tosa.conv_quant<input_zp = -5, weight_zp = 0>}
// CHECK: "tosa.reshape"(%a) {new_shape = array<i64: 1, 2, 3>}
// CHECK: "tosa.tile"(%{{[0-9]+}}) {multiples = array<i64: 2, 1, 1>}
// CHECK: "tosa.matmul"(%{{[0-9]+}}, %b) {quantization_info = #tosa.matmul_quant<a_zp = 1, b_zp = 2>}
func.func @contractions(%x: tensor<1x4x4x2xi8>, %w: tensor<1x3x2x2xi8>, %a: tensor<2x3xi8>, %b: tensor<2x3x4xi8>) -> (tensor<1x4x3x1xi32>, tensor<2x2x4xi32>) {
  %0 = qint.conv2d %x, %w {zero_point = -5 : i32, padding = array<i64: 1, 1, 0, 0>} : tensor<1x4x4x2xi8>, tensor<1x3x2x2xi8> -> tensor<1x4x3x1xi32>
  %1 = qint.matmul %a, %b {lhs_zero_point = 1 : i32, rhs_zero_point = 2 : i32} : tensor<2x3xi8>, tensor<2x3x4xi8> -> tensor<2x2x4xi32>
  func.return %0, %1 : tensor<1x4x3x1xi32>, tensor<2x2x4xi32>
}

// CHECK-LABEL: func.func @requantize
// CHECK-NEXT: "tosa.rescale"(%x) {input_zp = 0 : i32, output_zp = 3 : i32, multiplier = array<i32: 1500000000>, shift = array<i8: 35>, scale32 = true, double_round = true, per_channel = false}
// CHECK-NEXT: "tosa.clamp"(%{{[0-9]+}}) {min_int = 3 : i64, max_int = 127 : i64, min_fp = 0.000000e+00 : f32, max_fp = 0.000000e+00 : f32}
func.func @requantize(%x: tensor<4xi32>) -> tensor<4xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1500000000>, shift = array<i32: -4>, contract = "double", zero_point = 3 : i32, min = 3 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// CHECK-LABEL: func.func @mul
// CHECK: "tosa.mul"({{.*}}) {shift = 0 : i8}
func.func @mul(%a: tensor<4xi8>, %b: tensor<4xi8>) -> tensor<4xi32> {
  %acc = qint.mul %a, %b : tensor<4xi8>, tensor<4xi8> -> tensor<4xi32>
  func.return %acc : tensor<4xi32>
}

// CHECK-LABEL: func.func @average
// CHECK: "tosa.depthwise_conv2d"
// CHECK: "tosa.int_div"
func.func @average(%x: tensor<1x5x4x2xi8>) -> tensor<1x2x3x2xi8> {
  %y = qint.average_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 1>} : tensor<1x5x4x2xi8> -> tensor<1x2x3x2xi8>
  func.return %y : tensor<1x2x3x2xi8>
}

// CHECK-LABEL: func.func @movement
// CHECK: "tosa.const"() {value = dense<[1, 0]> : tensor<2xi32>}
// CHECK: "tosa.transpose"(%x, %{{[0-9]+}})
// CHECK: "tosa.const"() {value = dense<{{\[\[}}1, 0], [0, 2]]> : tensor<2x2xi32>}
// CHECK: "tosa.const"() {value = dense<5> : tensor<i8>}
// CHECK: "tosa.pad"
func.func @movement(%x: tensor<4x6xi8>) -> tensor<7x6xi8> {
  %a = nn.transpose %x {permutation = array<i64: 1, 0>} : tensor<4x6xi8> -> tensor<6x4xi8>
  %b = nn.pad %a {low = array<i64: 1, 0>, high = array<i64: 0, 2>, value = 5 : i8} : tensor<6x4xi8> -> tensor<7x6xi8>
  func.return %b : tensor<7x6xi8>
}

// CHECK-LABEL: func.func @slice
// CHECK: "tosa.slice"(%x) {start = array<i64: 0, 0, 0, 0>, size = array<i64: 1, 4, 4, 2>}
func.func @slice(%x: tensor<1x5x4x2xi8>) -> tensor<1x2x2x2xi8> {
  %y = qint.max_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x5x4x2xi8> -> tensor<1x2x2x2xi8>
  func.return %y : tensor<1x2x2x2xi8>
}

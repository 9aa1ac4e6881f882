// RUN: qmlir-opt --tosa-to-nn %s | filecheck %s

// TOSA 0.80, as LLVM 19 prints it.
// CHECK-LABEL: func.func @floats(%x: tensor<1x4x4x2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %w: tensor<3x2x2x2xf32> {qmlir.name = #qmlir.name<tensors ["w"]>}, %b: tensor<3xf32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<2x9xf32>
// CHECK-NEXT:    %{{.*}} = nn.conv2d %x, %w, %b : tensor<1x4x4x2xf32>, tensor<3x2x2x2xf32>, tensor<3xf32> -> tensor<1x3x3x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.clamp %{{.*}} {min = 0.000000e+00 : f32, max = 6.000000e+00 : f32} : tensor<1x3x3x3xf32> -> tensor<1x3x3x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.average_pool2d %{{.*}} {window = array<i64: 2, 2>} : tensor<1x3x3x3xf32> -> tensor<1x2x2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.mul %{{.*}}, %{{.*}} : tensor<1x2x2x3xf32>, tensor<1x2x2x3xf32> -> tensor<1x2x2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.neg %{{.*}} : tensor<1x2x2x3xf32> -> tensor<1x2x2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.reduce_prod %{{.*}} {axes = array<i64: 1>} : tensor<1x2x2x3xf32> -> tensor<1x1x2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %{{.*}} {shape = array<i64: 2, 3>} : tensor<1x1x2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.pad %{{.*}} {low = array<i64: 0, 1>, high = array<i64: 0, 2>, value = 0.000000e+00 : f32} : tensor<2x3xf32> -> tensor<2x6xf32>
// CHECK-NEXT:    %{{.*}} = nn.slice %{{.*}} {offsets = array<i64: 0, 1>, sizes = array<i64: 2, 3>, strides = array<i64: 1, 1>} : tensor<2x6xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.transpose %{{.*}} {permutation = array<i64: 1, 0>} : tensor<2x3xf32> -> tensor<3x2xf32>
// CHECK-NEXT:    %{{.*}} = nn.transpose %{{.*}} {permutation = array<i64: 1, 0>} : tensor<3x2xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %{{.*}} {shape = array<i64: 1, 2, 1, 3>} : tensor<2x3xf32> -> tensor<1x2x1x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.broadcast %{{.*}} {shape = array<i64: 1, 2, 3, 3>} : tensor<1x2x1x3xf32> -> tensor<1x2x3x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %{{.*}} {shape = array<i64: 2, 9>} : tensor<1x2x3x3xf32> -> tensor<2x9xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<2x9xf32>
func.func @floats(%x: tensor<1x4x4x2xf32>, %w: tensor<3x2x2x2xf32>, %b: tensor<3xf32>) -> tensor<2x9xf32> {
  %0 = tosa.conv2d %x, %w, %b {dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xf32>, tensor<3x2x2x2xf32>, tensor<3xf32>) -> tensor<1x3x3x3xf32>
  %1 = tosa.clamp %0 {max_fp = 6.000000e+00 : f32, max_int = 6 : i64, min_fp = 0.000000e+00 : f32, min_int = 0 : i64} : (tensor<1x3x3x3xf32>) -> tensor<1x3x3x3xf32>
  %2 = tosa.avg_pool2d %1 {acc_type = f32, kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x3x3x3xf32>) -> tensor<1x2x2x3xf32>
  %3 = tosa.mul %2, %2 {shift = 0 : i8} : (tensor<1x2x2x3xf32>, tensor<1x2x2x3xf32>) -> tensor<1x2x2x3xf32>
  %4 = tosa.negate %3 : (tensor<1x2x2x3xf32>) -> tensor<1x2x2x3xf32>
  %5 = tosa.reduce_prod %4 {axis = 1 : i32} : (tensor<1x2x2x3xf32>) -> tensor<1x1x2x3xf32>
  %6 = tosa.reshape %5 {new_shape = array<i64: 2, -1>} : (tensor<1x1x2x3xf32>) -> tensor<2x3xf32>
  %p = "tosa.const"() <{value = dense<[[0, 0], [1, 2]]> : tensor<2x2xi32>}> : () -> tensor<2x2xi32>
  %7 = tosa.pad %6, %p : (tensor<2x3xf32>, tensor<2x2xi32>) -> tensor<2x6xf32>
  %8 = tosa.slice %7 {size = array<i64: 2, 3>, start = array<i64: 0, 1>} : (tensor<2x6xf32>) -> tensor<2x3xf32>
  %q = "tosa.const"() <{value = dense<[1, 0]> : tensor<2xi32>}> : () -> tensor<2xi32>
  %9 = tosa.transpose %8, %q : (tensor<2x3xf32>, tensor<2xi32>) -> tensor<3x2xf32>
  %10 = tosa.transpose %9, %q : (tensor<3x2xf32>, tensor<2xi32>) -> tensor<2x3xf32>
  %11 = tosa.tile %10 {multiples = array<i64: 1, 3>} : (tensor<2x3xf32>) -> tensor<2x9xf32>
  return %11 : tensor<2x9xf32>
}

// CHECK-LABEL: func.func @fully_connected(%x: tensor<2x8xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %b: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<2x4xf32>
// CHECK-NEXT:    %w = nn.constant <tensor<4x8xf32>, [0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]> {qmlir.name = #qmlir.name<tensors ["w"]>} : tensor<4x8xf32>
// CHECK-NEXT:    %{{.*}} = nn.fully_connected %x, %w, %b : tensor<2x8xf32>, tensor<4x8xf32>, tensor<4xf32> -> tensor<2x4xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<2x4xf32>
func.func @fully_connected(%x: tensor<2x8xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %w = "tosa.const"() <{value = dense<0.5> : tensor<4x8xf32>}> : () -> tensor<4x8xf32>
  %0 = tosa.fully_connected %x, %w, %b : (tensor<2x8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<2x4xf32>
  return %0 : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @quantized(%x: tensor<1x1x2x1xi8> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x1x1x1xi8>
// CHECK-NEXT:    %{{.*}} = quant.scast %x : tensor<1x1x2x1xi8> to tensor<1x1x2x1x!quant.uniform<i8:f32, 1.000000e+00:5>>
// CHECK-NEXT:    %w = nn.constant <tensor<1x1x2x1xi8>, [3, -4]> {qmlir.name = #qmlir.name<tensors ["w"]>} : tensor<1x1x2x1x!quant.uniform<i8<-127:127>:f32, 1.875000e-01>>
// CHECK-NEXT:    %b = nn.constant <tensor<1xi32>, [7]> {qmlir.name = #qmlir.name<tensors ["b"]>} : tensor<1xi32>
// CHECK-NEXT:    %{{.*}} = nn.conv2d %{{.*}}, %w, %b : tensor<1x1x2x1x!quant.uniform<i8:f32, 1.000000e+00:5>>, tensor<1x1x2x1x!quant.uniform<i8<-127:127>:f32, 1.875000e-01>>, tensor<1xi32> -> tensor<1x1x1x1x!quant.uniform<i8:f32, 1.000000e+00:-7>>
// CHECK-NEXT:    %{{.*}} = quant.scast %{{.*}} : tensor<1x1x1x1x!quant.uniform<i8:f32, 1.000000e+00:-7>> to tensor<1x1x1x1xi8>
// CHECK-NEXT:    func.return %{{.*}} : tensor<1x1x1x1xi8>
func.func @quantized(%x: tensor<1x1x2x1xi8>) -> tensor<1x1x1x1xi8> {
  %w = "tosa.const"() <{value = dense<[[[[3], [-4]]]]> : tensor<1x1x2x1xi8>}> : () -> tensor<1x1x2x1xi8>
  %b = "tosa.const"() <{value = dense<7> : tensor<1xi32>}> : () -> tensor<1xi32>
  %0 = tosa.conv2d %x, %w, %b {dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, quantization_info = #tosa.conv_quant<input_zp = 5, weight_zp = 0>, stride = array<i64: 1, 1>} : (tensor<1x1x2x1xi8>, tensor<1x1x2x1xi8>, tensor<1xi32>) -> tensor<1x1x1x1xi32>
  %1 = tosa.rescale %0 {double_round = false, input_zp = 0 : i32, multiplier = array<i32: 1610612736>, output_zp = -7 : i32, per_channel = false, scale32 = true, shift = array<i8: 33>} : (tensor<1x1x1x1xi32>) -> tensor<1x1x1x1xi8>
  return %1 : tensor<1x1x1x1xi8>
}

// CHECK-LABEL: func.func @integers(%a: tensor<1x4x4x2xi8> {qmlir.name = #qmlir.name<tensors ["a"]>}, %i: tensor<2x3xi32> {qmlir.name = #qmlir.name<tensors ["i"]>}, %m: tensor<1x2x3xi8> {qmlir.name = #qmlir.name<tensors ["m"]>}, %n: tensor<1x3x2xi8> {qmlir.name = #qmlir.name<tensors ["n"]>}) -> (tensor<1x2x2x2xi8>, tensor<2x3xi32>, tensor<1x2x2xi32>)
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<1x2x2x2xi8>, [1, 1, 1, 1, 1, 1, 1, 1]> : tensor<1x2x2x2xi8>
// CHECK-NEXT:    %{{.*}} = qint.depthwise_conv2d %a, %{{.*}} {strides = array<i64: 2, 2>, zero_point = 1 : i32} : tensor<1x4x4x2xi8>, tensor<1x2x2x2xi8> -> tensor<1x2x2x2xi32>
// CHECK-NEXT:    %{{.*}} = qint.requantize %{{.*}} {multiplier = array<i32: 1073741825>, shift = array<i32: -1>, contract = "single", zero_point = 2 : i32, min = -128 : i32, max = 127 : i32} : tensor<1x2x2x2xi32> -> tensor<1x2x2x2xi8>
// CHECK-NEXT:    %{{.*}} = nn.div %i, %i : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
// CHECK-NEXT:    %{{.*}} = qint.matmul %m, %n {lhs_zero_point = 3 : i32, rhs_zero_point = -4 : i32} : tensor<1x2x3xi8>, tensor<1x3x2xi8> -> tensor<1x2x2xi32>
// CHECK-NEXT:    func.return %{{.*}}, %{{.*}}, %{{.*}} : tensor<1x2x2x2xi8>, tensor<2x3xi32>, tensor<1x2x2xi32>
func.func @integers(%a: tensor<1x4x4x2xi8>, %i: tensor<2x3xi32>, %m: tensor<1x2x3xi8>, %n: tensor<1x3x2xi8>) -> (tensor<1x2x2x2xi8>, tensor<2x3xi32>, tensor<1x2x2xi32>) {
  %0 = tosa.avg_pool2d %a {acc_type = i32, kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, quantization_info = #tosa.unary_quant<input_zp = 1, output_zp = 2>, stride = array<i64: 2, 2>} : (tensor<1x4x4x2xi8>) -> tensor<1x2x2x2xi8>
  %1 = tosa.int_div %i, %i : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %2 = tosa.matmul %m, %n {quantization_info = #tosa.matmul_quant<a_zp = 3, b_zp = -4>} : (tensor<1x2x3xi8>, tensor<1x3x2xi8>) -> tensor<1x2x2xi32>
  return %0, %1, %2 : tensor<1x2x2x2xi8>, tensor<2x3xi32>, tensor<1x2x2xi32>
}

// CHECK-LABEL: func.func @windows(%x: tensor<1x4x4x2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %w: tensor<2x2x2x1xf32> {qmlir.name = #qmlir.name<tensors ["w"]>}, %b: tensor<2xf32> {qmlir.name = #qmlir.name<tensors ["b"]>}, %t: tensor<3x2x2x2xf32> {qmlir.name = #qmlir.name<tensors ["t"]>}, %c: tensor<3xf32> {qmlir.name = #qmlir.name<tensors ["c"]>}) -> (tensor<1x3x3x2xf32>, tensor<1x5x5x3xf32>, tensor<1x8x8x2xf32>)
// CHECK-NEXT:    %{{.*}} = nn.reshape %w {shape = array<i64: 1, 2, 2, 2>} : tensor<2x2x2x1xf32> -> tensor<1x2x2x2xf32>
// CHECK-NEXT:    %{{.*}} = nn.depthwise_conv2d %x, %{{.*}}, %b : tensor<1x4x4x2xf32>, tensor<1x2x2x2xf32>, tensor<2xf32> -> tensor<1x3x3x2xf32>
// CHECK-NEXT:    %{{.*}} = nn.slice %t {offsets = array<i64: 0, 1, 1, 0>, sizes = array<i64: 3, 2, 2, 2>, strides = array<i64: 1, -1, -1, 1>} : tensor<3x2x2x2xf32> -> tensor<3x2x2x2xf32>
// CHECK-NEXT:    %{{.*}} = nn.conv2d %x, %{{.*}}, %c {padding = array<i64: 1, 1, 1, 1>} : tensor<1x4x4x2xf32>, tensor<3x2x2x2xf32>, tensor<3xf32> -> tensor<1x5x5x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<8xi32>, [0, 1, 1, 2, 2, 3, 3, 3]> : tensor<8xi32>
// CHECK-NEXT:    %{{.*}} = nn.gather %x, %{{.*}} {axis = 1 : i64} : tensor<1x4x4x2xf32>, tensor<8xi32> -> tensor<1x8x4x2xf32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<8xi32>, [0, 1, 1, 2, 2, 3, 3, 3]> : tensor<8xi32>
// CHECK-NEXT:    %{{.*}} = nn.gather %{{.*}}, %{{.*}} {axis = 2 : i64} : tensor<1x8x4x2xf32>, tensor<8xi32> -> tensor<1x8x8x2xf32>
// CHECK-NEXT:    func.return %{{.*}}, %{{.*}}, %{{.*}} : tensor<1x3x3x2xf32>, tensor<1x5x5x3xf32>, tensor<1x8x8x2xf32>
func.func @windows(%x: tensor<1x4x4x2xf32>, %w: tensor<2x2x2x1xf32>, %b: tensor<2xf32>, %t: tensor<3x2x2x2xf32>, %c: tensor<3xf32>) -> (tensor<1x3x3x2xf32>, tensor<1x5x5x3xf32>, tensor<1x8x8x2xf32>) {
  %0 = tosa.depthwise_conv2d %x, %w, %b {dilation = array<i64: 1, 1>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xf32>, tensor<2x2x2x1xf32>, tensor<2xf32>) -> tensor<1x3x3x2xf32>
  %1 = tosa.transpose_conv2d %x, %t, %c {out_pad = array<i64: 0, 0, 0, 0>, out_shape = array<i64: 1, 5, 5, 3>, stride = array<i64: 1, 1>} : (tensor<1x4x4x2xf32>, tensor<3x2x2x2xf32>, tensor<3xf32>) -> tensor<1x5x5x3xf32>
  %2 = tosa.resize %x {border = array<i64: 1, 1>, mode = "NEAREST_NEIGHBOR", offset = array<i64: 0, 0>, scale = array<i64: 2, 1, 2, 1>} : (tensor<1x4x4x2xf32>) -> tensor<1x8x8x2xf32>
  return %0, %1, %2 : tensor<1x3x3x2xf32>, tensor<1x5x5x3xf32>, tensor<1x8x8x2xf32>
}

// RUN: qmlir-opt --convert-tosa-to-nn %s | filecheck %s

// A convolution and its rescale are a quantized layer; the weights' scale is the rescale's factor, the others are 1.
// CHECK-LABEL: func.func @layer(%x: tensor<1x1x2x1xi8> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x1x1x1xi8>
// CHECK-NEXT:    %{{.*}} = quant.scast %x : tensor<1x1x2x1xi8> to tensor<1x1x2x1x!quant.uniform<i8:f32, 1.000000e+00:5>>
// CHECK-NEXT:    %w = nn.constant <tensor<1x1x2x1xi8>, [3, -4]> {qmlir.name = #qmlir.name<tensors ["w"]>} : tensor<1x1x2x1x!quant.uniform<i8<-127:127>:f32, 1.875000e-01>>
// CHECK-NEXT:    %b = nn.constant <tensor<1xi32>, [7]> {qmlir.name = #qmlir.name<tensors ["b"]>} : tensor<1xi32>
// CHECK-NEXT:    %y = nn.conv2d %{{.*}}, %w, %b {qmlir.name = #qmlir.name<tensors ["y"]>} : tensor<1x1x2x1x!quant.uniform<i8:f32, 1.000000e+00:5>>, tensor<1x1x2x1x!quant.uniform<i8<-127:127>:f32, 1.875000e-01>>, tensor<1xi32> -> tensor<1x1x1x1x!quant.uniform<i8:f32, 1.000000e+00:-7>>
// CHECK-NEXT:    %{{.*}} = quant.scast %y : tensor<1x1x1x1x!quant.uniform<i8:f32, 1.000000e+00:-7>> to tensor<1x1x1x1xi8>
// CHECK-NEXT:    func.return %{{.*}} : tensor<1x1x1x1xi8>
func.func @layer(%x: tensor<1x1x2x1xi8>) -> tensor<1x1x1x1xi8> {
  %w = "tosa.const"() <{values = dense<[[[[3], [-4]]]]> : tensor<1x1x2x1xi8>}> : () -> tensor<1x1x2x1xi8>
  %b = "tosa.const"() <{values = dense<7> : tensor<1xi32>}> : () -> tensor<1xi32>
  %xz = "tosa.const"() <{values = dense<5> : tensor<1xi8>}> : () -> tensor<1xi8>
  %wz = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %yz = "tosa.const"() <{values = dense<-7> : tensor<1xi8>}> : () -> tensor<1xi8>
  %zero = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %m = "tosa.const"() <{values = dense<1610612736> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<33> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.conv2d %x, %w, %b, %xz, %wz {pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = i32} : (tensor<1x1x2x1xi8>, tensor<1x1x2x1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x1x1xi32>
  %y = tosa.rescale %0, %m, %s, %zero, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<1x1x1x1xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x1x1x1xi8>
  func.return %y : tensor<1x1x1x1xi8>
}

// The clamp behind it is the layer's.
// CHECK-LABEL: func.func @clamped(%a: tensor<1x2x3xi8> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<1x3x2xi8> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<1x2x2xi8>
// CHECK-NEXT:    %{{.*}} = quant.scast %a : tensor<1x2x3xi8> to tensor<1x2x3x!quant.uniform<i8:f32, 1.000000e+00:5>>
// CHECK-NEXT:    %{{.*}} = quant.scast %b : tensor<1x3x2xi8> to tensor<1x3x2x!quant.uniform<i8:f32, 1.000000e+00:-1>>
// CHECK-NEXT:    %y = nn.matmul %{{.*}}, %{{.*}} {qmlir.name = #qmlir.name<tensors ["y"]>, max = 2.457600e+04 : f32} : tensor<1x2x3x!quant.uniform<i8:f32, 1.000000e+00:5>>, tensor<1x3x2x!quant.uniform<i8:f32, 1.000000e+00:-1>> -> tensor<1x2x2x!quant.uniform<i8:f32, 1.280000e+02:-128>>
// CHECK-NEXT:    %{{.*}} = quant.scast %y : tensor<1x2x2x!quant.uniform<i8:f32, 1.280000e+02:-128>> to tensor<1x2x2xi8>
// CHECK-NEXT:    func.return %{{.*}} : tensor<1x2x2xi8>
func.func @clamped(%a: tensor<1x2x3xi8>, %b: tensor<1x3x2xi8>) -> tensor<1x2x2xi8> {
  %az = "tosa.const"() <{values = dense<5> : tensor<1xi8>}> : () -> tensor<1xi8>
  %bz = "tosa.const"() <{values = dense<-1> : tensor<1xi8>}> : () -> tensor<1xi8>
  %yz = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
  %zero = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %m = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<37> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.matmul %a, %b, %az, %bz : (tensor<1x2x3xi8>, tensor<1x3x2xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2xi32>
  %1 = tosa.rescale %0, %m, %s, %zero, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<1x2x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x2x2xi8>
  %y = tosa.clamp %1 {min_val = -128 : i8, max_val = 64 : i8} : (tensor<1x2x2xi8>) -> tensor<1x2x2xi8>
  func.return %y : tensor<1x2x2xi8>
}

// A factor of 0 is no scale: the sums and their rescale stay.
// CHECK-LABEL: func.func @kept(%a: tensor<1x2x3xi8> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<1x3x2xi8> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<1x2x2xi8>
// CHECK-NEXT:    %{{.*}} = qint.matmul %a, %b : tensor<1x2x3xi8>, tensor<1x3x2xi8> -> tensor<1x2x2xi32>
// CHECK-NEXT:    %y = qint.requantize %{{.*}} {qmlir.name = #qmlir.name<tensors ["y"]>, multiplier = array<i32: 0>, shift = array<i32: 0>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<1x2x2xi32> -> tensor<1x2x2xi8>
// CHECK-NEXT:    func.return %y : tensor<1x2x2xi8>
func.func @kept(%a: tensor<1x2x3xi8>, %b: tensor<1x3x2xi8>) -> tensor<1x2x2xi8> {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %zero = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<37> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.matmul %a, %b, %z, %z : (tensor<1x2x3xi8>, tensor<1x3x2xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2xi32>
  %y = tosa.rescale %0, %zero, %s, %zero, %z {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<1x2x2xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<1x2x2xi8>
  func.return %y : tensor<1x2x2xi8>
}

// RUN: qmlir-opt --tosa-to-nn %s | filecheck %s

// CHECK-LABEL: func.func @conv2d(%x: tensor<1x4x4x2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %w: tensor<3x2x2x2xf32> {qmlir.name = #qmlir.name<tensors ["w"]>}, %b: tensor<3xf32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<1x4x3x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.conv2d %x, %w, %b {padding = array<i64: 1, 0, 0, 0>} : tensor<1x4x4x2xf32>, tensor<3x2x2x2xf32>, tensor<3xf32> -> tensor<1x4x3x3xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<1x4x3x3xf32>
func.func @conv2d(%x: tensor<1x4x4x2xf32>, %w: tensor<3x2x2x2xf32>, %b: tensor<3xf32>) -> tensor<1x4x3x3xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = tosa.conv2d %x, %w, %b, %z, %z {pad = array<i64: 1, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = f32} : (tensor<1x4x4x2xf32>, tensor<3x2x2x2xf32>, tensor<3xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x4x3x3xf32>
  func.return %0 : tensor<1x4x3x3xf32>
}

// A bias of zeros is none.
// CHECK-LABEL: func.func @depthwise_conv2d(%x: tensor<1x4x4x2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %w: tensor<2x2x2x2xf32> {qmlir.name = #qmlir.name<tensors ["w"]>}) -> tensor<1x3x3x4xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %w {shape = array<i64: 1, 2, 2, 4>} : tensor<2x2x2x2xf32> -> tensor<1x2x2x4xf32>
// CHECK-NEXT:    %{{.*}} = nn.depthwise_conv2d %x, %{{.*}} : tensor<1x4x4x2xf32>, tensor<1x2x2x4xf32> -> tensor<1x3x3x4xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<1x3x3x4xf32>
func.func @depthwise_conv2d(%x: tensor<1x4x4x2xf32>, %w: tensor<2x2x2x2xf32>) -> tensor<1x3x3x4xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = tosa.depthwise_conv2d %x, %w, %z, %z, %z {pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = f32} : (tensor<1x4x4x2xf32>, tensor<2x2x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x3x3x4xf32>
  func.return %0 : tensor<1x3x3x4xf32>
}

// CHECK-LABEL: func.func @transpose_conv2d(%x: tensor<1x4x4x2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %w: tensor<3x2x2x2xf32> {qmlir.name = #qmlir.name<tensors ["w"]>}) -> tensor<1x8x8x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.dilate %x {dilations = array<i64: 1, 2, 2, 1>, value = 0.000000e+00 : f32} : tensor<1x4x4x2xf32> -> tensor<1x7x7x2xf32>
// CHECK-NEXT:    %{{.*}} = nn.slice %w {offsets = array<i64: 0, 1, 1, 0>, sizes = array<i64: 3, 2, 2, 2>, strides = array<i64: 1, -1, -1, 1>} : tensor<3x2x2x2xf32> -> tensor<3x2x2x2xf32>
// CHECK-NEXT:    %{{.*}} = nn.conv2d %{{.*}}, %{{.*}} {padding = array<i64: 1, 1, 1, 1>} : tensor<1x7x7x2xf32>, tensor<3x2x2x2xf32> -> tensor<1x8x8x3xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<1x8x8x3xf32>
func.func @transpose_conv2d(%x: tensor<1x4x4x2xf32>, %w: tensor<3x2x2x2xf32>) -> tensor<1x8x8x3xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = tosa.transpose_conv2d %x, %w, %z, %z, %z {out_pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>, acc_type = f32} : (tensor<1x4x4x2xf32>, tensor<3x2x2x2xf32>, tensor<1xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x8x8x3xf32>
  func.return %0 : tensor<1x8x8x3xf32>
}

// A convolution of images of one pixel is a fully connected layer.
// CHECK-LABEL: func.func @dense(%x: tensor<2x3xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %w: tensor<4x1x1x3xf32> {qmlir.name = #qmlir.name<tensors ["w"]>}, %b: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<2x4xf32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %w {shape = array<i64: 4, 3>} : tensor<4x1x1x3xf32> -> tensor<4x3xf32>
// CHECK-NEXT:    %y = nn.fully_connected %x, %{{.*}}, %b {qmlir.name = #qmlir.name<tensors ["y"]>} : tensor<2x3xf32>, tensor<4x3xf32>, tensor<4xf32> -> tensor<2x4xf32>
// CHECK-NEXT:    func.return %y : tensor<2x4xf32>
func.func @dense(%x: tensor<2x3xf32>, %w: tensor<4x1x1x3xf32>, %b: tensor<4xf32>) -> tensor<2x4xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %i = tosa.const_shape {values = dense<[2, 1, 1, 3]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %o = tosa.const_shape {values = dense<[2, 4]> : tensor<2xindex>} : () -> !tosa.shape<2>
  %image = tosa.reshape %x, %i : (tensor<2x3xf32>, !tosa.shape<4>) -> tensor<2x1x1x3xf32>
  %0 = tosa.conv2d %image, %w, %b, %z, %z {pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = f32} : (tensor<2x1x1x3xf32>, tensor<4x1x1x3xf32>, tensor<4xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x1x1x4xf32>
  %y = tosa.reshape %0, %o : (tensor<2x1x1x4xf32>, !tosa.shape<2>) -> tensor<2x4xf32>
  func.return %y : tensor<2x4xf32>
}

// CHECK-LABEL: func.func @matmul(%a: tensor<2x3x4xf32> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<2x4x5xf32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<2x3x5xf32>
// CHECK-NEXT:    %{{.*}} = nn.matmul %a, %b : tensor<2x3x4xf32>, tensor<2x4x5xf32> -> tensor<2x3x5xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<2x3x5xf32>
func.func @matmul(%a: tensor<2x3x4xf32>, %b: tensor<2x4x5xf32>) -> tensor<2x3x5xf32> {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = tosa.matmul %a, %b, %z, %z : (tensor<2x3x4xf32>, tensor<2x4x5xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x3x5xf32>
  func.return %0 : tensor<2x3x5xf32>
}

// Sums without a rescale stay sums; 48 bits are 64. Weights lose their zero point.
// CHECK-LABEL: func.func @sums(%x: tensor<1x1x2x1xi8> {qmlir.name = #qmlir.name<tensors ["x"]>}, %v: tensor<1x1x2x1xi16> {qmlir.name = #qmlir.name<tensors ["v"]>}) -> (tensor<1x1x1x1xi32>, tensor<1x1x1x1xi64>)
// CHECK-NEXT:    %w = nn.constant <tensor<1x1x2x1xi8>, [2, -5]> {qmlir.name = #qmlir.name<tensors ["w"]>} : tensor<1x1x2x1xi8>
// CHECK-NEXT:    %b = nn.constant <tensor<1xi32>, [7]> {qmlir.name = #qmlir.name<tensors ["b"]>} : tensor<1xi32>
// CHECK-NEXT:    %{{.*}} = qint.conv2d %x, %w, %b {zero_point = 5 : i32} : tensor<1x1x2x1xi8>, tensor<1x1x2x1xi8>, tensor<1xi32> -> tensor<1x1x1x1xi32>
// CHECK-NEXT:    %w_1 = nn.constant <tensor<1x1x2x1xi8>, [2, -5]> {qmlir.name = #qmlir.name<tensors ["w"]>} : tensor<1x1x2x1xi8>
// CHECK-NEXT:    %c = nn.constant <tensor<1xi64>, [9]> {qmlir.name = #qmlir.name<tensors ["c"]>} : tensor<1xi64>
// CHECK-NEXT:    %{{.*}} = qint.conv2d %v, %w_1, %c : tensor<1x1x2x1xi16>, tensor<1x1x2x1xi8>, tensor<1xi64> -> tensor<1x1x1x1xi64>
// CHECK-NEXT:    func.return %{{.*}}, %{{.*}} : tensor<1x1x1x1xi32>, tensor<1x1x1x1xi64>
func.func @sums(%x: tensor<1x1x2x1xi8>, %v: tensor<1x1x2x1xi16>) -> (tensor<1x1x1x1xi32>, tensor<1x1x1x1xi48>) {
  %w = "tosa.const"() <{values = dense<[[[[3], [-4]]]]> : tensor<1x1x2x1xi8>}> : () -> tensor<1x1x2x1xi8>
  %b = "tosa.const"() <{values = dense<7> : tensor<1xi32>}> : () -> tensor<1xi32>
  %c = "tosa.const"() <{values = dense<9> : tensor<1xi48>}> : () -> tensor<1xi48>
  %xz = "tosa.const"() <{values = dense<5> : tensor<1xi8>}> : () -> tensor<1xi8>
  %vz = "tosa.const"() <{values = dense<0> : tensor<1xi16>}> : () -> tensor<1xi16>
  %wz = "tosa.const"() <{values = dense<1> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.conv2d %x, %w, %b, %xz, %wz {pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = i32} : (tensor<1x1x2x1xi8>, tensor<1x1x2x1xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x1x1x1xi32>
  %1 = tosa.conv2d %v, %w, %c, %vz, %wz {pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = i48} : (tensor<1x1x2x1xi16>, tensor<1x1x2x1xi8>, tensor<1xi48>, tensor<1xi16>, tensor<1xi8>) -> tensor<1x1x1x1xi48>
  func.return %0, %1 : tensor<1x1x1x1xi32>, tensor<1x1x1x1xi48>
}

// CHECK-LABEL: func.func @matmul_of_bytes(%a: tensor<2x3x4xi8> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<2x4x5xi8> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<2x3x5xi32>
// CHECK-NEXT:    %{{.*}} = qint.matmul %a, %b {lhs_zero_point = 5 : i32, rhs_zero_point = -9 : i32} : tensor<2x3x4xi8>, tensor<2x4x5xi8> -> tensor<2x3x5xi32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<2x3x5xi32>
func.func @matmul_of_bytes(%a: tensor<2x3x4xi8>, %b: tensor<2x4x5xi8>) -> tensor<2x3x5xi32> {
  %az = "tosa.const"() <{values = dense<5> : tensor<1xi8>}> : () -> tensor<1xi8>
  %bz = "tosa.const"() <{values = dense<-9> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.matmul %a, %b, %az, %bz : (tensor<2x3x4xi8>, tensor<2x4x5xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<2x3x5xi32>
  func.return %0 : tensor<2x3x5xi32>
}

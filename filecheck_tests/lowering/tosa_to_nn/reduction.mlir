// RUN: qmlir-opt --tosa-to-nn %s | filecheck %s

// CHECK-LABEL: func.func @reductions(%x: tensor<2x3x4x5xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x1x1x1xf32>
// CHECK-NEXT:    %{{.*}} = nn.reduce_sum %x {axes = array<i64: 0>} : tensor<2x3x4x5xf32> -> tensor<1x3x4x5xf32>
// CHECK-NEXT:    %{{.*}} = nn.reduce_max %{{.*}} {axes = array<i64: 1>} : tensor<1x3x4x5xf32> -> tensor<1x1x4x5xf32>
// CHECK-NEXT:    %{{.*}} = nn.reduce_min %{{.*}} {axes = array<i64: 2>} : tensor<1x1x4x5xf32> -> tensor<1x1x1x5xf32>
// CHECK-NEXT:    %{{.*}} = nn.reduce_prod %{{.*}} {axes = array<i64: 3>} : tensor<1x1x1x5xf32> -> tensor<1x1x1x1xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<1x1x1x1xf32>
func.func @reductions(%x: tensor<2x3x4x5xf32>) -> tensor<1x1x1x1xf32> {
  %0 = tosa.reduce_sum %x {axis = 0 : i32} : (tensor<2x3x4x5xf32>) -> tensor<1x3x4x5xf32>
  %1 = tosa.reduce_max %0 {axis = 1 : i32} : (tensor<1x3x4x5xf32>) -> tensor<1x1x4x5xf32>
  %2 = tosa.reduce_min %1 {axis = 2 : i32} : (tensor<1x1x4x5xf32>) -> tensor<1x1x1x5xf32>
  %3 = tosa.reduce_product %2 {axis = 3 : i32} : (tensor<1x1x1x5xf32>) -> tensor<1x1x1x1xf32>
  func.return %3 : tensor<1x1x1x1xf32>
}

// On truth values, "all" is the minimum and "any" the maximum.
// CHECK-LABEL: func.func @truths(%x: tensor<2x3xi1> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x1xi1>
// CHECK-NEXT:    %{{.*}} = nn.reduce_min %x {axes = array<i64: 0>} : tensor<2x3xi1> -> tensor<1x3xi1>
// CHECK-NEXT:    %{{.*}} = nn.reduce_max %{{.*}} {axes = array<i64: 1>} : tensor<1x3xi1> -> tensor<1x1xi1>
// CHECK-NEXT:    func.return %{{.*}} : tensor<1x1xi1>
func.func @truths(%x: tensor<2x3xi1>) -> tensor<1x1xi1> {
  %0 = tosa.reduce_all %x {axis = 0 : i32} : (tensor<2x3xi1>) -> tensor<1x3xi1>
  %1 = tosa.reduce_any %0 {axis = 1 : i32} : (tensor<1x3xi1>) -> tensor<1x1xi1>
  func.return %1 : tensor<1x1xi1>
}

// CHECK-LABEL: func.func @argmax(%x: tensor<2x3xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<2xi32>
// CHECK-NEXT:    %{{.*}} = nn.arg_max %x {axis = 1 : i64} : tensor<2x3xf32> -> tensor<2x1xi64>
// CHECK-NEXT:    %{{.*}} = nn.cast %{{.*}} : tensor<2x1xi64> -> tensor<2x1xi32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %{{.*}} {shape = array<i64: 2>} : tensor<2x1xi32> -> tensor<2xi32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<2xi32>
func.func @argmax(%x: tensor<2x3xf32>) -> tensor<2xi32> {
  %0 = tosa.argmax %x {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2xi32>
  func.return %0 : tensor<2xi32>
}

// CHECK-LABEL: func.func @pools(%x: tensor<1x4x4x2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>)
// CHECK-NEXT:    %{{.*}} = nn.max_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x4x4x2xf32> -> tensor<1x2x2x2xf32>
// CHECK-NEXT:    %{{.*}} = nn.average_pool2d %x {window = array<i64: 2, 2>, strides = array<i64: 2, 2>} : tensor<1x4x4x2xf32> -> tensor<1x2x2x2xf32>
// CHECK-NEXT:    func.return %{{.*}}, %{{.*}} : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
func.func @pools(%x: tensor<1x4x4x2xf32>) -> (tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>) {
  %z = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = tosa.max_pool2d %x {kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>} : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  %1 = tosa.avg_pool2d %x, %z, %z {kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, acc_type = f32} : (tensor<1x4x4x2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x2x2x2xf32>
  func.return %0, %1 : tensor<1x2x2x2xf32>, tensor<1x2x2x2xf32>
}

// The mean of integers multiplies by the reciprocal of TOSA's specification.
// CHECK-LABEL: func.func @average(%x: tensor<1x4x4x2xi8> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x2x2x2xi8>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<1x2x2x2xi8>, [1, 1, 1, 1, 1, 1, 1, 1]> : tensor<1x2x2x2xi8>
// CHECK-NEXT:    %{{.*}} = qint.depthwise_conv2d %x, %{{.*}} {strides = array<i64: 2, 2>, zero_point = 5 : i32} : tensor<1x4x4x2xi8>, tensor<1x2x2x2xi8> -> tensor<1x2x2x2xi32>
// CHECK-NEXT:    %{{.*}} = qint.requantize %{{.*}} {multiplier = array<i32: 1073741825>, shift = array<i32: -1>, contract = "single", zero_point = -3 : i32, min = -128 : i32, max = 127 : i32} : tensor<1x2x2x2xi32> -> tensor<1x2x2x2xi8>
// CHECK-NEXT:    func.return %{{.*}} : tensor<1x2x2x2xi8>
func.func @average(%x: tensor<1x4x4x2xi8>) -> tensor<1x2x2x2xi8> {
  %xz = "tosa.const"() <{values = dense<5> : tensor<1xi8>}> : () -> tensor<1xi8>
  %yz = "tosa.const"() <{values = dense<-3> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.avg_pool2d %x, %xz, %yz {kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, acc_type = i32} : (tensor<1x4x4x2xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x2x2xi8>
  func.return %0 : tensor<1x2x2x2xi8>
}

// CHECK-LABEL: func.func @resize(%x: tensor<1x2x2x1xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> (tensor<1x3x3x1xf32>, tensor<1x4x4x1xf32>)
// CHECK-NEXT:    %{{.*}} = nn.resize %x {axes = array<i64: 1, 2>, taps = [#qmlir.weights<tensor<3x2xi64>, [0, 1, 0, 1, 1, 1]>, #qmlir.weights<tensor<3x2xi64>, [0, 1, 0, 1, 1, 1]>], weights = [#qmlir.weights<tensor<3x2xf64>, [1.0, 0.0, 0.5, 0.5, 1.0, 0.0]>, #qmlir.weights<tensor<3x2xf64>, [1.0, 0.0, 0.5, 0.5, 1.0, 0.0]>]} : tensor<1x2x2x1xf32> -> tensor<1x3x3x1xf32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<4xi32>, [0, 1, 1, 1]> : tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.gather %x, %{{.*}} {axis = 1 : i64} : tensor<1x2x2x1xf32>, tensor<4xi32> -> tensor<1x4x2x1xf32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<4xi32>, [0, 1, 1, 1]> : tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.gather %{{.*}}, %{{.*}} {axis = 2 : i64} : tensor<1x4x2x1xf32>, tensor<4xi32> -> tensor<1x4x4x1xf32>
// CHECK-NEXT:    func.return %{{.*}}, %{{.*}} : tensor<1x3x3x1xf32>, tensor<1x4x4x1xf32>
func.func @resize(%x: tensor<1x2x2x1xf32>) -> (tensor<1x3x3x1xf32>, tensor<1x4x4x1xf32>) {
  %s = tosa.const_shape {values = dense<[2, 1, 2, 1]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %o = tosa.const_shape {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
  %b = tosa.const_shape {values = dense<1> : tensor<2xindex>} : () -> !tosa.shape<2>
  %0 = tosa.resize %x, %s, %o, %o {mode = BILINEAR} : (tensor<1x2x2x1xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x3x3x1xf32>
  %1 = tosa.resize %x, %s, %o, %b {mode = NEAREST_NEIGHBOR} : (tensor<1x2x2x1xf32>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x4x4x1xf32>
  func.return %0, %1 : tensor<1x3x3x1xf32>, tensor<1x4x4x1xf32>
}

// CHECK-LABEL: func.func @resize_bytes(%x: tensor<1x2x2x1xi8> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<1x3x3x1xi32>
// CHECK-NEXT:    %{{.*}} = qint.resize %x {axes = array<i64: 1, 2>, taps = [#qmlir.weights<tensor<3x2xi64>, [0, 1, 0, 1, 1, 1]>, #qmlir.weights<tensor<3x2xi64>, [0, 1, 0, 1, 1, 1]>], weights = [#qmlir.weights<tensor<3x2xi32>, [2, 0, 1, 1, 2, 0]>, #qmlir.weights<tensor<3x2xi32>, [2, 0, 1, 1, 2, 0]>]} : tensor<1x2x2x1xi8> -> tensor<1x3x3x1xi32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<1x3x3x1xi32>
func.func @resize_bytes(%x: tensor<1x2x2x1xi8>) -> tensor<1x3x3x1xi32> {
  %s = tosa.const_shape {values = dense<[2, 1, 2, 1]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %o = tosa.const_shape {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
  %0 = tosa.resize %x, %s, %o, %o {mode = BILINEAR} : (tensor<1x2x2x1xi8>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x3x3x1xi32>
  func.return %0 : tensor<1x3x3x1xi32>
}

// RUN: qmlir-opt %s | qmlir-opt | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

// Every operation, as LLVM 20 to 23 write it; printed in the form that all versions read.

// CHECK-LABEL: func.func @contractions
func.func @contractions(%x: tensor<1x4x5x3xi8>, %w: tensor<2x3x3x3xi8>, %b: tensor<2xi32>, %d: tensor<3x3x3x2xi8>, %db: tensor<1xi32>, %v: tensor<1x2x4x5x3xf32>, %k: tensor<2x1x1x1x3xf32>, %vb: tensor<2xf32>, %a: tensor<1x2x3xi8>, %c: tensor<1x3x?xi8>) {
  // CHECK: "tosa.const"
  %zp = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // CHECK: "tosa.const"
  %fz = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  // CHECK: "tosa.conv2d"
  %0 = tosa.conv2d %x, %w, %b, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 1>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>, local_bound = true} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x4x5x2xi32>
  // CHECK: "tosa.depthwise_conv2d"
  %1 = tosa.depthwise_conv2d %x, %d, %db, %zp, %zp {acc_type = i32, dilation = array<i64: 1, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>} : (tensor<1x4x5x3xi8>, tensor<3x3x3x2xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x1x6xi32>
  // CHECK: "tosa.transpose_conv2d"
  %2 = tosa.transpose_conv2d %x, %w, %b, %zp, %zp {acc_type = i32, out_pad = array<i64: 0, -1, 0, 0>, stride = array<i64: 2, 2>} : (tensor<1x4x5x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x8x11x2xi32>
  // CHECK: "tosa.conv3d"
  %3 = tosa.conv3d %v, %k, %vb, %fz, %fz {acc_type = f32, dilation = array<i64: 1, 1, 1>, pad = array<i64: 0, 0, 0, 0, 0, 0>, stride = array<i64: 1, 1, 1>} : (tensor<1x2x4x5x3xf32>, tensor<2x1x1x1x3xf32>, tensor<2xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x2x4x5x2xf32>
  // CHECK: "tosa.matmul"
  %4 = tosa.matmul %a, %c, %zp, %zp : (tensor<1x2x3xi8>, tensor<1x3x?xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x2x?xi32>
  func.return
}

// CHECK-LABEL: func.func @pools
func.func @pools(%x: tensor<1x6x4x3xi8>) {
  // CHECK: "tosa.const"
  %zp = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // CHECK: "tosa.max_pool2d"
  %0 = tosa.max_pool2d %x {kernel = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 2, 2>, nan_mode = IGNORE} : (tensor<1x6x4x3xi8>) -> tensor<1x3x2x3xi8>
  // CHECK: "tosa.avg_pool2d"
  %1 = tosa.avg_pool2d %x, %zp, %zp {acc_type = i32, kernel = array<i64: 3, 3>, pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>} : (tensor<1x6x4x3xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x6x4x3xi8>
  func.return
}

// CHECK-LABEL: func.func @unary
func.func @unary(%f: tensor<2x?xf32>, %i: tensor<2xi32>, %b: tensor<*xi1>) {
  // CHECK: "tosa.abs"
  %0 = tosa.abs %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.ceil"
  %2 = tosa.ceil %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.cos"
  %4 = tosa.cos %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.erf"
  %5 = tosa.erf %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.exp"
  %6 = tosa.exp %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.floor"
  %7 = tosa.floor %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.log"
  %8 = tosa.log %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.reciprocal"
  %10 = tosa.reciprocal %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.rsqrt"
  %11 = tosa.rsqrt %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.sigmoid"
  %12 = tosa.sigmoid %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.sin"
  %13 = tosa.sin %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.tanh"
  %14 = tosa.tanh %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.bitwise_not"
  %20 = tosa.bitwise_not %i : (tensor<2xi32>) -> tensor<2xi32>
  // CHECK: "tosa.clz"
  %21 = tosa.clz %i : (tensor<2xi32>) -> tensor<2xi32>
  // CHECK: "tosa.logical_not"
  %22 = tosa.logical_not %b : (tensor<*xi1>) -> tensor<*xi1>
  // CHECK: "tosa.clamp"
  %23 = tosa.clamp %f {min_val = -1.0 : f32, max_val = 1.0 : f32, nan_mode = IGNORE} : (tensor<2x?xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.cast"
  %24 = tosa.cast %f : (tensor<2x?xf32>) -> tensor<2x?xi8>
  // CHECK: "tosa.const"
  %fz = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  // CHECK: "tosa.negate"
  %25 = tosa.negate %f, %fz, %fz : (tensor<2x?xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<2x?xf32>
  // CHECK: "tosa.identity"
  %26 = tosa.identity %f : (tensor<2x?xf32>) -> tensor<2x?xf32>
  func.return
}

// CHECK-LABEL: func.func @binary
func.func @binary(%f: tensor<2x3xf32>, %g: tensor<1x3xf32>, %i: tensor<2x3xi32>, %j: tensor<2x1xi32>, %b: tensor<2xi1>) {
  // CHECK: "tosa.const"
  %zp = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // CHECK: "tosa.logical_and"
  %0 = tosa.logical_and %b, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  // CHECK: "tosa.logical_or"
  %1 = tosa.logical_or %b, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  // CHECK: "tosa.logical_xor"
  %2 = tosa.logical_xor %b, %b : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>
  // CHECK: "tosa.pow"
  %10 = tosa.pow %f, %g : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  // CHECK: "tosa.add"
  %11 = tosa.add %i, %j : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  // CHECK: "tosa.bitwise_and"
  %12 = tosa.bitwise_and %i, %j : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  // CHECK: "tosa.bitwise_or"
  %13 = tosa.bitwise_or %i, %j : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  // CHECK: "tosa.bitwise_xor"
  %14 = tosa.bitwise_xor %i, %j : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  // CHECK: "tosa.intdiv"
  %15 = tosa.intdiv %i, %j : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  // CHECK: "tosa.logical_left_shift"
  %17 = tosa.logical_left_shift %i, %j : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  // CHECK: "tosa.logical_right_shift"
  %19 = tosa.logical_right_shift %i, %j : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  // CHECK: "tosa.sub"
  %22 = tosa.sub %i, %j : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  // CHECK: "tosa.equal"
  %30 = tosa.equal %f, %g : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xi1>
  // CHECK: "tosa.greater"
  %31 = tosa.greater %f, %g : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xi1>
  // CHECK: "tosa.greater_equal"
  %32 = tosa.greater_equal %f, %g : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xi1>
  // CHECK: "tosa.maximum"
  %40 = tosa.maximum %f, %g {nan_mode = PROPAGATE} : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  // CHECK: "tosa.minimum"
  %41 = tosa.minimum %i, %j : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  // CHECK: "tosa.arithmetic_right_shift"
  %42 = tosa.arithmetic_right_shift %i, %j {round = true} : (tensor<2x3xi32>, tensor<2x1xi32>) -> tensor<2x3xi32>
  // CHECK: "tosa.mul"
  %43 = tosa.mul %i, %j, %zp : (tensor<2x3xi32>, tensor<2x1xi32>, tensor<1xi8>) -> tensor<2x3xi32>
  // CHECK: "tosa.select"
  %44 = tosa.select %30, %f, %g : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  func.return
}

// CHECK-LABEL: func.func @lookups
func.func @lookups(%x: tensor<4xi8>, %t: tensor<256xi8>, %w: tensor<4xi16>, %s: tensor<513xi16>, %v: tensor<2x5x3xf32>, %i: tensor<2x4xi32>, %u: tensor<2x4x3xf32>) {
  // CHECK: "tosa.table"
  %0 = tosa.table %x, %t : (tensor<4xi8>, tensor<256xi8>) -> tensor<4xi8>
  // CHECK: "tosa.table"
  %1 = tosa.table %w, %s : (tensor<4xi16>, tensor<513xi16>) -> tensor<4xi32>
  // CHECK: "tosa.gather"
  %2 = tosa.gather %v, %i : (tensor<2x5x3xf32>, tensor<2x4xi32>) -> tensor<2x4x3xf32>
  // CHECK: "tosa.scatter"
  %3 = tosa.scatter %v, %i, %u : (tensor<2x5x3xf32>, tensor<2x4xi32>, tensor<2x4x3xf32>) -> tensor<2x5x3xf32>
  func.return
}

// CHECK-LABEL: func.func @reductions
func.func @reductions(%x: tensor<2x3xf32>, %b: tensor<2x3xi1>) {
  // CHECK: "tosa.reduce_max"
  %0 = tosa.reduce_max %x {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  // CHECK: "tosa.reduce_min"
  %1 = tosa.reduce_min %x {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  // CHECK: "tosa.reduce_product"
  %2 = tosa.reduce_product %x {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  // CHECK: "tosa.reduce_sum"
  %3 = tosa.reduce_sum %x {axis = 1 : i32} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  // CHECK: "tosa.reduce_all"
  %4 = tosa.reduce_all %b {axis = 0 : i32} : (tensor<2x3xi1>) -> tensor<1x3xi1>
  // CHECK: "tosa.reduce_any"
  %5 = tosa.reduce_any %b {axis = 0 : i32} : (tensor<2x3xi1>) -> tensor<1x3xi1>
  // CHECK: "tosa.argmax"
  %6 = tosa.argmax %x {axis = 1 : i32, nan_mode = IGNORE} : (tensor<2x3xf32>) -> tensor<2xi32>
  func.return
}

// CHECK-LABEL: func.func @rescale
func.func @rescale(%x: tensor<3x2x!quant.uniform<i32:f32, 0.5>>, %y: tensor<4xi8>) {
  // CHECK: "tosa.const"
  %zp = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // CHECK: "tosa.const"
  %zero = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  // CHECK: "tosa.const"
  %m = "tosa.const"() <{values = dense<[1073741824, 1500000000]> : tensor<2xi32>}> : () -> tensor<2xi32>
  // CHECK: "tosa.const"
  %s = "tosa.const"() <{values = dense<[35, 36]> : tensor<2xi8>}> : () -> tensor<2xi8>
  // CHECK: "tosa.rescale"
  %0 = tosa.rescale %x, %m, %s, %zero, %zp {rounding_mode = DOUBLE_ROUND, scale32 = true, per_channel = true, input_unsigned = false, output_unsigned = false} : (tensor<3x2x!quant.uniform<i32:f32, 0.5>>, tensor<2xi32>, tensor<2xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<3x2x!quant.uniform<i8:f32, 0.5>>
  func.return
}

// CHECK-LABEL: func.func @movement
func.func @movement(%x: tensor<2x3xi8>) {
  // CHECK: "tosa.const"
  %zp = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // CHECK: "tosa.const_shape"
  %s = tosa.const_shape {values = dense<[3, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // CHECK: "tosa.const_shape"
  %p = tosa.const_shape {values = dense<[0, 1, 2, 0]> : tensor<4xindex>} : () -> !tosa.shape<4>
  // CHECK: "tosa.const_shape"
  %o = tosa.const_shape {values = dense<[1, 0]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // CHECK: "tosa.const_shape"
  %l = tosa.const_shape {values = dense<[1, 2]> : tensor<2xindex>} : () -> !tosa.shape<2>
  // CHECK: "tosa.reshape"
  %0 = tosa.reshape %x, %s : (tensor<2x3xi8>, !tosa.shape<2>) -> tensor<3x2xi8>
  // CHECK: "tosa.reshape"
  %1 = tosa.reshape %x, %s : (tensor<2x3xi8>, !tosa.shape<2>) -> tensor<?x?xi8>
  // CHECK: "tosa.pad"
  %2 = tosa.pad %x, %p, %zp : (tensor<2x3xi8>, !tosa.shape<4>, tensor<1xi8>) -> tensor<3x5xi8>
  // CHECK: "tosa.slice"
  %3 = tosa.slice %x, %o, %l : (tensor<2x3xi8>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x2xi8>
  // CHECK: "tosa.tile"
  %4 = tosa.tile %x, %s : (tensor<2x3xi8>, !tosa.shape<2>) -> tensor<6x6xi8>
  // CHECK: "tosa.transpose"
  %5 = tosa.transpose %x {perms = array<i32: 1, 0>} : (tensor<2x3xi8>) -> tensor<3x2xi8>
  // CHECK: "tosa.concat"
  %6 = tosa.concat %x, %x {axis = 0 : i32} : (tensor<2x3xi8>, tensor<2x3xi8>) -> tensor<4x3xi8>
  // CHECK: "tosa.reverse"
  %7 = tosa.reverse %x {axis = 1 : i32} : (tensor<2x3xi8>) -> tensor<2x3xi8>
  func.return
}

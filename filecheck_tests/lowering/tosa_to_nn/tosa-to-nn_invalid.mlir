// RUN: qmlir-opt --tosa-to-nn --split-input-file --verify-diagnostics %s

// expected-error @+1 {{func.func "main": needs arguments that are tensors of static shape, got tensor<?x4xf32>; export it with static shapes}}
func.func @main(%x: tensor<?x4xf32>) -> tensor<?x4xf32> {
  %0 = tosa.abs %x : (tensor<?x4xf32>) -> tensor<?x4xf32>
  func.return %0 : tensor<?x4xf32>
}

// -----

// expected-error @+1 {{needs arguments that are tensors of static shape, got tensor<*xf32>}}
func.func @main(%x: tensor<*xf32>) -> tensor<*xf32> {
  %0 = tosa.abs %x : (tensor<*xf32>) -> tensor<*xf32>
  func.return %0 : tensor<*xf32>
}

// -----

func.func @main(%x: tensor<1x1x4x4x2xf32>, %w: tensor<3x1x2x2x2xf32>, %b: tensor<3xf32>, %z: tensor<1xf32>) -> tensor<1x1x3x3x3xf32> {
  // expected-error @+1 {{tosa.conv3d "y": has no form in nn, whose windows have two dimensions; write it as convolutions of slices}}
  %y = tosa.conv3d %x, %w, %b, %z, %z {pad = array<i64: 0, 0, 0, 0, 0, 0>, stride = array<i64: 1, 1, 1>, dilation = array<i64: 1, 1, 1>, acc_type = f32} : (tensor<1x1x4x4x2xf32>, tensor<3x1x2x2x2xf32>, tensor<3xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<1x1x3x3x3xf32>
  func.return %y : tensor<1x1x3x3x3xf32>
}

// -----

func.func @main(%x: tensor<3x4xf32>) -> tensor<3x1xf32> {
  // expected-error @+1 {{tosa.reduce_max "tosa.reduce_max": propagates NaN in nn, got nan_mode IGNORE; export it with nan_mode PROPAGATE}}
  %0 = tosa.reduce_max %x {axis = 1 : i32, nan_mode = IGNORE} : (tensor<3x4xf32>) -> tensor<3x1xf32>
  func.return %0 : tensor<3x1xf32>
}

// -----

func.func @main(%x: tensor<3x4xf32>) -> tensor<3xi32> {
  // expected-error @+1 {{propagates NaN in nn}}
  %0 = tosa.argmax %x {axis = 1 : i32, nan_mode = IGNORE} : (tensor<3x4xf32>) -> tensor<3xi32>
  func.return %0 : tensor<3xi32>
}

// -----

func.func @main(%x: tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32> {
  // expected-error @+1 {{propagates NaN in nn}}
  %0 = tosa.max_pool2d %x {kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, nan_mode = IGNORE} : (tensor<1x4x4x2xf32>) -> tensor<1x2x2x2xf32>
  func.return %0 : tensor<1x2x2x2xf32>
}

// -----

func.func @main(%x: tensor<4xi8>, %z: tensor<1xi8>) -> tensor<4xi8> {
  // expected-error @+1 {{needs a constant input1_zp, got a computed one; fold it before the export}}
  %0 = tosa.negate %x, %z, %z : (tensor<4xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

// -----

// expected-error @+1 {{needs arguments that are tensors of static shape, got !tosa.shape<2>}}
func.func @main(%x: tensor<4xf32>, %s: !tosa.shape<2>) -> tensor<2x2xf32> {
  %0 = tosa.reshape %x, %s : (tensor<4xf32>, !tosa.shape<2>) -> tensor<2x2xf32>
  func.return %0 : tensor<2x2xf32>
}

// -----

func.func @main(%x: tensor<4xi32>) -> tensor<4xi8> {
  %m = "tosa.const"() <{values = dense<-5> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<40> : tensor<1xi8>}> : () -> tensor<1xi8>
  %xz = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %yz = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  // expected-error @+1 {{needs multipliers of at least 0 and shifts in [2, 62], got [-5] and [40]; convert the model again}}
  %0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

// -----

func.func @main(%a: tensor<1x2x3xi32>, %b: tensor<1x3x2xi32>) -> tensor<1x2x2xi32> {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  // expected-error @+1 {{sums products of i8 and i16 in i32 or i48, got tensor<1x2x3xi32>; quantize it to 8 or 16 bits}}
  %0 = tosa.matmul %a, %b, %z, %z : (tensor<1x2x3xi32>, tensor<1x3x2xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x2x2xi32>
  func.return %0 : tensor<1x2x2xi32>
}

// -----

func.func @main(%x: tensor<1x2x2x1xi32>, %w: tensor<1x1x1x1xi32>, %b: tensor<1xi32>) -> tensor<1x2x2x1xi32> {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  // expected-error @+1 {{sums products of i8 and i16 in i32 or i48, got i32 and i32}}
  %0 = tosa.conv2d %x, %w, %b, %z, %z {pad = array<i64: 0, 0, 0, 0>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = i32} : (tensor<1x2x2x1xi32>, tensor<1x1x1x1xi32>, tensor<1xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x2x2x1xi32>
  func.return %0 : tensor<1x2x2x1xi32>
}

// -----

func.func @main(%x: tensor<1x4x4x2xi32>) -> tensor<1x2x2x2xi32> {
  %z = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  // expected-error @+1 {{averages i8 and i16, got i32; quantize it to 8 or 16 bits}}
  %0 = tosa.avg_pool2d %x, %z, %z {kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>, acc_type = i32} : (tensor<1x4x4x2xi32>, tensor<1xi32>, tensor<1xi32>) -> tensor<1x2x2x2xi32>
  func.return %0 : tensor<1x2x2x2xi32>
}

// -----

func.func @main(%x: tensor<1x2x2x1xi16>) -> tensor<1x3x3x1xi48> {
  %s = tosa.const_shape {values = dense<[2, 1, 2, 1]> : tensor<4xindex>} : () -> !tosa.shape<4>
  %o = tosa.const_shape {values = dense<0> : tensor<2xindex>} : () -> !tosa.shape<2>
  // expected-error @+1 {{interpolates i8 to i32, and floats, got tensor<1x3x3x1xi48>; quantize it to 8 bits}}
  %0 = tosa.resize %x, %s, %o, %o {mode = BILINEAR} : (tensor<1x2x2x1xi16>, !tosa.shape<4>, !tosa.shape<2>, !tosa.shape<2>) -> tensor<1x3x3x1xi48>
  func.return %0 : tensor<1x3x3x1xi48>
}

// -----

func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tosa.abs %x : (tensor<4xf32>) -> tensor<4xf32>
  // expected-error @+1 {{arith.addf "y": is no operation of tosa, so that the function cannot be read; export the network without it}}
  %y = arith.addf %0, %0 : tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

func.func @main(%c: tensor<i1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{is control flow, which networks of nn do not have; export the network without it}}
  %0 = "tosa.cond_if"(%c) ({
    "tosa.yield"(%x) : (tensor<4xf32>) -> ()
  }, {
    %1 = "tosa.abs"(%x) : (tensor<4xf32>) -> tensor<4xf32>
    "tosa.yield"(%1) : (tensor<4xf32>) -> ()
  }) : (tensor<i1>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// -----

// TOSA 0.80 without an attribute that it needs.
func.func @main(%x: tensor<4xf32>) -> tensor<2x2xf32> {
  // expected-error @+1 {{tosa.reshape "y": needs the attribute new_shape; convert the model again}}
  %y = "tosa.reshape"(%x) : (tensor<4xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

// -----

func.func @main(%x: tensor<4xf32>, %p: tensor<1x2xi32>) -> tensor<6xf32> {
  // expected-error @+1 {{tosa.pad "y": needs a constant padding, got a computed one; fold it before the export}}
  %y = tosa.pad %x, %p : (tensor<4xf32>, tensor<1x2xi32>) -> tensor<6xf32>
  func.return %y : tensor<6xf32>
}

// -----

// What 0.80 becomes verifies as 1.0.
func.func @main(%x: tensor<2x3xf32>) -> tensor<2x2xf32> {
  // expected-error @+1 {{tosa.slice "y": 'tosa.slice' needs a slice within 2x3, got [2, 2] elements from [0, 2] on}}
  %y = tosa.slice %x {start = array<i64: 0, 2>, size = array<i64: 2, 2>} : (tensor<2x3xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

// -----

func.func @main(%x: tensor<8xf32>, %w: tensor<4x8xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  // expected-error @+1 {{tosa.fully_connected "y": needs a matrix of data and a matrix of weights, got tensor<8xf32> and tensor<4x8xf32>}}
  %y = tosa.fully_connected %x, %w, %b : (tensor<8xf32>, tensor<4x8xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %y : tensor<4xf32>
}

// -----

// expected-error @+1 {{func.func "main": needs a body of one block, got 2; networks have no branches}}
func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tosa.abs %x : (tensor<4xf32>) -> tensor<4xf32>
  cf.br ^next
^next:
  func.return %0 : tensor<4xf32>
}

// -----

func.func @main(%x: tensor<1024x1024x1024xf32>) -> tensor<1024x1024x1024xf32> {
  %c = "tosa.const"() <{values = dense<0.5> : tensor<1024x1024x1024xf32>}> : () -> tensor<1024x1024x1024xf32>
  // expected-error @+1 {{tosa.const "c": its constant is too large: tensor<1024x1024x1024xf32> takes 4294967296 bytes}}
  %0 = tosa.add %x, %c : (tensor<1024x1024x1024xf32>, tensor<1024x1024x1024xf32>) -> tensor<1024x1024x1024xf32>
  func.return %0 : tensor<1024x1024x1024xf32>
}

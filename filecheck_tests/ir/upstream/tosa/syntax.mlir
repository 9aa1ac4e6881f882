// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --cse %s | filecheck %s --check-prefix=CSE

// The clauses that later versions of LLVM write.
// CHECK-LABEL: func.func @clauses
func.func @clauses(%x: tensor<1x6x4x3xi8>, %f: tensor<2x3xf32>) -> tensor<1x6x4x2xi32> {
  // CHECK: %zp = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %zp = tosa.const  values(dense<0> : tensor<1xi8>) : () -> tensor<1xi8>
  %again = tosa.const  values(dense<0> : tensor<1xi8>) : () -> tensor<1xi8>
  %w = tosa.const  values(dense<1> : tensor<2x3x3x3xi8>) : () -> tensor<2x3x3x3xi8>
  %b = tosa.const  values(dense<0> : tensor<2xi32>) : () -> tensor<2xi32>
  // CHECK: "tosa.conv2d"(%x, %w, %b, %zp, %again) <{pad = array<i64: 1, 1, 1, 1>, stride = array<i64: 1, 1>, dilation = array<i64: 1, 1>, acc_type = i32}>
  // CSE: "tosa.conv2d"(%x, %w, %b, %zp, %zp)
  %y = tosa.conv2d %x, %w, %b, %zp, %again pad([1, 1, 1, 1]) stride([1, 1]) dilation([1, 1]) acc_type(i32)  : (tensor<1x6x4x3xi8>, tensor<2x3x3x3xi8>, tensor<2xi32>, tensor<1xi8>, tensor<1xi8>) -> tensor<1x6x4x2xi32>
  // CHECK: "tosa.const_shape"() <{values = dense<[3, 2]> : tensor<2xindex>}> : () -> !tosa.shape<2>
  %s = tosa.const_shape  values(dense<[3, 2]> : tensor<2xindex>) : () -> !tosa.shape<2>
  // CHECK: "tosa.max_pool2d"(%x) <{kernel = array<i64: 2, 2>, stride = array<i64: 2, 2>, pad = array<i64: 0, 0, 0, 0>}>
  %p = tosa.max_pool2d %x kernel([2, 2]) stride([2, 2]) pad([0, 0, 0, 0]) : (tensor<1x6x4x3xi8>) -> tensor<1x3x2x3xi8>
  // CHECK: "tosa.clamp"(%f) <{min_val = -3.000000e+00 : f32, max_val = 5.000000e+00 : f32, nan_mode = #tosa.nan_mode<IGNORE>}>
  %c = tosa.clamp %f min_val(-3.0 : f32) max_val(5.0 : f32) nan_mode<IGNORE> : (tensor<2x3xf32>) -> tensor<2x3xf32>
  // CHECK: "tosa.transpose"(%c) <{perms = array<i32: 1, 0>}>
  %t = tosa.transpose %c perms([1, 0]) : (tensor<2x3xf32>) -> tensor<3x2xf32>
  // CHECK: "tosa.reduce_sum"(%t) <{axis = 0 : i32}>
  %r = tosa.reduce_sum %t axis(0) : (tensor<3x2xf32>) -> tensor<1x2xf32>
  func.return %y : tensor<1x6x4x2xi32>
}

// The generic form with its properties among the attributes, and an enum in full in a dictionary.
// CHECK-LABEL: func.func @generic
func.func @generic(%x: tensor<2x3xf32>) -> tensor<2x1xf32> {
  // CHECK: "tosa.reduce_max"(%x) <{nan_mode = #tosa.nan_mode<PROPAGATE>, axis = 1 : i32}>
  %0 = "tosa.reduce_max"(%x) {axis = 1 : i32, nan_mode = #tosa.nan_mode<PROPAGATE>} : (tensor<2x3xf32>) -> tensor<2x1xf32>
  // CHECK: "tosa.maximum"(%0, %0) <{nan_mode = #tosa.nan_mode<IGNORE>}>
  %1 = tosa.maximum %0, %0 {nan_mode = #tosa.nan_mode<IGNORE>} : (tensor<2x1xf32>, tensor<2x1xf32>) -> tensor<2x1xf32>
  func.return %1 : tensor<2x1xf32>
}

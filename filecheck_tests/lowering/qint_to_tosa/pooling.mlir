// RUN: qmlir-opt --qint-to-tosa %s | filecheck %s

// CHECK-LABEL: func.func @max
// CHECK: "tosa.max_pool2d"(%x) <{kernel = array<i64: 2, 2>, stride = array<i64: 1, 1>, pad = array<i64: 1, 0, 0, 0>}>
func.func @max(%x: tensor<1x4x4x2xi8>) -> tensor<1x4x3x2xi8> {
  %y = qint.max_pool2d %x {window = array<i64: 2, 2>, padding = array<i64: 1, 0, 0, 0>} : tensor<1x4x4x2xi8> -> tensor<1x4x3x2xi8>
  func.return %y : tensor<1x4x3x2xi8>
}

// Rows 0 and 2 of a window, gathered next to each other: pixels of columns 0 to 1.
// CHECK-LABEL: func.func @dilated
// CHECK: "tosa.const"() <{values = dense<{{\[\[}}0, 1, 4, 5, 2, 3, 6, 7]]> : tensor<1x8xi32>}>
// CHECK: "tosa.gather"({{.*}}) : (tensor<1x8x3xi8>, tensor<1x8xi32>) -> tensor<1x8x3xi8>
// CHECK: "tosa.max_pool2d"({{.*}}) <{kernel = array<i64: 2, 1>, stride = array<i64: 2, 1>, pad = array<i64: 0, 0, 0, 0>}> : (tensor<1x4x2x3xi8>) -> tensor<1x2x2x3xi8>
func.func @dilated(%x: tensor<1x4x2x3xi8>) -> tensor<1x2x2x3xi8> {
  %y = qint.max_pool2d %x {window = array<i64: 2, 1>, dilations = array<i64: 2, 1>} : tensor<1x4x2x3xi8> -> tensor<1x2x2x3xi8>
  func.return %y : tensor<1x2x2x3xi8>
}

// No `avg_pool2d`, which rounds otherwise; a row of the padding is absent from the mean.
// CHECK-LABEL: func.func @average
// CHECK: "tosa.depthwise_conv2d"
// CHECK: dense<{{\[\[\[\[1\], \[1\], \[1\]\], \[\[2\], \[2\], \[2\]\]}}
// CHECK: "tosa.greater_equal"
// CHECK: "tosa.select"
// CHECK: dense<{{\[\[\[\[2\], \[2\], \[2\]\], \[\[4\], \[4\], \[4\]\]}}
// CHECK: "tosa.intdiv"
func.func @average(%x: tensor<1x4x4x2xi8>) -> tensor<1x4x3x2xi8> {
  %y = qint.average_pool2d %x {window = array<i64: 2, 2>, padding = array<i64: 1, 0, 0, 0>} : tensor<1x4x4x2xi8> -> tensor<1x4x3x2xi8>
  func.return %y : tensor<1x4x3x2xi8>
}

// Padding that counts is of the zero point: nothing once that is off, and the window's 4 times it are the bias.
// CHECK-LABEL: func.func @counting
// CHECK: "tosa.const"() <{values = dense<-400> : tensor<2xi32>}>
// CHECK: "tosa.const"() <{values = dense<-100> : tensor<1xi8>}>
// CHECK: "tosa.depthwise_conv2d"
func.func @counting(%x: tensor<1x4x4x2xi8>) -> tensor<1x4x3x2xi8> {
  %y = qint.average_pool2d %x {window = array<i64: 2, 2>, padding = array<i64: 1, 0, 0, 0>, zero_point = -100 : i32, count_include_pad = true} : tensor<1x4x4x2xi8> -> tensor<1x4x3x2xi8>
  func.return %y : tensor<1x4x3x2xi8>
}

// CHECK-LABEL: func.func @global
// CHECK: "tosa.reduce_sum"({{.*}}) <{axis = 1 : i32}> : (tensor<1x4x4x2xi32>) -> tensor<1x1x4x2xi32>
// CHECK: "tosa.reduce_sum"({{.*}}) <{axis = 2 : i32}> : (tensor<1x1x4x2xi32>) -> tensor<1x1x1x2xi32>
func.func @global(%x: tensor<1x4x4x2xi8>) -> tensor<1x1x1x2xi32> {
  %acc = qint.global_sum_pool %x : tensor<1x4x4x2xi8> -> tensor<1x1x1x2xi32>
  func.return %acc : tensor<1x1x1x2xi32>
}

// RUN: qmlir-opt --qint-to-tosa %s | filecheck %s
// RUN: qmlir-opt --qint-to-tosa=version=1.0 %s | filecheck %s

// One multiplier for each channel. A shift of −4 is a right shift of 35; a multiplier of 0 takes any.
// CHECK-LABEL: func.func @channels
// CHECK: "tosa.const"() <{values = dense<[1073741824, 0]> : tensor<2xi32>}>
// CHECK: "tosa.const"() <{values = dense<[35, 31]> : tensor<2xi8>}>
// CHECK: "tosa.rescale"({{.*}}) <{rounding_mode = #tosa.rounding_mode<SINGLE_ROUND>, scale32 = true, per_channel = true, input_unsigned = false, output_unsigned = false}>
// CHECK-SAME: -> tensor<3x2xi8>
// CHECK: "tosa.clamp"({{.*}}) <{min_val = -100 : i8, max_val = 127 : i8}>
func.func @channels(%x: tensor<3x2xi32>) -> tensor<3x2xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1073741824, 0>, shift = array<i32: -4, -31>, contract = "single", zero_point = 3 : i32, min = -100 : i32, max = 127 : i32} : tensor<3x2xi32> -> tensor<3x2xi8>
  func.return %y : tensor<3x2xi8>
}

// CHECK-LABEL: func.func @double
// CHECK: "tosa.rescale"({{.*}}) <{{.*}}DOUBLE_ROUND>, scale32 = true, per_channel = false
// CHECK-NOT: clamp
func.func @double(%x: tensor<4xi32>) -> tensor<4xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1500000000>, shift = array<i32: -4>, contract = "double", min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// Without a right shift for its second step this contract is one rounding.
// CHECK-LABEL: func.func @upup
// CHECK: SINGLE_ROUND
func.func @upup(%x: tensor<4xi8>) -> tensor<4xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1500000000>, shift = array<i32: 1>, contract = "upup", input_zero_point = -128 : i32, min = -128 : i32, max = 127 : i32} : tensor<4xi8> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// Accumulators that `rescale` is not defined for are bounded; the result saturates all the same.
// CHECK-LABEL: func.func @beyond
// CHECK: dense<-268435456> : tensor<1xi32>
// CHECK: "tosa.maximum"(%x
// CHECK: dense<268435455> : tensor<1xi32>
// CHECK: "tosa.minimum"
// CHECK: dense<29> : tensor<1xi8>
func.func @beyond(%x: tensor<4xi32>) -> tensor<4xi8> {
  %y = qint.requantize %x {multiplier = array<i32: 1500000000>, shift = array<i32: 2>, contract = "double", min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
  func.return %y : tensor<4xi8>
}

// Only i8 has zero points; for others they are taken off before and added after, in i32.
// CHECK-LABEL: func.func @i16
// CHECK: "tosa.cast"(%x) : (tensor<4xi16>) -> tensor<4xi32>
// CHECK: "tosa.sub"
// CHECK: "tosa.rescale"({{.*}}) {{.*}} -> tensor<4xi32>
// CHECK: "tosa.add"
// CHECK: "tosa.maximum"
// CHECK: "tosa.minimum"
// CHECK: "tosa.cast"({{.*}}) : (tensor<4xi32>) -> tensor<4xi16>
func.func @i16(%x: tensor<4xi16>) -> tensor<4xi16> {
  %y = qint.requantize %x {multiplier = array<i32: 1500000000>, shift = array<i32: 0>, contract = "single", input_zero_point = 7 : i32, zero_point = 9 : i32, min = -32768 : i32, max = 32767 : i32} : tensor<4xi16> -> tensor<4xi16>
  func.return %y : tensor<4xi16>
}

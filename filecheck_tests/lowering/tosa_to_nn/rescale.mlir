// RUN: qmlir-opt --tosa-to-nn %s | filecheck %s

// CHECK-LABEL: func.func @once(%x: tensor<4xi32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<4xi8>
// CHECK-NEXT:    %{{.*}} = qint.requantize %x {multiplier = array<i32: 1518500250>, shift = array<i32: -9>, contract = "single", zero_point = -7 : i32, min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
// CHECK-NEXT:    func.return %{{.*}} : tensor<4xi8>
func.func @once(%x: tensor<4xi32>) -> tensor<4xi8> {
  %m = "tosa.const"() <{values = dense<1518500250> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<40> : tensor<1xi8>}> : () -> tensor<1xi8>
  %xz = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %yz = "tosa.const"() <{values = dense<-7> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

// CHECK-LABEL: func.func @twice(%x: tensor<4xi8> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = qint.requantize %x {input_zero_point = 3 : i32, multiplier = array<i32: 1518500250>, shift = array<i32: -9>, contract = "double", min = -2147483648 : i32, max = 2147483647 : i32} : tensor<4xi8> -> tensor<4xi32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<4xi32>
func.func @twice(%x: tensor<4xi8>) -> tensor<4xi32> {
  %m = "tosa.const"() <{values = dense<1518500250> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<40> : tensor<1xi8>}> : () -> tensor<1xi8>
  %xz = "tosa.const"() <{values = dense<3> : tensor<1xi8>}> : () -> tensor<1xi8>
  %yz = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = DOUBLE_ROUND, scale32 = true, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi32>) -> tensor<4xi32>
  func.return %0 : tensor<4xi32>
}

// A short multiplier grows together with its shift.
// CHECK-LABEL: func.func @short(%x: tensor<4xi32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<4xi8>
// CHECK-NEXT:    %{{.*}} = qint.requantize %x {multiplier = array<i32: 1610612736>, shift = array<i32: -6>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
// CHECK-NEXT:    func.return %{{.*}} : tensor<4xi8>
func.func @short(%x: tensor<4xi32>) -> tensor<4xi8> {
  %m = "tosa.const"() <{values = dense<3> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<8> : tensor<1xi8>}> : () -> tensor<1xi8>
  %xz = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %yz = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<4xi32>, tensor<1xi32>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

// Bytes without a sign are read as such.
// CHECK-LABEL: func.func @unsigned(%x: tensor<4xi8> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<4xi8>
// CHECK-NEXT:    %{{.*}} = nn.bitcast %x : tensor<4xi8> -> tensor<4xui8>
// CHECK-NEXT:    %{{.*}} = nn.cast %{{.*}} : tensor<4xui8> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = qint.requantize %{{.*}} {input_zero_point = 128 : i32, multiplier = array<i32: 1073741824>, shift = array<i32: 1>, contract = "single", min = -128 : i32, max = 127 : i32} : tensor<4xi32> -> tensor<4xi8>
// CHECK-NEXT:    func.return %{{.*}} : tensor<4xi8>
func.func @unsigned(%x: tensor<4xi8>) -> tensor<4xi8> {
  %m = "tosa.const"() <{values = dense<1073741824> : tensor<1xi32>}> : () -> tensor<1xi32>
  %s = "tosa.const"() <{values = dense<30> : tensor<1xi8>}> : () -> tensor<1xi8>
  %xz = "tosa.const"() <{values = dense<-128> : tensor<1xi8>}> : () -> tensor<1xi8>
  %yz = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = true, per_channel = false, input_unsigned = true, output_unsigned = false} : (tensor<4xi8>, tensor<1xi32>, tensor<1xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

// Multipliers of 16 bits are no contract's.
// CHECK-LABEL: func.func @narrow_multiplier(%x: tensor<4xi32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<4xi8>
// CHECK-NEXT:    %{{.*}} = nn.cast %x : tensor<4xi32> -> tensor<4xi64>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<1xi64>, [20000]> : tensor<1xi64>
// CHECK-NEXT:    %{{.*}} = nn.mul %{{.*}}, %{{.*}} : tensor<4xi64>, tensor<1xi64> -> tensor<4xi64>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<1xi64>, [1048576]> : tensor<1xi64>
// CHECK-NEXT:    %{{.*}} = nn.add %{{.*}}, %{{.*}} : tensor<4xi64>, tensor<1xi64> -> tensor<4xi64>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<1xi64>, [21]> : tensor<1xi64>
// CHECK-NEXT:    %{{.*}} = nn.shift_right %{{.*}}, %{{.*}} : tensor<4xi64>, tensor<1xi64> -> tensor<4xi64>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i64>, [3]> : tensor<i64>
// CHECK-NEXT:    %{{.*}} = nn.add %{{.*}}, %{{.*}} : tensor<4xi64>, tensor<i64> -> tensor<4xi64>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i64>, [-128]> : tensor<i64>
// CHECK-NEXT:    %{{.*}} = nn.maximum %{{.*}}, %{{.*}} : tensor<4xi64>, tensor<i64> -> tensor<4xi64>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i64>, [127]> : tensor<i64>
// CHECK-NEXT:    %{{.*}} = nn.minimum %{{.*}}, %{{.*}} : tensor<4xi64>, tensor<i64> -> tensor<4xi64>
// CHECK-NEXT:    %{{.*}} = nn.cast %{{.*}} : tensor<4xi64> -> tensor<4xi8>
// CHECK-NEXT:    func.return %{{.*}} : tensor<4xi8>
func.func @narrow_multiplier(%x: tensor<4xi32>) -> tensor<4xi8> {
  %m = "tosa.const"() <{values = dense<20000> : tensor<1xi16>}> : () -> tensor<1xi16>
  %s = "tosa.const"() <{values = dense<21> : tensor<1xi8>}> : () -> tensor<1xi8>
  %xz = "tosa.const"() <{values = dense<0> : tensor<1xi32>}> : () -> tensor<1xi32>
  %yz = "tosa.const"() <{values = dense<3> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.rescale %x, %m, %s, %xz, %yz {rounding_mode = SINGLE_ROUND, scale32 = false, per_channel = false, input_unsigned = false, output_unsigned = false} : (tensor<4xi32>, tensor<1xi16>, tensor<1xi8>, tensor<1xi32>, tensor<1xi8>) -> tensor<4xi8>
  func.return %0 : tensor<4xi8>
}

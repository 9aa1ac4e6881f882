// RUN: qmlir-opt --tosa-to-nn --weights=elide %s | filecheck %s

// CHECK-LABEL: func.func @functions(%x: tensor<2x3xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.abs %x : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.ceil %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.cos %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.erf %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.exp %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.floor %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.log %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.reciprocal %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.rsqrt %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.sigmoid %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.sin %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.tanh %{{.*}} : tensor<2x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<2x3xf32>
func.func @functions(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = tosa.abs %x : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %1 = tosa.ceil %0 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = tosa.cos %1 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = tosa.erf %2 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %4 = tosa.exp %3 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %5 = tosa.floor %4 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %6 = tosa.log %5 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %7 = tosa.reciprocal %6 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %8 = tosa.rsqrt %7 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %9 = tosa.sigmoid %8 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %10 = tosa.sin %9 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %11 = tosa.tanh %10 : (tensor<2x3xf32>) -> tensor<2x3xf32>
  func.return %11 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @two_floats(%a: tensor<2x3xf32> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<1x3xf32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.add %a, %b : tensor<2x3xf32>, tensor<1x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.sub %{{.*}}, %b : tensor<2x3xf32>, tensor<1x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.mul %{{.*}}, %b : tensor<2x3xf32>, tensor<1x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.pow %{{.*}}, %b : tensor<2x3xf32>, tensor<1x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.maximum %{{.*}}, %b : tensor<2x3xf32>, tensor<1x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    %{{.*}} = nn.minimum %{{.*}}, %b : tensor<2x3xf32>, tensor<1x3xf32> -> tensor<2x3xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<2x3xf32>
func.func @two_floats(%a: tensor<2x3xf32>, %b: tensor<1x3xf32>) -> tensor<2x3xf32> {
  %zero = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.add %a, %b : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %1 = tosa.sub %0, %b : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %2 = tosa.mul %1, %b, %zero : (tensor<2x3xf32>, tensor<1x3xf32>, tensor<1xi8>) -> tensor<2x3xf32>
  %3 = tosa.pow %2, %b : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %4 = tosa.maximum %3, %b : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  %5 = tosa.minimum %4, %b : (tensor<2x3xf32>, tensor<1x3xf32>) -> tensor<2x3xf32>
  func.return %5 : tensor<2x3xf32>
}

// CHECK-LABEL: func.func @integers(%a: tensor<2x3xi32> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<2x3xi32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<2x3xi32>
// CHECK-NEXT:    %{{.*}} = nn.div %a, %b : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
// CHECK-NEXT:    %{{.*}} = nn.and %{{.*}}, %b : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
// CHECK-NEXT:    %{{.*}} = nn.or %{{.*}}, %b : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
// CHECK-NEXT:    %{{.*}} = nn.xor %{{.*}}, %b : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
// CHECK-NEXT:    %{{.*}} = nn.not %{{.*}} : tensor<2x3xi32> -> tensor<2x3xi32>
// CHECK-NEXT:    %{{.*}} = nn.shift_left %{{.*}}, %b : tensor<2x3xi32>, tensor<2x3xi32> -> tensor<2x3xi32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<2x3xi32>
func.func @integers(%a: tensor<2x3xi32>, %b: tensor<2x3xi32>) -> tensor<2x3xi32> {
  %0 = tosa.intdiv %a, %b : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %1 = tosa.bitwise_and %0, %b : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %2 = tosa.bitwise_or %1, %b : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %3 = tosa.bitwise_xor %2, %b : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  %4 = tosa.bitwise_not %3 : (tensor<2x3xi32>) -> tensor<2x3xi32>
  %5 = tosa.logical_left_shift %4, %b : (tensor<2x3xi32>, tensor<2x3xi32>) -> tensor<2x3xi32>
  func.return %5 : tensor<2x3xi32>
}

// CHECK-LABEL: func.func @logical_right_shift(%a: tensor<2xi32> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<2xi32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<2xi32>
// CHECK-NEXT:    %{{.*}} = nn.bitcast %a : tensor<2xi32> -> tensor<2xui32>
// CHECK-NEXT:    %{{.*}} = nn.bitcast %b : tensor<2xi32> -> tensor<2xui32>
// CHECK-NEXT:    %{{.*}} = nn.shift_right %{{.*}}, %{{.*}} : tensor<2xui32>, tensor<2xui32> -> tensor<2xui32>
// CHECK-NEXT:    %{{.*}} = nn.bitcast %{{.*}} : tensor<2xui32> -> tensor<2xi32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<2xi32>
func.func @logical_right_shift(%a: tensor<2xi32>, %b: tensor<2xi32>) -> tensor<2xi32> {
  %0 = tosa.logical_right_shift %a, %b : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  func.return %0 : tensor<2xi32>
}

// The highest bit that is dropped is added.
// CHECK-LABEL: func.func @arithmetic_right_shift(%a: tensor<2xi32> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<2xi32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<2xi32>
// CHECK-NEXT:    %{{.*}} = nn.shift_right %a, %b : tensor<2xi32>, tensor<2xi32> -> tensor<2xi32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i32>, [0]> : tensor<i32>
// CHECK-NEXT:    %{{.*}} = nn.less %{{.*}}, %b : tensor<i32>, tensor<2xi32> -> tensor<2xi1>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i32>, [-1]> : tensor<i32>
// CHECK-NEXT:    %{{.*}} = nn.add %b, %{{.*}} : tensor<2xi32>, tensor<i32> -> tensor<2xi32>
// CHECK-NEXT:    %{{.*}} = nn.maximum %{{.*}}, %{{.*}} : tensor<2xi32>, tensor<i32> -> tensor<2xi32>
// CHECK-NEXT:    %{{.*}} = nn.shift_right %a, %{{.*}} : tensor<2xi32>, tensor<2xi32> -> tensor<2xi32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i32>, [1]> : tensor<i32>
// CHECK-NEXT:    %{{.*}} = nn.and %{{.*}}, %{{.*}} : tensor<2xi32>, tensor<i32> -> tensor<2xi32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i32>, [0]> : tensor<i32>
// CHECK-NEXT:    %{{.*}} = nn.where %{{.*}}, %{{.*}}, %{{.*}} : tensor<2xi1>, tensor<2xi32>, tensor<i32> -> tensor<2xi32>
// CHECK-NEXT:    %{{.*}} = nn.add %{{.*}}, %{{.*}} : tensor<2xi32>, tensor<2xi32> -> tensor<2xi32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<2xi32>
func.func @arithmetic_right_shift(%a: tensor<2xi32>, %b: tensor<2xi32>) -> tensor<2xi32> {
  %0 = tosa.arithmetic_right_shift %a, %b {round = true} : (tensor<2xi32>, tensor<2xi32>) -> tensor<2xi32>
  func.return %0 : tensor<2xi32>
}

// CHECK-LABEL: func.func @clz(%a: tensor<2xi32> {qmlir.name = #qmlir.name<tensors ["a"]>}) -> tensor<2xi32>
// CHECK-NEXT:    %{{.*}} = nn.bitcast %a : tensor<2xi32> -> tensor<2xui32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %{{.*}} {shape = array<i64: 2, 1>} : tensor<2xui32> -> tensor<2x1xui32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<32xui32>, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31]> : tensor<32xui32>
// CHECK-NEXT:    %{{.*}} = nn.shift_right %{{.*}}, %{{.*}} : tensor<2x1xui32>, tensor<32xui32> -> tensor<2x32xui32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<ui32>, [0]> : tensor<ui32>
// CHECK-NEXT:    %{{.*}} = nn.equal %{{.*}}, %{{.*}} : tensor<2x32xui32>, tensor<ui32> -> tensor<2x32xi1>
// CHECK-NEXT:    %{{.*}} = nn.cast %{{.*}} : tensor<2x32xi1> -> tensor<2x32xi32>
// CHECK-NEXT:    %{{.*}} = nn.reduce_sum %{{.*}} {axes = array<i64: 1>} : tensor<2x32xi32> -> tensor<2x1xi32>
// CHECK-NEXT:    %{{.*}} = nn.reshape %{{.*}} {shape = array<i64: 2>} : tensor<2x1xi32> -> tensor<2xi32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<2xi32>
func.func @clz(%a: tensor<2xi32>) -> tensor<2xi32> {
  %0 = tosa.clz %a : (tensor<2xi32>) -> tensor<2xi32>
  func.return %0 : tensor<2xi32>
}

// CHECK-LABEL: func.func @truths(%a: tensor<4xi1> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<4xi1> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<4xi1>
// CHECK-NEXT:    %{{.*}} = nn.and %a, %b : tensor<4xi1>, tensor<4xi1> -> tensor<4xi1>
// CHECK-NEXT:    %{{.*}} = nn.or %{{.*}}, %b : tensor<4xi1>, tensor<4xi1> -> tensor<4xi1>
// CHECK-NEXT:    %{{.*}} = nn.xor %{{.*}}, %b : tensor<4xi1>, tensor<4xi1> -> tensor<4xi1>
// CHECK-NEXT:    %{{.*}} = nn.not %{{.*}} : tensor<4xi1> -> tensor<4xi1>
// CHECK-NEXT:    func.return %{{.*}} : tensor<4xi1>
func.func @truths(%a: tensor<4xi1>, %b: tensor<4xi1>) -> tensor<4xi1> {
  %0 = tosa.logical_and %a, %b : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  %1 = tosa.logical_or %0, %b : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  %2 = tosa.logical_xor %1, %b : (tensor<4xi1>, tensor<4xi1>) -> tensor<4xi1>
  %3 = tosa.logical_not %2 : (tensor<4xi1>) -> tensor<4xi1>
  func.return %3 : tensor<4xi1>
}

// CHECK-LABEL: func.func @comparisons(%a: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>)
// CHECK-NEXT:    %{{.*}} = nn.equal %a, %b : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>
// CHECK-NEXT:    %{{.*}} = nn.less %b, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>
// CHECK-NEXT:    %{{.*}} = nn.less_equal %b, %a : tensor<4xf32>, tensor<4xf32> -> tensor<4xi1>
// CHECK-NEXT:    %{{.*}} = nn.where %{{.*}}, %a, %b : tensor<4xi1>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    func.return %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>
func.func @comparisons(%a: tensor<4xf32>, %b: tensor<4xf32>) -> (tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>) {
  %0 = tosa.equal %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %1 = tosa.greater %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %2 = tosa.greater_equal %a, %b : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xi1>
  %3 = tosa.select %1, %a, %b : (tensor<4xi1>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0, %1, %2, %3 : tensor<4xi1>, tensor<4xi1>, tensor<4xi1>, tensor<4xf32>
}

// Products of narrow integers are i32; a shift rounds the product of 64 bits.
// CHECK-LABEL: func.func @products(%a: tensor<4xi8> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<4xi32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> (tensor<4xi32>, tensor<4xi32>)
// CHECK-NEXT:    %{{.*}} = nn.cast %a : tensor<4xi8> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.cast %a : tensor<4xi8> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.mul %{{.*}}, %{{.*}} : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.cast %b : tensor<4xi32> -> tensor<4xi64>
// CHECK-NEXT:    %{{.*}} = nn.cast %b : tensor<4xi32> -> tensor<4xi64>
// CHECK-NEXT:    %{{.*}} = nn.mul %{{.*}}, %{{.*}} : tensor<4xi64>, tensor<4xi64> -> tensor<4xi64>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i64>, [31]> : tensor<i64>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i64>, [1]> : tensor<i64>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i64>, [-1]> : tensor<i64>
// CHECK-NEXT:    %{{.*}} = nn.add %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64> -> tensor<i64>
// CHECK-NEXT:    %{{.*}} = nn.shift_left %{{.*}}, %{{.*}} : tensor<i64>, tensor<i64> -> tensor<i64>
// CHECK-NEXT:    %{{.*}} = nn.add %{{.*}}, %{{.*}} : tensor<4xi64>, tensor<i64> -> tensor<4xi64>
// CHECK-NEXT:    %{{.*}} = nn.shift_right %{{.*}}, %{{.*}} : tensor<4xi64>, tensor<i64> -> tensor<4xi64>
// CHECK-NEXT:    %{{.*}} = nn.cast %{{.*}} : tensor<4xi64> -> tensor<4xi32>
// CHECK-NEXT:    func.return %{{.*}}, %{{.*}} : tensor<4xi32>, tensor<4xi32>
func.func @products(%a: tensor<4xi8>, %b: tensor<4xi32>) -> (tensor<4xi32>, tensor<4xi32>) {
  %zero = "tosa.const"() <{values = dense<0> : tensor<1xi8>}> : () -> tensor<1xi8>
  %shift = "tosa.const"() <{values = dense<31> : tensor<1xi8>}> : () -> tensor<1xi8>
  %0 = tosa.mul %a, %a, %zero : (tensor<4xi8>, tensor<4xi8>, tensor<1xi8>) -> tensor<4xi32>
  %1 = tosa.mul %b, %b, %shift : (tensor<4xi32>, tensor<4xi32>, tensor<1xi8>) -> tensor<4xi32>
  func.return %0, %1 : tensor<4xi32>, tensor<4xi32>
}

// CHECK-LABEL: func.func @negate(%a: tensor<4xi8> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> (tensor<4xi8>, tensor<4xf32>)
// CHECK-NEXT:    %{{.*}} = nn.cast %a : tensor<4xi8> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i32>, [-4]> : tensor<i32>
// CHECK-NEXT:    %{{.*}} = nn.sub %{{.*}}, %{{.*}} : tensor<i32>, tensor<4xi32> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i32>, [-128]> : tensor<i32>
// CHECK-NEXT:    %{{.*}} = nn.maximum %{{.*}}, %{{.*}} : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i32>, [127]> : tensor<i32>
// CHECK-NEXT:    %{{.*}} = nn.minimum %{{.*}}, %{{.*}} : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.cast %{{.*}} : tensor<4xi32> -> tensor<4xi8>
// CHECK-NEXT:    %{{.*}} = nn.neg %b : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    func.return %{{.*}}, %{{.*}} : tensor<4xi8>, tensor<4xf32>
func.func @negate(%a: tensor<4xi8>, %b: tensor<4xf32>) -> (tensor<4xi8>, tensor<4xf32>) {
  %az = "tosa.const"() <{values = dense<5> : tensor<1xi8>}> : () -> tensor<1xi8>
  %yz = "tosa.const"() <{values = dense<-9> : tensor<1xi8>}> : () -> tensor<1xi8>
  %bz = "tosa.const"() <{values = dense<0.0> : tensor<1xf32>}> : () -> tensor<1xf32>
  %0 = tosa.negate %a, %az, %yz : (tensor<4xi8>, tensor<1xi8>, tensor<1xi8>) -> tensor<4xi8>
  %1 = tosa.negate %b, %bz, %bz : (tensor<4xf32>, tensor<1xf32>, tensor<1xf32>) -> tensor<4xf32>
  func.return %0, %1 : tensor<4xi8>, tensor<4xf32>
}

// The largest number of a float type is no bound.
// CHECK-LABEL: func.func @clamps(%x: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %i: tensor<4xi8> {qmlir.name = #qmlir.name<tensors ["i"]>}) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi8>)
// CHECK-NEXT:    %{{.*}} = nn.relu %x : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = nn.clamp %x {min = 0.000000e+00 : f32, max = 6.000000e+00 : f32} : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i8>, [-5]> : tensor<i8>
// CHECK-NEXT:    %{{.*}} = nn.maximum %i, %{{.*}} : tensor<4xi8>, tensor<i8> -> tensor<4xi8>
// CHECK-NEXT:    func.return %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32>, tensor<4xi8>
func.func @clamps(%x: tensor<4xf32>, %i: tensor<4xi8>) -> (tensor<4xf32>, tensor<4xf32>, tensor<4xi8>) {
  %0 = tosa.clamp %x {min_val = 0.0 : f32, max_val = 3.40282347E+38 : f32} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = tosa.clamp %x {min_val = 0.0 : f32, max_val = 6.0 : f32} : (tensor<4xf32>) -> tensor<4xf32>
  %2 = tosa.clamp %i {min_val = -5 : i8, max_val = 127 : i8} : (tensor<4xi8>) -> tensor<4xi8>
  func.return %0, %1, %2 : tensor<4xf32>, tensor<4xf32>, tensor<4xi8>
}

// NaN gives the other operand.
// CHECK-LABEL: func.func @nan(%a: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["a"]>}, %b: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["b"]>}) -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = nn.is_nan %a : tensor<4xf32> -> tensor<4xi1>
// CHECK-NEXT:    %{{.*}} = nn.where %{{.*}}, %b, %a : tensor<4xi1>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = nn.is_nan %b : tensor<4xf32> -> tensor<4xi1>
// CHECK-NEXT:    %{{.*}} = nn.where %{{.*}}, %a, %b : tensor<4xi1>, tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = nn.maximum %{{.*}}, %{{.*}} : tensor<4xf32>, tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    func.return %{{.*}} : tensor<4xf32>
func.func @nan(%a: tensor<4xf32>, %b: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tosa.maximum %a, %b {nan_mode = IGNORE} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  func.return %0 : tensor<4xf32>
}

// TOSA rounds to the nearest integer.
// CHECK-LABEL: func.func @casts(%x: tensor<4xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}, %i: tensor<4xi32> {qmlir.name = #qmlir.name<tensors ["i"]>}) -> (tensor<4xi8>, tensor<4xf32>, tensor<4xi1>)
// CHECK-NEXT:    %{{.*}} = nn.round %x : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = nn.cast %{{.*}} : tensor<4xf32> -> tensor<4xi8>
// CHECK-NEXT:    %{{.*}} = nn.cast %i : tensor<4xi32> -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = nn.cast %i : tensor<4xi32> -> tensor<4xi1>
// CHECK-NEXT:    func.return %{{.*}}, %{{.*}}, %{{.*}} : tensor<4xi8>, tensor<4xf32>, tensor<4xi1>
func.func @casts(%x: tensor<4xf32>, %i: tensor<4xi32>) -> (tensor<4xi8>, tensor<4xf32>, tensor<4xi1>) {
  %0 = tosa.cast %x : (tensor<4xf32>) -> tensor<4xi8>
  %1 = tosa.cast %i : (tensor<4xi32>) -> tensor<4xf32>
  %2 = tosa.cast %i : (tensor<4xi32>) -> tensor<4xi1>
  func.return %0, %1, %2 : tensor<4xi8>, tensor<4xf32>, tensor<4xi1>
}

// f16 is computed in f32.
// CHECK-LABEL: func.func @halves(%x: tensor<4xf16> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<4xf16>
// CHECK-NEXT:    %{{.*}} = nn.cast %x : tensor<4xf16> -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = nn.tanh %{{.*}} : tensor<4xf32> -> tensor<4xf32>
// CHECK-NEXT:    %{{.*}} = nn.cast %{{.*}} : tensor<4xf32> -> tensor<4xf16>
// CHECK-NEXT:    func.return %{{.*}} : tensor<4xf16>
func.func @halves(%x: tensor<4xf16>) -> tensor<4xf16> {
  %0 = tosa.tanh %x : (tensor<4xf16>) -> tensor<4xf16>
  func.return %0 : tensor<4xf16>
}

// CHECK-LABEL: func.func @tables(%x: tensor<4xi8> {qmlir.name = #qmlir.name<tensors ["x"]>}, %w: tensor<4xi16> {qmlir.name = #qmlir.name<tensors ["w"]>}) -> (tensor<4xi8>, tensor<4xi32>)
// CHECK-NEXT:    %{{.*}} = qint.lookup %x, <tensor<256xi8>, elided> : tensor<4xi8> -> tensor<4xi8>
// CHECK-NEXT:    %{{.*}} = nn.cast %w : tensor<4xi16> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i32>, [32768]> : tensor<i32>
// CHECK-NEXT:    %{{.*}} = nn.add %{{.*}}, %{{.*}} : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i32>, [7]> : tensor<i32>
// CHECK-NEXT:    %{{.*}} = nn.shift_right %{{.*}}, %{{.*}} : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<i32>, [127]> : tensor<i32>
// CHECK-NEXT:    %{{.*}} = nn.and %{{.*}}, %{{.*}} : tensor<4xi32>, tensor<i32> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<513xi32>, elided> : tensor<513xi32>
// CHECK-NEXT:    %{{.*}} = nn.gather %{{.*}}, %{{.*}} {axis = 0 : i64} : tensor<513xi32>, tensor<4xi32> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.constant <tensor<513xi32>, elided> : tensor<513xi32>
// CHECK-NEXT:    %{{.*}} = nn.gather %{{.*}}, %{{.*}} {axis = 0 : i64} : tensor<513xi32>, tensor<4xi32> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.mul %{{.*}}, %{{.*}} : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
// CHECK-NEXT:    %{{.*}} = nn.add %{{.*}}, %{{.*}} : tensor<4xi32>, tensor<4xi32> -> tensor<4xi32>
// CHECK-NEXT:    func.return %{{.*}}, %{{.*}} : tensor<4xi8>, tensor<4xi32>
func.func @tables(%x: tensor<4xi8>, %w: tensor<4xi16>) -> (tensor<4xi8>, tensor<4xi32>) {
  %t = "tosa.const"() <{values = dense<7> : tensor<256xi8>}> : () -> tensor<256xi8>
  %k = "tosa.const"() <{values = dense<7> : tensor<513xi16>}> : () -> tensor<513xi16>
  %0 = tosa.table %x, %t : (tensor<4xi8>, tensor<256xi8>) -> tensor<4xi8>
  %1 = tosa.table %w, %k : (tensor<4xi16>, tensor<513xi16>) -> tensor<4xi32>
  func.return %0, %1 : tensor<4xi8>, tensor<4xi32>
}

// What follows from constants alone is a constant.
// CHECK-LABEL: func.func @folded(%x: tensor<2x2xf32> {qmlir.name = #qmlir.name<tensors ["x"]>}) -> tensor<2x2xf32>
// CHECK-NEXT:    %d = nn.constant <tensor<2x2xf32>, [2.0, 6.0, 4.0, 8.0]> {qmlir.name = #qmlir.name<tensors ["d"]>} : tensor<2x2xf32>
// CHECK-NEXT:    %y = nn.add %x, %d {qmlir.name = #qmlir.name<tensors ["y"]>} : tensor<2x2xf32>, tensor<2x2xf32> -> tensor<2x2xf32>
// CHECK-NEXT:    func.return %y : tensor<2x2xf32>
func.func @folded(%x: tensor<2x2xf32>) -> tensor<2x2xf32> {
  %c = "tosa.const"() <{values = dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>}> : () -> tensor<2x2xf32>
  %t = tosa.transpose %c {perms = array<i32: 1, 0>} : (tensor<2x2xf32>) -> tensor<2x2xf32>
  %d = tosa.add %t, %t : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  %y = tosa.add %x, %d : (tensor<2x2xf32>, tensor<2x2xf32>) -> tensor<2x2xf32>
  func.return %y : tensor<2x2xf32>
}

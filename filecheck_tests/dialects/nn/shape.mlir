// Constants and data movement, on elements of any type.

// RUN: qmlir-opt %s | filecheck %s
// RUN: qmlir-opt --mlir-print-op-generic %s | filecheck %s --check-prefix=GENERIC
// RUN: qmlir-opt --mlir-print-op-generic %s | qmlir-opt | filecheck %s

!a = !quant.uniform<i8:f32, 0.5:3>
!u = !quant.uniform<u8:f32, 0.5:128>
!channels = !quant.uniform<i8:f32:0, {0.5, 0.25}>

// CHECK-LABEL: func.func @constant
func.func @constant() {
  // CHECK: nn.constant <tensor<2xf32>, [1.5, -0.0]> : tensor<2xf32>
  // GENERIC: "nn.constant"() <{value = #qmlir.weights<tensor<2xf32>, [1.5, -0.0]>}> : () -> tensor<2xf32>
  %0 = nn.constant <tensor<2xf32>, [1.5, -0.0]> : tensor<2xf32>
  // CHECK: nn.constant <tensor<2xi8>, [1, -2]> : tensor<2xi8>
  %1 = nn.constant <tensor<2xi8>, [1, -2]> : tensor<2xi8>
  // CHECK: nn.constant <tensor<2xi8>, [1, -2]> : tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %2 = nn.constant <tensor<2xi8>, [1, -2]> : tensor<2x!a>
  func.return
}

// CHECK-LABEL: func.func @reshape
func.func @reshape(%x: tensor<2x3xf32>, %q: tensor<2x3x!a>, %i: tensor<2x3xi8>, %s: tensor<1x1xi16>) {
  // CHECK: nn.reshape %x {shape = array<i64: 6>} : tensor<2x3xf32> -> tensor<6xf32>
  // GENERIC: "nn.reshape"(%{{.*}}) <{shape = array<i64: 6>}>
  %0 = nn.reshape %x {shape = array<i64: 6>} : tensor<2x3xf32> -> tensor<6xf32>
  // CHECK: nn.reshape %q {shape = array<i64: 3, 2, 1>} : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<3x2x1x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = nn.reshape %q {shape = array<i64: 3, 2, 1>} : tensor<2x3x!a> -> tensor<3x2x1x!a>
  // CHECK: nn.reshape %i {shape = array<i64: 1, 6>} : tensor<2x3xi8> -> tensor<1x6xi8>
  %2 = nn.reshape %i {shape = array<i64: 1, 6>} : tensor<2x3xi8> -> tensor<1x6xi8>
  // CHECK: nn.reshape %s {shape = array<i64>} : tensor<1x1xi16> -> tensor<i16>
  %3 = nn.reshape %s {shape = array<i64>} : tensor<1x1xi16> -> tensor<i16>
  func.return
}

// CHECK-LABEL: func.func @transpose
func.func @transpose(%x: tensor<2x3x4xf32>, %q: tensor<2x3x!a>, %i: tensor<2x3xi32>) {
  // CHECK: nn.transpose %x {permutation = array<i64: 2, 0, 1>} : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  // GENERIC: "nn.transpose"(%{{.*}}) <{permutation = array<i64: 2, 0, 1>}>
  %0 = nn.transpose %x {permutation = array<i64: 2, 0, 1>} : tensor<2x3x4xf32> -> tensor<4x2x3xf32>
  // CHECK: nn.transpose %q {permutation = array<i64: 1, 0>} : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<3x2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = nn.transpose %q {permutation = array<i64: 1, 0>} : tensor<2x3x!a> -> tensor<3x2x!a>
  // CHECK: nn.transpose %i {permutation = array<i64: 1, 0>} : tensor<2x3xi32> -> tensor<3x2xi32>
  %2 = nn.transpose %i {permutation = array<i64: 1, 0>} : tensor<2x3xi32> -> tensor<3x2xi32>
  func.return
}

// CHECK-LABEL: func.func @concat
func.func @concat(%x: tensor<2x3xf32>, %y: tensor<2x1xf32>, %q: tensor<2x3x!a>, %i: tensor<2x3xi8>) {
  // CHECK: nn.concat %x, %y, %x {axis = 1 : i64} : tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x3xf32> -> tensor<2x7xf32>
  // GENERIC: "nn.concat"(%{{.*}}, %{{.*}}, %{{.*}}) <{axis = 1 : i64}>
  %0 = nn.concat %x, %y, %x {axis = 1 : i64} : tensor<2x3xf32>, tensor<2x1xf32>, tensor<2x3xf32> -> tensor<2x7xf32>
  // CHECK: nn.concat %q, %q {axis = 0 : i64} : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>>, tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<4x3x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = nn.concat %q, %q {axis = 0 : i64} : tensor<2x3x!a>, tensor<2x3x!a> -> tensor<4x3x!a>
  // CHECK: nn.concat %i {axis = 0 : i64} : tensor<2x3xi8> -> tensor<2x3xi8>
  %2 = nn.concat %i {axis = 0 : i64} : tensor<2x3xi8> -> tensor<2x3xi8>
  func.return
}

// CHECK-LABEL: func.func @pad
func.func @pad(%x: tensor<2x3xf32>, %q: tensor<2x3x!a>, %i: tensor<2x3xi8>, %t: tensor<2xi1>) {
  // CHECK: nn.pad %x {low = array<i64: 0, 1>, high = array<i64: 2, 0>, value = 0xff800000 : f32} : tensor<2x3xf32> -> tensor<4x4xf32>
  // GENERIC: "nn.pad"(%{{.*}}) <{low = array<i64: 0, 1>, high = array<i64: 2, 0>, value = 0xff800000 : f32}>
  %0 = nn.pad %x {low = array<i64: 0, 1>, high = array<i64: 2, 0>, value = 0xff800000 : f32} : tensor<2x3xf32> -> tensor<4x4xf32>
  // A quantized tensor is padded with a real value, of which it stores what it can; an integer one with an integer.
  // CHECK: nn.pad %q {low = array<i64: 0, 1>, high = array<i64: 0, 0>, value = -1.500000e+00 : f32} : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<2x4x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = nn.pad %q {low = array<i64: 0, 1>, high = array<i64: 0, 0>, value = -1.5 : f32} : tensor<2x3x!a> -> tensor<2x4x!a>
  // CHECK: nn.pad %i {low = array<i64: 0, 1>, high = array<i64: 0, 0>, value = -128 : i8} : tensor<2x3xi8> -> tensor<2x4xi8>
  %2 = nn.pad %i {low = array<i64: 0, 1>, high = array<i64: 0, 0>, value = -128 : i8} : tensor<2x3xi8> -> tensor<2x4xi8>
  // CHECK: nn.pad %t {low = array<i64: 1>, high = array<i64: 1>, value = true} : tensor<2xi1> -> tensor<4xi1>
  %3 = nn.pad %t {low = array<i64: 1>, high = array<i64: 1>, value = true} : tensor<2xi1> -> tensor<4xi1>
  func.return
}

// CHECK-LABEL: func.func @dilate
func.func @dilate(%x: tensor<2x3xf32>, %q: tensor<2x3x!a>, %i: tensor<4xi8>, %e: tensor<0x3xf32>, %s: tensor<f32>) {
  // CHECK: nn.dilate %x {dilations = array<i64: 2, 3>, value = -1.500000e+00 : f32} : tensor<2x3xf32> -> tensor<3x7xf32>
  // GENERIC: "nn.dilate"(%{{.*}}) <{dilations = array<i64: 2, 3>, value = -1.500000e+00 : f32}>
  %0 = nn.dilate %x {dilations = array<i64: 2, 3>, value = -1.5 : f32} : tensor<2x3xf32> -> tensor<3x7xf32>
  // CHECK: nn.dilate %q {dilations = array<i64: 1, 2>, value = 0.000000e+00 : f32} : tensor<2x3x!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<2x5x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = nn.dilate %q {dilations = array<i64: 1, 2>, value = 0.0 : f32} : tensor<2x3x!a> -> tensor<2x5x!a>
  // CHECK: nn.dilate %i {dilations = array<i64: 4>, value = -1 : i8} : tensor<4xi8> -> tensor<13xi8>
  %2 = nn.dilate %i {dilations = array<i64: 4>, value = -1 : i8} : tensor<4xi8> -> tensor<13xi8>
  // CHECK: nn.dilate %e {{.*}} : tensor<0x3xf32> -> tensor<0x5xf32>
  %3 = nn.dilate %e {dilations = array<i64: 2, 2>, value = 0.0 : f32} : tensor<0x3xf32> -> tensor<0x5xf32>
  // CHECK: nn.dilate %s {dilations = array<i64>, value = 0.000000e+00 : f32} : tensor<f32> -> tensor<f32>
  %4 = nn.dilate %s {dilations = array<i64>, value = 0.0 : f32} : tensor<f32> -> tensor<f32>
  func.return
}

// CHECK-LABEL: func.func @broadcast
func.func @broadcast(%x: tensor<2x1xf32>, %q: tensor<!a>, %i: tensor<3xi32>) {
  // CHECK: nn.broadcast %x {shape = array<i64: 4, 2, 3>} : tensor<2x1xf32> -> tensor<4x2x3xf32>
  // GENERIC: "nn.broadcast"(%{{.*}}) <{shape = array<i64: 4, 2, 3>}>
  %0 = nn.broadcast %x {shape = array<i64: 4, 2, 3>} : tensor<2x1xf32> -> tensor<4x2x3xf32>
  // CHECK: nn.broadcast %q {shape = array<i64: 2>} : tensor<!quant.uniform<i8:f32, 5.000000e-01:3>> -> tensor<2x!quant.uniform<i8:f32, 5.000000e-01:3>>
  %1 = nn.broadcast %q {shape = array<i64: 2>} : tensor<!a> -> tensor<2x!a>
  // CHECK: nn.broadcast %i {shape = array<i64: 3>} : tensor<3xi32> -> tensor<3xi32>
  %2 = nn.broadcast %i {shape = array<i64: 3>} : tensor<3xi32> -> tensor<3xi32>
  func.return
}

// RUN: qmlir-opt --narrow-products --split-input-file %s | filecheck %s

// Bytes less a zero point that is computed: sums of bytes, less the zero point times the sum of an output's weights.
// CHECK-LABEL: func.func @rows
// CHECK: %[[W:.*]] = nn.constant <tensor<2x3xi8>, [1, 2, 3, -4, 5, -128]> : tensor<2x3xi8>
// CHECK: %[[A:.*]] = qint.fully_connected %x, %[[W]], %b {qmlir.name = #qmlir.name<tensors ["y"]>} : tensor<4x3xi8>, tensor<2x3xi8>, tensor<2xi32> -> tensor<4x2xi32>
// CHECK-NEXT: %[[Z:.*]] = nn.cast %z : tensor<i8> -> tensor<i32>
// CHECK-NEXT: %[[S:.*]] = nn.constant <tensor<1x2xi32>, [6, -127]> : tensor<1x2xi32>
// CHECK-NEXT: %[[P:.*]] = nn.mul %[[Z]], %[[S]]
// CHECK-NEXT: %[[Y:.*]] = nn.sub %[[A]], %[[P]]
// CHECK-NEXT: func.return %[[Y]]
func.func @rows(%x: tensor<4x3xi8>, %z: tensor<i8>) -> tensor<4x2xi32> {
  %w = nn.constant <tensor<2x3xi32>, [1, 2, 3, -4, 5, -128]> : tensor<2x3xi32>
  %b = nn.constant <tensor<2xi32>, [7, 8]> : tensor<2xi32>
  %0 = nn.cast %x : tensor<4x3xi8> -> tensor<4x3xi32>
  %1 = nn.cast %z : tensor<i8> -> tensor<i32>
  %2 = nn.sub %0, %1 : tensor<4x3xi32>, tensor<i32> -> tensor<4x3xi32>
  %y = nn.fully_connected %2, %w, %b {qmlir.name = #qmlir.name<tensors ["y"]>} : tensor<4x3xi32>, tensor<2x3xi32>, tensor<2xi32> -> tensor<4x2xi32>
  func.return %y : tensor<4x2xi32>
}

// -----

// Padding becomes rows and columns of the zero point; the image is rearranged as bytes.
// CHECK-LABEL: func.func @image
// CHECK: %[[T:.*]] = nn.transpose %x {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x1x2x2xi8> -> tensor<1x2x2x1xi8>
// CHECK-NEXT: %[[B:.*]] = nn.broadcast %z {shape = array<i64: 1, 1, 2, 1>} : tensor<i8> -> tensor<1x1x2x1xi8>
// CHECK-NEXT: %[[R:.*]] = nn.concat %[[B]], %[[T]] {axis = 1 : i64} : tensor<1x1x2x1xi8>, tensor<1x2x2x1xi8> -> tensor<1x3x2x1xi8>
// CHECK-NEXT: %[[C:.*]] = nn.broadcast %z {shape = array<i64: 1, 3, 2, 1>} : tensor<i8> -> tensor<1x3x2x1xi8>
// CHECK-NEXT: %[[D:.*]] = nn.concat %[[R]], %[[C]] {axis = 2 : i64} : tensor<1x3x2x1xi8>, tensor<1x3x2x1xi8> -> tensor<1x3x4x1xi8>
// CHECK: qint.conv2d %[[D]], %{{.*}} {strides = array<i64: 1, 2>} : tensor<1x3x4x1xi8>, tensor<1x2x2x1xi8> -> tensor<1x2x2x1xi32>
func.func @image(%x: tensor<1x1x2x2xi8>, %z: tensor<i8>) -> tensor<1x2x2x1xi32> {
  %w = nn.constant <tensor<1x2x2x1xi32>, [1, 2, 3, 4]> : tensor<1x2x2x1xi32>
  %0 = nn.cast %x : tensor<1x1x2x2xi8> -> tensor<1x1x2x2xi32>
  %1 = nn.cast %z : tensor<i8> -> tensor<i32>
  %2 = nn.sub %0, %1 : tensor<1x1x2x2xi32>, tensor<i32> -> tensor<1x1x2x2xi32>
  %3 = nn.transpose %2 {permutation = array<i64: 0, 2, 3, 1>} : tensor<1x1x2x2xi32> -> tensor<1x2x2x1xi32>
  %y = nn.conv2d %3, %w {padding = array<i64: 1, 0, 0, 2>, strides = array<i64: 1, 2>} : tensor<1x2x2x1xi32>, tensor<1x2x2x1xi32> -> tensor<1x2x2x1xi32>
  func.return %y : tensor<1x2x2x1xi32>
}

// -----

// Depthwise weights count their channels last.
// CHECK-LABEL: func.func @depthwise
// CHECK: qint.depthwise_conv2d %x, %{{.*}} : tensor<1x1x2x2xi8>, tensor<1x1x2x2xi8> -> tensor<1x1x1x2xi32>
// CHECK: nn.constant <tensor<1x1x1x2xi32>, [4, 6]>
func.func @depthwise(%x: tensor<1x1x2x2xi8>, %z: tensor<1xi8>) -> tensor<1x1x1x2xi32> {
  %w = nn.constant <tensor<1x1x2x2xi32>, [1, 2, 3, 4]> : tensor<1x1x2x2xi32>
  %0 = nn.cast %x : tensor<1x1x2x2xi8> -> tensor<1x1x2x2xi32>
  %1 = nn.cast %z : tensor<1xi8> -> tensor<1xi32>
  %2 = nn.sub %0, %1 : tensor<1x1x2x2xi32>, tensor<1xi32> -> tensor<1x1x2x2xi32>
  %y = nn.depthwise_conv2d %2, %w : tensor<1x1x2x2xi32>, tensor<1x1x2x2xi32> -> tensor<1x1x1x2xi32>
  func.return %y : tensor<1x1x1x2xi32>
}

// -----

// Weights beyond a byte, several zero points, and differences of words stay sums of i32.
// CHECK-LABEL: func.func @wide_weights
// CHECK-NOT: qint.fully_connected
func.func @wide_weights(%x: tensor<4x3xi8>, %z: tensor<i8>) -> tensor<4x1xi32> {
  %w = nn.constant <tensor<1x3xi32>, [1, 2, 128]> : tensor<1x3xi32>
  %0 = nn.cast %x : tensor<4x3xi8> -> tensor<4x3xi32>
  %1 = nn.cast %z : tensor<i8> -> tensor<i32>
  %2 = nn.sub %0, %1 : tensor<4x3xi32>, tensor<i32> -> tensor<4x3xi32>
  %y = nn.fully_connected %2, %w : tensor<4x3xi32>, tensor<1x3xi32> -> tensor<4x1xi32>
  func.return %y : tensor<4x1xi32>
}

// -----

// CHECK-LABEL: func.func @several_points
// CHECK-NOT: qint.fully_connected
func.func @several_points(%x: tensor<4x3xi8>, %z: tensor<4x1xi8>) -> tensor<4x1xi32> {
  %w = nn.constant <tensor<1x3xi32>, [1, 2, 127]> : tensor<1x3xi32>
  %0 = nn.cast %x : tensor<4x3xi8> -> tensor<4x3xi32>
  %1 = nn.cast %z : tensor<4x1xi8> -> tensor<4x1xi32>
  %2 = nn.sub %0, %1 : tensor<4x3xi32>, tensor<4x1xi32> -> tensor<4x3xi32>
  %y = nn.fully_connected %2, %w : tensor<4x3xi32>, tensor<1x3xi32> -> tensor<4x1xi32>
  func.return %y : tensor<4x1xi32>
}

// -----

// CHECK-LABEL: func.func @words
// CHECK-NOT: qint.fully_connected
func.func @words(%x: tensor<4x3xi16>, %z: tensor<i8>) -> tensor<4x1xi32> {
  %w = nn.constant <tensor<1x3xi32>, [1, 2, 127]> : tensor<1x3xi32>
  %0 = nn.cast %x : tensor<4x3xi16> -> tensor<4x3xi32>
  %1 = nn.cast %z : tensor<i8> -> tensor<i32>
  %2 = nn.sub %0, %1 : tensor<4x3xi32>, tensor<i32> -> tensor<4x3xi32>
  %y = nn.fully_connected %2, %w : tensor<4x3xi32>, tensor<1x3xi32> -> tensor<4x1xi32>
  func.return %y : tensor<4x1xi32>
}

// -----

// Bytes that become floats, and bytes of a type whose scale is 1, are bytes all the way.
!q = !quant.uniform<i8:f32, 1.0:-128>
!p = !quant.uniform<i8:f32, 1.0>
!h = !quant.uniform<i8:f32, 0.5:-128>

// CHECK-LABEL: func.func @bytes
// CHECK: %[[B:.*]] = nn.bitcast %x : tensor<4xui8> -> tensor<4xi8>
// CHECK: %[[A:.*]] = nn.add %[[B]], %{{.*}} : tensor<4xi8>, tensor<i8> -> tensor<4xi8>
// CHECK: %[[Q:.*]] = quant.scast %[[A]]
// CHECK: %[[P:.*]] = quant.scast %s : tensor<4xi8> to
// CHECK: quant.qcast
// CHECK: func.return %[[Q]], %[[P]]
func.func @bytes(%x: tensor<4xui8>, %s: tensor<4xi8>) -> (tensor<4x!q>, tensor<4x!p>, tensor<4x!h>) {
  %0 = nn.cast %x : tensor<4xui8> -> tensor<4xf32>
  %1 = quant.qcast %0 : tensor<4xf32> to tensor<4x!q>
  %2 = nn.cast %s : tensor<4xi8> -> tensor<4xf32>
  %3 = quant.qcast %2 : tensor<4xf32> to tensor<4x!p>
  %4 = quant.qcast %0 : tensor<4xf32> to tensor<4x!h>
  func.return %1, %3, %4 : tensor<4x!q>, tensor<4x!p>, tensor<4x!h>
}
